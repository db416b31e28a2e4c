"""Step 2: a sparse Gaussian process of the log density, with noise shaping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.data.transform import WhitenedSpace
from vsbq.errors import FitError
from vsbq.history import SurrogateFit
from vsbq.numerics import observations, sgpr
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS, near_top
from vsbq.numerics.drift import fit_drift
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.observations import Regression
from vsbq.numerics.subset import stratified_rows
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.calibration import Calibration, beyond_noise, calibrate
from vsbq.steps.surrogate.learning import Learning, learn_sparse, weak_prior
from vsbq.steps.surrogate.model import Sister, Surrogate
from vsbq.steps.surrogate.shaped_data import Learnt, Level, ShapedData, SparseGP
from vsbq.steps.surrogate.sisters import PART, Proposal, learn_sisters, ranked, sister_from, with_levels
from vsbq.steps.trim import TrainingSet


def fit_sparse_gp(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
    """Hyperparameters from subsets, coarse to fine while held-out evaluations are missed; inducing points from all.

    Also returns the training set in the coordinates in which the surrogate works: turned where that explains the
    evaluations better.
    """
    if training.noisy:
        training = with_levels(training, settings, rng).training
    first, *others = learn_sisters(training, settings, rng, progress)
    pool, proposal = candidates(training, settings, rng), first
    count, most = settings.first_inducing(training.dimension), settings.last_inducing(training.dimension)
    few = len(training) < 2 * settings.coarse[-1].points * training.dimension  # so that sisters share some
    if training.noisy or few:
        proposal = learn_finer(first, settings.fine, False, settings, rng, progress)
    if training.noisy:  # each evaluation tells less
        others = [learn_finer(one, settings.fine, False, settings, rng, progress, part=PART) for one in others]
        proposal, *others = ranked([proposal, *others], settings, rng)
    tried = tried_out(proposal, pool, count, settings, rng.spawn(1)[0])
    if proposal is first and max(tried.miss, tried.found.missed) > settings.tolerable_miss:
        proposal = learn_finer(proposal, settings.fine, tried.poor(settings), settings, rng, progress)
        tried = tried_out(proposal, pool, count, settings, rng.spawn(1)[0])
    if tried.poor(settings):
        proposal = learn_finer(proposal, settings.finest, True, settings, rng, progress)
        tried = tried_out(proposal, pool, most, settings, rng.spawn(1)[0])
    if tried.proposal.anew:
        others = [sister_from(tried.proposal, settings, rng, progress)]
    surrogate, training = settled(tried)
    sisters = [sister_of(training, one, pool, tried.allowed, settings) for one in (*others, first)[: settings.sisters]]
    surrogate = replace(surrogate, sisters=tuple(sister for sister in sisters if sister is not None))
    return surrogate, training, told(surrogate, tried)


def candidates(training: TrainingSet, settings: SparseGP, rng: np.random.Generator) -> Int[ndarray, " p"]:
    """Rows among which inducing points are looked for: of many evaluations some, half of them high ones."""
    rows = rng.permutation(len(training))
    if len(rows) <= settings.max_candidates:
        return np.sort(rows)
    high = near_top(training.level, SURROUNDINGS, training.dimension)[rows]
    first, half = rows[high], settings.max_candidates // 2
    return np.unique(np.concatenate([first[:half], rows[: settings.max_candidates - min(half, len(first))]]))


def learn_finer(
    proposal: Proposal,
    level: Level,
    poor: bool,
    settings: SparseGP,
    rng: np.random.Generator,
    progress: Progress,
    *,
    part: float = 1.0,
) -> Proposal:
    """Learning goes on with more evaluations and inducing points; also from the prior where the fit is poor, because
    from hyperparameters that take a poor fit for noise there may be no way to better ones."""
    training = proposal.training
    data = ShapedData.shaped(training, settings)
    prior = weak_prior(data, training.level, settings, np.random.default_rng(0), turn=settings.turn)
    size = min(level.points * training.dimension, settings.max_learning_points, round(part * len(training)))
    learning = Learning.at(level, data.take(stratified_rows(data.points, training.level, size, rng)))
    found = learn_sparse(learning, prior, proposal.learnt, progress)
    other = learn_sparse(learning, prior, prior.start, progress) if poor else found
    anew = max(other.bounds) > max(found.bounds)
    return Proposal.of(training, other if anew else found, anew=anew or proposal.anew)


class TriedOut(NamedTuple):
    """A sparse GP of all evaluations and what holding out some of them shows."""

    proposal: Proposal
    allowed: int  # inducing points at the most
    fitted: FittedGP
    found: Calibration
    miss: float  # nats by which high evaluations are missed beyond their noise

    def poor(self, settings: SparseGP) -> bool:
        """Whether even evaluations that it was fitted to are missed, and more inducing points may help."""
        return self.miss > settings.tolerable_miss and len(self.fitted.plain.inducing) < len(self.proposal.training)


def tried_out(
    proposal: Proposal, pool: Int[ndarray, " p"], count: int, settings: SparseGP, rng: np.random.Generator
) -> TriedOut:
    """The sparse GP of all evaluations with proposed hyperparameters, tested on held-out blocks."""
    return tested(proposal, fit_proposal(proposal, pool, count, settings), count, rng)


def tested(proposal: Proposal, fitted: FittedGP, count: int, rng: np.random.Generator) -> TriedOut:
    """A sparse GP of all evaluations after a test on held-out blocks."""
    training, hyp = proposal.training, fitted.learnt.hyp
    axes = training.space.to_plain(np.eye(training.dimension)).T  # rows: the parameters' own directions
    found = calibrate(
        *(hyp, fitted.plain.inducing, fitted.regression, training.level, rng),
        passes=fitted.passes,
        axes=axes,
        observed=training.noise_sd**2,
    )
    miss = high_density_miss(training, fitted.mean)
    inducing = len(fitted.plain.inducing)
    logger.info("%d inducing points: bound %.1f, miss %.3f nats", inducing, fitted.bound, miss)
    logger.info(
        "held-out blocks: missed by %.3f nats, %d residual passes; believed %.2f nats above the top",
        *(found.missed, found.passes, found.rise),
    )
    return TriedOut(proposal, count, fitted, found, miss)


def fit_proposal(proposal: Proposal, pool: Int[ndarray, " p"], count: int, settings: SparseGP) -> FittedGP:
    """The sparse GP of all evaluations with proposed hyperparameters and coordinates."""
    training, learnt = proposal.training, proposal.learnt
    data = ShapedData.shaped(training, settings)
    points, owner = data.take(pool).candidates(learnt.hyp)
    noise = data.noise(learnt.log_strength)[pool][owner]
    stand_for = len(training) / len(pool)
    rows = greedy_inducing(learnt.hyp, points, noise, min(count, len(points)), stand_for)
    regression = data.tempered(training, settings.shaping.noise_growth).regression(learnt.log_strength)
    return fit_all(learnt, points[rows], regression, settings.residual_passes)


def sister_of(
    main: TrainingSet, proposal: Proposal, pool: Int[ndarray, " p"], count: int, settings: SparseGP
) -> Sister | None:
    """A sister of the main surrogate, fitted to all evaluations; None if its kernel cannot be factorised."""
    there = proposal.training
    turn = there.space.from_plain(main.space.to_plain(np.eye(main.dimension))).T
    shift = float(np.linalg.slogdet(turn)[1])
    # It sees the levels of the main one, in its own coordinates.
    there = replace(there, level=main.level - shift)
    try:
        fitted = fit_proposal(proposal._replace(training=there), pool, count, settings)
    except FitError:
        return None
    logger.info("sister: %d inducing points, bound %.1f", len(fitted.plain.inducing), fitted.bound)
    posterior = sgpr.Mean(fitted.passed.inducing, fitted.passed.weights)
    return Sister(turn, shift, fitted.learnt.hyp, posterior, fitted.learnt.strength)


class FittedGP(NamedTuple):
    """A sparse GP of all evaluations, not yet tested on held-out ones."""

    learnt: Learnt
    regression: Regression
    plain: sgpr.Factors
    passed: sgpr.Factors  # after residual passes
    passes: int
    bound: float

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The posterior mean after residual passes."""
        return sgpr.predict_mean(self.learnt.hyp, self.passed, u)


