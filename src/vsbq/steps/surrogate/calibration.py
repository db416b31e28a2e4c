"""What evaluations decide that are held out: blocks of neighbours, and the outermost ones on each side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.vq import vq

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import linalg, sgpr
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS, near_top
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.observations import Regression, Summed, fit_summed, without
from vsbq.numerics.subset import cluster_centres, spread_rows, stratified_rows

__all__ = ["Block", "Calibration", "Sides", "beyond_noise", "calibrate", "cut_blocks"]

BLOCKS = 10
LEAST_BLOCKS = 3
LEAST_TESTED = 5  # evaluations a block; with fewer there are fewer blocks, and the evidence says so
MOST_ROWS = 6000
MOST_TESTED = 1000
TINY = 1e-12

#: Share of the better evaluations, the outermost on one side, that are left out to see what is beyond without them.
OUTERMOST = 0.1


class Block(NamedTuple):
    """Rows that are held out together, and those of them that are predicted."""

    held: Int[ndarray, " h"]
    tested: Int[ndarray, " t"]


class Sides(NamedTuple):
    """How well the outermost evaluations on each side of each axis are predicted from the others: the end of the better
    evaluations along `axes` (sides, d), the error in nats, and how far beyond the others they are on average."""

    axes: Float[ndarray, "s d"]
    ends: Float[ndarray, " s"]
    errors: Float[ndarray, " s"]
    distances: Float[ndarray, " s"]

    def doubt(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Nats by which the mean may be off beyond the better evaluations: an error of curvature, which grows with the
        square of the distance. Zero at points that are not beyond."""
        beyond = np.maximum(linalg.product(self.axes, u.T) - self.ends[:, None], 0.0)
        return np.asarray((self.errors[:, None] * (beyond / self.distances[:, None]) ** 2).max(axis=0, initial=0.0))


class Calibration(NamedTuple):
    """What holding out blocks of evaluations has shown."""

    without: Float[ndarray, "b m"] | None  # what each block's absence adds to the weights of the sparse GP's mean
    passes: int  # residual passes of the mean: as many as are allowed, or none if blocks are then predicted worse
    tested: float  # held-out evaluations that were predicted, as a share of those that it takes, at most 1
    sides: Sides | None  # what the outermost evaluations decide
    rise: float  # nats above the highest evaluation that may be believed
    errors: tuple[float, ...] = ()  # of each block, root mean square in predicted standard deviations
    missed: float = np.inf  # nats by which held-out evaluations of the posterior are missed beyond their noise


def calibrate(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    regression: Regression,
    level: Float[ndarray, " n"],
    rng: np.random.Generator,
    passes: int = 0,
    axes: Float[ndarray, "d d"] | None = None,
    observed: Float[ndarray, " n"] | None = None,
) -> Calibration:
    """Hold out whole blocks of evaluations, one after the other: how does the mean change, and do residual passes help?

    An optimiser leaves most of its evaluations at the mode. Hyperparameters that explain those best may promise far
    too much for the gaps between its paths; a block of neighbours that the surrogate has not seen is such a gap. The
    rows of `axes` are directions on both ends of which the outermost evaluations are left out as well; `observed` are
    the variances of the noise that the values really have.
    """
    observed = regression[2] if observed is None else observed
    rows = stratified_rows(regression[0], level, MOST_ROWS, rng)
    regression, level = regression.take(rows), level[rows]
    try:
        tester = _Tester(hyp, regression, fit_summed(hyp, inducing, regression))
    except NotPositiveDefinite:
        return Calibration(None, passes, 0.0, None, 0.0)
    near = np.flatnonzero(near_top(level, SURROUNDINGS, regression[0].shape[1]))
    sides = None if axes is None else _outermost(tester, near, axes)
    rise = _believed_rise(tester, level, near)
    blocks = cut_blocks(regression[0], level, rng)
    judged = list(_judge(tester, blocks, passes))
    if not judged:
        return Calibration(None, passes, 0.0, sides, rise)
    # Where there are too few inducing points for what the evaluations show, what is left of these is not for them to
    # explain, and passes only make the surrogate rougher.
    worse = np.array([np.log((after.error + TINY) / (before.error + TINY)) for before, after in judged])
    chosen = 0 if worse.mean() > 2 * worse.std() / np.sqrt(len(worse)) else 1
    without = np.array([block[chosen].without for block in judged])
    tested = min(1.0, sum(len(block.tested) for block in blocks) / (BLOCKS * LEAST_TESTED))
    errors = tuple(float(np.sqrt(block[chosen].error)) for block in judged)
    missed = _missed_high([block[chosen] for block in judged], level, observed[rows], regression[0].shape[1])
    return Calibration(without, chosen * passes, tested, sides, rise, errors, missed)


def _missed_high(
    judged: list[_Judged], level: Float[ndarray, " n"], observed: Float[ndarray, " n"], dimension: int
) -> float:
    """Nats by which held-out evaluations of the posterior are missed beyond their noise."""
    rows = np.concatenate([block.rows for block in judged])
    residual = np.concatenate([block.residual for block in judged])
    high = near_top(level, POSTERIOR, dimension)[rows]
    return beyond_noise(residual[high], observed[rows][high])


