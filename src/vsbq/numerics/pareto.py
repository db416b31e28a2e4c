"""Pareto-smoothed importance weights (Vehtari, Simpson, Gelman, Yao and Gabry 2024).

The largest weights follow a generalised Pareto distribution if there are many. Its fit (Zhang and Stephens 2009)
replaces them by its quantiles, which tames the noise of the few that dominate, and its shape says how far the weights
can be relied on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vsbq._typing import Float, ndarray

#: A tail of fewer weights than this says nothing.
LEAST_TAIL = 5

#: Observations that the weak prior of the shape, centred on 1/2, counts for.
PRIOR_COUNT = 10


class Smoothed(NamedTuple):
    """Weights that sum to one, the shape of their tail, infinite where none can be fitted, and the log of their mean
    before they were made to sum to one."""

    weights: Float[ndarray, " n"]
    shape: float
    log_mean: float


def smoothed_weights(log_weights: Float[ndarray, " n"]) -> Smoothed:
    """Importance weights with a smoothed tail."""
    n = len(log_weights)
    smooth = log_weights - log_weights.max()
    size = int(min(0.2 * n, 3 * np.sqrt(n)))
    order = np.argsort(smooth, kind="stable")
    least = np.finfo(np.float64).tiny
    cutoff = max(float(np.exp(smooth[order[-size - 1]])), least)
    tail = order[np.exp(smooth[order]) > cutoff]
    shape = np.inf
    if len(tail) >= LEAST_TAIL:
        shape, scale = _fit(np.exp(smooth[tail]) - cutoff)
    if np.isfinite(shape):
        # No smoothed weight exceeds the largest raw one.
        levels = (np.arange(len(tail)) + 0.5) / len(tail)
        smooth[tail] = np.minimum(np.log(cutoff + _quantiles(levels, shape, scale)), 0.0)
    total = float(logsumexp(smooth))
    return Smoothed(np.exp(smooth - total), float(shape), total + float(log_weights.max()) - float(np.log(n)))


def _fit(excess: Float[ndarray, " t"]) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution from ascending positive numbers; infinite where they span
    so many orders of magnitude that the shape is beyond all use.

    The likelihood is profiled over b = −shape / scale, whose posterior mean on a fixed grid has a closed form.
    """
    n = len(excess)
    grid = 30 + int(np.sqrt(n))
    quartile = excess[int(n / 4 + 0.5) - 1]
    if excess[-1] > 1e200 * quartile:
        return np.inf, np.inf
    b = 1.0 / excess[-1] + (1.0 - np.sqrt(grid / (np.arange(1, grid + 1) - 0.5))) / (3.0 * quartile)
    shapes = np.log1p(-b[:, None] * excess).mean(axis=1)
    log_likelihood = n * (np.log(-b / shapes) - shapes - 1.0)
    posterior = np.exp(log_likelihood - logsumexp(log_likelihood))
    centre = float(b @ posterior)
    shape = float(np.log1p(-centre * excess).mean())
    return (n * shape + 0.5 * PRIOR_COUNT) / (n + PRIOR_COUNT), -shape / centre


def _quantiles(levels: Float[ndarray, " t"], shape: float, scale: float) -> Float[ndarray, " t"]:
    """Quantiles of a generalised Pareto distribution; exponential in the limit of shape zero."""
    if abs(shape) < 1e-12:
        return -scale * np.log1p(-levels)
    return scale * np.expm1(-shape * np.log1p(-levels)) / shape
