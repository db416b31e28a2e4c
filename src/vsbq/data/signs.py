"""Slips that show in the numbers themselves: rows and columns that are there twice, and values of the wrong sign."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from vsbq._typing import Bool, Float, Int, ndarray

__all__ = ["copied_column", "duplicate_groups", "looks_negated"]


#: Rank correlation of columns that are copies, of which some digits may be lost.
SAME_ORDER = 0.99


def copied_column(points: Float[ndarray, "n d"]) -> tuple[int, int] | None:
    """Two columns of which one is the other up to shift and scale, if there are any.

    Their order has to be the same as well: along a line search that went astray all columns look alike beside the rest.
    """
    bulk = np.clip(points, *np.quantile(points, [0.05, 0.95], axis=0))
    varies = np.flatnonzero(np.ptp(bulk, axis=0) > 0)
    z = bulk[:, varies] - bulk[:, varies].mean(axis=0)
    z = z / np.abs(z).max(axis=0)
    z = z / np.linalg.norm(z, axis=0)
    for i, j in np.argwhere(np.triu(np.abs(z.T @ z) > 1 - 1e-12, k=1)):
        order = rankdata(points[:, varies[[i, j]]], axis=0)
        if np.abs(np.asarray(np.corrcoef(order.T))[0, 1]) > SAME_ORDER:
            return int(varies[i]), int(varies[j])
    return None


def looks_negated(points: Float[ndarray, "n d"], log_density: Float[ndarray, " n"]) -> bool:
    """Tell whether finite log densities look like negative log densities; made to stay silent when in doubt.

    Four things must hold at once: the values reach much further above their median than below it, the highest
    tenth is spread much wider than the lowest tenth, the values curve upwards, and they don't rise from row to row
    as those of an optimiser that climbs.
    """
    if len(log_density) < 20 or np.ptp(log_density) == 0:
        return False
    y = (log_density - log_density.min()) / np.ptp(log_density)
    low, tenth, middle, ninetieth, high = np.quantile(y, [0.01, 0.1, 0.5, 0.9, 0.99])
    if high - middle <= 2 * (middle - low):
        return False
    tie = 1e-6 * (high - low)
    wider = _width_ratio(points, y >= ninetieth - tie, y <= tenth + tie)
    return wider > 2 and _curvature(points, y) > 0 and _trend(y) < 0.2


def _width_ratio(points: Float[ndarray, "n d"], some: Bool[ndarray, " n"], others: Bool[ndarray, " n"]) -> float:
    """How much wider some points are spread than others: the geometric mean over the parameters."""
    tiny = 1e-9 * np.ptp(points, axis=0) + np.finfo(float).tiny
    wide, narrow = (np.subtract(*np.quantile(points[rows], [0.9, 0.1], axis=0)) for rows in (some, others))
    return float(np.exp(np.mean(np.log(wide + tiny) - np.log(narrow + tiny))))


def _curvature(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> float:
    """Coefficient of the squared radius in a least-squares fit of a paraboloid."""
    z = points - np.median(points, axis=0)
    z = z / np.maximum(np.abs(z).max(axis=0), np.finfo(float).tiny)
    basis = np.column_stack([np.ones(len(z)), z, np.sum(z**2, axis=1)])
    return float(np.linalg.lstsq(basis, values, rcond=None)[0][-1])


def _trend(values: Float[ndarray, " n"]) -> float:
    """Rank correlation of the values with their row numbers."""
    return float(np.corrcoef(np.arange(len(values)), rankdata(values))[0, 1])


def duplicate_groups(points: Float[ndarray, "n d"]) -> Int[ndarray, " n"]:
    """For each row, the number of the first row that holds exactly the same point."""
    order = np.lexsort(points.T)
    new = np.ones(len(points), dtype=bool)
    new[1:] = np.any(points[order[1:]] != points[order[:-1]], axis=1)
    start = np.maximum.accumulate(np.where(new, np.arange(len(points)), 0))
    first = np.empty(len(points), dtype=np.int64)
    first[order] = order[start]
    return first
