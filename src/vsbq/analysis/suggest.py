"""What to evaluate next: the batch of points that would reduce the uncertainty of a posterior most.

Where the surrogate may be wrong by s nats matters only if the density may be high there. A place counts if the log
density might reach the outer contour of the posterior: if mean + s does. It counts for log(1 + (s / s₀)²), which
chases neither places where the surrogate knows nothing at all nor those that it knows well enough. Beyond the
evaluations s grows, because the surrogate is too sure there. The batch is chosen
one by one: the next point is the one whose evaluation lowers the sum over all places most, given the points before it.
The variance of a Gaussian process does not depend on the values, so that nothing has to be evaluated in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.errors import VsbqError
from vsbq.numerics import linalg
from vsbq.numerics.contours import HOPELESS, POSTERIOR, contour_depth, highest
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState
from vsbq.steps.model import LocatedPoints, LogDensityModel

__all__ = ["Suggestion", "suggest"]

#: Points chosen between two looks at all candidates, and the candidates among which a block chooses.
BLOCK = 32
SHORTLIST = 256

MOST_POINTS = 4000


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """How points are suggested. Candidates, and places at which uncertainty is counted, are drawn from the posterior,
    from wider versions of it and from the box of the evaluations."""

    candidates: int = 3000  # at least, and
    candidates_per_point: int = 3
    places: int = 1500
    shares: tuple[float, float, float, float] = (0.3, 0.2, 0.3, 0.2)  # posterior, wider parts, wider whole, box
    most_widening: float = 5.0  # wider by factors from 1 to this along one direction, less in all at once
    caution: float = 1.0  # sds above its mean at which the surrogate's log density might be
    contour: float = POSTERIOR  # of the posterior: a place that might reach it counts in full
    growing_doubt: float = 1.0  # of the surrogate's sd, for each posterior sd beyond the evaluations
    exploration: float = 0.1  # times 2^-D is the weight of a place where nothing is suspected
    small_sd: float = 0.1  # s₀, nats
    least_noise_sd: float = 0.03  # nats by which an exact evaluation does not speak for its neighbourhood


def suggest(
    post: Posterior, n: int, rng: RandomState = None, settings: Suggestion | None = None
) -> Float[ndarray, "n d"]:
    """n points in the user's space, inside the bounds and where the density rather is not zero, whose evaluation would
    tell most, the most telling one first."""
    surrogate = _surrogate(post)
    if not 1 <= n <= MOST_POINTS:
        raise ValueError(f"suggest gives from 1 to {MOST_POINTS} points at a time, not {n}.")
    settings, generator = settings or Suggestion(), np.random.default_rng(rng)
    relevance = _Relevance.of(post, surrogate, settings)
    places = _proposals(post, surrogate, settings.places, settings, generator)
    size = max(settings.candidates, settings.candidates_per_point * n)
    candidates = _proposals(post, surrogate, size, settings, generator)
    while len(candidates) < n:
        more = _proposals(post, surrogate, size, settings, generator)
        candidates = _distinct(np.concatenate([candidates, more]), surrogate)
    doubt = _Doubt.of(post, surrogate, settings)
    batch = _Batch(surrogate, (candidates, places), relevance, doubt, _noise_sd(post, settings))
    while len(batch.chosen) < n:
        batch.choose(min(max(n // 16, 1), BLOCK, n - len(batch.chosen)))
    return surrogate.space.inverse(candidates[batch.chosen])


def _surrogate(post: Posterior) -> LogDensityModel:
    if post.surrogate is None:
        raise VsbqError(
            "This posterior has no surrogate (a compact file leaves it out), and without it nothing can be said about "
            "where more evaluations would help. Load a file that was saved with compact=False, or fit again."
        )
    return post.surrogate


def _noise_sd(post: Posterior, settings: Suggestion) -> float:
    """Noise of an evaluation to come: the usual one among the best so far, or what was found out about it."""
    given, found = post.evaluations, None if post.history is None else post.history.noise
    if found is not None and found.kind in ("estimated", "rescaled"):
        return max(settings.least_noise_sd, found.sd)
    if given is None or given.log_density_sd is None:
        return settings.least_noise_sd
    best = highest(given.log_density, max(20, len(given) // 10))
    return max(settings.least_noise_sd, float(np.median(given.log_density_sd[best])))


# Candidates


def _proposals(
    post: Posterior, surrogate: LogDensityModel, size: int, settings: Suggestion, rng: np.random.Generator
) -> Float[ndarray, "n d"]:
    """Points in the surrogate's coordinates: draws of the posterior, of wider ones, and of a wide box."""
    counts = np.ceil(np.array(settings.shares) * size).astype(int)
    drawn = post.space.forward(post.sample(int(counts[0] + counts[2]), rng))
    inside, whole = drawn[: counts[0]], drawn[counts[0] :]
    parts = _wider_parts(post, int(counts[1]), settings, rng)
    whole = _wider_whole(drawn, whole, settings, rng)
    low, high = _box(post, drawn)
    widening = _in_all_directions(settings.most_widening, post.dimension)
    reach = 0.5 * _factors(int(counts[3]), widening, rng) * (high - low)
    box = 0.5 * (low + high) + reach * rng.uniform(-1.0, 1.0, (int(counts[3]), len(low)))
    u = np.concatenate([inside, parts, whole, box])
    if post.support is not None:
        u = u[post.support.inside(u)]
    return _distinct(surrogate.space.from_plain(u), surrogate)


