"""What the evaluations leave open: hyperparameters and coordinates, learnt from parts of them and from other starts.

Surrogates that learn from different parts of the evaluations, one starting in plain and one in whitened coordinates,
differ by about as much as is unknown of the surrogate; and where one of them has got lost, they differ by more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import exact, sgpr
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.subset import stratified_rows
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.learning import Learning, better_rows, learn_sparse, weak_prior
from vsbq.steps.surrogate.shaped_data import Learnt, ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet

#: An exact GP on a subset is learnt in so many steps, or until a step gains less than this many nats.
EXACT_STEPS = 100
EXACT_TOLERANCE = 1e-2

#: Share of few evaluations that a sister learns from.
PART = 0.8

#: Nats of log probability for each evaluation by which a sister may explain all of them worse than the other one.
MOST_LOSS = 1.0

#: A direction in which the evaluations do not fall off is taken for one in which they fall off slowly.
LEAST_CURVATURE = 1e-3


class Proposal(NamedTuple):
    """Hyperparameters, and the training set in the coordinates that they are for."""

    training: TrainingSet
    learnt: Learnt


def with_levels(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, *, by_value: bool = False
) -> Proposal:
    """An exact GP on a subset; where values are noisy, the levels of all evaluations are what it predicts.

    `by_value` shapes the noise by the values themselves.
    """
    data = ShapedData.curved(training, training.values if by_value else training.level, settings.shaping)
    prior = weak_prior(data, training.level, settings, rng)
    subset = data.take(stratified_rows(training.points, training.level, settings.exact_points, rng))
    found = prior.maximise(exact.evidence_and_gradient, subset, prior.start, EXACT_STEPS, EXACT_TOLERANCE)
    logger.info("exact GP on %d points: %d steps, evidence %.1f", len(subset.points), found.steps, found.value)
    learnt = prior.unpack(found.argument)
    if training.noisy:
        factors = exact.fit_factors(learnt.hyp, *subset.regression(learnt.log_strength))
        training = training.smoothed(*exact.predict(learnt.hyp, factors, training.points))
    return Proposal(training, learnt)


def learn_sisters(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> list[Proposal]:
    """Two surrogates from two parts of the evaluations, the more probable one first.

    One that explains all of them far worse than the other has got lost on its way from its own start: it learns again
    from where the other one ended.
    """
    size = 2 * settings.trial_points_per_dimension * training.dimension
    rows = rng.permutation(stratified_rows(training.points, training.level, size, rng))
    # Parts of many evaluations share none; of few evaluations each needs most.
    count = len(rows) // 2 if len(rows) >= size else max(round(PART * len(rows)), 1)
    parts = [np.sort(rows[:count]), np.sort(rows[-count:])]
    starts = [training, training.turned(whitening(training, rng)) if settings.turn else training]
    found = [_learn(start, None, part, settings, rng, progress) for start, part in zip(starts, parts, strict=True)]
    bounds = [_bound(one, np.sort(rows), settings) for one in found]
    best = int(np.argmax(bounds))
    first, second = found[best], found[1 - best]
    if not (bounds[best] - bounds[1 - best]) / len(rows) <= MOST_LOSS:
        logger.info("a sister is less probable by %.2f nats an evaluation", (max(bounds) - min(bounds)) / len(rows))
        second = _learn(first.training, first.learnt, parts[1 - best], settings, rng, progress)
    return [first, second]


def sister_from(proposal: Proposal, settings: SparseGP, rng: np.random.Generator, progress: Progress) -> Proposal:
    """A surrogate that learns from a part of the evaluations, from where another one ended."""
    training, size = proposal.training, settings.trial_points_per_dimension * proposal.training.dimension
    count = min(size, max(round(PART * len(training)), 1))
    rows = stratified_rows(training.points, training.level, count, rng)
    return _learn(training, proposal.learnt, np.sort(rows), settings, rng, progress)


def whitening(training: TrainingSet, rng: np.random.Generator) -> Float[ndarray, "d d"]:
    """Coordinates in which the better evaluations, as far as a quadratic can tell, fall off alike in all directions.

    The covariance of the better points, thinned, gives a first guess, which is a unit curvature in its own coordinates.
    A regression on all products of coordinates corrects it as far as there are evaluations to tell.
    """
    d = training.dimension
    near = better_rows(training.points, training.level, POSTERIOR, rng)
    first = _root(np.linalg.inv(_covariance(training.points[near])))
    rows = better_rows(training.points, training.level, SURROUNDINGS, rng, count=5 * d * d)
    x = (training.points[rows] - training.points[near].mean(axis=0)) @ first.T
    i, j = np.triu_indices(d)
    design = np.column_stack([np.ones(len(x)), x, np.where(i == j, 0.5, 1.0) * x[:, i] * x[:, j]])
    depth = training.level.max() - training.values[rows]
    weight = 1.0 / np.sqrt(training.noise_sd[rows] ** 2 + (0.1 * np.maximum(depth, 0.0) + 0.01) ** 2)
    expected = np.where(i == j, -1.0, 0.0)
    # Curvatures are near their first guess unless evaluations say otherwise; height and slope may be anything.
    vague = np.concatenate([np.full(d + 1, 1e-6), np.ones(len(i))])
    target = np.concatenate([training.values[rows] * weight, np.zeros(d + 1), expected])
    solution = np.linalg.lstsq(np.concatenate([design * weight[:, None], np.diag(vague)]), target, rcond=None)[0]
    curvature = np.empty((d, d))
    curvature[i, j] = curvature[j, i] = -solution[d + 1 :]
    return _root(curvature, least=LEAST_CURVATURE) @ first


def _covariance(points: Float[ndarray, "n d"]) -> Float[ndarray, "d d"]:
    """The covariance of some points, where need be with a little width in directions that they do not have."""
    cov = np.atleast_2d(np.cov(points.T))
    return cov + (1e-12 * float(np.trace(cov)) + 1e-300) * np.eye(len(cov))


def _root(matrix: Float[ndarray, "d d"], least: float = 0.0) -> Float[ndarray, "d d"]:
    """The symmetric root of a symmetric matrix, its eigenvalues raised to at least that: it turns the axes least."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, least))) @ vectors.T)


