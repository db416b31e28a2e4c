"""In which coordinates the surrogate works: plain or whitened, whichever predicts held-out evaluations better."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.calibration import Block, cut_blocks, held_out_score
from vsbq.learning import Learning, better_rows, learn_sparse, objective_of, weak_prior
from vsbq.numerics import exact, sgpr
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.optimise import GaussianPrior, maximise_with_prior
from vsbq.numerics.subset import stratified_rows
from vsbq.progress import Progress, logger
from vsbq.shaped_data import ShapedData, SparseGP
from vsbq.trim import TrainingSet

#: Nats per held-out evaluation by which other coordinates have to be better than the plain ones.
COORDINATE_GAIN = 0.02


def first_hyperparameters(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[TrainingSet, GaussianPrior, Float[ndarray, " p"]]:
    """Hyperparameters to start with, and the training set in the coordinates in which held-out blocks are predicted
    best, with levels where its values are noisy."""
    rows = stratified_rows(training.points, training.level, settings.exact_points, rng)
    plain = learn_exact(training, rows, settings, rng)
    if not settings.whiten or training.dimension == 1:
        return plain.training, plain.prior, plain.theta
    contest = Contest.on(plain, settings, rng)
    best = contest.enter(plain, progress)
    turned = best.training.rotate(whitening(best.training, rng))
    other = contest.enter(learn_exact(turned, rows, settings, rng), progress)
    best = other if other.score > best.score + COORDINATE_GAIN else best
    return best.training, best.prior, best.theta


def whitening(training: TrainingSet, rng: np.random.Generator) -> Float[ndarray, "d d"]:
    """The symmetric root of the inverse covariance of the better points, thinned: it turns the axes least."""
    near = better_rows(training.points, training.level, 3.0, rng)
    cov = np.cov(training.points[near].T)
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values, 1e-12 * values[-1])
    return (vectors / np.sqrt(values)) @ vectors.T


class Attempt(NamedTuple):
    """Hyperparameters in some coordinates, the training set with its levels, and how well blocks were predicted."""

    training: TrainingSet
    prior: GaussianPrior
    theta: Float[ndarray, " p"]
    score: float


def learn_exact(
    training: TrainingSet, rows: Int[ndarray, " k"], settings: SparseGP, rng: np.random.Generator
) -> Attempt:
    """Hyperparameters of an exact GP on a subset, whose predictions are the levels of noisy values."""
    data = ShapedData.shaped(training, settings)
    prior, start = weak_prior(data, training.level, settings, rng)
    subset = data.take(rows)
    evidence = objective_of(exact.evidence_and_gradient, subset)
    found = maximise_with_prior(evidence, start, prior, steps=100, tolerance=1e-2)
    logger.info("exact GP on %d points: %d steps, evidence %.1f", len(subset.points), found.steps, found.value)
    if (training.noise_sd > 0).any():
        hyp = Hyperparameters.unpack(found.argument[:-1])
        factors = exact.fit_factors(hyp, *subset.regression(found.argument[-1]))
        training = training.smoothed(*exact.predict(hyp, factors, training.points))
    return Attempt(training, prior, found.argument, -np.inf)


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
        return cls(settings, rows, blocks, data.noise(0.0)[rows])

    def enter(self, first: Attempt, progress: Progress) -> Attempt:
        """A small sparse GP learns hyperparameters and predicts the blocks.

        It starts from the prior. Where an exact GP on a few points ended is no better start, and under noise may be a
        worse one: from length scales that are far too long there is no way back, because the bound is flat there.
        """
        training, prior = first.training, first.prior
        data = ShapedData.shaped(training, self.settings)
        some = data.take(self.rows)
        count = min(self.settings.trial_inducing_per_dimension * training.dimension, len(self.rows))
        start = np.clip(prior.mean, prior.lower, prior.upper)
        theta = learn_sparse(Learning(some, count), prior, start, self.settings, progress)[0]
        hyp = Hyperparameters.unpack(theta[:-1])
        inducing = some.points[greedy_inducing(hyp, some.points, some.noise(theta[-1]), count)]
        score = held_out_score(hyp, inducing, some.regression(theta[-1]), self.blocks, self.noise)
        logger.info("held-out blocks: log score %.3f", score)
        if (training.noise_sd > 0).any():
            factors, _ = sgpr.fit_factors(hyp, inducing, *data.regression(theta[-1]))
            mean = sgpr.predict_mean(hyp, factors, training.points)
            training = training.smoothed(mean, sgpr.predict_variance(hyp, factors, training.points))
        return Attempt(training, prior, theta, score)
