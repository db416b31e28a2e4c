"""The unbounded inference space of a problem, and its log density there."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.data.transform import EDGE_OF_BOX, EDGE_OF_DISTANCE, InferenceSpace
from vsbq_bench.problems import Problem
from vsbq_bench.task import Target

__all__ = ["InferenceTarget", "space_of"]


def space_of(problem: Problem) -> InferenceSpace:
    """Return the inference space of a problem: its plausible box becomes [-1, 1] in every coordinate.

    It needs no evaluations, unlike `vsbq.data.transform.infer_space`, with which it agrees where all bounds are
    two-sided or open: the margin at a one-sided bound comes from the plausible box.
    """
    dimension = problem.dimension
    bounds = Bounds.parse(problem.bounds, dimension)
    low, high = problem.plausible_bounds.T
    width = bounds.upper - bounds.lower
    edge = np.where(np.isfinite(width), EDGE_OF_BOX * width, 0.0)
    for i, kind in enumerate(bounds.kind):
        if kind in ("lower", "upper"):
            bound = bounds.lower[i] if kind == "lower" else bounds.upper[i]
            edge[i] = EDGE_OF_DISTANCE * abs((low[i] + high[i]) / 2 - bound)
    unscaled = InferenceSpace(bounds, edge, np.zeros(dimension), np.ones(dimension))
    low, high = unscaled.forward(np.stack([low, high]))
    return InferenceSpace(bounds, edge, (low + high) / 2, (high - low) / 2)


@dataclass(eq=False)
class InferenceTarget:
    """A target as a log density of inference space, Jacobian included.

    A value that is not a number counts as zero density, as does one at a point that overflows on its way back;
    `failures` counts both.
    """

    target: Target
    space: InferenceSpace
    failures: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._open = set(self.space.bounds.kind) == {"open"}
        self._log_scale = float(np.log(self.space.scale).sum())

    def __call__(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the log density at each row."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self._open:  # much faster, and called once per step of an optimiser
                values = self.target(u * self.space.scale + self.space.centre) + self._log_scale
            else:
                values = self.target(self.space.inverse(u)) + self.space.log_jacobian(u)
        failed = np.isnan(values)
        if failed.any():
            self.failures += int(failed.sum())
            values[failed] = -np.inf
        return values
