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
from vsbq.numerics import sgpr
from vsbq.numerics.contours import POSTERIOR, near_top
from vsbq.numerics.drift import fit_drift
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.calibration import calibrate
from vsbq.steps.surrogate.learning import learn_sparse, learning_set, weak_prior
from vsbq.steps.surrogate.model import Sister, Surrogate
from vsbq.steps.surrogate.shaped_data import Learnt, Regression, ShapedData, SparseGP
from vsbq.steps.surrogate.sisters import Proposal, learn_sisters, sister_from, with_levels
from vsbq.steps.trim import TrainingSet


def fit_sparse_gp(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
    """Hyperparameters from subsets, inducing points from all evaluations, more of both while the fit is poor.

    Also returns the training set in the coordinates in which the surrogate works: rotated where that explains the
    evaluations better.
    """
    if training.noisy:
        training = with_levels(training, settings, rng).training
    first, *others = learn_sisters(training, settings, rng, progress)
    training, learnt = first
    data = ShapedData.shaped(training, settings)
    count, grown, lost = settings.first_inducing(training.dimension), False, False
    pool = np.sort(rng.permutation(len(training))[: settings.max_candidates])
    while True:
        prior = weak_prior(data, training.level, settings, np.random.default_rng(0), turn=settings.turn)
        learning = learning_set(data, training.level, settings, count, rng)
        learnt, bounds, failures = learn_sparse(learning, prior, learnt, settings, progress)
        if grown:  # from hyperparameters that take a poor fit for noise there may be no way to better ones
            again = learn_sparse(learning, prior, prior.start, settings, progress)
            lost = max(again.bounds) > max(bounds)
            learnt, bounds, failures = again if lost else (learnt, bounds, failures)
        training, data, learnt = training.turned(learnt.coordinates), data.turned(learnt.coordinates), learnt.at_home()
        fitted = fit_proposal(Proposal(training, learnt), pool, count, settings)
        miss = high_density_miss(training, fitted.mean)
        inducing = len(fitted.plain.inducing)
        logger.info("%d inducing points: bound %.1f, miss %.3f nats", inducing, fitted.bound, miss)
        enough = miss <= settings.tolerable_miss or inducing >= len(data.points)
        most = settings.last_inducing(training.dimension)
        if enough or count == most:
            break
        count, grown = min(2 * count, most), True
    if lost:
        others = [sister_from(Proposal(training, learnt), settings, rng, progress)]
    surrogate, training, held_out = checked(fitted, training, rng.spawn(1)[0])
    sisters = [sister_of(training, one, pool, count, settings) for one in (*others, first)[: settings.sisters]]
    surrogate = replace(surrogate, sisters=tuple(sister for sister in sisters if sister is not None))
    return surrogate, training, told(surrogate, fitted, bounds, miss, failures, held_out)


def fit_proposal(proposal: Proposal, pool: Int[ndarray, " p"], count: int, settings: SparseGP) -> FittedGP:
    """The sparse GP of all evaluations with proposed hyperparameters and coordinates."""
    training, learnt = proposal
    data = ShapedData.shaped(training, settings)
    noise = data.noise(learnt.log_strength)
    rows = pool[greedy_inducing(learnt.hyp, data.points[pool], noise[pool], min(count, len(pool)))]
    regression = data.tempered(training, settings.shaping.noise_growth).regression(learnt.log_strength)
    return fit_all(learnt, data.points[rows], regression, settings.residual_passes)


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
    return Sister(turn, shift, fitted.learnt.hyp, sgpr.Mean(fitted.passed.inducing, fitted.passed.weights))


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
        plain, bound = sgpr.fit_factors(learnt.hyp, inducing, *regression)
    except NotPositiveDefinite as error:
        raise FitError(
            "The kernel matrix of the surrogate cannot be factorised. Check the evaluations for parameters that "
            "move together or values that jump; vsbq.audit(evaluations) lists what looks odd."
        ) from error
    passed = sgpr.with_residual_passes(learnt.hyp, plain, *regression, passes)
    return FittedGP(learnt, regression, plain, passed, passes, bound)


def checked(
    fitted: FittedGP, training: TrainingSet, rng: np.random.Generator
) -> tuple[Surrogate, TrainingSet, tuple[float, ...]]:
    """The surrogate after a test on held-out blocks, the training set with the levels that it predicts, and the errors
    of the blocks."""
    hyp = fitted.learnt.hyp
    axes = training.space.to_plain(np.eye(training.dimension)).T  # rows: the parameters' own directions
    found = calibrate(hyp, fitted.plain.inducing, fitted.regression, training.level, rng, fitted.passes, axes)
    logger.info("held-out blocks: %d residual passes; believed %.2f nats above the top", found.passes, found.rise)
    factors = fitted.passed if found.passes else fitted.plain
    points, _, noise = fitted.regression
    surrogate = Surrogate(
        training.space,
        hyp,
        factors,
        training.offset,
        found.without,
        found.tested,
        found.sides,
        rise=found.rise,
        drift=fit_drift(hyp, fitted.plain, points, noise),
    )
    if (training.noise_sd > 0).any():
        training = training.smoothed(surrogate.mean(training.points), surrogate.variance(training.points))
    return surrogate, training, found.errors


def told(
    surrogate: Surrogate,
    fitted: FittedGP,
    bounds: tuple[float, ...],
    miss: float,
    failures: int,
    held_out: tuple[float, ...] = (),
) -> SurrogateFit:
    """How the surrogate came about, for the report."""
    return SurrogateFit(
        bound=fitted.bound,
        bounds_by_round=bounds,
        inducing=len(surrogate.inducing),
        jitter=surrogate.factors.jitter,
        miss=miss,
        shaping_strength=fitted.learnt.strength,
        failures=failures,
        rotated=isinstance(surrogate.space, WhitenedSpace),
        held_out=held_out,
    )


def high_density_miss(training: TrainingSet, mean: Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]) -> float:
    """Root mean square residual of the evaluations within three sigma of the top, less what their noise explains."""
    near = near_top(training.level, POSTERIOR, training.dimension)
    residual = training.values[near] - mean(training.points[near])
    excess = np.mean(residual**2) - np.mean(training.noise_sd[near] ** 2)
    # With noise, the mean square itself fluctuates; only what is beyond two standard errors counts as a miss.
    error = np.sqrt(2 * np.mean(training.noise_sd[near] ** 4) / max(1, int(near.sum())))
    return float(np.sqrt(max(excess - 2 * error, 0.0)))