def fit_all(learnt: Learnt, inducing: Float[ndarray, "m d"], regression: Regression, passes: int) -> FittedGP:
    """The sparse GP of all evaluations, with residual passes, and its bound."""
    try:
        plain, bound = observations.fit_factors(learnt.hyp, inducing, regression)
    except NotPositiveDefinite as error:
        raise FitError(
            "The kernel matrix of the surrogate cannot be factorised. Check the evaluations for parameters that "
            "move together or values that jump; vsbq.audit(evaluations) lists what looks odd."
        ) from error
    passed = observations.with_residual_passes(learnt.hyp, plain, regression, passes)
    return FittedGP(learnt, regression, plain, passed, passes, bound)


def settled(tried: TriedOut) -> tuple[Surrogate, TrainingSet]:
    """The surrogate, and the training set with the levels that it predicts."""
    training, fitted, found = tried.proposal.training, tried.fitted, tried.found
    points, _, noise, gradients = fitted.regression
    surrogate = Surrogate(
        training.space,
        fitted.learnt.hyp,
        fitted.passed if found.passes else fitted.plain,
        training.offset,
        found.without,
        found.tested,
        found.sides,
        rise=found.rise,
        drift=fit_drift(fitted.learnt.hyp, fitted.plain, points, noise, gradients),
        passes=found.passes,
    )
    if (training.noise_sd > 0).any():
        training = training.smoothed(surrogate.mean(training.points), surrogate.variance(training.points))
    return surrogate, training


def told(surrogate: Surrogate, tried: TriedOut) -> SurrogateFit:
    """How the surrogate came about, for the report."""
    return SurrogateFit(
        bound=tried.fitted.bound,
        bounds_by_round=tried.proposal.bounds,
        inducing=len(surrogate.inducing),
        jitter=surrogate.factors.jitter,
        miss=tried.miss,
        shaping_strength=tried.fitted.learnt.strength,
        failures=tried.proposal.failures,
        rotated=isinstance(surrogate.space, WhitenedSpace),
        held_out=tried.found.errors,
    )


def high_density_miss(training: TrainingSet, mean: Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]) -> float:
    """Root mean square residual of the evaluations within three sigma of the top, less what their noise explains."""
    near = near_top(training.level, POSTERIOR, training.dimension)
    return beyond_noise(training.values[near] - mean(training.points[near]), training.noise_sd[near] ** 2)
