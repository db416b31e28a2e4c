"""How far two sets of weighted draws are apart."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from vsbq._typing import Float, ndarray

__all__ = ["chance_distance", "draws_distance", "marginal_distance", "reweighted"]

#: Cells of equal mass into which a marginal is cut.
CELLS = 20


def reweighted(log_ratio: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Weights of draws of equal weight towards a density that differs by this much; they sum to one."""
    return np.asarray(np.exp(log_ratio - logsumexp(log_ratio)))


def marginal_distance(points: Float[ndarray, "n d"], a: Float[ndarray, " n"], b: Float[ndarray, " n"]) -> float:
    """Mean over the parameters of the total variation between marginals of the same draws with two sets of weights."""
    count = max(1, len(points) // CELLS)
    cell = np.empty(len(points), dtype=np.int64)
    total = 0.0
    for column in points.T:
        cell[np.argsort(column, kind="stable")] = np.arange(len(points)) // count
        total += 0.5 * float(np.abs(np.bincount(cell, a) - np.bincount(cell, b)).sum())
    return total / points.shape[1]


def chance_distance(effective: float) -> float:
    """The distance that so many draws of equal weight have from their own density, by chance."""
    return float(np.sqrt(CELLS / (2.0 * np.pi * effective)))


def draws_distance(a: Float[ndarray, "n d"], b: Float[ndarray, "m d"]) -> float:
    """The same for two sets of draws of equal weight."""
    first, second = np.zeros(len(a) + len(b)), np.zeros(len(a) + len(b))
    first[: len(a)], second[len(a) :] = 1.0 / len(a), 1.0 / len(b)
    return marginal_distance(np.concatenate([a, b]), first, second)
