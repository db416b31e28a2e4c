"""Priors of the user, and how a posterior follows from one under another prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.errors import EvaluationsError

__all__ = ["LogPrior", "PriorChange", "log_ratio"]


@dataclass(frozen=True, eq=False)
class LogPrior:
    """A log prior of the user: a function of points (n, D), or of one point (D,) if it takes no more."""

    function: Callable[[ndarray], Any]
    one_by_one: bool
    label: str

    @classmethod
    def of(cls, function: Callable[[ndarray], Any], points: Float[ndarray, "n d"], label: str) -> LogPrior:
        """Find out on a few points whether the function takes many at once; their number is not that of parameters."""
        if isinstance(function, LogPrior):
            return function
        few = points[: points.shape[1] + 2]
        try:
            many = np.shape(function(few.copy()))
        except Exception:
            # Whatever is wrong with many points at once: if it is wrong with one as well, that is raised below.
            many = None
        made = cls(function, many not in ((len(few),), (len(few), 1)), label)
        made(few)
        return made

    def __call__(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Log prior densities; −inf is fine, NaN and +inf are not."""
        x = np.array(points)
        raw = [self.function(row) for row in x] if self.one_by_one else self.function(x)
        try:
            values = np.asarray(raw, dtype=np.float64).reshape(len(points))
        except (TypeError, ValueError) as error:
            raise EvaluationsError(
                f"{self.label} gave no number for a point of {points.shape[1]} parameters ({error}). Pass a function "
                "of points (n, D) that returns n log densities, or of one point that returns one."
            ) from None
        bad = np.flatnonzero(np.isnan(values) | np.isposinf(values))
        if bad.size:
            raise EvaluationsError(
                f"{self.label} is {values[bad[0]]} at the point {points[bad[0]].tolist()} and {bad.size - 1} others. "
                "Return finite log densities, or -inf where the prior is zero."
            )
        return values


@dataclass(frozen=True, eq=False)
class PriorChange:
    """How a posterior follows from the one before: log density before + new − old − `log_mean`."""

    density_before: Callable[[ndarray], ndarray]
    old: LogPrior
    new: LogPrior
    log_mean: float  # log of the mean of new / old under the posterior before: by this the log evidence moved
    pareto_shape: float
    effective_draws: float

    def log_pdf(self, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Log density at points inside the bounds."""
        out = np.full(len(x), -np.inf)
        ratio = log_ratio(self.old, self.new, x)
        rows = np.flatnonzero(np.isfinite(ratio))
        if rows.size:
            out[rows] = self.density_before(x[rows]) + ratio[rows] - self.log_mean
        return out


def log_ratio(old: LogPrior, new: LogPrior, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Log of new / old; −inf where the new prior is zero, +inf where only the old one is."""
    before, after = old(x), new(x)
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(after), -np.inf, after - before)
