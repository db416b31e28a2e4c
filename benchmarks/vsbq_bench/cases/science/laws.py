"""Prior laws of single parameters: normalised densities, bounds, and the map from a standard normal number.

Under `from_normal` a standard normal number becomes one of the law. A posterior seen through it has Gaussian tails at
most and no bounds, which is where its truth is sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, pi
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import (
    betainccinv,
    betaincinv,
    betaln,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_ndtr,
    ndtr,
    ndtri_exp,
)

from vsbq._typing import Float, ndarray

__all__ = [
    "Beta",
    "Cauchy",
    "Exponential",
    "Gamma",
    "HalfCauchy",
    "HalfNormal",
    "Law",
    "LogNormal",
    "Normal",
    "Uniform",
    "normal_sum",
]

LOG_ROOT_TWO_PI = 0.5 * log(2 * pi)
LEAST = 1e-100  # a probability whose beta quantile is still found


def normal_sum(residual: Float[ndarray, "n t"], sd: ndarray) -> Float[ndarray, " n"]:
    """Return the sum over t of the log densities of normal residuals."""
    result: ndarray = (-0.5 * (residual / sd) ** 2 - np.log(sd) - LOG_ROOT_TWO_PI).sum(axis=1)
    return result


@runtime_checkable
class Law(Protocol):
    """A proper law of one parameter."""

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the ends of its support."""

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density, for x inside the bounds."""

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""


@dataclass(frozen=True)
class Normal:
    """Normal with a mean and a standard deviation."""

    mean: float
    sd: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the real line."""
        return -inf, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        result: ndarray = -0.5 * ((x - self.mean) / self.sd) ** 2 - log(self.sd) - LOG_ROOT_TWO_PI
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        return self.mean + self.sd * z


@dataclass(frozen=True)
class LogNormal:
    """Exp of a normal: `median` and the standard deviation of the logarithm."""

    median: float
    sd: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the positive half line."""
        return 0.0, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        lx = np.log(x)
        result: ndarray = -0.5 * ((lx - log(self.median)) / self.sd) ** 2 - log(self.sd) - LOG_ROOT_TWO_PI - lx
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        return self.median * np.exp(self.sd * z)


@dataclass(frozen=True)
class HalfNormal:
    """The absolute value of a normal around zero."""

    sd: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the positive half line."""
        return 0.0, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        result: ndarray = -0.5 * (x / self.sd) ** 2 - log(self.sd) - LOG_ROOT_TWO_PI + log(2)
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        return np.abs(self.sd * ndtri_exp(log_ndtr(-z) - log(2)))


@dataclass(frozen=True)
class Exponential:
    """Exponential with a mean."""

    mean: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the positive half line."""
        return 0.0, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        result: ndarray = -x / self.mean - log(self.mean)
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        return -self.mean * log_ndtr(-z)


@dataclass(frozen=True)
class Uniform:
    """Uniform between two ends."""

    low: float
    high: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the two ends."""
        return self.low, self.high

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        return np.full(len(x), -log(self.high - self.low))

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        width = self.high - self.low
        return np.where(z < 0, self.low + width * ndtr(z), self.high - width * ndtr(-z))


@dataclass(frozen=True)
class Beta:
    """Beta on [0, 1], or stretched to another interval."""

    a: float
    b: float
    low: float = 0.0
    high: float = 1.0

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the two ends."""
        return self.low, self.high

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        width = self.high - self.low
        share = (x - self.low) / width
        # A factor with exponent zero is one, also at the bound.
        left = (self.a - 1) * np.log(share) if self.a != 1 else 0.0
        right = (self.b - 1) * np.log1p(-share) if self.b != 1 else 0.0
        result: ndarray = left + right - float(betaln(self.a, self.b)) - log(width) + np.zeros(len(x))
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        lower, upper = (np.maximum(ndtr(-np.maximum(side, 0)), LEAST) for side in (-z, z))
        share = np.where(z < 0, betaincinv(self.a, self.b, lower), betainccinv(self.a, self.b, upper))
        return self.low + (self.high - self.low) * share


@dataclass(frozen=True)
class Gamma:
    """Gamma with a shape and a scale."""

    shape: float
    scale: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the positive half line."""
        return 0.0, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        constant = float(gammaln(self.shape)) + self.shape * log(self.scale)
        result: ndarray = (self.shape - 1) * np.log(x) - x / self.scale - constant
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        lower, upper = ndtr(np.minimum(z, 0)), ndtr(-np.maximum(z, 0))
        return self.scale * np.where(z < 0, gammaincinv(self.shape, lower), gammainccinv(self.shape, upper))


@dataclass(frozen=True)
class Cauchy:
    """Cauchy around zero."""

    scale: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the real line."""
        return -inf, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        result: ndarray = -np.log1p((x / self.scale) ** 2) - log(pi * self.scale)
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        return self.scale * np.sign(z) / np.tan(pi * np.maximum(ndtr(-np.abs(z)), np.finfo(float).tiny))


@dataclass(frozen=True)
class HalfCauchy:
    """The absolute value of a Cauchy around zero."""

    scale: float

    @property
    def bounds(self) -> tuple[float, float]:
        """Return the positive half line."""
        return 0.0, inf

    def log_pdf(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the log density."""
        result: ndarray = -np.log1p((x / self.scale) ** 2) - log(pi * self.scale) + log(2)
        return result

    def from_normal(self, z: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        """Return the quantiles of Φ(z)."""
        return self.scale / np.tan(pi / 2 * np.maximum(ndtr(-z), np.finfo(float).tiny))
