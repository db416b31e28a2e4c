"""Step 2: a sparse Gaussian process of the log density, with noise shaping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vsbq._typing import ArrayLike, Float, Int, ndarray
from vsbq.calibration import Block, cut_blocks, held_out_score, overconfidence
from vsbq.errors import FitError
from vsbq.numerics import exact, sgpr
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.optimise import GaussianPrior, Objective, maximise_with_prior
from vsbq.numerics.shaping import contour_depth, shaping_sd
from vsbq.numerics.subset import spread_rows, stratified_rows
from vsbq.progress import Progress, logger
from vsbq.transform import InferenceSpace
from vsbq.trim import TrainingSet

Regression = tuple[Float[ndarray, "n d"], Float[ndarray, " n"], Float[ndarray, " n"]]

#: Nats per held-out evaluation by which other coordinates have to be better than the plain ones.
COORDINATE_GAIN = 0.02


@dataclass(frozen=True, kw_only=True)
class Shaping:
    """Noise shaping (Eq. 27): low-density points count less. `depth` is the threshold θ_σ in contours of a normal.

    The whole curve is multiplied by a strength, a hyperparameter learnt between its limits: what a sparse GP cannot
    explain has to count as noise, or the hyperparameters end up where nothing is explained well.
    """

    depth: float = 5.0
    sd_min: float = 1e-3**0.5
    sd_med: float = 1.0
    slope: float = 0.2
    least_strength: float = 0.1
    most_strength: float = 10.0
    noise_growth: float = 1.0  # how far low evaluations lose weight in the end; see `ShapedData.tempered`


@dataclass(frozen=True, kw_only=True)
class SparseGP:
    """How the surrogate is fitted. Counts "per dimension" are multiplied by D."""

    shaping: Shaping = field(default_factory=Shaping)
    nugget: float = 1e-5  # variance of a noise-free evaluation
    inducing_per_dimension: int = 100
    exact_points: int = 300  # subset on which an exact GP gives the first hyperparameters
    learning_points_per_dimension: int | None = 600  # None: hyperparameters are learnt on all evaluations
    most_learning_points: int = 6000
    learning_inducing_per_dimension: int | None = 50  # None: as many as in the end
    most_learning_inducing: int = 500
    rounds: int = 5  # of inducing points and hyperparameters in turn
    polish_steps: int = 0  # then, on all evaluations with the final inducing points
    gain: float = 1.0  # nats of GP-ELBO that a round has to bring for another one
    tolerable_miss: float = 0.1  # nats by which high-density evaluations may be missed beyond their noise
    most_inducing_per_dimension: int = 200
    most_inducing: int = 1500
    most_candidates: int = 50_000  # evaluations among which inducing points are looked for
    shape_by_level: bool = True  # noise shaping by a first smooth prediction, not by the noisy values themselves
    whiten: bool = True  # try turned coordinates too, keep those in which held-out blocks are predicted better
    trial_points_per_dimension: int = 400
    trial_inducing_per_dimension: int = 35


class Prediction(NamedTuple):
    """Mean and standard deviation of the log density."""

    mean: Float[ndarray, " n"]
    sd: Float[ndarray, " n"]


class SurrogateFit(NamedTuple):
    """How the surrogate came about, for the report."""

    bound: float
    bounds_by_round: tuple[float, ...]
    inducing: int
    jitter: float
    miss: float  # root mean square residual of the high-density evaluations beyond their noise, nats
    shaping_strength: float  # learnt factor of the shaping noise
    failures: int  # factorisations that failed and were stepped over
    rotated: bool  # whether the surrogate works in whitened coordinates


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The sparse GP posterior of the log density; `predict` speaks the user's space, the rest inference space."""

    space: InferenceSpace
    hyp: Hyperparameters
    factors: sgpr.Factors
    offset: float
    overconfidence: float = 1.0  # by which the sparse GP's own sd has to be multiplied

    def predict(self, x: ArrayLike) -> Prediction:
        """Log density at points (n, D) of the user's space: mean and sd of the surrogate."""
        u = self.space.forward(np.atleast_2d(np.asarray(x, dtype=np.float64)))
        mean = sgpr.predict_mean(self.hyp, self.factors, u) - self.space.log_jacobian(u) + self.offset
        return Prediction(mean, np.sqrt(self.variance(u)))

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior mean in inference space, relative to `offset`."""
        return sgpr.predict_mean(self.hyp, self.factors, u)

    def variance(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior variance in inference space, as held-out evaluations suggest it."""
        return self.overconfidence**2 * sgpr.predict_variance(self.hyp, self.factors, u)


