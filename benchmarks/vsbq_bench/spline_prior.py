"""The prior of the two behavioural models: flat over the plausible range, falling smoothly to zero at the bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray

__all__ = ["SplineTrapezoid"]


@dataclass(frozen=True, eq=False)
class SplineTrapezoid:
    """Independent per parameter: a smoothstep 3z² - 2z³ up, a plateau between the plausible bounds, and one down."""

    bounds: Float[ndarray, "d 2"]
    plausible_bounds: Float[ndarray, "d 2"]

    def log_density(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the normalised log density; -inf on and outside the bounds."""
        (low, high), (inner_low, inner_high) = self.bounds.T, self.plausible_bounds.T
        height = _smoothstep((points - low) / (inner_low - low)) * _smoothstep((high - points) / (high - inner_high))
        # A smoothstep has the integral of a straight ramp.
        area = (inner_high - inner_low) + 0.5 * (inner_low - low) + 0.5 * (high - inner_high)
        with np.errstate(divide="ignore"):
            return np.sum(np.log(height) - np.log(area), axis=1)

    def draw(self, n: int, rng: Generator) -> Float[ndarray, "n d"]:
        """Return n independent draws."""
        pairs = zip(self.bounds, self.plausible_bounds, strict=True)
        return np.stack([_draw(n, outer, inner, rng) for outer, inner in pairs], axis=1)


def _draw(n: int, outer: Float[ndarray, " 2"], inner: Float[ndarray, " 2"], rng: Generator) -> Float[ndarray, " n"]:
    """Draw from one column by rejection from its range."""
    (low, high), (inner_low, inner_high) = outer, inner
    found = np.empty(0)
    while len(found) < n:
        tried = rng.uniform(low, high, 2 * n + 16)
        height = _smoothstep((tried - low) / (inner_low - low)) * _smoothstep((high - tried) / (high - inner_high))
        found = np.concatenate([found, tried[rng.random(len(tried)) < height]])
    return found[:n]


def _smoothstep(z: ndarray) -> ndarray:
    clipped = np.clip(z, 0.0, 1.0)
    return clipped**2 * (3 - 2 * clipped)
