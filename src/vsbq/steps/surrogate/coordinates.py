"""In which coordinates the surrogate works: plain or whitened, whichever predicts held-out evaluations better."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import exact, sgpr
from vsbq.numerics.contours import POSTERIOR
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.subset import stratified_rows
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.calibration import Block, cut_blocks, held_out_score
from vsbq.steps.surrogate.learning import Learning, WeakPrior, better_rows, learn_sparse, weak_prior
from vsbq.steps.surrogate.shaped_data import Learnt, ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet

#: Nats per held-out evaluation by which other coordinates have to be better than the plain ones.
COORDINATE_GAIN = 0.02

#: An exact GP on a subset is learnt in so many steps, or until a step gains less than this many nats.
EXACT_STEPS = 100
EXACT_TOLERANCE = 1e-2


def first_attempt(training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress) -> Attempt:
    """Hyperparameters to start with, and the training set in the coordinates in which held-out blocks are predicted
    best, with levels where its values are noisy."""
    rows = stratified_rows(training.points, training.level, settings.exact_points, rng)
    contested = settings.whiten and training.dimension > 1
    plain = prepared(training, rows, settings, rng, learn=not contested)
    if not contested:
        return plain
    contest = Contest.on(plain, settings, rng)
    best = contest.enter(plain, progress)
    turned = best.training.whitened(whitening(best.training, rng))
    other = contest.enter(prepared(turned, rows, settings, rng), progress)
    return other if other.score > best.score + COORDINATE_GAIN else best


def whitening(training: TrainingSet, rng: np.random.Generator) -> Float[ndarray, "d d"]:
    """The symmetric root of the inverse covariance of the better points, thinned: it turns the axes least."""
    near = better_rows(training.points, training.level, POSTERIOR, rng)
    cov = np.cov(training.points[near].T)
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values, 1e-12 * values[-1])
    return (vectors / np.sqrt(values)) @ vectors.T


class Attempt(NamedTuple):
    """Hyperparameters in some coordinates, the training set with its levels, and how well blocks were predicted."""

    training: TrainingSet
    prior: WeakPrior
    learnt: Learnt
    score: float


def prepared(
    training: TrainingSet,
    rows: Int[ndarray, " k"],
    settings: SparseGP,
    rng: np.random.Generator,
    *,
    learn: bool = False,
    by_value: bool = False,
) -> Attempt:
    """The prior in some coordinates; where values are noisy, their levels as an exact GP on a subset predicts them.

    With `learn` the hyperparameters are those of that GP, else where learning starts. `by_value` shapes the noise by
    the values themselves.
    """
    data = ShapedData.curved(training, training.values if by_value else training.level, settings.shaping)
    prior = weak_prior(data, training.level, settings, rng)
    noisy = bool((training.noise_sd > 0).any())
    if not (noisy or learn):
        return Attempt(training, prior, prior.start, -np.inf)
    subset = data.take(rows)
    found = prior.maximise(exact.evidence_and_gradient, subset, prior.start, EXACT_STEPS, EXACT_TOLERANCE)
    logger.info("exact GP on %d points: %d steps, evidence %.1f", len(subset.points), found.steps, found.value)
    learnt = Learnt.unpack(found.argument)
    if noisy:
        factors = exact.fit_factors(learnt.hyp, *subset.regression(learnt.log_strength))
        training = training.smoothed(*exact.predict(learnt.hyp, factors, training.points))
    return Attempt(training, prior, learnt, -np.inf)


class Contest(NamedTuple):
    """The same evaluations in blocks, on which surrogates in different coordinates are compared."""

    settings: SparseGP
    rows: Int[ndarray, " k"]
    blocks: list[Block]
    noise: Float[ndarray, " k"]

    @classmethod
    def on(cls, plain: Attempt, settings: SparseGP, rng: np.random.Generator) -> Contest:
        """Choose the evaluations and cut the blocks in plain coordinates."""
        training = plain.training
        data = ShapedData.shaped(training, settings)
        size = settings.trial_points_per_dimension * training.dimension
        rows = stratified_rows(data.points, training.level, size, rng)
        blocks = cut_blocks(data.points[rows], training.level[rows], rng)
        return cls(settings, rows, blocks, data.noise()[rows])

    def enter(self, first: Attempt, progress: Progress) -> Attempt:
        """A small sparse GP learns hyperparameters and predicts the blocks.

        It starts from the prior. Where an exact GP on a few points ended is no better start, and under noise may be a
        worse one: from length scales that are far too long there is no way back, because the bound is flat there.
        """
        training, prior = first.training, first.prior
        data = ShapedData.shaped(training, self.settings)
        some = data.take(self.rows)
        count = min(self.settings.trial_inducing_per_dimension * training.dimension, len(self.rows))
        learnt = learn_sparse(Learning(some, count), prior, prior.start, self.settings, progress).learnt
        inducing = some.points[greedy_inducing(learnt.hyp, some.points, some.noise(learnt.log_strength), count)]
        score = held_out_score(learnt.hyp, inducing, some.regression(learnt.log_strength), self.blocks, self.noise)
        logger.info("held-out blocks: log score %.3f", score)
        if (training.noise_sd > 0).any():
            factors, _ = sgpr.fit_factors(learnt.hyp, inducing, *data.regression(learnt.log_strength))
            mean = sgpr.predict_mean(learnt.hyp, factors, training.points)
            training = training.smoothed(mean, sgpr.predict_variance(learnt.hyp, factors, training.points))
        return Attempt(training, prior, learnt, score)