class ShapedData(NamedTuple):
    """Arrays of a regression: inference points, values, variances of the noise and of the shaping noise."""

    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    observed: Float[ndarray, " n"]
    shaping: Float[ndarray, " n"]

    @classmethod
    def shaped(cls, training: TrainingSet, settings: SparseGP) -> ShapedData:
        """Evaluations with σ²_obs (at least the nugget) and σ²_shape (Eqs. 26 and 27)."""
        shape = settings.shaping
        seen = training.level if settings.shape_by_level else training.values
        threshold = contour_depth(shape.depth, training.dimension)
        sd = shaping_sd(seen.max() - seen, threshold, shape.sd_min, shape.sd_med, shape.slope)
        return cls(training.points, training.values, np.maximum(training.noise_sd**2, settings.nugget), sd**2)

    def noise(self, log_strength: float) -> Float[ndarray, " n"]:
        """σ²_tot = σ²_obs + strength² σ²_shape."""
        return self.observed + np.exp(2 * log_strength) * self.shaping

    def regression(self, log_strength: float) -> Regression:
        """What the numerics take: points, values, total noise variances."""
        return self.points, self.values, self.noise(log_strength)

    def tempered(self, training: TrainingSet, growth: float) -> ShapedData:
        """The same with noise sds multiplied by √(1 + (growth · depth)²), the depth in units of the 3-sigma contour's.

        With noise, all evaluations tell equally much wherever they are, and most are low. What a stationary kernel gets
        wrong far down then moves the top by more than its error bars say. The hyperparameters are learnt without this:
        they need the information.
        """
        depth = (training.level.max() - training.level) / contour_depth(3.0, training.dimension)
        grown = self.observed * (1.0 + (growth * depth) ** 2)
        return self._replace(observed=np.where(training.noise_sd > 0, grown, self.observed))

    def take(self, rows: Int[ndarray, " k"]) -> ShapedData:
        """Some of the rows."""
        return ShapedData(*(column[rows] for column in self))


def fit_surrogate(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[Surrogate, TrainingSet, SurrogateFit]:
    """Hyperparameters from subsets, inducing points from all evaluations, more of both while the fit is poor.

    Also returns the training set in the coordinates in which the surrogate works: rotated where that explains the
    evaluations better.
    """
    training, prior, theta = _first_hyperparameters(training, settings, rng, progress)
    data = ShapedData.shaped(training, settings)
    d = training.dimension
    count = settings.inducing_per_dimension * d
    pool = np.sort(rng.permutation(len(training))[: settings.most_candidates])
    while True:
        learning = _learning_set(data, training.level, settings, count, rng)
        theta, history, failures = _learn_sparse(learning, prior, theta, settings, progress)
        hyp = Hyperparameters.unpack(theta[:-1])
        rows = pool[greedy_inducing(hyp, data.points[pool], data.noise(theta[-1])[pool], min(count, len(pool)))]
        if settings.polish_steps:
            theta = _polish(theta, prior, data, rows, settings.polish_steps)
            hyp = Hyperparameters.unpack(theta[:-1])
        try:
            final = data.tempered(training, settings.shaping.noise_growth)
            factors, bound = sgpr.fit_factors(hyp, data.points[rows], *final.regression(theta[-1]))
        except NotPositiveDefinite as error:
            raise FitError(
                "The kernel matrix of the surrogate cannot be factorised. Check the evaluations for parameters that "
                "move together or values that jump; vsbq.audit(evaluations) lists what looks odd."
            ) from error
        miss, strength = high_density_miss(training, hyp, factors), float(np.exp(theta[-1]))
        logger.info("%d inducing points: bound %.1f, miss %.3f nats, shaping %.2f", len(rows), bound, miss, strength)
        enough = miss <= settings.tolerable_miss or len(rows) < count or len(rows) >= len(data.points)
        most = max(min(settings.most_inducing_per_dimension * d, settings.most_inducing), count)
        if enough or count == most:
            break
        count = min(2 * count, most)
    doubt = overconfidence(hyp, factors.inducing, final.regression(theta[-1]), training.level, rng.spawn(1)[0])
    logger.info("held-out blocks: errors %.2f times the predicted sd", doubt)
    surrogate = Surrogate(training.space, hyp, factors, training.offset, doubt)
    if (training.noise_sd > 0).any():
        training = training.smoothed(surrogate.mean(training.points), surrogate.variance(training.points))
    rotated = training.space.rotation is not None
    return (
        surrogate,
        training,
        SurrogateFit(bound, tuple(history), len(rows), factors.jitter, miss, strength, failures, rotated),
    )


def high_density_miss(training: TrainingSet, hyp: Hyperparameters, factors: sgpr.Factors) -> float:
    """Root mean square residual of the evaluations within three sigma of the top, less what their noise explains."""
    near = training.level >= training.level.max() - contour_depth(3.0, training.dimension)
    residual = training.values[near] - sgpr.predict_mean(hyp, factors, training.points[near])
    excess = np.mean(residual**2) - np.mean(training.noise_sd[near] ** 2)
    # With noise, the mean square itself fluctuates; only what is beyond two standard errors counts as a miss.
    error = np.sqrt(2 * np.mean(training.noise_sd[near] ** 4) / max(1, int(near.sum())))
    return float(np.sqrt(max(excess - 2 * error, 0.0)))


def whitening(training: TrainingSet, rng: np.random.Generator) -> Float[ndarray, "d d"]:
    """The symmetric root of the inverse covariance of the better points, thinned: it turns the axes least."""
    near = _better_rows(training.points, training.level, 3.0, rng)
    cov = np.cov(training.points[near].T)
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values, 1e-12 * values[-1])
    return (vectors / np.sqrt(values)) @ vectors.T


