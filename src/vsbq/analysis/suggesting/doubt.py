"""What is open of the log density: the surrogate's own covariance, and every doubt of the verdict beside it.

Each doubt is extra variance where it applies, so that one choice weighs them all against each other:

* The surrogate's covariance, with what the sisters differ by, is larger away from the evaluations than it says.
* What single blocks of evaluations decide: how the mean changes if one of them is left out.
* What the evaluations leave open of the trend, the paraboloid that the surrogate falls back on.
* What the outermost evaluations on a side decide beyond them.
* Where the support ends: by what share the probability to be inside differs between edges that fit the evaluations.

Blocks, trend and sides count only where the verdict doubts the fit for their sake: what a block decides is known as
long as the block is there. No doubt is larger than the posterior is deep: what is wrong by more than that is wrong all
the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Float, Int, ndarray
from vsbq.analysis.suggesting.places import Weak
from vsbq.analysis.suggesting.policy import Suggesting
from vsbq.numerics import linalg
from vsbq.numerics.contours import HOPELESS, contour_depth
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis.measures import MOST_CHANGE
from vsbq.steps.model import LocatedPoints, LogDensityModel
from vsbq.steps.support import Support

__all__ = ["KINDS", "Doubts", "Gap", "Part", "Relevance"]

#: The doubts beside the surrogate's own covariance, in the order of the features.
KINDS = ("block", "trend", "side", "support")

#: The findings for whose sake they count; the edge of the support always does.
FOR_THE_SAKE_OF = {
    "block": {"held out"},
    "trend": {"beyond", "around", "cut off", "evidence"},
    "side": {"beyond", "around", "cut off"},
}

#: Probability to be inside below which a place is no place of the posterior.
LEAST_INSIDE = 0.05


class Relevance(NamedTuple):
    """How much it matters what is not known of a place."""

    level: float  # of the outer contour of the posterior, relative to the surrogate's offset
    caution: float
    least_weight: float
    small_variance: float

    @classmethod
    def of(cls, post: Posterior, model: LogDensityModel, settings: Suggesting) -> Relevance:
        """The level at which a place counts in full."""
        draws = model.space.forward(post.sample(1000, np.random.default_rng(0)))
        top = float(np.quantile(model.mean(draws), 0.99))
        level = top - contour_depth(settings.contour, post.dimension)
        # The more parameters, the less can a batch see of a box; points are then better spent on what is suspected.
        return cls(level, settings.caution, settings.exploration * 0.5**post.dimension, settings.small_sd**2)

    def slope(self, mean: Float[ndarray, " p"], variance: Float[ndarray, " p"]) -> Float[ndarray, " p"]:
        """Weight of each place times the derivative of log(1 + s² / s₀²) by s²."""
        beyond = mean + self.caution * np.sqrt(variance) - self.level
        return np.maximum(np.exp(np.minimum(beyond, 0.0)), self.least_weight) / (variance + self.small_variance)


class Gap(NamedTuple):
    """By how much the surrogate's standard deviations are too small away from the evaluations.

    The mean of the Gaussian process is a paraboloid through the evaluations that counts as known. Where it explains
    them well the surrogate is as sure of it where nothing was evaluated: beyond them, and between them.
    """

    points: Float[ndarray, "m d"]  # evaluations in the surrogate's coordinates
    sd: Float[ndarray, " d"]  # of the posterior, within a mode
    usual: float  # squared distance from draws of the posterior to their nearest evaluation
    growth: float

    @classmethod
    def of(cls, post: Posterior, model: LogDensityModel, weak: Weak, settings: Suggesting) -> Gap | None:
        """None where the evaluations are not here."""
        if post.evaluations is None:
            return None
        # The surrogate knows nothing of those that were dropped as hopeless, nor of those of zero density.
        values = post.evaluations.log_density
        near = values >= values.max() - contour_depth(HOPELESS, post.dimension)
        points = model.space.forward(post.evaluations.points[near])
        draws = model.space.from_plain(weak.draws[:: max(1, len(weak.draws) // 500)])
        sd = weak.within_sd(model.space.from_plain(weak.draws))
        far = np.asarray(cKDTree(points / sd).query(draws / sd)[0])
        return cls(points, sd, float(np.median(far**2)), settings.growing_doubt)

    def distance(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior sds to the nearest evaluation, beyond those that are usual."""
        far = np.asarray(cKDTree(self.points / self.sd).query(u / self.sd)[0])
        return np.sqrt(np.maximum(far**2 - self.usual, 0.0))

    def __call__(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Factor of the standard deviation at each point."""
        return 1.0 + self.growth * self.distance(u)


class Part(NamedTuple):
    """Points with their covariances: the model's own with a factor of doubt, and features that add to it."""

    located: LocatedPoints
    factor: Float[ndarray, " n"]
    features: Float[ndarray, "f n"]

    def take(self, rows: Int[ndarray, " k"]) -> Part:
        """Some of the points."""
        return Part(self.located.take(rows), self.factor[rows], self.features[:, rows])

    def variance(self) -> Float[ndarray, " n"]:
        """At each point."""
        return self.factor**2 * self.located.variance() + (self.features**2).sum(axis=0)

    def covariance(self, other: Part) -> Float[ndarray, "n k"]:
        """With other points."""
        out = self.located.covariance(other.located)
        out *= self.factor[:, None]
        out *= other.factor
        out += linalg.product(np.asfortranarray(self.features).T, other.features)
        return out


class Doubts(NamedTuple):
    """All that is open of the log density of a posterior."""

    model: LogDensityModel
    gap: Gap | None
    support: Support | None
    centre: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]
    depth: float
    kinds: frozenset[str] = frozenset(KINDS)

    @classmethod
    def of(cls, post: Posterior, model: LogDensityModel, weak: Weak, settings: Suggesting) -> Doubts:
        """As the fit left it."""
        reasons = set(post.diagnose().causes)
        kinds = frozenset(kind for kind in KINDS if kind == "support" or FOR_THE_SAKE_OF[kind] & reasons)
        draws = model.space.from_plain(weak.draws)
        support = post.support if post.support is not None and post.support.surfaces else None
        depth = contour_depth(settings.contour, post.dimension)
        gap = Gap.of(post, model, weak, settings)
        return cls(model, gap, support, draws.mean(axis=0), weak.within_sd(draws), depth, kinds)

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The expected log density, with the probability to be inside."""
        mean = self.model.mean(u)
        return mean if self.support is None else mean + self.support.log_probability(self.model.space.to_plain(u))

    def at(self, u: Float[ndarray, "n d"]) -> Part:
        """Points with their covariances."""
        factor = np.ones(len(u)) if self.gap is None else self.gap(u)
        return Part(self.model.at(u), factor, np.concatenate(list(self.features(u).values())))

    def features(self, u: Float[ndarray, "n d"]) -> dict[str, Float[ndarray, "f n"]]:
        """Independent directions, in nats, of each kind of doubt."""
        nothing = np.zeros((0, len(u)))
        return {kind: self._at_most_deep(self._of_kind(kind, u)) if kind in self.kinds else nothing for kind in KINDS}

    def _of_kind(self, kind: str, u: Float[ndarray, "n d"]) -> Float[ndarray, "f n"]:
        if kind == "block":
            return np.asarray(np.clip(self.model.changes(u), -MOST_CHANGE, MOST_CHANGE))
        if kind == "trend":
            return self.model.trends(u)
        return self._sides(u) if kind == "side" else self._edges(u)

    def _at_most_deep(self, features: Float[ndarray, "f n"]) -> Float[ndarray, "f n"]:
        size = np.maximum(np.sqrt((features**2).sum(axis=0)), 1e-300)
        return features * np.minimum(1.0, self.depth / size)

    def _sides(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "s n"]:
        """The doubt beyond the outermost evaluations, shared by the sides on which a point lies."""
        doubt = np.minimum(self.model.doubt_beyond(u), self.depth)
        way = (u - self.centre) / self.sd
        way /= np.maximum(np.linalg.norm(way, axis=1, keepdims=True), 1e-300)
        return np.concatenate([np.maximum(way, 0.0), np.maximum(-way, 0.0)], axis=1).T * doubt

    def _edges(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "e n"]:
        if self.support is None:
            return np.zeros((0, len(u)))
        inside = np.exp(self.support.log_probabilities(self.model.space.to_plain(u)))
        mean = inside.mean(axis=1, keepdims=True)
        return ((inside - mean) / np.maximum(mean, LEAST_INSIDE)).T / np.sqrt(inside.shape[1])
