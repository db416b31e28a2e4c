"""Step 2: a sparse Gaussian process of the log density, with noise shaping."""

from __future__ import annotations

from functools import partial

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.calibration import calibrate
from vsbq.contradiction import correct
from vsbq.coordinates import first_hyperparameters
from vsbq.errors import FitError
from vsbq.history import SurrogateFit
from vsbq.learning import learn_sparse, learning_set, polish
from vsbq.numerics import sgpr
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.shaping import contour_depth
from vsbq.progress import Progress, logger
from vsbq.shaped_data import Regression, ShapedData, SparseGP
from vsbq.surrogate_model import Surrogate
from vsbq.trim import TrainingSet


def fit_surrogate(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
    """Hyperparameters from subsets, inducing points from all evaluations, more of both while the fit is poor.

    Also returns the training set in the coordinates in which the surrogate works: rotated where that explains the
    evaluations better.
    """
    training, prior, theta = first_hyperparameters(training, settings, rng, progress)
    data = ShapedData.shaped(training, settings)
    d = training.dimension
    count = min(settings.inducing_per_dimension * d, settings.most_inducing)
    overruled, corrections, learn = np.zeros(len(training), dtype=bool), 0, True
    pool = np.sort(rng.permutation(len(training))[: settings.most_candidates])
    while True:
        if learn:
            learning = learning_set(data, training.level, settings, count, rng)
            theta, history, failures = learn_sparse(learning, prior, theta, settings, progress)
        hyp = Hyperparameters.unpack(theta[:-1])
        rows = pool[greedy_inducing(hyp, data.points[pool], data.noise(theta[-1])[pool], min(count, len(pool)))]
        if settings.polish_steps:
            theta = polish(theta, prior, data, rows, settings.polish_steps)
            hyp = Hyperparameters.unpack(theta[:-1])
        regression = data.tempered(training, settings.shaping.noise_growth).regression(theta[-1])
        plain, bound = _fit_all(hyp, data.points[rows], regression)
        factors = sgpr.with_residual_passes(hyp, plain, *regression, settings.residual_passes)
        miss, strength = high_density_miss(training, hyp, factors), float(np.exp(theta[-1]))
        corrected = correct(training, overruled, partial(sgpr.predict_mean, hyp, factors), settings)
        if corrected is not None and corrections < settings.corrections:
            pool = np.append(pool, np.arange(len(training), len(corrected.training)))
            # A correction may do with the hyperparameters as they are. If it does not, there may be no way from them to
            # better ones: start again.
            training, overruled, data, learn = corrected
            corrections += 1
            theta = np.clip(prior.mean, prior.lower, prior.upper) if learn else theta
            continue
        logger.info("%d inducing points: bound %.1f, miss %.3f nats, shaping %.2f", len(rows), bound, miss, strength)
        enough = miss <= settings.tolerable_miss or len(rows) < count or len(rows) >= len(data.points)
        most = max(min(settings.most_inducing_per_dimension * d, settings.most_inducing), count)
        if enough or count == most:
            break
        count, learn = min(2 * count, most), True
    overconfidence, without, passes, tested = calibrate(
        hyp, plain.inducing, regression, training.level, rng.spawn(1)[0], settings.residual_passes
    )
    logger.info("held-out blocks: errors %.2f times the predicted sd; %d residual passes", overconfidence, passes)
    factors = factors if passes else plain
    surrogate = Surrogate(training.space, hyp, factors, training.offset, overconfidence, without, tested)
    if (training.noise_sd > 0).any():
        training = training.smoothed(surrogate.mean(training.points), surrogate.variance(training.points))
    rotated = training.space.rotation is not None
    return (
        surrogate,
        training,
        SurrogateFit(bound, tuple(history), len(rows), factors.jitter, miss, strength, failures, rotated),
    )


def _fit_all(
    hyp: Hyperparameters, inducing: Float[ndarray, "m d"], regression: Regression
) -> tuple[sgpr.Factors, float]:
    """The sparse GP of all evaluations and its bound."""
    try:
        return sgpr.fit_factors(hyp, inducing, *regression)
    except NotPositiveDefinite as error:
        raise FitError(
            "The kernel matrix of the surrogate cannot be factorised. Check the evaluations for parameters that "
            "move together or values that jump; vsbq.audit(evaluations) lists what looks odd."
        ) from error


def high_density_miss(training: TrainingSet, hyp: Hyperparameters, factors: sgpr.Factors) -> float:
    """Root mean square residual of the evaluations within three sigma of the top, less what their noise explains."""
    near = training.level >= training.level.max() - contour_depth(3.0, training.dimension)
    residual = training.values[near] - sgpr.predict_mean(hyp, factors, training.points[near])
    excess = np.mean(residual**2) - np.mean(training.noise_sd[near] ** 2)
    # With noise, the mean square itself fluctuates; only what is beyond two standard errors counts as a miss.
    error = np.sqrt(2 * np.mean(training.noise_sd[near] ** 4) / max(1, int(near.sum())))
    return float(np.sqrt(max(excess - 2 * error, 0.0)))