def _factors(n: int, widening: float, rng: np.random.Generator) -> Float[ndarray, "n 1"]:
    """Factors from 1 to the widening, uniform in their logarithm."""
    return np.exp(rng.uniform(0.0, np.log(widening), (n, 1)))


def _in_all_directions(widening: float, dimension: int) -> float:
    """The factor in all directions at once that moves standard draws as far out as a widening along one of them."""
    return float(np.sqrt(1.0 + (widening**2 - 1.0) / dimension))


def _stretched(z: Float[ndarray, "n d"], widening: float, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """Standard draws moved away from the origin: a third each along an axis, along any direction, and in all."""
    n, d = z.shape
    kind = np.arange(n) % 3
    direction = rng.standard_normal((n, d))
    direction[kind == 0] = np.eye(d)[rng.integers(d, size=int((kind == 0).sum()))]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    along = np.einsum("nd,nd->n", z, direction)[:, None] * direction
    out = z + (_factors(n, widening, rng) - 1.0) * along
    out[kind == 2] = (_factors(n, _in_all_directions(widening, d), rng) * z)[kind == 2]
    return out


def _wider_parts(post: Posterior, n: int, settings: Suggestion, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """Draws of the mixture's components, each stretched from its component's centre."""
    mixture = post.mixture
    component = rng.choice(len(mixture.means), n, p=mixture.weights / mixture.weights.sum())
    z = _stretched(rng.standard_normal((n, post.dimension)), settings.most_widening, rng)
    return mixture.means[component] + np.einsum("nij,nj->ni", mixture.trils[component], z)


def _wider_whole(
    drawn: Float[ndarray, "n d"], some: Float[ndarray, "k d"], settings: Suggestion, rng: np.random.Generator
) -> Float[ndarray, "k d"]:
    """Draws of the posterior, stretched from its mean, half of them along its principal axes."""
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(drawn.T)))
    sd = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    z = (some - drawn.mean(axis=0)) @ vectors / sd
    return drawn.mean(axis=0) + _stretched(z, settings.most_widening, rng) * sd @ vectors.T


