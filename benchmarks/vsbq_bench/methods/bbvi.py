"""Black-box variational inference with the score-function gradient: the paper's baseline that calls the target.

A grid of learning rates and numbers of draws per gradient is run, each with ten times the evaluations of the trace, and
the best ELBO wins. All learning rates with the same number of draws run side by side as the leading axis of every
array ("replicas"), so that one call of the target serves them all.

Where the paper leaves a choice open: scales are optimised by their logarithms; the full covariance has the factor
diag(s) U with a unit lower triangular U, so that a step means the same whatever the scale; the first batch of draws
only sets the control variate; the ELBO that ranks the grid is an average over fresh draws of the last iterate, and that
of the winner is estimated once more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cache
from math import log, pi
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.methods._space import InferenceTarget, space_of
from vsbq_bench.task import Answer, Stopwatch, Task

__all__ = ["BbviSettings", "bbvi"]

#: log p - log q counts as no lower than this. A density of zero would else make every parameter NaN; values above it
#: are left as they are, however wild.
FLOOR = -1e10

BLOCK = 1000  # draws of the ELBO that are worked on at a time


@dataclass(frozen=True, kw_only=True)
class BbviSettings:
    """The variational family, the grid and its budget; the defaults are the paper's.

    Each point of the grid makes `budget_factor` times the evaluations of the trace. `elbo_draws` are extra evaluations
    to compare the points of the grid, and as many for the winner. `components` is for the mixture alone.
    """

    family: Literal["diagonal", "full", "mixture"]
    components: int = 1
    learning_rates: tuple[float, ...] = (0.01, 0.001)
    samples: tuple[int, ...] = (1, 10, 100)
    budget_factor: float = 10.0
    smoothing: float = 0.9
    initial_scale: float = 1e-3
    initial_noise: float = 1e-6
    elbo_draws: int = 5000


def bbvi(task: Task, settings: BbviSettings) -> Answer:
    """Maximise the ELBO on the task's target, noise included, and return the best fit of the grid.

    Raises FloatingPointError if no point of the grid ends with finite parameters.
    """
    space, watch = space_of(task.problem), Stopwatch()
    target = InferenceTarget(task.target, space)
    inference = _Inference(_family(settings, task.problem.dimension), target, settings, task.rng)
    evaluations = [task.target.evaluations]
    with np.errstate(all="ignore"):  # what overflows ends as a failed point of the grid
        ends: list[_End] = []
        for samples in settings.samples:
            with watch.stage(f"optimisation_{samples}"):
                ends += inference.optimise(samples, max(2, int(settings.budget_factor * task.budget) // samples))
        evaluations.append(task.target.evaluations)
        with watch.stage("elbo"):
            grid = [inference.elbo(end.theta) for end in ends]
            best = int(np.argmax([elbo.value for elbo in grid]))
            if not np.isfinite(grid[best].value):
                raise FloatingPointError("black-box variational inference has diverged at every point of its grid")
            final = inference.elbo(ends[best].theta)
        evaluations.append(task.target.evaluations)
        with watch.stage("draws"):
            draws = space.inverse(inference.family.draw(ends[best].theta[None], task.draws, task.rng)[0])
    optimisation, comparison = np.diff(evaluations).tolist()
    counts = {"optimisation_evaluations": optimisation, "elbo_evaluations": comparison}
    return Answer(
        draws=draws,
        log_evidence=final.value,
        log_evidence_sd=final.sd,
        seconds=watch.seconds,
        settings=asdict(settings),
        details=_grid_details(ends, grid, best) | counts | {"failed_evaluations": target.failures},
    )


def _grid_details(ends: list[_End], grid: list[Elbo], best: int) -> dict[str, object]:
    finite = [np.isfinite(elbo.value) for elbo in grid]
    return {
        "grid": [[end.learning_rate, end.samples] for end in ends],
        "grid_elbo": [elbo.value if fine else None for elbo, fine in zip(grid, finite, strict=True)],
        "grid_elbo_sd": [elbo.sd if fine else None for elbo, fine in zip(grid, finite, strict=True)],
        "best": best,
    }


# Variational families. Parameters are unconstrained, rows of one array, a row for each replica; `score` keeps what the
# gradient needs, and the log density.


@dataclass(frozen=True)
class Diagonal:
    """A normal with independent coordinates. Parameters: means, then logarithms of the scales."""

    dimension: int

    def start(self, replicas: int, settings: BbviSettings, rng: Generator) -> Float[ndarray, "r p"]:
        """Parameters of narrow densities at the origin."""
        means = settings.initial_noise * rng.standard_normal((replicas, self.dimension))
        return np.concatenate([means, np.full_like(means, log(settings.initial_scale))], axis=1)

    def draw(self, theta: Float[ndarray, "r p"], n: int, rng: Generator) -> Float[ndarray, "r n d"]:
        """Draws of every replica."""
        z = rng.standard_normal((len(theta), n, self.dimension))
        z *= np.exp(theta[:, None, self.dimension :])
        z += theta[:, None, : self.dimension]
        return z

    def score(self, theta: Float[ndarray, "r p"], u: Float[ndarray, "r m d"]) -> _DiagonalScored:
        """Log density and its gradient in the parameters."""
        d = self.dimension
        log_scale = theta[:, d:]
        inverse_scale = np.exp(-log_scale)
        z = (u - theta[:, None, :d]) * inverse_scale[:, None]
        squares = z * z
        log_q = -0.5 * squares.sum(axis=2) - (log_scale.sum(axis=1) + 0.5 * d * log(2 * pi))[:, None]
        return _DiagonalScored(log_q, z, squares, inverse_scale)


class _DiagonalScored(NamedTuple):
    log_q: Float[ndarray, "r m"]
    z: Float[ndarray, "r m d"]
    squares: Float[ndarray, "r m d"]
    inverse_scale: Float[ndarray, "r d"]

    def weighted_score(self, c: Float[ndarray, "r m"]) -> Float[ndarray, "r p"]:
        """Σ_m c_m ∇ log q(u_m)."""
        row = c[:, None]
        to_mean = (row @ self.z)[:, 0] * self.inverse_scale
        return np.concatenate([to_mean, (row @ self.squares)[:, 0] - c.sum(axis=1, keepdims=True)], axis=1)


@dataclass(frozen=True)
class Full:
    """A normal with Cholesky factor diag(s) U. Parameters: means, log s, then U below its unit diagonal, by rows."""

    dimension: int

    def start(self, replicas: int, settings: BbviSettings, rng: Generator) -> Float[ndarray, "r p"]:
        """Parameters of narrow densities at the origin."""
        diagonal = Diagonal(self.dimension).start(replicas, settings, rng)
        return np.concatenate([diagonal, np.zeros((replicas, self.dimension * (self.dimension - 1) // 2))], axis=1)

    def draw(self, theta: Float[ndarray, "r p"], n: int, rng: Generator) -> Float[ndarray, "r n d"]:
        """Draws of every replica."""
        d = self.dimension
        z = rng.standard_normal((len(theta), n, d)) @ np.swapaxes(self._unit(theta), 1, 2)
        return theta[:, None, :d] + np.exp(theta[:, None, d : 2 * d]) * z

    def score(self, theta: Float[ndarray, "r p"], u: Float[ndarray, "r m d"]) -> _FullScored:
        """Log density and its gradient in the parameters."""
        d = self.dimension
        log_scale = theta[:, d : 2 * d]
        inverse_scale = np.exp(-log_scale)
        inverse = _inverse_of_unit(self._unit(theta))
        scaled = (u - theta[:, None, :d]) * inverse_scale[:, None]
        z = scaled @ np.swapaxes(inverse, 1, 2)
        log_q = -0.5 * (z * z).sum(axis=2) - (log_scale.sum(axis=1) + 0.5 * d * log(2 * pi))[:, None]
        return _FullScored(log_q, z, scaled, inverse, inverse_scale)

    def _unit(self, theta: Float[ndarray, "r p"]) -> Float[ndarray, "r d d"]:
        d = self.dimension
        unit = np.zeros((len(theta), d, d))
        unit[:] = np.eye(d)
        unit[:, *_below_diagonal(d)] = theta[:, 2 * d :]
        return unit


class _FullScored(NamedTuple):
    log_q: Float[ndarray, "r m"]
    z: Float[ndarray, "r m d"]
    scaled: Float[ndarray, "r m d"]
    inverse: Float[ndarray, "r d d"]
    inverse_scale: Float[ndarray, "r d"]

    def weighted_score(self, c: Float[ndarray, "r m"]) -> Float[ndarray, "r p"]:
        """Σ_m c_m ∇ log q(u_m)."""
        # With a = U⁻ᵀ z: ∇μ = a / s, ∇ log s = a (U z) - 1, ∇U = a zᵀ below the diagonal
        a = (self.z @ self.inverse) * c[:, :, None]
        to_mean = a.sum(axis=1) * self.inverse_scale
        to_scale = (a * self.scaled).sum(axis=1) - c.sum(axis=1, keepdims=True)
        to_unit = (np.swapaxes(a, 1, 2) @ self.z)[:, *_below_diagonal(a.shape[2])]
        return np.concatenate([to_mean, to_scale, to_unit], axis=1)


@cache
def _below_diagonal(dimension: int) -> tuple[Int[ndarray, " t"], Int[ndarray, " t"]]:
    rows, columns = np.tril_indices(dimension, -1)
    return rows, columns


def _inverse_of_unit(unit: Float[ndarray, "r d d"]) -> Float[ndarray, "r d d"]:
    """Inverse of unit lower triangular matrices by forward substitution, which overflows but never fails."""
    inverse = np.zeros_like(unit)
    for i in range(unit.shape[1]):
        inverse[:, i, i] = 1.0
        if i:
            inverse[:, i, :i] = -(unit[:, i, None, :i] @ inverse[:, :i, :i])[:, 0]
    return inverse


@dataclass(frozen=True)
class MixtureOfGaussians:
    """The paper's mixture Σ w_k N(μ_k, σ_k² diag(λ²)), λ shared by all components.

    Parameters: means by rows, log σ, log λ, then η with w = softmax(η).
    """

    dimension: int
    components: int

    def start(self, replicas: int, settings: BbviSettings, rng: Generator) -> Float[ndarray, "r p"]:
        """Parameters of narrow densities at the origin, all components of equal weight."""
        k, d = self.components, self.dimension
        theta = np.zeros((replicas, k * d + k + d + k))
        theta[:, : k * d] = settings.initial_noise * rng.standard_normal((replicas, k * d))
        theta[:, k * d : k * d + k] = log(settings.initial_scale)
        return theta

    def draw(self, theta: Float[ndarray, "r p"], n: int, rng: Generator) -> Float[ndarray, "r n d"]:
        """Draws of every replica."""
        part = self._split(theta)
        edges = np.cumsum(np.exp(part.eta - part.eta.max(axis=1, keepdims=True)), axis=1)[:, None]
        component = (rng.random((len(theta), n, 1)) * edges[:, :, -1:] > edges[:, :, :-1]).sum(axis=2)
        replica = np.arange(len(theta))[:, None]
        z = rng.standard_normal((len(theta), n, self.dimension))
        z *= np.exp(part.log_sigma[replica, component])[:, :, None]
        z *= np.exp(part.log_lambda)[:, None]
        z += part.means[replica, component]
        return z

    def score(self, theta: Float[ndarray, "r p"], u: Float[ndarray, "r m d"]) -> _MixtureScored:
        """Log density and its gradient in the parameters."""
        part, d = self._split(theta), self.dimension
        log_weight = _log_softmax(part.eta)
        inverse_scale = np.exp(-part.log_sigma[:, :, None] - part.log_lambda[:, None])
        z = (u[:, :, None] - part.means[:, None]) * inverse_scale[:, None]
        squares = np.einsum("rmkd,rmkd->rmk", z, z)
        volume = part.log_lambda.sum(axis=1, keepdims=True) + 0.5 * d * log(2 * pi)
        share = -0.5 * squares + (log_weight - d * part.log_sigma - volume)[:, None]
        top = share.max(axis=2, keepdims=True)
        np.exp(share - top, out=share)
        total = share.sum(axis=2, keepdims=True)
        share /= total
        log_q = (top + np.log(total))[:, :, 0]
        return _MixtureScored(log_q, z, squares, share, inverse_scale, np.exp(log_weight))

    def _split(self, theta: Float[ndarray, "r p"]) -> _MixtureParts:
        k, d = self.components, self.dimension
        return _MixtureParts(
            theta[:, : k * d].reshape(-1, k, d),
            theta[:, k * d : k * d + k],
            theta[:, k * d + k : k * d + k + d],
            theta[:, k * d + k + d :],
        )


class _MixtureScored(NamedTuple):
    log_q: Float[ndarray, "r m"]
    z: Float[ndarray, "r m k d"]
    squares: Float[ndarray, "r m k"]
    share: Float[ndarray, "r m k"]
    inverse_scale: Float[ndarray, "r k d"]
    weights: Float[ndarray, "r k"]

    def weighted_score(self, c: Float[ndarray, "r m"]) -> Float[ndarray, "r p"]:
        """Σ_m c_m ∇ log q(u_m)."""
        z, pull = self.z, self.share * c[:, :, None]
        mass = pull.sum(axis=1)
        all_mass = c.sum(axis=1, keepdims=True)
        to_means = np.einsum("rmk,rmkd->rkd", pull, z) * self.inverse_scale
        to_sigma = (pull * self.squares).sum(axis=1) - z.shape[3] * mass
        to_lambda = np.einsum("rmk,rmkd,rmkd->rd", pull, z, z) - all_mass
        to_eta = mass - all_mass * self.weights
        return np.concatenate([to_means.reshape(len(c), -1), to_sigma, to_lambda, to_eta], axis=1)


class _MixtureParts(NamedTuple):
    means: Float[ndarray, "r k d"]
    log_sigma: Float[ndarray, "r k"]
    log_lambda: Float[ndarray, "r d"]
    eta: Float[ndarray, "r k"]


def _log_softmax(eta: Float[ndarray, "r k"]) -> Float[ndarray, "r k"]:
    shifted = eta - eta.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


Family: TypeAlias = Diagonal | Full | MixtureOfGaussians
Scored: TypeAlias = _DiagonalScored | _FullScored | _MixtureScored


def _family(settings: BbviSettings, dimension: int) -> Family:
    if settings.family == "mixture":
        return MixtureOfGaussians(dimension, settings.components)
    return Diagonal(dimension) if settings.family == "diagonal" else Full(dimension)


# Optimisation


class _End(NamedTuple):
    """Where one point of the grid ended."""

    learning_rate: float
    samples: int
    theta: Float[ndarray, " p"]


class Elbo(NamedTuple):
    """An estimate of the ELBO and its standard error."""

    value: float
    sd: float


@dataclass(frozen=True, eq=False)
class _Inference:
    family: Family
    target: InferenceTarget
    settings: BbviSettings
    rng: Generator

    def optimise(self, samples: int, iterations: int) -> list[_End]:
        """Run all learning rates with the same number of draws per gradient."""
        rates = self.settings.learning_rates
        theta = self.family.start(len(rates), self.settings, self.rng)
        adam = _Adam(theta, np.array(rates)[:, None])
        baseline = self._draw(theta, samples)[1].mean(axis=1, keepdims=True)
        for _ in range(iterations - 1):
            scored, ratio = self._draw(theta, samples)
            adam.ascend(scored.weighted_score((ratio - baseline) / samples))
            # The average of earlier steps alone, as in Pyro: one that held this step's draws would bias its gradient.
            baseline += (1 - self.settings.smoothing) * (ratio.sum(axis=1, keepdims=True) / samples - baseline)
        return [_End(rate, samples, row) for rate, row in zip(rates, theta, strict=True)]

    def elbo(self, theta: Float[ndarray, " p"]) -> Elbo:
        """Average log p - log q over fresh draws; -inf where something is not finite."""
        draws = self.settings.elbo_draws
        if not np.isfinite(theta).all():
            return Elbo(-np.inf, np.nan)
        sizes = [min(BLOCK, draws - start) for start in range(0, draws, BLOCK)]
        ratio = np.concatenate([self._draw(theta[None], size)[1][0] for size in sizes])
        if not np.isfinite(ratio).all():
            return Elbo(-np.inf, np.nan)
        return Elbo(float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(draws)))

    def _draw(self, theta: Float[ndarray, "r p"], n: int) -> tuple[Scored, Float[ndarray, "r n"]]:
        """Some draws, and log p - log q of each, no lower than the floor."""
        u = self.family.draw(theta, n, self.rng)
        scored = self.family.score(theta, u)
        log_p = self.target(u.reshape(-1, u.shape[2])).reshape(scored.log_q.shape)
        return scored, np.maximum(log_p - scored.log_q, FLOOR)


class _Adam:
    """Adam with its usual constants, changing `theta` in place; every replica has a rate of its own."""

    def __init__(self, theta: Float[ndarray, "r p"], rates: Float[ndarray, "r 1"]) -> None:
        self._theta, self._rates = theta, rates
        self._first, self._second = np.zeros_like(theta), np.zeros_like(theta)
        self._step = 0

    def ascend(self, gradient: Float[ndarray, "r p"]) -> None:
        """Take one step uphill."""
        self._step += 1
        self._first += 0.1 * (gradient - self._first)
        self._second += 0.001 * (gradient * gradient - self._second)
        size = np.sqrt(self._second / (1 - 0.999**self._step))
        size += 1e-8
        self._theta += self._rates / (1 - 0.9**self._step) * self._first / size
