"""Where a posterior is cut off: the marginal density is still high where belief in the surrogate ends.

In inference coordinates every proper posterior has tails, on bounds too. A marginal without a tail, beyond whose last
draws the surrogate is no longer believed, goes on where nothing was evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.posterior.diagnosis.measures import View

__all__ = ["Edge", "edges"]

#: Shares of the mass beyond the quantiles that are looked at: flank and tail.
NEAR, FAR, LAST = 0.1, 0.01, 0.0005

#: Shares between which the peak of a marginal is looked for, and the mass of the window.
GRID = np.linspace(0.02, 0.98, 49)
WINDOW = 5

#: Edges lower than this relative to the peak are those of every normal, and are not looked beyond.
USUAL = 0.03

#: How far beyond the outermost draws the surrogate is asked, in flanks, and at how many draws.
STEP = 0.5
ASKED = 200


class Edge(NamedTuple):
    """One side (−1 below, 1 above) of one parameter: how high its marginal is where the draws end, relative to its
    peak, the share of what is beyond where the surrogate is not believed, and where it ends, in plain coordinates."""

    parameter: int
    side: int
    height: float
    unknown: float
    end: float

    @property
    def cut(self) -> float:
        """How high the marginal is where belief ends."""
        return self.height * self.unknown


def edges(view: View) -> list[Edge]:
    """Both sides of all parameters."""
    plain = view.model.space.to_plain(view.tail_points)
    return [_edge(view, plain[:, i], i, side) for i in range(plain.shape[1]) for side in (-1, 1)]


def _edge(view: View, column: Float[ndarray, " n"], parameter: int, side: int) -> Edge:
    order = np.argsort(-side * column, kind="stable")
    above = np.cumsum(view.tail_weights[order]) / view.tail_weights.sum()
    values = side * column[order]
    near, far, last = (_at(values, above, share) for share in (NEAR, FAR, LAST))
    peak = _peak(np.array([_at(values, above, share) for share in GRID]))
    height = min((FAR - LAST) / max(last - far, 1e-300) / peak, 1.0)
    unknown = 0.0 if height < USUAL else _unknown_beyond(view, side * column, near, far)
    return Edge(parameter, side, height, unknown, side * last)


def _at(values: Float[ndarray, " n"], above: Float[ndarray, " n"], share: float) -> float:
    return float(values[min(int(np.searchsorted(above, share)), len(values) - 1)])


def _peak(quantiles: Float[ndarray, " q"]) -> float:
    """The highest density over a window of the quantiles, which fall."""
    width = quantiles[:-WINDOW] - quantiles[WINDOW:]
    return float(WINDOW * (GRID[1] - GRID[0]) / max(width.min(), 1e-300))


def _unknown_beyond(view: View, values: Float[ndarray, " n"], near: float, far: float) -> float:
    """Share of the outermost draws that leave what is believed if they are moved on in the direction that leads to
    them."""
    points, weights = view.tail_points, view.tail_weights
    tip, flank = np.flatnonzero((values >= far) & (weights > 0)), (values < far) & (values >= near)
    if not (len(tip) and weights[flank].sum() > 0):
        return 0.0
    ahead = np.average(points[tip], axis=0, weights=weights[tip])
    behind = np.average(points[flank], axis=0, weights=weights[flank])
    some = tip[:: max(1, len(tip) // ASKED)]
    moved = points[some] + STEP * (ahead - behind)
    return float(np.average(~view.believed(moved), weights=weights[some]))
