"""Which evaluations belong together: runs of an optimiser, told from the order of the rows."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from vsbq._typing import Float, Int, ndarray

__all__ = ["tell_runs"]

#: Rows of a window, for each parameter.
WINDOW_PER_DIMENSION = 3

#: A run contracts: its windows become narrower than this share of the widest ones. A restart is wide again.
NARROW = 0.2
WIDE = 0.5

#: Fewer windows have no order.
LEAST_WINDOWS = 4

#: Correlation of consecutive windows; rows in random order have none.
LEAST_MEMORY = 0.25

#: Of all windows the widest, single ones left out.
WIDEST = 0.95


def tell_runs(points: Float[ndarray, "n d"]) -> Int[ndarray, " n"]:
    """A number for the run of each row, from 0; one run where the order of the rows shows no restart.

    An optimiser contracts towards a mode. Where rows that were close together are far apart again, as at the beginning,
    another run has begun. Windows of rows in random order are as wide as chance has it, whatever the one before.
    """
    n, d = points.shape
    new = np.zeros(n, dtype=np.int64)  # 1 where another run begins
    count = n // (WINDOW_PER_DIMENSION * d + 1)
    if count < LEAST_WINDOWS:
        return new
    edges = np.linspace(0, n, count + 1).astype(int)
    spread = _spread(points, edges)
    width = np.exp(np.mean(np.log(spread / np.maximum(points.std(axis=0), 1e-300) + 1e-12), axis=1))
    if _memory(width) < LEAST_MEMORY:
        return new
    widest = float(np.quantile(width, WIDEST))
    contracted = False
    for k in range(count):
        if contracted and width[k] > WIDE * widest:
            new[edges[k]] = 1
            contracted = False
        contracted = contracted or bool(width[k] < NARROW * widest)
    return np.cumsum(new)


def _memory(width: Float[ndarray, " k"]) -> float:
    """Rank correlation between the widths of consecutive windows."""
    ranks = rankdata(width)
    return float(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) if np.ptp(ranks) > 0 else 0.0


def _spread(points: Float[ndarray, "n d"], edges: Int[ndarray, " e"]) -> Float[ndarray, "k d"]:
    """Half the range of the middle of each window in each parameter, which single far points don't decide."""
    found, lengths = np.empty((len(edges) - 1, points.shape[1])), np.diff(edges)
    for length in np.unique(lengths):
        same = np.flatnonzero(lengths == length)
        windows = points[edges[same][:, None] + np.arange(length)]
        found[same] = 0.5 * np.subtract(*np.quantile(windows, [0.85, 0.15], axis=1))
    return found
