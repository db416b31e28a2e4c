"""Whether the evaluations can all be of one smooth function: single values that stick out, and runs that are offset."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS, contour_depth, highest

__all__ = ["Offset", "find_offset", "find_outliers", "unit_of"]

#: The highest rows are looked at, a share of all and at least so many.
LOOKED_AT = 0.02
LEAST_LOOKED_AT = 10

#: Neighbours for each coefficient of a linear function, and rows that a look around needs.
NEIGHBOURS = 3

#: A value sticks out if its neighbours miss it by so many standard errors, and by more nats than the posterior is deep.
MOST_Z = 10.0

#: Parts of the rows between which an offset is looked for, and pairs of close rows that it takes.
CUTS = (0.25, 0.5, 0.75)
PAIRS = 12

#: Nats of an offset, standard errors, and the share of pairs that must agree on its sign.
LEAST_OFFSET = 1.0
LEAST_ERRORS = 5.0
AGREEING = 0.9


def unit_of(points: Float[ndarray, "n d"]) -> Float[ndarray, " d"]:
    """The spread of each parameter, one where it does not vary: that of its middle, or of all if most are the same."""
    middle, every = np.subtract(*np.quantile(points, [0.9, 0.1], axis=0)), points.std(axis=0)
    unit = np.where(middle > 0, middle, every)
    return np.asarray(np.where((unit > 0) & np.isfinite(unit), unit, 1.0))


def find_outliers(
    points: Float[ndarray, "n d"], values: Float[ndarray, " n"], noise: Float[ndarray, " n"]
) -> Int[ndarray, " k"]:
    """Rows among the highest that their neighbours contradict: far higher than a plane through them says.

    The top of a smooth function is above such a plane as well, but by about as much as its neighbours scatter.
    """
    count = NEIGHBOURS * (points.shape[1] + 1)
    if len(points) < 3 * count:
        return np.empty(0, dtype=np.int64)
    scaled = points / unit_of(points)
    rows = highest(values, max(LEAST_LOOKED_AT, int(LOOKED_AT * len(values))))
    others = np.setdiff1d(np.arange(len(values)), rows)
    if len(others) < count:
        return np.empty(0, dtype=np.int64)
    tree = cKDTree(scaled[others])
    around = others[np.asarray(tree.query(scaled[rows], count)[1])]
    sticks = [_sticks_out(int(row), near, scaled, values, noise) for row, near in zip(rows, around, strict=True)]
    return np.sort(rows[np.array(sticks, dtype=bool)])


def _sticks_out(
    row: int,
    near: Int[ndarray, " m"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise: Float[ndarray, " n"],
) -> bool:
    d = points.shape[1]
    z = points[near] - points[row]
    design = np.column_stack([np.ones(len(near)), z])
    solution, *_ = np.linalg.lstsq(design, values[near], rcond=None)
    scatter = np.sqrt(np.sum((values[near] - design @ solution) ** 2) / max(1, len(near) - d - 1))
    leverage = np.linalg.pinv(design.T @ design)[0, 0]
    error = np.sqrt(scatter**2 * (1 + max(leverage, 0.0)) + noise[row] ** 2)
    excess = float(values[row] - solution[0])
    return bool(excess > MOST_Z * error and excess > contour_depth(POSTERIOR, d) and values[row] > values[near].max())


#: Rows that are compared with earlier ones: so many pairs tell any offset that matters.
MOST_COMPARED = 4000


class Offset(NamedTuple):
    """From which row on the values are offset, by how many nats, and its standard error."""

    row: int
    nats: float
    error: float


def find_offset(
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise: Float[ndarray, " n"],
    starts: Int[ndarray, " r"] | None = None,
) -> Offset | None:
    """Whether late rows are higher or lower than early ones at the same places, by close pairs; None if not.

    `starts` are rows at which runs begin; parts of all rows are looked at as well.
    """
    d = points.shape[1]
    near = np.flatnonzero(values >= values.max() - contour_depth(SURROUNDINGS, d))
    near = near[:: max(1, len(near) // MOST_COMPARED)]
    cuts = {int(share * len(values)) for share in CUTS} | ({int(s) for s in starts} if starts is not None else set())
    found = [one for cut in sorted(cuts) if (one := _offset_at(cut, near, points, values, noise)) is not None]
    return max(found, key=lambda one: abs(one.nats) / one.error, default=None)


def _offset_at(
    cut: int,
    near: Int[ndarray, " m"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise: Float[ndarray, " n"],
) -> Offset | None:
    early, late = near[near < cut], near[near >= cut]
    if min(len(early), len(late)) < PAIRS:
        return None
    scaled = points / unit_of(points[near])
    distance, partner = map(np.asarray, cKDTree(scaled[early]).query(scaled[late]))
    # Each early row once, the closest pairs first.
    order = np.argsort(distance, kind="stable")
    _, first = np.unique(partner[order], return_index=True)
    chosen = order[np.sort(first)][: max(PAIRS, len(first) // 4)]
    if len(chosen) < PAIRS:
        return None
    a, b = late[chosen], early[partner[chosen]]
    change = values[a] - values[b]
    middle = float(np.median(change))
    spread = 1.4826 * float(np.median(np.abs(change - middle)))
    error = 1.25 * max(spread, float(np.median(np.hypot(noise[a], noise[b]))), 1e-3) / np.sqrt(len(chosen))
    agreeing = np.mean(np.sign(change) == np.sign(middle))
    if abs(middle) < LEAST_OFFSET or abs(middle) < LEAST_ERRORS * error or (agreeing < AGREEING and not noise.any()):
        return None
    return Offset(cut, middle, float(error))
