"""Small sets of evaluations for tests of many fits, quick settings, and steps during which processes are killed."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import vsbq
from vsbq.settings import Steps
from vsbq.steps.mixture.fit import fit_variational
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.refine import Refinement
from vsbq.steps.surrogate.shaped_data import SparseGP

MIXTURE = VariationalMixture(adapt=((500, 5),), first=(32, 5), then=(64, 5), max_components=2, elbo_draws=1000)
SURROGATE = SparseGP(inducing_per_dimension=15, residual_passes=0, sisters=0)
REFINEMENT = Refinement(draws=1000, particles=400, moves=2)
QUICK = Steps(noise=None, surrogate=SURROGATE, mixture=MIXTURE, refinement=REFINEMENT)


def quick(mixture=MIXTURE) -> Steps:
    return Steps(noise=None, surrogate=SURROGATE, mixture=mixture, refinement=REFINEMENT)


def evaluations(seed: int, n: int = 40, **options) -> vsbq.Evaluations:
    """A normal in one dimension."""
    points = 1.5 * np.random.default_rng([11, seed]).standard_normal((n, 1))
    return vsbq.Evaluations(points, -0.5 * (points[:, 0] - 0.1 * seed) ** 2, **options)


def cases(count: int) -> dict[str, vsbq.Evaluations]:
    return {f"p{i}": evaluations(i) for i in range(count)}


def numbers(post: vsbq.Posterior) -> list[bytes]:
    """All that a posterior answers with, to the last bit."""
    arrays = [post.mixture.log_weights, post.mixture.means, post.mixture.trils, post.sample(100, rng=0)]
    arrays += [np.array([post.log_evidence, post.log_evidence_sd, post.elbo]), post.evaluations.points]
    return [np.ascontiguousarray(array).tobytes() for array in arrays]


def same(one, other) -> bool:
    """Whether two results hold the same posteriors."""
    return list(one) == list(other) and all(numbers(one[name]) == numbers(other[name]) for name in one)


def first(marker: Path) -> bool:
    """Whether nobody has been here before."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class KilledOnce:
    """A step that kills its process, as kill -9 does, the first time that anyone takes it."""

    folder: str

    def fit(self, region, training, rng, progress, earlier):
        if first(Path(self.folder) / "killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        return fit_variational(region, training, MIXTURE, rng, progress, earlier=earlier)


@dataclass(frozen=True, kw_only=True)
class DeadlyFor:
    """A step that kills its process whenever the evaluations are so many."""

    count: int

    def fit(self, region, training, rng, progress, earlier):
        if len(training.points) == self.count:
            os.kill(os.getpid(), signal.SIGKILL)
        return fit_variational(region, training, MIXTURE, rng, progress, earlier=earlier)


@dataclass(frozen=True, kw_only=True)
class Stalls:
    """A step that waits, but for the first few, until a file says go; each process leaves its number."""

    folder: str
    quick: int

    def fit(self, region, training, rng, progress, earlier):
        place = Path(self.folder)
        (place / f"process-{os.getpid()}").touch()
        if not any(first(place / f"ticket-{i}") for i in range(self.quick)):
            while not (place / "go").exists():
                time.sleep(0.05)
        return fit_variational(region, training, MIXTURE, rng, progress, earlier=earlier)
