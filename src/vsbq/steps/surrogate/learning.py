"""How the hyperparameters of the surrogate are learnt: priors, an exact GP on a few points, sparse GPs on more."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import gradients, sgpr
from vsbq.numerics.contours import SURROUNDINGS
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.optimise import GaussianPrior, Maximum, Objective, maximise_with_prior
from vsbq.numerics.subset import better_rows
from vsbq.progress import Progress, logger
from vsbq.steps.surrogate.shaped_data import Learnt, Level, ShapedData, SparseGP

#: A round of learning ends when a step gains less than this many nats, learning when a round gains less than that.
LEAST_STEP = 0.1
LEAST_ROUND = 1.0

#: By how many times its own spread a coordinate may follow another.
MOST_SHEAR = 10.0


class WeakPrior(NamedTuple):
    """Weakly informative priors and limits of everything that is learnt; also where learning starts."""

    packed: GaussianPrior
    dimension: int

    @property
    def start(self) -> Learnt:
        """The centre of the prior, within its limits."""
        return self.unpack(np.clip(self.packed.mean, self.packed.lower, self.packed.upper))

    def unpack(self, theta: Float[ndarray, " p"]) -> Learnt:
        """What a packed vector says."""
        return Learnt.unpack(theta, self.dimension)

    def maximise(
        self, gradient: Callable[..., sgpr.Gradient], data: ShapedData, start: Learnt, steps: int, tolerance: float
    ) -> Maximum:
        """The maximum of a bound times the prior; its argument is packed."""
        return maximise_with_prior(
            _objective(gradient, data, self.dimension), start.pack(), self.packed, steps=steps, tolerance=tolerance
        )


def weak_prior(
    data: ShapedData,
    level: Float[ndarray, " n"],
    settings: SparseGP,
    rng: np.random.Generator,
    *,
    turn: bool = False,
) -> WeakPrior:
    """The prior that a thinned set of the better points suggests.

    Thinned, because an optimiser piles up its evaluations at the mode: their plain spread says where it stopped, not
    how wide the posterior is.
    """
    d = data.points.shape[1]
    top = float(data.values.max())
    near = better_rows(data.points, level, SURROUNDINGS, rng)
    low, high = data.points.min(axis=0), data.points.max(axis=0)
    # Where all points share a coordinate, at a bound for example, they say nothing of its scale: that is of order one.
    reach = np.where(high > low, high - low, 1.0)
    spread = np.maximum(data.points[near].std(axis=0), 1e-3 * reach)
    centre = _quadratic_start(data.take(near), spread)
    rise = float(np.exp(centre.log_output))
    depth = float(np.ptp(data.values))
    one = np.ones(d)
    # Where the quadratic mean explains everything the kernel could vanish, and with it all uncertainty. What noise
    # hides must stay possible, but not more than the values show.
    least_output = max(1e-3, min(0.25 * float(np.sqrt(np.median(data.observed))), depth + 1))
    sd = Hyperparameters(1.5 * one, 2.0, 3 * rise + 1.0, 2 * spread, 1.5 * one)
    lower = Hyperparameters(
        np.log(1e-3 * spread), float(np.log(least_output)), top - depth, low - reach, np.log(1e-2 * spread)
    )
    upper = Hyperparameters(
        np.log(30 * reach), float(np.log(1e3 * (depth + 1))), top + 10 * depth + 10, high + reach, np.log(1e3 * reach)
    )
    weakest, strongest = (float(np.log(limit)) for limit in settings.shaping.limits(noisy=data.noisy))
    # A coordinate takes up others in units of their spread.
    shear = np.divide.outer(spread, spread)[np.tril_indices(d, -1)] if turn else np.zeros(0)
    parts = (
        Learnt(centre, 0.0, 0.0 * shear),
        Learnt(sd, 1.0, shear),
        Learnt(lower, weakest, -MOST_SHEAR * shear),
        Learnt(upper, strongest, MOST_SHEAR * shear),
    )
    return WeakPrior(GaussianPrior(*(part.pack() for part in parts)), d)


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


def bound_at(inducing: Int[ndarray, " m"], workspace: sgpr.Workspace) -> Callable[..., sgpr.Gradient]:
    """The GP-ELBO with given rows as inducing points; after the points' own come those of the points beside."""

    def bound(theta: ndarray, x: ndarray, y: ndarray, noise: ndarray, *sloped: ndarray) -> sgpr.Gradient:
        if not sloped:
            return sgpr.bound_and_gradient(theta, x[inducing], x, y, noise, workspace)
        slopes, beside = sloped
        return gradients.bound_and_gradient(theta, np.concatenate([x, beside])[inducing], x, y, noise, slopes)

    return bound