def _better_rows(
    points: Float[ndarray, "n d"], values: Float[ndarray, " n"], depth: float, rng: np.random.Generator
) -> Int[ndarray, " k"]:
    """Rows within a contour of the best, at least 10 D of them, thinned to a spread-out set."""
    d = points.shape[1]
    near = np.flatnonzero(values >= values.max() - contour_depth(depth, d))
    if len(near) < 10 * d:
        near = np.argsort(-values, kind="stable")[: 10 * d]
    return near[spread_rows(points[near], 100 + 20 * d, rng)]


def weak_prior(
    data: ShapedData, level: Float[ndarray, " n"], settings: SparseGP, rng: np.random.Generator
) -> tuple[GaussianPrior, Float[ndarray, " p"]]:
    """Weakly informative priors, limits and a starting point, from a thinned set of the better points.

    Thinned, because an optimiser piles up its evaluations at the mode: their plain spread says where it stopped, not
    how wide the posterior is.
    """
    d = data.points.shape[1]
    top = float(data.values.max())
    near = _better_rows(data.points, level, 6.0, rng)
    spread = np.maximum(data.points[near].std(axis=0), 1e-3 * np.ptp(data.points, axis=0))
    start = _quadratic_start(data.take(near), spread)
    rise = float(np.exp(start.log_output))
    depth = float(np.ptp(data.values))
    low, high = data.points.min(axis=0), data.points.max(axis=0)
    reach = high - low
    one = np.ones(d)
    shaping = settings.shaping
    # Where the quadratic mean explains everything the kernel could vanish, and with it all uncertainty. What noise
    # hides must stay possible.
    least_output = max(1e-3, 0.25 * float(np.sqrt(np.median(data.observed))))
    prior = GaussianPrior(
        mean=np.append(start.pack(), 0.0),
        sd=np.append(Hyperparameters(1.5 * one, 2.0, 3 * rise + 1.0, 2 * spread, 1.5 * one).pack(), 1.0),
        lower=np.append(
            Hyperparameters(
                np.log(1e-3 * spread), np.log(least_output), top - depth, low - reach, np.log(1e-2 * spread)
            ).pack(),
            np.log(shaping.least_strength),
        ),
        upper=np.append(
            Hyperparameters(
                np.log(30 * reach), np.log(1e3 * (depth + 1)), top + 10 * depth + 10, high + reach, np.log(1e3 * reach)
            ).pack(),
            np.log(shaping.most_strength),
        ),
    )
    return prior, np.clip(prior.mean, prior.lower, prior.upper)


