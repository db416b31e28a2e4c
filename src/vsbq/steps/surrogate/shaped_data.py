"""What the surrogate is fitted to: evaluations with their noise and the noise of shaping, and the settings of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.numerics.contours import NEGLIGIBLE, POSTERIOR, contour_depth
from vsbq.numerics.gradients import places
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.observations import Regression
from vsbq.numerics.shaping import shaping_sd
from vsbq.steps.trim import TrainingSet

#: Variance of a noise-free evaluation.
NUGGET = 1e-5

#: Length scales between a place and the inducing points that stand for its gradient: near enough for their difference
#: to be a derivative, far enough for what they explain to be more than rounding errors.
BESIDE = 0.5


@dataclass(frozen=True, kw_only=True)
class Shaping:
    """Noise shaping (Eq. 27): low-density points count less. `depth` is the threshold θ_σ in contours of a normal.

    The whole curve is multiplied by a strength, a hyperparameter learnt between its limits: what a sparse GP cannot
    explain has to count as noise, or the hyperparameters end up where nothing is explained well. Under noise it is not
    weaker than published: noise that is larger than the curve hides that low evaluations do not fit, and they are many.

    The threshold is deeper where fewer than `enough` evaluations for each coefficient of a quadratic are above it.
    """

    depth: float = NEGLIGIBLE
    sd_min: float = 1e-3**0.5
    sd_med: float = 1.0
    slope: float = 3.0
    strengths: tuple[float, float] = (1.0, 10.0)  # limits of the learnt factor
    enough: int = 10
    exact_strength: float = 0.001  # the lower limit without noise, which could hide a misfit
    noise_growth: float = 1.0  # how far low evaluations lose weight in the end; see `ShapedData.tempered`

    def threshold(self, training: TrainingSet, seen: Float[ndarray, " n"]) -> float:
        """θ_σ in nats below the highest evaluation."""
        d = training.dimension
        known = contour_depth(self.depth, d)
        if not training.noisy:
            return known
        last = min(len(seen), self.enough * (d + 1) * (d + 2) // 2)
        return max(known, float(seen.max() - np.partition(seen, -last)[-last]))

    def limits(self, *, noisy: bool) -> tuple[float, float]:
        """Between which the strength is learnt."""
        return self.strengths if noisy else (min(self.exact_strength, self.strengths[0]), self.strengths[1])


class Level(NamedTuple):
    """How finely hyperparameters are learnt: evaluations and inducing points, multiplied by D, steps of each round, and
    rounds (of inducing points and hyperparameters in turn)."""

    points: int
    inducing: int
    steps: int
    rounds: int


COARSE = (Level(150, 15, 60, 2), Level(250, 25, 40, 2))
FINE = Level(600, 60, 20, 2)
FINEST = Level(1000, 100, 20, 1)


@dataclass(frozen=True, kw_only=True)
class SparseGP:
    """How the surrogate is fitted. Counts "per dimension" are multiplied by D.

    Hyperparameters are learnt from coarse to fine: most steps need few evaluations. The fine level follows where
    held-out evaluations are missed, where there are few, or where noise makes each of them tell less; the finest one
    where even those are missed that the surrogate was fitted to.
    """

    shaping: Shaping = field(default_factory=Shaping)
    inducing_per_dimension: int = 150
    exact_points: int = 300  # subset on which an exact GP gives the first hyperparameters
    coarse: tuple[Level, ...] = COARSE
    fine: Level = FINE
    finest: Level = FINEST
    max_learning_points: int = 5000
    residual_passes: int = 3  # in which what the mean leaves of the evaluations is smoothed and added to it
    tolerable_miss: float = 0.1  # nats by which high evaluations may be missed beyond their noise, held out or not
    max_inducing_per_dimension: int = 200
    max_inducing: int = 1500
    max_candidates: int = 6000  # evaluations among which inducing points are looked for, half of them high
    turn: bool = True  # learn the coordinates as well
    sisters: int = 1  # other surrogates of the same evaluations that join in, at most two

    def first_inducing(self, dimension: int) -> int:
        """Number of inducing points to begin with."""
        return min(self.inducing_per_dimension * dimension, self.max_inducing)

    def last_inducing(self, dimension: int) -> int:
        """Number of inducing points at the most."""
        most = min(self.max_inducing_per_dimension * dimension, self.max_inducing)
        return max(most, self.first_inducing(dimension))


class Learnt(NamedTuple):
    """What is learnt of the surrogate: the hyperparameters of the GP, the logarithm of the shaping strength, and its
    coordinates B x. B is unit lower triangular; `shear` has what is below its diagonal, row by row, or nothing where
    the coordinates stay as they are. The location of the mean is in the coordinates before B."""

    hyp: Hyperparameters
    log_strength: float
    shear: Float[ndarray, " s"]

    def pack(self) -> Float[ndarray, " p"]:
        """All of it as one vector, as optimisers want it."""
        return np.concatenate([self.hyp.pack(), [self.log_strength], self.shear])

    @classmethod
    def unpack(cls, theta: Float[ndarray, " p"], dimension: int) -> Learnt:
        """The inverse of `pack`."""
        size = 3 * dimension + 2
        return cls(Hyperparameters.unpack(theta[:size]), float(theta[size]), theta[size + 1 :])

    @property
    def strength(self) -> float:
        """The factor of the shaping noise."""
        return float(np.exp(self.log_strength))

    @property
    def coordinates(self) -> Float[ndarray, "d d"]:
        """B."""
        b = np.eye(len(self.hyp.log_scales))
        if len(self.shear):
            b[np.tril_indices(len(b), -1)] = self.shear
        return b

    @property
    def turned_hyp(self) -> Hyperparameters:
        """The hyperparameters for points in the coordinates B x."""
        return self.hyp._replace(mean_location=self.coordinates @ self.hyp.mean_location)

    def at_home(self) -> Learnt:
        """The same for evaluations that have been moved to the coordinates B x."""
        return Learnt(self.turned_hyp, self.log_strength, 0.0 * self.shear)


class ShapedData(NamedTuple):
    """Arrays of a regression: inference points, values, variances of the noise and of the shaping noise, gradients."""

    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    observed: Float[ndarray, " n"]
    shaping: Float[ndarray, " n"]
    gradients: Float[ndarray, "n d"] | None = None
    beside: Float[ndarray, "b d"] | None = None  # further candidates for inducing points

    @classmethod
    def shaped(cls, training: TrainingSet, settings: SparseGP, threshold: float | None = None) -> ShapedData:
        """Evaluations with σ²_obs (at least the nugget) and σ²_shape (Eqs. 26 and 27); they set θ_σ if it is None."""
        return cls.curved(training, training.level, settings.shaping, threshold)

    @classmethod
    def curved(
        cls, training: TrainingSet, seen: Float[ndarray, " n"], shape: Shaping, threshold: float | None = None
    ) -> ShapedData:
        """The same by a curve of its own, and by how high each evaluation is seen."""
        known = shape.threshold(training, seen) if threshold is None else threshold
        sd = shaping_sd(seen.max() - seen, known, shape.sd_min, shape.sd_med, shape.slope)
        observed = np.maximum(training.noise_sd**2, NUGGET)
        return cls(training.points, training.values, observed, sd**2, training.gradients)

    @property
    def noisy(self) -> bool:
        """Whether any value has noise."""
        return bool((self.observed > NUGGET).any())

    def noise(self, log_strength: float = 0.0) -> Float[ndarray, " n"]:
        """σ²_tot = σ²_obs + strength² σ²_shape."""
        return self.observed + np.exp(2 * log_strength) * self.shaping

    def regression(self, log_strength: float) -> Regression:
        """What the numerics take: points, values, total noise variances, gradients."""
        return Regression(self.points, self.values, self.noise(log_strength), self.gradients)

    def tempered(self, training: TrainingSet, growth: float) -> ShapedData:
        """The same with noise sds multiplied by √(1 + (growth · depth)²), the depth in units of the 3-sigma contour's.

        With noise, all evaluations tell equally much wherever they are, and most are low. What a stationary kernel gets
        wrong far down then moves the top by more than its error bars say. The hyperparameters are learnt without this:
        they need the information.
        """
        depth = (training.level.max() - training.level) / contour_depth(POSTERIOR, training.dimension)
        grown = self.observed * (1.0 + (growth * depth) ** 2)
        return self._replace(observed=np.where(training.noise_sd > 0, grown, self.observed))

    def raised(self, rows: Bool[ndarray, " n"], height: float, settings: Shaping) -> ShapedData:
        """The same with evaluations that are as high as the threshold of the shaping, and count as those there do."""
        return self._replace(
            values=np.where(rows, np.maximum(self.values, height), self.values),
            shaping=np.where(rows, settings.sd_med**2, self.shaping),
        )

    def turned(self, by: Float[ndarray, "d d"]) -> ShapedData:
        """The same in coordinates that are multiplied by a matrix of determinant one."""
        points = self.points @ by.T
        if self.gradients is None:
            return self._replace(points=points)
        beside = None if self.beside is None else self.beside @ by.T
        return self._replace(points=points, gradients=np.linalg.solve(by.T, self.gradients.T).T, beside=beside)

    def take(self, rows: Int[ndarray, " k"]) -> ShapedData:
        """Some of the rows."""
        gradients = None if self.gradients is None else self.gradients[rows]
        return ShapedData(self.points[rows], self.values[rows], self.observed[rows], self.shaping[rows], gradients)

    def fewer_gradients(self, most: int) -> ShapedData:
        """The same with the gradients of so many places at the most: those that count most, near the top."""
        if self.gradients is None:
            return self
        rows = self._sloped
        rows = rows[np.argsort(self.shaping[rows], kind="stable")[:most]]
        fewer = np.full(self.gradients.shape, np.nan)
        fewer[rows] = self.gradients[rows]
        return self._replace(gradients=fewer)

    def candidates(self, hyp: Hyperparameters) -> tuple[Float[ndarray, "c d"], Int[ndarray, " c"]]:
        """Points that may become inducing points, and the point whose noise counts there: all points, and for each
        gradient one beside its place along each axis, on one side or the other in turn."""
        rows, every, d = self._sloped, np.arange(len(self.points)), self.points.shape[1]
        if not len(rows):
            return self.points, every
        side = np.where(np.arange(len(rows)) % 2, -BESIDE, BESIDE)
        steps = side[:, None, None] * np.diag(np.exp(hyp.log_scales))
        beside = (self.points[rows, None, :] + steps).reshape(-1, d)
        return np.concatenate([self.points, beside]), np.concatenate([every, np.repeat(rows, d)])

    @property
    def most_inducing(self) -> int:
        """How many candidates there are."""
        return len(self.points) + len(self._sloped) * self.points.shape[1]

    @property
    def _sloped(self) -> Int[ndarray, " k"]:
        return np.arange(0) if self.gradients is None else places(self.gradients)
