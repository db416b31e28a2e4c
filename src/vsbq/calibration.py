"""How far the surrogate's own error bars can be believed where no evaluation is near."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import vq

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.shaping import contour_depth
from vsbq.numerics.subset import cluster_centres, spread_rows, stratified_rows

__all__ = ["Block", "Calibration", "calibrate", "cut_blocks", "held_out_score", "passes_that_help"]

BLOCKS = 10
DEPTH = 6.0  # blocks are cut from the evaluations within this contour of the best
MOST_ROWS = 6000
MOST_TESTED = 1000
NEAR = 3.0  # passes are judged by evaluations within this contour,
LEAST_TESTED = 50  # if there are as many
TINY = 1e-12

Regression = tuple[Float[ndarray, "n d"], Float[ndarray, " n"], Float[ndarray, " n"]]


class Block(NamedTuple):
    """Rows that are held out together, and those of them that are predicted."""

    held: Int[ndarray, " h"]
    tested: Int[ndarray, " t"]


class Calibration(NamedTuple):
    """What holding out blocks of evaluations has shown."""

    overconfidence: float  # the factor by which errors exceed the predicted sd; at least 1
    without: Float[ndarray, "b m"] | None  # what each block's absence adds to the weights of the sparse GP's mean


def calibrate(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    regression: Regression,
    level: Float[ndarray, " n"],
    rng: np.random.Generator,
    passes: int = 0,
) -> Calibration:
    """Hold out whole blocks of evaluations, one after the other: how large are the errors, how does the mean change?

    An optimiser leaves most of its evaluations at the mode. Hyperparameters that explain those best may promise far
    too much for the gaps between its paths; a block of neighbours that the surrogate has not seen is such a gap.
    """
    rows = stratified_rows(regression[0], level, MOST_ROWS, rng)
    points, values, noise = (column[rows] for column in regression)
    blocks = cut_blocks(points, level[rows], rng)
    if not blocks:
        return Calibration(1.0, None)
    try:
        every, _ = sgpr.fit_factors(hyp, inducing, points, values, noise, passes)
    except NotPositiveDefinite:
        return Calibration(1.0, None)
    errors, changes, without = [], [], []
    for held in _held_out(hyp, inducing, (points, values, noise), blocks, passes):
        tested = held.block.tested
        errors.append(np.mean(held.residual**2 / (held.variance + noise[tested])))
        # What a block does to the mean has, if the kernel is right, the variance by which the block reduces the
        # uncertainty. Noise hides less here than in the residuals.
        change = values[tested] - held.residual - sgpr.predict_mean(hyp, every, points[tested])
        reduction = held.variance - sgpr.predict_variance(hyp, every, points[tested])
        changes.append(np.mean(change**2) / max(float(np.mean(reduction)), TINY))
        without.append(held.weights - every.weights)
    if not without:
        return Calibration(1.0, None)
    return Calibration(float(np.sqrt(max(1.0, np.mean(errors), np.mean(changes)))), np.array(without))


def passes_that_help(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    regression: Regression,
    level: Float[ndarray, " n"],
    most: int,
    rng: np.random.Generator,
) -> int:
    """As many residual passes as are allowed, or none if evaluations that were left out are then predicted worse.

    Where there are too few inducing points for what the evaluations show, what is left of these is not for them to
    explain, and passes only make the surrogate rougher.
    """
    points, values, noise = regression
    order = rng.permutation(len(points))[: 2 * MOST_ROWS]
    seen, rest = order[::2], order[1::2]
    test = rest[level[rest] >= level.max() - contour_depth(NEAR, points.shape[1])]
    if not most or len(test) < LEAST_TESTED:
        return most
    try:
        plain, _ = sgpr.fit_factors(hyp, inducing, points[seen], values[seen], noise[seen])
    except NotPositiveDefinite:
        return most
    passed = plain
    for _ in range(most):
        passed = sgpr.with_smoothed_residual(hyp, passed, points[seen], values[seen], noise[seen])
    before, after = (values[test] - sgpr.predict_mean(hyp, factors, points[test]) for factors in (plain, passed))
    worse = (after**2 - before**2) / noise[test]
    return 0 if worse.mean() > 2 * worse.std() / np.sqrt(len(test)) else most


def held_out_score(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    regression: Regression,
    blocks: list[Block],
    noise: Float[ndarray, " n"],
) -> float:
    """Mean log predictive density of evaluations in blocks that were held out; −inf where nothing can be said.

    `noise` are the variances with which they are judged, the same for all surrogates that are to be compared.
    """
    scores = []
    for held in _held_out(hyp, inducing, regression, blocks):
        total = held.variance + noise[held.block.tested]
        scores.append(-0.5 * (np.log(total) + held.residual**2 / total))
    return float(np.mean(np.concatenate(scores))) if scores else -np.inf


class _HeldOut(NamedTuple):
    """Residuals and variances of the log density in a block, and the GP's weights, given the evaluations outside it."""

    block: Block
    residual: Float[ndarray, " t"]
    variance: Float[ndarray, " t"]
    weights: Float[ndarray, " m"]


def _held_out(
    hyp: Hyperparameters, inducing: Float[ndarray, "m d"], regression: Regression, blocks: list[Block], passes: int = 0
) -> Iterator[_HeldOut]:
    """Each block, as the evaluations outside it predict it."""
    points, values, noise = regression
    for block in blocks:
        rest = np.setdiff1d(np.arange(len(points)), block.held, assume_unique=True)
        try:
            factors, _ = sgpr.fit_factors(hyp, inducing, points[rest], values[rest], noise[rest], passes)
        except NotPositiveDefinite:
            continue
        tested = points[block.tested]
        residual = values[block.tested] - sgpr.predict_mean(hyp, factors, tested)
        yield _HeldOut(block, residual, sgpr.predict_variance(hyp, factors, tested), factors.weights)


def cut_blocks(points: Float[ndarray, "n d"], level: Float[ndarray, " n"], rng: np.random.Generator) -> list[Block]:
    """Clusters of the better evaluations, each with a thinned set to test on; none where there are too few."""
    near = np.flatnonzero(level >= level.max() - contour_depth(DEPTH, points.shape[1]))
    thin = near[spread_rows(points[near], MOST_TESTED, rng)]
    if len(thin) < 5 * BLOCKS:
        return []
    centres, label = cluster_centres(points[thin], BLOCKS, rng)
    width = np.where(np.ptp(points[thin], axis=0) > 0, np.ptp(points[thin], axis=0), 1.0)
    belongs = vq(points[near] / width, centres / width)[0]
    return [Block(near[belongs == block], thin[label == block]) for block in range(len(centres))]
