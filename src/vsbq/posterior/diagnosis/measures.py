"""What is measured of a fit, from what it left: numbers without judgement.

Nothing here calls the model or fits anything, and all random numbers are the same every time. A posterior that was
loaded from a complete file is measured like a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.numerics import mixture as mix
from vsbq.numerics.contours import BULK, POSTERIOR, contour_depth, highest
from vsbq.numerics.resampling import systematic_rows
from vsbq.posterior.diagnosis.distance import marginal_distance, reweighted
from vsbq.posterior.modes import LEAST_SHARE, mixture_regions, nearest_region
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior

__all__ = ["ModeCount", "Rows", "View", "distinct", "held_out_distance", "ignored", "mode_counts", "sister_distance"]

DRAWS = 2000
MOST_ROWS = 2000

#: Nats by which a mean may rise where a block is left out, as in the jackknife of the evidence.
MOST_CHANGE = 1.0

#: Standard deviation in nats from which on the surrogate does not know the density.
UNSURE = 0.5

#: Without a trusted region, the surrogate is believed up to this standard deviation.
BELIEVED = 1.0

#: Evaluations closer than this share of the posterior's standard deviation count as one: steps of finite differences.
GRAIN = 0.05


@dataclass(frozen=True, eq=False)
class View:
    """What the checks look at: the model, draws of equal weight in its coordinates and in plain ones, and all weighted
    draws for the tails."""

    model: LogDensityModel
    region: TrustedRegion | None
    draws: Float[ndarray, "n d"]
    plain: Float[ndarray, "n d"]
    tail_points: Float[ndarray, "m d"]
    tail_weights: Float[ndarray, " m"]

    @classmethod
    def of(cls, post: Posterior) -> View | None:
        """None where the posterior has no surrogate to look at."""
        if post.surrogate is None:
            return None
        rng = np.random.default_rng(0)
        if post.refined is None:
            points = mix.sample(post.mixture, 10 * DRAWS, rng)
            weights = np.full(len(points), 1.0 / len(points))
        else:
            points, weights = post.refined.points, post.refined.weights
        plain = points[systematic_rows(weights, DRAWS, rng)]
        region = None if post.refined is None else post.refined.region
        space = post.surrogate.space
        return cls(post.surrogate, region, space.from_plain(plain), plain, space.from_plain(points), weights)

    def believed(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Where the surrogate is believed, or where the density is known to be zero."""
        if self.region is None:
            return np.asarray(self.model.variance(u) <= BELIEVED**2)
        return np.asarray(np.isfinite(self.region.log_density(u)) | (self.region.log_support(u) < np.log(0.5)))

    def unsure_share(self) -> float:
        """Share of the mass where the surrogate's standard deviation is large."""
        return float(np.mean(self.model.variance(self.draws) > UNSURE**2))


class Rows(NamedTuple):
    """The finite evaluations as the surrogate sees them: row numbers, its coordinates, values there, and noise."""

    numbers: Int[ndarray, " n"]
    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    sd: Float[ndarray, " n"]

    @classmethod
    def of(cls, post: Posterior) -> Rows | None:
        """None where the evaluations are not here."""
        seen, model = post.evaluations, post.surrogate
        if seen is None or model is None:
            return None
        numbers = np.flatnonzero(np.isfinite(seen.log_density))
        u = model.space.forward(seen.points[numbers])
        values = seen.log_density[numbers] - model.offset + model.space.log_jacobian(u)
        return cls(numbers, u, values, _noise(post)[numbers])

    def take(self, rows: ndarray) -> Rows:
        """Some of them."""
        return Rows(*(column[rows] for column in self))

    def under(self, model: LogDensityModel, n_sigma: float) -> Rows:
        """Those that may be within a contour of the top; with noise, the surrogate says how high they are."""
        order = highest(self.values + 2 * self.sd, MOST_ROWS)
        level = np.where(self.sd[order] > 0, model.mean(self.points[order]), self.values[order])
        depth = contour_depth(n_sigma, self.points.shape[1])
        return self.take(order[level >= level.max() - depth])


def _noise(post: Posterior) -> Float[ndarray, " n"]:
    """The noise as the fit took it."""
    seen, found = post.evaluations, None if post.history is None else post.history.noise
    assert seen is not None
    if found is not None and found.kind == "estimated":
        return np.full(len(seen), found.sd)
    given = np.zeros(len(seen)) if seen.log_density_sd is None else np.asarray(seen.log_density_sd)
    return given * found.factor if found is not None and found.kind == "rescaled" else given


def sister_distance(view: View) -> float | None:
    """The largest distance between the posteriors of the models that the surrogate averages over, on the same draws;
    None where it is one model."""
    means = view.model.means(view.draws)
    if len(means) < 2:
        return None
    weights = [reweighted(mean - means.mean(axis=0)) for mean in means]
    pairs = [(a, b) for i, a in enumerate(weights) for b in weights[:i]]
    return max(marginal_distance(view.plain, a, b) for a, b in pairs)


def held_out_distance(view: View) -> float | None:
    """How far the posterior moves if one block of evaluations is left out, for the block that moves it most; None where
    none could be left out."""
    changes = view.model.changes(view.draws)
    if not len(changes):
        return None
    even = np.full(len(view.draws), 1.0 / len(view.draws))
    without = [reweighted(np.minimum(change, MOST_CHANGE)) for change in changes]
    return max(marginal_distance(view.plain, even, weights) for weights in without)


def ignored(view: View, rows: Rows) -> tuple[float, Int[ndarray, " k"]]:
    """By how many nats the surrogate stays below a high evaluation, beyond its noise, and the rows that it misses by
    half as much or more."""
    top = rows.under(view.model, BULK)
    top = top.take(np.flatnonzero(top.values >= top.values.max() - contour_depth(BULK, top.points.shape[1])))
    missed = top.values - view.model.mean(top.points) - 4 * top.sd
    worst = float(max(missed.max(), 0.0))
    return worst, np.sort(top.numbers[missed > max(0.5 * worst, 1e-12)])


def distinct(model: LogDensityModel, draws: Float[ndarray, "n d"], rows: Rows) -> int:
    """How many distinct evaluations lie under draws of a posterior: steps of finite differences count once."""
    spread = np.maximum(draws.std(axis=0), 1e-300)
    # The highest of each place first: an optimiser may leave thousands at its mode.
    order = np.argsort(-rows.values, kind="stable")
    _, first = np.unique(np.floor(rows.points[order] / (GRAIN * spread)), axis=0, return_index=True)
    return len(rows.take(order[first]).under(model, POSTERIOR).values)


class ModeCount(NamedTuple):
    """A separate region: its share of the mass, and the distinct evaluations in it."""

    share: float
    evaluations: int


def mode_counts(post: Posterior, view: View, rows: Rows) -> tuple[ModeCount, ...]:
    """Every region that holds a share of the mass, the heaviest first."""
    region = mixture_regions(post.mixture)
    of_draws = nearest_region(post.mixture, region, view.plain)
    of_rows = nearest_region(post.mixture, region, view.model.space.to_plain(rows.points))
    found = []
    for k in range(int(region.max()) + 1):
        share = float(np.mean(of_draws == k))
        if share >= LEAST_SHARE:
            own = rows.take(np.flatnonzero(of_rows == k))
            count = distinct(view.model, view.draws[of_draws == k], own) if len(own.values) else 0
            found.append(ModeCount(share, count))
    return tuple(sorted(found, reverse=True))