def _quadratic_start(data: ShapedData, spread: Float[ndarray, " d"]) -> Hyperparameters:
    """Least squares of the values on (1, x, x²) for the mean; what it leaves is the kernel's output scale."""
    d = len(spread)
    centre = data.points.mean(axis=0)
    x = (data.points - centre) / spread
    design = np.column_stack([np.ones(len(x)), x, x * x])
    weight = 1.0 / np.sqrt(data.noise(0.0) + (0.1 * (data.values.max() - data.values) + 0.1) ** 2)
    solution = np.linalg.lstsq(design * weight[:, None], data.values * weight, rcond=None)[0]
    slope, curve = solution[1 : d + 1], np.minimum(solution[d + 1 :], -0.05)
    shift = np.clip(-slope / (2 * curve), -2.0, 2.0)
    widths = 1.0 / np.sqrt(-2 * curve)
    quadratic = 0.5 * (((x - shift) / widths) ** 2).sum(axis=1)
    mean_top = float(np.average(data.values + quadratic, weights=weight**2))
    rise = max(float(np.std(data.values + quadratic)), 0.1)
    return Hyperparameters(np.log(spread), np.log(rise), mean_top, centre + spread * shift, np.log(widths * spread))


def _first_hyperparameters(
    training: TrainingSet, settings: SparseGP, rng: np.random.Generator, progress: Progress
) -> tuple[TrainingSet, GaussianPrior, Float[ndarray, " p"]]:
    """Hyperparameters to start with, and the training set in the coordinates in which held-out blocks are predicted
    best, with levels where its values are noisy."""
    rows = stratified_rows(training.points, training.level, settings.exact_points, rng)
    plain = _learn_exact(training, rows, settings, rng)
    if not settings.whiten or training.dimension == 1:
        return plain.training, plain.prior, plain.theta
    contest = _Contest.on(plain, settings, rng)
    best = contest.enter(plain, progress)
    turned = best.training.rotate(whitening(best.training, rng))
    other = contest.enter(_learn_exact(turned, rows, settings, rng), progress)
    best = other if other.score > best.score + COORDINATE_GAIN else best
    return best.training, best.prior, best.theta


class _Try(NamedTuple):
    """Hyperparameters in some coordinates, the training set with its levels, and how well blocks were predicted."""

    training: TrainingSet
    prior: GaussianPrior
    theta: Float[ndarray, " p"]
    score: float


def _learn_exact(training: TrainingSet, rows: Int[ndarray, " k"], settings: SparseGP, rng: np.random.Generator) -> _Try:
    """Hyperparameters of an exact GP on a subset, whose predictions are the levels of noisy values."""
    data = ShapedData.shaped(training, settings)
    prior, start = weak_prior(data, training.level, settings, rng)
    subset = data.take(rows)
    evidence = _objective(exact.evidence_and_gradient, subset)
    found = maximise_with_prior(evidence, start, prior, steps=100, tolerance=1e-2)
    logger.info("exact GP on %d points: %d steps, evidence %.1f", len(subset.points), found.steps, found.value)
    if (training.noise_sd > 0).any():
        hyp = Hyperparameters.unpack(found.argument[:-1])
        factors = exact.fit_factors(hyp, *subset.regression(found.argument[-1]))
        training = training.smoothed(*exact.predict(hyp, factors, training.points))
    return _Try(training, prior, found.argument, -np.inf)


class _Contest(NamedTuple):
    """The same evaluations in blocks, on which surrogates in different coordinates are compared."""

    settings: SparseGP
    rows: Int[ndarray, " k"]
    blocks: list[Block]
    noise: Float[ndarray, " k"]

    @classmethod
    def on(cls, plain: _Try, settings: SparseGP, rng: np.random.Generator) -> _Contest:
        """Choose the evaluations and cut the blocks in plain coordinates."""
        training = plain.training
        data = ShapedData.shaped(training, settings)
        size = settings.trial_points_per_dimension * training.dimension
        rows = stratified_rows(data.points, training.level, size, rng)
        blocks = cut_blocks(data.points[rows], training.level[rows], rng)
        return cls(settings, rows, blocks, data.noise(0.0)[rows])

    def enter(self, first: _Try, progress: Progress) -> _Try:
        """A small sparse GP goes on from the first hyperparameters and predicts the blocks."""
        training, prior = first.training, first.prior
        data = ShapedData.shaped(training, self.settings)
        some = data.take(self.rows)
        count = min(self.settings.trial_inducing_per_dimension * training.dimension, len(self.rows))
        start = _not_too_long(first.theta, prior)
        theta = _learn_sparse(_Learning(some, count), prior, start, self.settings, progress)[0]
        hyp = Hyperparameters.unpack(theta[:-1])
        inducing = some.points[greedy_inducing(hyp, some.points, some.noise(theta[-1]), count)]
        score = held_out_score(hyp, inducing, some.regression(theta[-1]), self.blocks, self.noise)
        logger.info("held-out blocks: log score %.3f", score)
        if (training.noise_sd > 0).any():
            factors, _ = sgpr.fit_factors(hyp, inducing, *data.regression(theta[-1]))
            mean = sgpr.predict_mean(hyp, factors, training.points)
            training = training.smoothed(mean, sgpr.predict_variance(hyp, factors, training.points))
        return _Try(training, prior, theta, score)


