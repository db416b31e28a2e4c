"""A model as scientists write it: a prior, a likelihood of simulated data, and a box to start from.

Every parameter has a law of its own, seen through a `Warp` where the prior ties parameters together (an order, a
hierarchy). The posterior is then that of standard normal numbers z with the likelihood of `parameters(z)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Bool, Float, ndarray
from vsbq_bench.cases.science.laws import Law
from vsbq_bench.problems import LogDensity, Problem
from vsbq_bench.truth import Truth, load_truth

__all__ = ["Model", "Warp", "solved"]

BLOCK = 1000  # rows at a time: the tables of a likelihood stay in the cache


class Warp(NamedTuple):
    """From independent coordinates to the parameters, and back with the log determinant of the way there.

    The way back gives nan or a coordinate outside its law's bounds where no coordinates lead to the parameters.
    """

    place: Callable[[Float[ndarray, "n d"]], Float[ndarray, "n d"]]
    unplace: Callable[[Float[ndarray, "n d"]], tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A posterior without its truth.

    `laws` are those of the independent coordinates, under the names of the parameters. `edges` are the bounds of the
    parameters where a warp makes them others than those of the laws.

    `log_evidence` gives the evidence where it is known by sums or low-dimensional integrals.
    """

    name: str
    laws: Mapping[str, Law]
    log_likelihood: LogDensity
    plausible_bounds: Float[ndarray, "d 2"]
    edges: Float[ndarray, "d 2"] | None = None
    warp: Warp | None = None
    log_evidence: Callable[[], float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the parameters."""
        return tuple(self.laws)

    @property
    def bounds(self) -> Float[ndarray, "d 2"]:
        """Return the bounds of the parameters, infinite where there are none."""
        if self.edges is not None:
            return self.edges
        return np.array([law.bounds for law in self.laws.values()])

    def parameters(self, z: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Return the parameters that standard normal numbers lead to; normal z make draws of the prior."""
        columns = [law.from_normal(z[:, i]) for i, law in enumerate(self.laws.values())]
        coordinates = np.stack(columns, axis=1)
        return self.warp.place(coordinates) if self.warp else coordinates

    def draw_prior(self, n: int, rng: Generator) -> Float[ndarray, "n d"]:
        """Return n independent draws of the prior."""
        return self.parameters(rng.standard_normal((n, len(self.laws))))

    def log_prior(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the log density of the prior, -inf outside its support."""
        with np.errstate(all="ignore"):
            coordinates, stretch = self.warp.unplace(points) if self.warp else (points, np.zeros(len(points)))
            inside = _inside(coordinates, np.array([law.bounds for law in self.laws.values()]))
            logs = sum(law.log_pdf(coordinates[:, i]) for i, law in enumerate(self.laws.values())) - stretch
        return np.where(inside & (logs < np.inf), logs, -np.inf)

    def log_density(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the log of prior times likelihood, -inf outside the support."""
        result = self.log_prior(points)
        rows = np.flatnonzero(result > -np.inf)
        result[rows] += self.guarded_likelihood(points[rows])
        return result

    def guarded_likelihood(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the log likelihood in blocks; -inf where absurd parameters overflow it."""
        result = np.empty(len(points))
        with np.errstate(all="ignore"):
            for start in range(0, len(points), BLOCK):
                result[start : start + BLOCK] = self.log_likelihood(points[start : start + BLOCK])
        return np.where(result < np.inf, result, -np.inf)

    def solved(self, truth: Truth) -> Problem:
        """Join the model and its truth; raises ValueError if they do not belong together."""
        truth.check(self.log_density)
        bounds = self.bounds
        return Problem(
            name=self.name,
            dimension=len(self.laws),
            log_density=self.log_density,
            bounds=bounds if np.isfinite(bounds).any() else None,
            plausible_bounds=self.plausible_bounds,
            names=self.names,
            log_evidence=truth.log_evidence,
            log_evidence_sd=truth.log_evidence_sd,
            draw=partial(_draw, truth_name(self.name)),
            draw_prior=self.draw_prior,
        )


def truth_name(name: str) -> str:
    """Return the name under which the truth of a model is stored."""
    return f"case_{name}"


def solved(make: Callable[[], Model]) -> Problem:
    """Return a model's problem with its stored truth."""
    model = make()
    return model.solved(load_truth(truth_name(model.name)))


def _draw(stored: str, n: int, rng: Generator) -> Float[ndarray, "n d"]:
    return load_truth(stored).draw(n, rng)


def _inside(points: Float[ndarray, "n d"], bounds: Float[ndarray, "d 2"]) -> Bool[ndarray, " n"]:
    return np.all((points >= bounds[:, 0]) & (points <= bounds[:, 1]), axis=1)
