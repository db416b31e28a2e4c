"""What the evaluations leave open: hyperparameters and coordinates, learnt from parts of them and from other starts.

Surrogates that learn from different parts of the evaluations, one starting in plain and one in whitened coordinates,
differ by about as much as is unknown of the surrogate; and where one of them has got lost, they differ by more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Int, ndarray
from vsbq.data.transform import WhitenedSpace
from vsbq.numerics import exact
from vsbq.numerics.contours import POSTERIOR, near_top
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.observations import fit_factors
from vsbq.numerics.subset import stratified_rows
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.learning import Learning, LearntSparse, learn_sparse, weak_prior
from vsbq.steps.surrogate.quadratic import Quadratic, fit_quadratic
from vsbq.steps.surrogate.shaped_data import NUGGET, Learnt, ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet

#: An exact GP on a subset is learnt in so many steps, or until a step gains less than this many nats.
EXACT_STEPS = 100
EXACT_TOLERANCE = 1e-2

#: Share of few evaluations that a sister learns from.
PART = 0.8

#: Nats of log probability for each evaluation by which a sister may explain all of them worse than the other one.
MOST_LOSS = 0.05

#: Nats that a paraboloid leaves of the evaluations at least.
LEAST_REST = 0.01

#: A direction in which the evaluations do not fall off is taken for one in which they fall off slowly.
LEAST_CURVATURE = 1e-3


class Proposal(NamedTuple):
    """Hyperparameters, the training set in the coordinates that they are for, and how the last learning went."""

    training: TrainingSet
    learnt: Learnt
    bounds: tuple[float, ...] = ()
    failures: int = 0
    anew: bool = False  # learnt anew from the prior, because the sisters' hyperparameters were a poor start

    @classmethod
    def of(cls, training: TrainingSet, found: LearntSparse, *, anew: bool = False) -> Proposal:
        """What was learnt, with the training set moved to its coordinates."""
        learnt = found.learnt
        return cls(training.turned(learnt.coordinates), learnt.at_home(), found.bounds, found.failures, anew)


def with_levels(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, *, by_value: bool = False
) -> Proposal:
    """An exact GP on a subset; where values are noisy, the levels of all evaluations are what it predicts.

    `by_value` shapes the noise by the values themselves.
    """
    data = ShapedData.curved(training, training.values if by_value else training.level, settings.shaping)
    data = data._replace(gradients=None)  # there are none beside noise
    prior = weak_prior(data, training.level, settings, rng)
    subset = data.take(stratified_rows(training.points, training.level, settings.exact_points, rng))
    found = prior.maximise(exact.evidence_and_gradient, subset, prior.start, EXACT_STEPS, EXACT_TOLERANCE)
    logger.info("exact GP on %d points: %d steps, evidence %.1f", len(subset.points), found.steps, found.value)
    learnt = prior.unpack(found.argument)
    if training.noisy:
        factors = exact.fit_factors(learnt.hyp, *subset.regression(learnt.log_strength)[:3])
        training = training.smoothed(*exact.predict(learnt.hyp, factors, training.points))
    return Proposal(training, learnt)


def learn_sisters(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> list[Proposal]:
    """Two surrogates from two parts of the evaluations, the more probable one first.

    One that explains all of them far worse than the other has got lost on its way from its own start: it learns again
    from where the other one ended.
    """
    size = 2 * settings.coarse[-1].points * training.dimension
    rows = rng.permutation(stratified_rows(training.points, training.level, size, rng))
    # Parts of many evaluations share none; of few evaluations each needs most.
    count = len(rows) // 2 if len(rows) >= size else max(round(PART * len(rows)), 1)
    parts = [rows[:count], rows[::-1][:count]]
    starts = _starts(training, rng) if settings.turn else [(training, None), (training, None)]
    found = [
        _learn(start, None, part, settings, rng, progress, paraboloid)
        for (start, paraboloid), part in zip(starts, parts, strict=True)
    ]
    bounds = [_bound(one, np.sort(rows), settings) for one in found]
    best = int(np.argmax(bounds))
    first, second = found[best], found[1 - best]
    if not (bounds[best] - bounds[1 - best]) / len(rows) <= MOST_LOSS:
        logger.info("a sister is less probable by %.1f nats", max(bounds) - min(bounds))
        second = _learn(first.training, first.learnt, parts[1 - best], settings, rng, progress)
    return [first, second]


def _starts(training: TrainingSet, rng: np.random.Generator) -> list[tuple[TrainingSet, Quadratic | None]]:
    """Plain coordinates, and those in which a paraboloid through the better evaluations is round; each with that."""
    paraboloid = fit_quadratic(training.points, training.values, training.noise_sd**2 + NUGGET, training.level, rng)
    return [(training, paraboloid), (training.turned(paraboloid.whitening), paraboloid.turned(paraboloid.whitening))]


def ranked(proposals: list[Proposal], settings: SparseGP, rng: np.random.Generator) -> list[Proposal]:
    """The most probable one first, by evaluations that represent all of them."""
    training = proposals[0].training
    rows = stratified_rows(training.points, training.level, settings.fine.points * training.dimension, rng)
    return sorted(proposals, key=lambda one: -_bound(one, rows, settings))


def sister_from(proposal: Proposal, settings: SparseGP, rng: np.random.Generator, progress: Progress) -> Proposal:
    """A surrogate that learns from a part of the evaluations, from where another one ended."""
    training, size = proposal.training, settings.coarse[-1].points * proposal.training.dimension
    count = min(size, max(round(PART * len(training)), 1))
    rows = rng.permutation(stratified_rows(training.points, training.level, count, rng))
    return _learn(training, proposal.learnt, rows, settings, rng, progress)


def _learn(
    training: TrainingSet,
    start: Learnt | None,
    rows: Int[ndarray, " k"],
    settings: SparseGP,
    rng: np.random.Generator,
    progress: Progress,
    paraboloid: Quadratic | None = None,
) -> Proposal:
    """Small sparse GPs of some evaluations (in random order), from coarse to fine; by default from the prior or a
    paraboloid, whichever is more probable.

    Where an exact GP on a few points ended is no better start, and under noise may be a worse one: from length scales
    that are far too long there is no way back, because the bound is flat there.
    """
    data = ShapedData.shaped(training, settings)
    prior = weak_prior(data, training.level, settings, rng, turn=settings.turn)
    levels = (
        settings.coarse if start is None else settings.coarse[-1:]
    )  # few evaluations would lead a good start astray
    parts = [np.sort(rows[: level.points * training.dimension]) for level in levels]
    if start is None:
        starts = (
            [prior.start] if paraboloid is None else [prior.start, on_paraboloid(paraboloid, prior.start, training)]
        )
        proposals = [Proposal(training.turned(one.coordinates), one.at_home()) for one in starts]
        start = starts[int(np.argmax([_bound(one, parts[0], settings) for one in proposals]))]
    found = LearntSparse(start, (), 0)
    for level, part in zip(levels, parts, strict=True):
        found = learn_sparse(Learning.at(level, data.take(part)), prior, found.learnt, progress)
    return Proposal.of(training, found)


def on_paraboloid(paraboloid: Quadratic, start: Learnt, training: TrainingSet) -> Learnt:
    """Where learning starts if the mean is that paraboloid, and the kernel explains what it leaves."""
    near = near_top(training.level, POSTERIOR, training.dimension)
    rest = training.values[near] - paraboloid.values(training.points[near])
    b, scales = paraboloid.triangular()
    mean = start.hyp._replace(
        log_output=float(np.log(max(np.sqrt(np.mean(rest**2)), LEAST_REST))),
        mean_top=paraboloid.top,
        mean_location=paraboloid.location,
        mean_log_widths=np.log(scales),
    )
    return start._replace(hyp=mean, shear=b[np.tril_indices(len(b), -1)])


def _bound(proposal: Proposal, rows: Int[ndarray, " k"], settings: SparseGP) -> float:
    """The GP-ELBO of some evaluations as they are proposed; gradients are those of plain coordinates."""
    data, count, *_ = Learning.at(settings.coarse[-1], ShapedData.shaped(proposal.training, settings).take(rows))
    regression, hyp = data.regression(proposal.learnt.log_strength), proposal.learnt.hyp
    points, owner = data.candidates(hyp)
    chosen = greedy_inducing(hyp, points, regression.noise_variance[owner], count)
    try:
        bound = fit_factors(hyp, points[chosen], regression)[1]
    except NotPositiveDefinite:
        return -np.inf
    slopes, space = regression.slopes, proposal.training.space
    if slopes is not None and isinstance(space, WhitenedSpace):
        bound -= space.log_determinant * len(slopes.points)
    return bound if np.isfinite(bound) else -np.inf