def _box(post: Posterior, drawn: Float[ndarray, "n d"]) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"]]:
    """The box of the better half of the evaluations and of the plausible bounds."""
    given = post.evaluations
    if given is None:
        return drawn.min(axis=0), drawn.max(axis=0)
    usual = np.median(given.log_density[np.isfinite(given.log_density)])
    good = post.space.forward(given.points[given.log_density >= usual])
    if given.plausible_bounds is not None:
        corners = np.stack([given.plausible_bounds.lower, given.plausible_bounds.upper])
        good = np.concatenate([good, post.space.forward(corners)])
    return good.min(axis=0), good.max(axis=0)


def _distinct(u: Float[ndarray, "n d"], surrogate: LogDensityModel) -> Float[ndarray, "k d"]:
    """Without those that are equal in the user's space or so far out that they are on a bound there."""
    x = surrogate.space.inverse(u)
    u, x = (part[np.isfinite(x).all(axis=1) & ~surrogate.space.at_edge(x)] for part in (u, x))
    return u[np.sort(np.unique(x, axis=0, return_index=True)[1])]


class _Relevance(NamedTuple):
    """How much it matters what the surrogate does not know of a place."""

    level: float  # of the outer contour of the posterior, relative to the surrogate's offset
    caution: float
    least_weight: float
    small_variance: float

    @classmethod
    def of(cls, post: Posterior, surrogate: LogDensityModel, settings: Suggestion) -> _Relevance:
        draws = surrogate.space.forward(post.sample(1000, np.random.default_rng(0)))
        top = float(np.quantile(surrogate.mean(draws), 0.99))
        level = top - contour_depth(settings.contour, post.dimension)
        # The more parameters, the less can a batch see of a box; points are then better spent on what is suspected.
        return cls(level, settings.caution, settings.exploration * 0.5**post.dimension, settings.small_sd**2)

    def slope(self, mean: Float[ndarray, " p"], variance: Float[ndarray, " p"]) -> Float[ndarray, " p"]:
        """Weight of each place times the derivative of log(1 + s² / s₀²) by s²."""
        beyond = mean + self.caution * np.sqrt(variance) - self.level
        return np.maximum(np.exp(np.minimum(beyond, 0.0)), self.least_weight) / (variance + self.small_variance)