def _learn(
    training: TrainingSet,
    start: Learnt | None,
    rows: Int[ndarray, " k"],
    settings: SparseGP,
    rng: np.random.Generator,
    progress: Progress,
) -> Proposal:
    """A small sparse GP of some evaluations, by default from the prior.

    Where an exact GP on a few points ended is no better start, and under noise may be a worse one: from length scales
    that are far too long there is no way back, because the bound is flat there.
    """
    data = ShapedData.shaped(training, settings)
    prior = weak_prior(data, training.level, settings, rng, turn=settings.turn)
    learning = Learning(data.take(rows), min(settings.trial_inducing_per_dimension * training.dimension, len(rows)))
    learnt = learn_sparse(learning, prior, start or prior.start, settings, progress).learnt
    return Proposal(training.turned(learnt.coordinates), learnt.at_home())


def _bound(proposal: Proposal, rows: Int[ndarray, " k"], settings: SparseGP) -> float:
    """The GP-ELBO of some evaluations as they are proposed."""
    data = ShapedData.shaped(proposal.training, settings).take(rows)
    points, values, noise = data.regression(proposal.learnt.log_strength)
    count = min(settings.trial_inducing_per_dimension * points.shape[1], len(points))
    hyp = proposal.learnt.hyp
    try:
        bound = sgpr.fit_factors(hyp, points[greedy_inducing(hyp, points, noise, count)], points, values, noise)[1]
    except NotPositiveDefinite:
        return -np.inf
    return bound if np.isfinite(bound) else -np.inf
