"""How far the surrogate's own error bars can be believed where no evaluation is near."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.cluster.vq import vq

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.shaping import contour_depth
from vsbq.numerics.subset import cluster_centres, spread_rows, stratified_rows

__all__ = ["overconfidence"]

BLOCKS = 10
DEPTH = 6.0  # blocks are cut from the evaluations within this contour of the best
MOST_ROWS = 6000
MOST_TESTED = 1000

Regression = tuple[Float[ndarray, "n d"], Float[ndarray, " n"], Float[ndarray, " n"]]


def overconfidence(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    regression: Regression,
    level: Float[ndarray, " n"],
    rng: np.random.Generator,
) -> float:
    """The factor by which errors exceed the predicted sd when whole blocks of evaluations are held out; at least 1.

    An optimiser leaves most of its evaluations at the mode. Hyperparameters that explain those best may promise far
    too much for the gaps between its paths; a block of neighbours that the surrogate has not seen is such a gap.
    """
    points, values, noise = regression
    rows = stratified_rows(points, level, MOST_ROWS, rng)
    points, values, noise = points[rows], values[rows], noise[rows]
    squares = []
    for held, tested in _blocks(points, level[rows], rng):
        rest = np.setdiff1d(np.arange(len(points)), held, assume_unique=True)
        try:
            factors, _ = sgpr.fit_factors(hyp, inducing, points[rest], values[rest], noise[rest])
        except NotPositiveDefinite:
            continue
        variance = sgpr.predict_variance(hyp, factors, points[tested]) + noise[tested]
        residual = values[tested] - sgpr.predict_mean(hyp, factors, points[tested])
        squares.append(float(np.mean(residual**2 / variance)))
    return max(1.0, float(np.sqrt(np.mean(squares)))) if squares else 1.0


def _blocks(
    points: Float[ndarray, "n d"], level: Float[ndarray, " n"], rng: np.random.Generator
) -> Iterator[tuple[Int[ndarray, " h"], Int[ndarray, " t"]]]:
    """Rows of each cluster of the better evaluations, and a thinned set of them to test on."""
    near = np.flatnonzero(level >= level.max() - contour_depth(DEPTH, points.shape[1]))
    thin = near[spread_rows(points[near], MOST_TESTED, rng)]
    if len(thin) < 5 * BLOCKS:
        return
    centres, label = cluster_centres(points[thin], BLOCKS, rng)
    width = np.where(np.ptp(points[thin], axis=0) > 0, np.ptp(points[thin], axis=0), 1.0)
    belongs = vq(points[near] / width, centres / width)[0]
    for block in range(len(centres)):
        yield near[belongs == block], thin[label == block]