def beyond_noise(residual: Float[ndarray, " n"], noise_variance: Float[ndarray, " n"]) -> float:
    """Root mean square of residuals, less what their noise explains; infinite if there are none.

    With noise, the mean square itself fluctuates: only what is beyond two standard errors counts.
    """
    if not len(residual):
        return np.inf
    excess = np.mean(residual**2) - np.mean(noise_variance)
    return float(np.sqrt(max(excess - 2 * np.sqrt(2 * np.mean(noise_variance**2) / len(residual)), 0.0)))


class _Tester(NamedTuple):
    """The sparse GP of all evaluations, which can be asked without some of them."""

    hyp: Hyperparameters
    regression: Regression
    whole: Summed

    def without(self, held: Int[ndarray, " h"]) -> sgpr.Factors | None:
        """The sparse GP of all others; None if it cannot be factorised."""
        try:
            return without(self.hyp, self.whole, self.regression.take(held))
        except NotPositiveDefinite:
            return None

    def missed(self, held: Int[ndarray, " h"]) -> Float[ndarray, " h"] | None:
        """What the sparse GP of all others leaves of some evaluations; None if it cannot be factorised."""
        factors = self.without(held)
        if factors is None:
            return None
        points, values = self.regression.points, self.regression.values
        return np.asarray(values[held] - sgpr.predict_mean(self.hyp, factors, points[held]))


def _outermost(tester: _Tester, near: Int[ndarray, " k"], axes: Float[ndarray, "d d"]) -> Sides:
    """Leave out the outermost of the better evaluations on each side of each axis, and predict them."""
    points, values, noise, _ = tester.regression
    directions = np.concatenate([axes, -axes])
    along = linalg.product(points, directions.T)
    # Where they cannot be predicted, anything is possible that the values show.
    errors, distances = np.full(len(directions), float(np.ptp(values))), np.ones(len(directions))
    for side in range(len(directions)):
        held, others = _split(near, along[near, side])
        distances[side] = max(np.ptp(along[near, side]), TINY)
        residual = tester.missed(held) if len(others) else None
        if residual is not None:
            precision = 1.0 / noise[held]
            # Their average is not known better than their noise allows.
            errors[side] = np.hypot(np.average(residual, weights=precision), precision.sum() ** -0.5)
            gap = along[held, side].mean() - along[others, side].max()
            distances[side] = max(gap, TINY * distances[side], TINY)
    return Sides(directions, along[near].max(axis=0), errors, distances)


def _believed_rise(tester: _Tester, level: Float[ndarray, " n"], near: Int[ndarray, " k"]) -> float:
    """How far above the highest evaluation the mean may be believed: leave out the highest ones, and predict them.

    If they are h nats above the others and missed by e, then the mean may be off by e (x/h)² where it is x nats above
    all: an error of curvature. It is believed until this is one nat.
    """
    held, others = _split(near, level[near])
    residual = tester.missed(held) if len(others) else None
    if residual is None:
        return 0.0
    precision = 1.0 / tester.regression[2][held]
    error = np.hypot(np.sqrt(np.average(residual**2, weights=precision)), precision.sum() ** -0.5)
    height = float(level[held].mean() - level[others].max())
    return height / float(np.sqrt(error))


def _split(near: Int[ndarray, " k"], along: Float[ndarray, " k"]) -> tuple[Int[ndarray, " h"], Int[ndarray, " o"]]:
    """The outermost of some rows in one direction, and the others."""
    order = near[np.argsort(-along, kind="stable")]
    count = max(1, round(OUTERMOST * len(near)))
    return order[:count], order[count:]


class _Judged(NamedTuple):
    """A block that was held out: its mean square error, relative to what was predicted, and what its absence adds to
    the weights of the mean."""

    error: float
    without: Float[ndarray, " m"]
    rows: Int[ndarray, " t"]
    residual: Float[ndarray, " t"]


def _judge(tester: _Tester, blocks: list[Block], passes: int) -> Iterator[tuple[_Judged, _Judged]]:
    """Each block, without residual passes and with them."""
    points, values, noise, _ = tester.regression
    plain = tester.whole.factors
    every = plain, sgpr.with_implied_passes(plain, passes)
    for block in blocks:
        factors = tester.without(block.held)
        if factors is None:
            continue
        tested = points[block.tested]
        total = sgpr.predict_variance(tester.hyp, factors, tested) + noise[block.tested]
        judged = []
        for part, whole in zip((factors, sgpr.with_implied_passes(factors, passes)), every, strict=True):
            residual = values[block.tested] - sgpr.predict_mean(tester.hyp, part, tested)
            judged.append(
                _Judged(float(np.mean(residual**2 / total)), part.weights - whole.weights, block.tested, residual)
            )
        yield judged[0], judged[1]


def cut_blocks(points: Float[ndarray, "n d"], level: Float[ndarray, " n"], rng: np.random.Generator) -> list[Block]:
    """Clusters of the better evaluations, each with a thinned set to test on; none where there are too few."""
    near = np.flatnonzero(near_top(level, SURROUNDINGS, points.shape[1]))
    thin = near[spread_rows(points[near], MOST_TESTED, rng)]
    count = min(BLOCKS, len(thin) // LEAST_TESTED)
    if count < LEAST_BLOCKS:
        return []
    centres, label = cluster_centres(points[thin], count, rng)
    width = np.where(np.ptp(points[thin], axis=0) > 0, np.ptp(points[thin], axis=0), 1.0)
    belongs = vq(points[near] / width, centres / width)[0]
    return [Block(near[belongs == block], thin[label == block]) for block in range(len(centres))]
