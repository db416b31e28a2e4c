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


def spread_rows(points: Float[ndarray, "n d"], count: int, rng: np.random.Generator) -> Int[ndarray, " k"]:
    """`count` distinct rows far from each other: the seeding of K-means (probability ∝ squared distance)."""
    if count >= len(points):
        return np.arange(len(points))
    rows = np.empty(count, dtype=np.int64)
    scaled = points / np.where(np.ptp(points, axis=0) > 0, np.ptp(points, axis=0), 1.0)
    rows[0] = rng.integers(len(points))
    distance = np.full(len(points), np.inf)
    jumps = rng.uniform(size=count)
    for k in range(1, count):
        step = scaled - scaled[rows[k - 1]]
        np.minimum(distance, np.einsum("nd,nd->n", step, step), out=distance)
        edges = np.cumsum(distance)
        if edges[-1] <= 0:
            return np.unique(rows[:k])
        rows[k] = min(np.searchsorted(edges, jumps[k] * edges[-1], side="right"), len(points) - 1)
    return np.unique(rows)


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