def _objective(gradient: Callable[..., sgpr.Gradient], data: ShapedData, dimension: int) -> Objective:
    """A bound as a function of everything that is learnt, packed."""

    def objective(theta: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        learnt = Learnt.unpack(theta, dimension)
        b = learnt.coordinates
        turned = data.turned(b)
        points, values, noise, slopes = turned.regression(learnt.log_strength)
        more = () if slopes is None else (slopes, turned.beside)
        found = gradient(learnt.turned_hyp.pack(), points, values, noise, *more)
        by_hyp = Hyperparameters.unpack(found.hyperparameters)
        by_hyp = by_hyp._replace(mean_location=b.T @ by_hyp.mean_location)
        by_strength = float(found.log_noise_sd @ (1.0 - data.observed / noise))
        by_shear = theta[:0]
        if len(learnt.shear):
            assert found.coordinates is not None
            by_b = np.linalg.solve(b, found.coordinates.T).T
            by_shear = by_b[np.tril_indices(dimension, -1)]
        return found.value, Learnt(by_hyp, by_strength, by_shear).pack()

    return objective


class Learning(NamedTuple):
    """On what the hyperparameters are learnt, and for how long: some of the evaluations, the number of inducing points,
    steps of each round, and rounds."""

    data: ShapedData
    inducing: int
    steps: int = 200
    rounds: int = 3

    @classmethod
    def at(cls, level: Level, data: ShapedData) -> Learning:
        """What a level asks for, of evaluations that have been chosen."""
        data, d = data.fewer_gradients(level.points), data.points.shape[1]  # as many derivatives as values at the most
        count = level.inducing * d
        if (
            data.gradients is not None
        ):  # gradients need more inducing points: as many as take no longer than values would
            observations = data.most_inducing
            count = max(count, round(count * (level.points * d / observations) ** 0.5))
        return cls(data, min(count, data.most_inducing), level.steps, level.rounds)


class LearntSparse(NamedTuple):
    """Where learning ended: what was learnt, the bound after each round, and steps that failed."""

    learnt: Learnt
    bounds: tuple[float, ...]
    failures: int


def learn_sparse(learning: Learning, prior: WeakPrior, start: Learnt, progress: Progress) -> LearntSparse:
    """Greedy inducing points and hyperparameters in turn, until the GP-ELBO no longer improves."""
    data, count, steps, rounds = learning
    workspace = sgpr.Workspace(count * len(data.points))
    learnt, failures = start, 0
    bounds: list[float] = []
    for number in range(1, rounds + 1):
        points, owner = data.turned(learnt.coordinates).candidates(learnt.turned_hyp)
        rows = greedy_inducing(learnt.turned_hyp, points, data.noise(learnt.log_strength)[owner], count)
        beside = np.linalg.solve(learnt.coordinates, points[len(data.points) :].T).T
        found = prior.maximise(bound_at(rows, workspace), data._replace(beside=beside), learnt, steps, LEAST_STEP)
        failures += found.failures
        learnt = prior.unpack(found.argument) if found.value > max(bounds, default=-np.inf) else learnt
        bounds.append(found.value)
        progress.say(f"surrogate: round {number}, bound {found.value:.1f}")
        logger.info("round %d of %d points: %d steps, bound %.1f", number, len(data.points), found.steps, found.value)
        if number > 1 and bounds[-1] - max(bounds[:-1]) < LEAST_ROUND:
            break
    return LearntSparse(learnt, tuple(bounds), failures)
