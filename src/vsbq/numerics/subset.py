"""Representative subsets: strata by value, spread by K-means within each."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.cluster.vq import vq
from scipy.spatial import cKDTree

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics.contours import highest, near_top

#: Edges of the strata as shares of the points, from the highest value down.
STRATA = (0.0, 0.1, 0.25, 0.45, 0.7, 1.0)

#: Squared distances that are products of float64 are known to a few units of the sixteenth digit of the largest. They
#: serve while the average is a million times that.
ROUNDING = 1e-9


def spread_rows(points: Float[ndarray, "n d"], count: int, rng: np.random.Generator) -> Int[ndarray, " k"]:
    """`count` distinct rows far from each other: the seeding of K-means (probability ∝ squared distance)."""
    if count >= len(points):
        return np.arange(len(points))
    scaled = points / np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)
    first, jumps = int(rng.integers(len(points))), rng.uniform(size=count)
    rows, sure = _spread(scaled, first, jumps, exact=False)
    return np.unique(rows if sure else _spread(scaled, first, jumps, exact=True)[0])


def _spread(
    scaled: Float[ndarray, "n d"], first: int, jumps: Float[ndarray, " c"], *, exact: bool
) -> tuple[Int[ndarray, " k"], bool]:
    """The rows of `spread_rows`, from squared distances as products, which is faster, or `exact` as differences; and
    whether rounding errors don't matter."""
    rows = np.full(len(jumps), first, dtype=np.int64)
    x = scaled - scaled.mean(axis=0)
    squares = np.einsum("nd,nd->n", x, x)
    least = 0.0 if exact else ROUNDING * float(squares.max()) * len(x)
    distance = np.full(len(x), np.inf)
    for k in range(1, len(rows)):
        last = rows[k - 1]
        if exact:
            step = scaled - scaled[last]
            new = np.einsum("nd,nd->n", step, step)
        else:
            new = (squares + squares[last]) - 2 * (x @ x[last])
        np.minimum(distance, new, out=distance)
        distance[last] = 0.0
        edges = np.cumsum(distance)
        if edges[-1] <= least:
            return rows[:k], exact
        rows[k] = min(np.searchsorted(edges, jumps[k] * edges[-1], side="right"), len(x) - 1)
    return rows, True


def cluster_centres(
    points: Float[ndarray, "n d"], count: int, rng: np.random.Generator, iterations: int = 10
) -> tuple[Float[ndarray, "k d"], Int[ndarray, " n"]]:
    """K-means from `spread_rows`; empty clusters are dropped. Centres and the cluster of each point."""
    width = np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)
    scaled = points / width
    centres = scaled[spread_rows(points, count, rng)]
    label = vq(scaled, centres)[0]
    for _ in range(iterations):
        used, label = np.unique(label, return_inverse=True)
        total = np.bincount(label)
        sums = [np.bincount(label, weights=column) for column in scaled.T]
        centres = np.stack(sums, axis=1) / total[:, None]
        label = vq(scaled, centres)[0]
    used, label = np.unique(label, return_inverse=True)
    return centres[used] * width, label


def stratified_rows(
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    count: int,
    rng: np.random.Generator,
) -> Int[ndarray, " k"]:
    """About `count` rows that represent location and value: equal shares of each stratum, spread by K-means seeding."""
    if count >= len(points):
        return np.arange(len(points))
    order = np.argsort(-values, kind="stable")
    edges = [round(share * len(points)) for share in STRATA]
    chosen, missing = [], count
    for i, (a, b) in enumerate(pairwise(edges)):
        share = min(b - a, round(missing / (len(STRATA) - 1 - i)))
        if share > 0:
            rows = order[a:b]
            chosen.append(rows[spread_rows(points[rows], share, rng)])
            missing -= len(chosen[-1])
    return np.sort(np.concatenate(chosen))


def nearest_rows(points: Float[ndarray, "n d"], targets: Float[ndarray, "k d"]) -> Int[ndarray, " k"]:
    """The row of `points` nearest to each target."""
    return np.asarray(cKDTree(points).query(targets)[1], dtype=np.int64)


def better_rows(
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    depth: float,
    rng: np.random.Generator,
    count: int | None = None,
) -> Int[ndarray, " k"]:
    """Rows within a contour of the best, at least 10 D of them, thinned to a spread-out set of 100 + 20 D, or of
    `count`, which then is the least as well."""
    d = points.shape[1]
    near = np.flatnonzero(near_top(values, depth, d))
    least, most = (10 * d, 100 + 20 * d) if count is None else (count, count)
    if len(near) < least:
        near = highest(values, least)
    return near[spread_rows(points[near], most, rng)]
