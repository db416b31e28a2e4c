"""Lumpy: a mixture of twelve overlapping Gaussians, all of it known."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from numpy.random import Generator
from scipy.special import logsumexp

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import Problem

__all__ = ["lumpy"]

COMPONENTS = 12
SD_RANGE = (0.2, 0.6)
SEED = 12


def lumpy(dimension: int = 10) -> Problem:
    """Return a mixture of 12 Gaussians with means in the unit cube, the target "lumpy" of the VBMC papers.

    Means are uniform in [0, 1]^D, weights come from a flat Dirichlet, covariances are diagonal. The range [0.2, 0.6]
    is of standard deviations, not of variances: D values equally spaced over it, shuffled anew for each component.
    The recipe is the published one (Acerbi 2018, and the flow regression of Li et al. 2025), the random numbers are
    not: they come from a fixed seed of NumPy. The density is normalised, and the plausible box is the published
    [-1, 2]^D. Any one dimension is its own problem, not a margin of a larger one.
    """
    if dimension < 1:
        raise ValueError(f"dimension must be at least 1, got {dimension}")
    mixture = _make(dimension)
    box = np.tile([-1.0, 2.0], (dimension, 1))
    box.flags.writeable = False
    return Problem(
        name="lumpy" if dimension == 10 else f"lumpy_{dimension}",
        dimension=dimension,
        log_density=mixture.log_density,
        bounds=None,
        plausible_bounds=box,
        names=tuple(f"x{i + 1}" for i in range(dimension)),
        log_evidence=0.0,
        log_evidence_sd=0.0,
        draw=mixture.draw,
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _Mixture:
    """A mixture of Gaussians with diagonal covariances."""

    weights: Float[ndarray, " k"]
    means: Float[ndarray, "k d"]
    sds: Float[ndarray, "k d"]

    def log_density(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the normalised log density at each row."""
        logs = np.empty((len(points), len(self.weights)))
        for k, (weight, mean, sd) in enumerate(zip(self.weights, self.means, self.sds, strict=True)):
            constant = log(weight) - np.log(sd).sum() - 0.5 * len(sd) * log(2 * pi)
            logs[:, k] = constant - 0.5 * (((points - mean) / sd) ** 2).sum(axis=1)
        return np.asarray(logsumexp(logs, axis=1))

    def draw(self, n: int, rng: Generator) -> Float[ndarray, "n d"]:
        """Return n independent draws."""
        k = rng.choice(len(self.weights), n, p=self.weights)
        return self.means[k] + self.sds[k] * rng.standard_normal((n, self.means.shape[1]))


def _make(dimension: int) -> _Mixture:
    rng = np.random.default_rng([SEED, dimension])
    means = rng.random((COMPONENTS, dimension))
    # One dimension has the widest value, as published.
    spaced = np.linspace(*SD_RANGE, dimension) if dimension > 1 else np.array(SD_RANGE[1:])
    sds = rng.permuted(np.tile(spaced, (COMPONENTS, 1)), axis=1)
    return _Mixture(weights=rng.dirichlet(np.ones(COMPONENTS)), means=means, sds=sds)