def _not_too_long(theta: Float[ndarray, " p"], prior: GaussianPrior) -> Float[ndarray, " p"]:
    """Hyperparameters with length scales at most a standard deviation above their prior's mean: from far above there is
    no way back, because the slope of the bound vanishes there."""
    d = len(Hyperparameters.unpack(theta[:-1]).log_scales)
    theta = theta.copy()
    theta[:d] = np.minimum(theta[:d], prior.mean[:d] + prior.sd[:d])
    return theta


def _bound_at(inducing: Float[ndarray, "m d"], workspace: sgpr.Workspace) -> Callable[..., sgpr.Gradient]:
    """The GP-ELBO with given inducing points."""
    return lambda theta, x, y, noise: sgpr.bound_and_gradient(theta, inducing, x, y, noise, workspace)


def _objective(gradient: Callable[..., sgpr.Gradient], data: ShapedData) -> Objective:
    """A bound as a function of the hyperparameters and, last, the logarithm of the shaping strength."""

    def objective(theta: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        regression = data.regression(theta[-1])
        found = gradient(theta[:-1], *regression)
        share = 1.0 - data.observed / regression[2]
        return found.value, np.append(found.hyperparameters, found.log_noise_sd @ share)

    return objective


def _polish(
    theta: Float[ndarray, " p"], prior: GaussianPrior, data: ShapedData, inducing: Int[ndarray, " m"], steps: int
) -> Float[ndarray, " p"]:
    """Hyperparameters that maximise the GP-ELBO of all evaluations, from where those of a subset stand."""
    bound = _objective(_bound_at(data.points[inducing], sgpr.Workspace(len(inducing) * len(data.points))), data)
    found = maximise_with_prior(bound, theta, prior, steps=steps, tolerance=0.1)
    logger.info("all evaluations: %d steps, bound %.1f", found.steps, found.value)
    return found.argument if np.isfinite(found.value) else theta


class _Learning(NamedTuple):
    """On what the hyperparameters are learnt: some of the evaluations, and with how many inducing points."""

    data: ShapedData
    inducing: int


def _learning_set(
    data: ShapedData, level: Float[ndarray, " n"], settings: SparseGP, count: int, rng: np.random.Generator
) -> _Learning:
    """A stratified subset and fewer inducing points, both in proportion to the final number of inducing points."""
    d = data.points.shape[1]
    growth = count / (settings.inducing_per_dimension * d)
    if settings.learning_points_per_dimension is not None:
        size = min(round(growth * settings.learning_points_per_dimension * d), settings.most_learning_points)
        data = data.take(stratified_rows(data.points, level, size, rng))
    if settings.learning_inducing_per_dimension is not None:
        count = min(round(growth * settings.learning_inducing_per_dimension * d), settings.most_learning_inducing)
    return _Learning(data, min(count, len(data.points)))


def _learn_sparse(
    learning: _Learning,
    prior: GaussianPrior,
    theta: Float[ndarray, " p"],
    settings: SparseGP,
    progress: Progress,
) -> tuple[Float[ndarray, " p"], list[float], int]:
    """Greedy inducing points and hyperparameters in turn, until the GP-ELBO no longer improves."""
    data, count = learning
    workspace = sgpr.Workspace(count * len(data.points))
    history: list[float] = []
    failures = 0
    for number in range(1, settings.rounds + 1):
        rows = greedy_inducing(Hyperparameters.unpack(theta[:-1]), data.points, data.noise(theta[-1]), count)
        bound = _objective(_bound_at(data.points[rows], workspace), data)
        found = maximise_with_prior(bound, theta, prior, steps=60, tolerance=0.1)
        failures += found.failures
        theta = found.argument if found.value > max(history, default=-np.inf) else theta
        history.append(found.value)
        progress.say(f"surrogate: round {number}, bound {found.value:.1f}")
        logger.info("round %d: %d steps, bound %.1f", number, found.steps, found.value)
        if number > 1 and history[-1] - max(history[:-1]) < settings.gain:
            break
    return theta, history, failures
