"""Step 2: a sparse Gaussian process of the log density, with noise shaping."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.transform import WhitenedSpace
from vsbq.errors import FitError
from vsbq.history import SurrogateFit
from vsbq.numerics import sgpr
from vsbq.numerics.contours import POSTERIOR, near_top
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.calibration import calibrate
from vsbq.steps.surrogate.contradiction import correct
from vsbq.steps.surrogate.coordinates import first_attempt
from vsbq.steps.surrogate.learning import learn_sparse, learning_set
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Learnt, Regression, ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet


def fit_sparse_gp(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
    """Hyperparameters from subsets, inducing points from all evaluations, more of both while the fit is poor.

    Also returns the training set in the coordinates in which the surrogate works: rotated where that explains the
    evaluations better.
    """
    training, prior, learnt, _ = first_attempt(training, settings, rng, progress)
    data = ShapedData.shaped(training, settings)
    count = settings.first_inducing(training.dimension)
    overruled, corrections, learn = np.zeros(len(training), dtype=bool), 0, True
    pool = np.sort(rng.permutation(len(training))[: settings.max_candidates])
    while True:
        if learn:
            learning = learning_set(data, training.level, settings, count, rng)
            learnt, bounds, failures = learn_sparse(learning, prior, learnt, settings, progress)
        noise = data.noise(learnt.log_strength)
        rows = pool[greedy_inducing(learnt.hyp, data.points[pool], noise[pool], min(count, len(pool)))]
        regression = data.tempered(training, settings.shaping.noise_growth).regression(learnt.log_strength)
        fitted = fit_all(learnt, data.points[rows], regression, settings.residual_passes)
        corrected = correct(training, overruled, fitted.mean, settings)
        if corrected is not None and corrections < settings.corrections:
            pool = np.append(pool, np.arange(len(training), len(corrected.training)))
            # A correction may do with the hyperparameters as they are. If it does not, there may be no way from them to
            # better ones: start again.
            training, overruled, data, learn = corrected
            corrections += 1
            learnt = prior.start if learn else learnt
            continue
        miss = high_density_miss(training, fitted.mean)
        logger.info("%d inducing points: bound %.1f, miss %.3f nats", len(rows), fitted.bound, miss)
        enough = miss <= settings.tolerable_miss or len(rows) < count or len(rows) >= len(data.points)
        most = settings.last_inducing(training.dimension)
        if enough or count == most:
            break
        count, learn = min(2 * count, most), True
    surrogate, training = checked(fitted, training, rng.spawn(1)[0])
    return surrogate, training, told(surrogate, fitted, bounds, miss, failures)


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


def checked(fitted: FittedGP, training: TrainingSet, rng: np.random.Generator) -> tuple[Surrogate, TrainingSet]:
    """The surrogate after a test on held-out blocks, and the training set with the levels that it predicts."""
    hyp = fitted.learnt.hyp
    found = calibrate(hyp, fitted.plain.inducing, fitted.regression, training.level, rng, fitted.passes)
    logger.info("held-out blocks: errors %.2f times the predicted sd; %d residual passes", *found[:3:2])
    factors = fitted.passed if found.passes else fitted.plain
    surrogate = Surrogate(
        training.space, hyp, factors, training.offset, found.overconfidence, found.without, found.tested
    )
    if (training.noise_sd > 0).any():
        training = training.smoothed(surrogate.mean(training.points), surrogate.variance(training.points))
    return surrogate, training


def told(surrogate: Surrogate, fitted: FittedGP, bounds: tuple[float, ...], miss: float, failures: int) -> SurrogateFit:
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
    )


def high_density_miss(training: TrainingSet, mean: Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]) -> float:
    """Root mean square residual of the evaluations within three sigma of the top, less what their noise explains."""
    near = near_top(training.level, POSTERIOR, training.dimension)
    residual = training.values[near] - mean(training.points[near])
    excess = np.mean(residual**2) - np.mean(training.noise_sd[near] ** 2)
    # With noise, the mean square itself fluctuates; only what is beyond two standard errors counts as a miss.
    error = np.sqrt(2 * np.mean(training.noise_sd[near] ** 4) / max(1, int(near.sum())))
    return float(np.sqrt(max(excess - 2 * error, 0.0)))
