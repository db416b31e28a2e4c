"""A posterior that is cut, one that noise leaves doubtful, and models that count, fail or kill their process."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import vsbq
from vsbq.errors import VsbqWarning
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.refine import Refinement
from vsbq.steps.surrogate.shaped_data import SparseGP

FAST = Steps(
    noise=None,
    surrogate=SparseGP(turn=False, exact_points=100),
    mixture=VariationalMixture(max_components=6, adapt=((5_000, 10), (10_000, 10)), elbo_draws=20_000),
    refinement=Refinement(draws=10_000),
)
NOISE = 3.0


#: A correlated normal whose first direction is twice as wide on the right.
ROOT = np.array([[1.0, 0.0], [0.7, 0.5]])
RIGHT = 2.0
TRUE_SD = np.sqrt((1 - 2 / np.pi) * (RIGHT - 1) ** 2 + RIGHT)  # of a


def log_normal(x):
    """Its log density, normalised, at one point or at rows of them."""
    z = np.linalg.solve(ROOT, np.atleast_2d(x).T).T
    z[:, 0] /= np.where(z[:, 0] > 0, RIGHT, 1.0)
    values = -0.5 * (z**2).sum(axis=1) - np.log(2 * np.pi * 0.5 * (1 + RIGHT) / 2)
    return float(values[0]) if np.ndim(x) == 1 else values


def fitted(points, values, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VsbqWarning)
        return vsbq.fit(points, values, names=["a", "b"], settings=FAST, rng=1, progress=False, **options)


def one_side():
    """Nothing was evaluated where a is above −0.5."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) * rng.uniform(0.2, 2.5, (200, 1)) @ ROOT.T
    x[:, 0] = -0.5 - np.abs(x[:, 0] + 0.5)
    return fitted(x, log_normal(x))


def noisy():
    """So few and so noisy that some dozens of calls don't help."""
    rng = np.random.default_rng(1)
    x = 1.5 * rng.normal(size=(80, 2))
    return fitted(x, log_normal(x) + NOISE * rng.normal(size=80), log_density_sd=NOISE)


class Counting(NamedTuple):
    """A model that writes a line at the beginning and at the end of each call, and in one call kills its process."""

    log: Path
    deadly: int = 0  # the call, counted from 1, that kills; 0 for none
    sd: float = NOISE

    def __call__(self, x):
        with self.log.open("a") as out:
            out.write(f"begin {x.tobytes().hex()}\n")
        if len([line for line in lines_of(self.log) if line.startswith("begin")]) == self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        value = log_normal(x)
        with self.log.open("a") as out:
            out.write(f"end {x.tobytes().hex()}\n")
        return value, self.sd


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def points_of(path: Path, word: str) -> list[bytes]:
    return [bytes.fromhex(line.split()[1]) for line in lines_of(path) if line.startswith(word)]


class KillsOnce(NamedTuple):
    """A model that kills its process where a is high: the first time that it gets there, or always."""

    folder: Path
    always: bool

    def __call__(self, x):
        mark = self.folder / "killed"
        if x[0] > RIGHT and (self.always or not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return log_normal(x)
