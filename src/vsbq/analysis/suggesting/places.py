"""Where an evaluation might help: draws of the posterior, of wider ones, of a box, and of where the verdict doubts.

All points are in plain inference coordinates, which know no bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.analysis.suggesting.policy import Suggesting
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import THRESHOLDS
from vsbq.posterior.diagnosis.edges import FAR, NEAR, Edge, edges
from vsbq.posterior.diagnosis.measures import View
from vsbq.posterior.modes import mixture_regions, nearest_region
from vsbq.steps.model import LogDensityModel

__all__ = ["Tail", "Weak", "proposals"]

#: Shares of the way between two draws of different modes, at which there is nothing but the valley.
VALLEY = (0.15, 0.85)


class Tail(NamedTuple):
    """A side on which the posterior is cut: its outermost draws, and the step that leads from its flank to them."""

    edge: Edge
    tip: Float[ndarray, "n d"]
    step: Float[ndarray, " d"]

    def beyond(self, n: int, reach: float, rng: np.random.Generator) -> Float[ndarray, "n d"]:
        """Points farther out, by up to so many steps, that fan out as they go."""
        start = self.tip[rng.integers(len(self.tip), size=n)]
        far = rng.uniform(0.0, reach, (n, 1))
        centre = self.tip.mean(axis=0)
        return centre + (start - centre) * np.sqrt(1.0 + far) + far * self.step


class Weak(NamedTuple):
    """What the verdict may doubt of a posterior in single places: tails that are cut, and modes apart."""

    tails: tuple[Tail, ...]
    draws: Float[ndarray, "n d"]
    region: Int[ndarray, " n"]  # of each draw

    @classmethod
    def of(cls, post: Posterior) -> Weak:
        """From the draws that the verdict rests on."""
        view = View.of(post)
        assert view is not None
        limit = THRESHOLDS.limit("cut off")
        cut = [edge for edge in edges(view) if limit.level(edge.cut) != "trusted"]
        region = nearest_region(post.mixture, mixture_regions(post.mixture), view.plain)
        return cls(tuple(_tail(view, edge) for edge in cut), view.plain, region)

    def within_sd(self, draws: Float[ndarray, "n d"]) -> Float[ndarray, " d"]:
        """Standard deviation within a mode of each coordinate of the draws, in whatever coordinates they are."""
        centred = draws.copy()
        for mode in np.unique(self.region):
            centred[self.region == mode] -= centred[self.region == mode].mean(axis=0)
        return np.maximum(centred.std(axis=0), 1e-300)

    def between(self, n: int, rng: np.random.Generator) -> Float[ndarray, "k d"]:
        """Points on the ways between draws of different modes; none where the posterior is one region."""
        modes = np.unique(self.region)
        if len(modes) < 2:
            return np.empty((0, self.draws.shape[1]))
        one, other = (np.empty(n, dtype=np.int64) for _ in range(2))
        for i in range(n):
            pair = rng.choice(modes, 2, replace=False)
            one[i], other[i] = (rng.choice(np.flatnonzero(self.region == mode)) for mode in pair)
        way = rng.uniform(*VALLEY, (n, 1))
        return self.draws[one] + way * (self.draws[other] - self.draws[one])

    def beyond(self, n: int, reach: float, rng: np.random.Generator) -> Float[ndarray, "k d"]:
        """Points beyond the sides that are cut, as many for each."""
        count = -(-n // max(len(self.tails), 1))
        parts = [tail.beyond(count, reach, rng) for tail in self.tails]
        return np.concatenate(parts) if parts else np.empty((0, self.draws.shape[1]))


def _tail(view: View, edge: Edge) -> Tail:
    """The draws beyond the outer quantile, and the way from those between the two quantiles to them."""
    space = view.model.space
    plain, weights = space.to_plain(view.tail_points), view.tail_weights
    values = edge.side * plain[:, edge.parameter]
    order = np.argsort(-values, kind="stable")
    above = np.cumsum(weights[order]) / weights.sum()
    near, far = (values[order][min(int(np.searchsorted(above, share)), len(order) - 1)] for share in (NEAR, FAR))
    tip, flank = (values >= far) & (weights > 0), (values < far) & (values >= near)
    ahead = np.average(plain[tip], axis=0, weights=weights[tip])
    behind = np.average(plain[flank], axis=0, weights=weights[flank]) if weights[flank].sum() > 0 else ahead
    return Tail(edge, plain[tip], ahead - behind)


def proposals(
    post: Posterior, weak: Weak, size: int, settings: Suggesting, rng: np.random.Generator
) -> Float[ndarray, "n d"]:
    """Points of all kinds."""
    counts = np.ceil(np.array(settings.shares) * size).astype(int)
    drawn = post.space.forward(post.sample(int(counts[0] + counts[2]), rng))
    inside, whole = drawn[: counts[0]], drawn[counts[0] :]
    parts = _wider_parts(post, int(counts[1]), settings, rng)
    whole = _wider_whole(drawn, whole, settings, rng)
    box = _in_the_box(post, drawn, int(counts[3]), settings, rng)
    extra = int(np.ceil(settings.share_of_doubt * size))
    beyond, between = weak.beyond(extra, settings.most_widening, rng), weak.between(extra, rng)
    return np.concatenate([inside, parts, whole, box, beyond, between])


def distinct(u: Float[ndarray, "n d"], model: LogDensityModel) -> Float[ndarray, "k d"]:
    """Without those that are equal in the user's space or so far out that they are on a bound there."""
    x = model.space.inverse(u)
    u, x = (part[np.isfinite(x).all(axis=1) & ~model.space.at_edge(x)] for part in (u, x))
    return u[np.sort(np.unique(x, axis=0, return_index=True)[1])]


def _in_the_box(
    post: Posterior, drawn: Float[ndarray, "n d"], n: int, settings: Suggesting, rng: np.random.Generator
) -> Float[ndarray, "k d"]:
    """Points of the box of the evaluations, and of wider ones."""
    low, high = _box(post, drawn)
    widening = _in_all_directions(settings.most_widening, post.dimension)
    reach = 0.5 * _factors(n, widening, rng) * (high - low)
    return 0.5 * (low + high) + reach * rng.uniform(-1.0, 1.0, (n, len(low)))


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


def _wider_parts(post: Posterior, n: int, settings: Suggesting, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """Draws of the mixture's components, each stretched from its component's centre."""
    mixture = post.mixture
    component = rng.choice(len(mixture.means), n, p=mixture.weights / mixture.weights.sum())
    z = _stretched(rng.standard_normal((n, post.dimension)), settings.most_widening, rng)
    return mixture.means[component] + np.einsum("nij,nj->ni", mixture.trils[component], z)


def _wider_whole(
    drawn: Float[ndarray, "n d"], some: Float[ndarray, "k d"], settings: Suggesting, rng: np.random.Generator
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
