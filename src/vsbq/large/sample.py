"""Which of very many evaluations a fit is made of: some of all, and more of those near the top.

Each row has a random number of its own, made from the seed and where it stands, so that neither the size of what is
read at a time nor the number of processes changes the choice.
"""

from __future__ import annotations

import numpy as np

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.data.bounds import Bounds
from vsbq.errors import EvaluationsError
from vsbq.large.tables import Table, spans
from vsbq.numerics.contours import SURROUNDINGS, contour_depth
from vsbq.steps.surrogate.complete import Rows

__all__ = ["choose", "read_rows"]

#: Rows that share a stream of random numbers.
STREAM = 2**16


def choose(table: Table, count: int, dimension: int, seed: int) -> Int[ndarray, " k"]:
    """About `count` rows, sorted: half of them from those that may matter for the posterior, and the best one."""
    best, top = 0, -np.inf
    for start, stop in spans(0, table.rows, STREAM):
        values = table.values(start, stop)
        _check(values, start)
        row = int(np.argmax(values))
        if values[row] > top:
            best, top = start + row, float(values[row])
    if not np.isfinite(top):
        raise EvaluationsError("No log density is finite. Check the values.")
    near, every = _Smallest(count // 2), _Smallest(count)
    depth = contour_depth(SURROUNDINGS, dimension)
    for number, (start, stop) in enumerate(spans(0, table.rows, STREAM)):
        keys = np.random.default_rng([seed, number]).random(stop - start)
        rows = np.arange(start, stop)
        every.add(rows, keys)
        high = table.values(start, stop) >= top - depth
        near.add(rows[high], keys[high])
    others = every.found[~np.isin(every.found, near.found)][: count - len(near.found)]
    return np.unique(np.concatenate([near.found, others, [best]]))


class _Smallest:
    """The rows with the smallest numbers so far."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.found, self.keys = np.zeros(0, dtype=np.int64), np.zeros(0)

    def add(self, rows: Int[ndarray, " n"], keys: Float[ndarray, " n"]) -> None:
        found, both = np.concatenate([self.found, rows]), np.concatenate([self.keys, keys])
        order = np.argsort(both, kind="stable")[: self.count]
        self.found, self.keys = found[order], both[order]


def read_rows(table: Table, rows: Int[ndarray, " k"]) -> Rows:
    """Some rows of a table, read in passing."""
    parts = []
    for start, stop in spans(0, table.rows, STREAM):
        first, last = np.searchsorted(rows, [start, stop])
        if last > first:
            block = checked(table.read(start, stop), start)
            parts.append(Rows(*(column[rows[first:last] - start] for column in block)))
    return Rows(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def checked(rows: Rows, start: int, bounds: Bounds | None = None) -> Rows:
    """The rows, if they are numbers and within the bounds."""
    _check(rows.values, start)
    wrong: Bool[ndarray, " n"] = ~np.isfinite(rows.points).all(axis=1) | ~(rows.sd >= 0) | ~np.isfinite(rows.sd)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise EvaluationsError(
            f"Row {start + row} has the parameters {rows.points[row].tolist()} and the standard deviation "
            f"{float(rows.sd[row])}. They have to be finite numbers: leave out the row, or mend it."
        )
    outside = np.zeros(0, bool) if bounds is None else ~bounds_hold(rows.points, bounds)
    if outside.any():
        row = int(np.argmax(outside))
        raise EvaluationsError(
            f"Row {start + row} is outside the bounds: {rows.points[row].tolist()}. Leave out the row, or correct the "
            "bounds."
        )
    return rows


def bounds_hold(points: Float[ndarray, "n d"], bounds: Bounds) -> Bool[ndarray, " n"]:
    """Which points are within bounds."""
    return np.asarray(((points >= bounds.lower) & (points <= bounds.upper)).all(axis=1))


def _check(values: Float[ndarray, " n"], start: int) -> None:
    wrong = np.isnan(values) | np.isposinf(values)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise EvaluationsError(
            f"Row {start + row} has the log density {float(values[row])}. Leave out rows whose evaluation failed; a "
            "density of zero is -inf."
        )