class _Doubt(NamedTuple):
    """By how much the surrogate's standard deviations are too small beyond the evaluations.

    The mean of the Gaussian process is a paraboloid through the evaluations that counts as known. Where it explains
    them well the surrogate is as sure of it outside, where nothing was evaluated.
    """

    lower: Float[ndarray, " d"]  # box of the evaluations in the surrogate's coordinates
    upper: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]  # of the posterior
    growth: float

    @classmethod
    def of(cls, post: Posterior, surrogate: LogDensityModel, settings: Suggestion) -> _Doubt:
        draws = surrogate.space.forward(post.sample(1000, np.random.default_rng(0)))
        box = draws
        if post.evaluations is not None:
            # The surrogate knows nothing of those that were dropped as hopeless, nor of those of zero density.
            values = post.evaluations.log_density
            near = values >= values.max() - contour_depth(HOPELESS, post.dimension)
            box = surrogate.space.forward(post.evaluations.points[near])
        elif post.refined is not None:
            box = np.stack([post.refined.region.lower, post.refined.region.upper])
        growth = settings.growing_doubt
        return cls(box.min(axis=0), box.max(axis=0), draws.std(axis=0), growth)

    def __call__(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Factor of the standard deviation at each point."""
        outside = np.maximum(np.maximum(self.lower - u, u - self.upper), 0.0) / self.sd
        return 1.0 + self.growth * np.linalg.norm(outside, axis=1)


# The batch


class _Part(NamedTuple):
    """Points with their covariances, and the factor of doubt at each of them."""

    located: LocatedPoints
    doubt: Float[ndarray, " n"]

    @classmethod
    def of(cls, model: LogDensityModel, points: Float[ndarray, "n d"], doubt: _Doubt) -> _Part:
        return cls(model.at(points), doubt(points))

    def take(self, rows: Int[ndarray, " k"]) -> _Part:
        return _Part(self.located.take(rows), self.doubt[rows])

    def variance(self) -> Float[ndarray, " n"]:
        return self.doubt**2 * self.located.variance()

    def covariance(self, other: _Part) -> Float[ndarray, "n k"]:
        out = self.located.covariance(other.located)
        out *= self.doubt[:, None]
        out *= other.doubt
        return out


class _Batch:
    """Points chosen so far, and the covariance that they leave between candidates and places."""

    def __init__(
        self,
        surrogate: LogDensityModel,
        points: tuple[Float[ndarray, "c d"], Float[ndarray, "p d"]],
        relevance: _Relevance,
        doubt: _Doubt,
        noise_sd: float,
    ) -> None:
        candidates, places = (_Part.of(surrogate, each, doubt) for each in points)
        self.relevance, self.part = relevance, candidates
        # No less than rounding errors of the kernel matrices.
        self.noise = max(noise_sd**2, 1e-8 * surrogate.prior_variance * float(candidates.doubt.max()) ** 2)
        self.cross = candidates.covariance(places)
        self.variance, self.variance_there = candidates.variance(), places.variance()
        self.mean_there = surrogate.mean(points[1])
        self.rows = np.empty((0, len(candidates.doubt)))  # Cholesky rows of the chosen points
        self.chosen: list[int] = []

    def choose(self, count: int) -> None:
        """The next points, from a shortlist of the candidates that look best now."""
        slope = self.relevance.slope(self.mean_there, self.variance_there)
        gain = np.einsum("cp,cp,p->c", self.cross, self.cross, slope) / (self.variance + self.noise)
        gain[self.chosen] = -np.inf
        listed = np.argsort(-gain, kind="stable")[: max(SHORTLIST, 4 * count)]
        listed = listed[np.isfinite(gain[listed])]
        near = self.part.take(listed)
        among = near.covariance(near) - linalg.product(self.rows[:, listed].T, self.rows[:, listed])
        picked = _greedy(among, self.cross[listed], slope, self.noise, count)
        self._condition(listed[picked])

    def _condition(self, new: Int[ndarray, " b"]) -> None:
        """Take what evaluations of some candidates would explain off all covariances."""
        to_all = self.part.take(new).covariance(self.part)
        to_all -= linalg.product(np.asfortranarray(self.rows[:, new].T), self.rows)
        factor, _ = linalg.jittered_cholesky(to_all[:, new] + self.noise * np.eye(len(new)), self.noise)
        rows = linalg.solve_lower(factor, np.asfortranarray(to_all))
        there = linalg.solve_lower(factor, np.asfortranarray(self.cross[new]))
        self.cross -= linalg.product(np.asfortranarray(rows.T), there)
        self.variance = np.maximum(self.variance - np.einsum("bc,bc->c", rows, rows), 0.0)
        self.variance_there = np.maximum(self.variance_there - np.einsum("bp,bp->p", there, there), 0.0)
        self.rows = np.concatenate([self.rows, rows])
        self.chosen.extend(int(i) for i in new)


def _greedy(
    among: Float[ndarray, "s s"], cross: Float[ndarray, "s p"], slope: Float[ndarray, " p"], noise: float, count: int
) -> Int[ndarray, " b"]:
    """Rows that one after the other lower the weighted variance of the places most."""
    among, cross = among.copy(), cross * np.sqrt(slope)
    picked: list[int] = []
    for _ in range(min(count, len(among))):
        left = np.maximum(np.diagonal(among), 0.0) + noise
        gain = np.einsum("sp,sp->s", cross, cross) / left
        gain[picked] = -np.inf
        best = int(np.argmax(gain))
        picked.append(best)
        step = among[:, best] / left[best]
        cross -= np.outer(step, cross[best])
        among -= np.outer(step, among[best])
    return np.array(picked, dtype=np.int64)
