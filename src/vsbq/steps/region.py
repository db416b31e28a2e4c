"""Where the surrogate is believed, and the density that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Bool, Float, ndarray
from vsbq.numerics.contours import highest
from vsbq.numerics.em import truncated_weights
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq.steps.model import LogDensityModel
from vsbq.steps.support import Support
from vsbq.steps.trim import TrainingSet

#: Share of its mass that a higher ELBO may move to where the surrogate cannot be trusted.
MOST_LEAK = 0.01

#: Nats by which the expected density may exceed that of the surrogate's mean: uncertainty alone must not create mass.
MOST_RISE = 1.0

#: How far beyond the evaluations the surrogate may be believed, as a share of their range: so far whatever it is, and
#: farther, doubled again and again, while the evaluations determine its trend to within the slack of the region.
BEYOND = 0.5
DOUBLINGS = 6

#: Share of the variance far from all evaluations above which the surrogate rather guesses than knows. Its error there
#: outgrows its sd, which cannot exceed that far from all evaluations.
GUESS = 0.05

#: Nobody minds a standard deviation of a tenth of a nat, whatever it is far away.
LEAST_GUESS = 0.1**2


class Stray(NamedTuple):
    """Evaluations of zero density among others, in the surrogate's coordinates."""

    zeros: Float[ndarray, "z d"]
    others: Float[ndarray, "n d"]

    @classmethod
    def of(cls, training: TrainingSet, support: Support | None) -> Stray | None:
        """Those that the support does not keep out; None if there are none."""
        zeros = training.zeros
        if support is not None and len(zeros):
            zeros = zeros[support.inside(training.space.to_plain(zeros))]
        return cls(zeros, training.points) if len(zeros) else None

    def nearer(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points are nearer to one of them than to any other evaluation."""
        spread = self.others.std(axis=0)
        unit = np.where(spread > 0, spread, 1.0)
        zero, other = (cKDTree(points / unit).query(u / unit)[0] for points in (self.zeros, self.others))
        return np.asarray(zero < other)


@dataclass(frozen=True, eq=False)
class TrustedRegion:
    """Where the surrogate's uncertainty is small, not far from all evaluations, and where it does not claim more than
    any evaluation has shown; `support` says where the density is not zero, None if it nowhere is."""

    surrogate: LogDensityModel
    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]
    most_variance: float
    most_mean: float
    most_rise: float = MOST_RISE
    guessed_variance: float = np.inf  # above it the surrogate rather guesses than knows
    support: Support | None = None
    stray: Stray | None = None  # evaluations of zero density that no edge keeps out
    noisy: bool = False  # whether the evaluations are

    @classmethod
    def around(cls, surrogate: LogDensityModel, training: TrainingSet, support: Support | None = None) -> TrustedRegion:
        """Up to a standard deviation of one nat plus thrice the usual one near the top, and as far above the top, or
        farther where the highest evaluations show that the surrogate may be believed above all of them.

        Not farther where an edge was learnt. It may be why no evaluation is higher: beyond it the surrogate goes on to
        rise, and a small chance that the density does too would outweigh everything that was evaluated.
        """
        near = highest(training.level, max(100, len(training) // 20))
        usual = np.sqrt(np.quantile(surrogate.variance(training.points[near[:: max(1, len(near) // 500)]]), 0.9))
        slack = float(1.0 + 3.0 * usual)
        learnt = support is not None and bool(support.surfaces)
        top = float(training.level.max()) + (slack if learnt else max(slack, surrogate.rise))
        guessed = max(GUESS * surrogate.prior_variance + (3.0 * float(usual)) ** 2, LEAST_GUESS)
        low, high = training.points.min(axis=0), training.points.max(axis=0)
        far = BEYOND * (high - low)
        low, high = reach(surrogate, training.points[near].mean(axis=0), (low - far, high + far), slack**2)
        stray = Stray.of(training, support)
        return cls(surrogate, low, high, slack**2, top, MOST_RISE, guessed, support, stray, training.noisy)

    def log_density(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Log of the density that the surrogate expects, E exp f = exp(mean + variance / 2), relative to its offset,
        times the probability that the density is not zero; NaN outside the region.

        The mean alone would be the density of one surrogate, the likeliest. All surrogates that agree with the
        evaluations count here: where they differ, the posterior is wider. The part of the variance that is the
        evaluations' own noise does not count: that noise is in the mean already, whose exponential is too large by it
        where the log density is smoother than the kernel allows.
        """
        log_density = self.claimed_mean(u)
        rows = np.flatnonzero(np.isfinite(log_density))
        if self.noisy:
            variance, noise = self.surrogate.variances(u[rows])
        else:
            variance, noise = self.surrogate.variance(u[rows]), np.zeros(len(rows))
        log_density[rows] += np.minimum(0.5 * (variance - noise), self.most_rise)
        log_density[rows[variance > self.most_variance]] = np.nan
        return log_density

    def claimed_mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The surrogate's mean within its support, NaN outside the region, without asking for its variance, which is
        expensive."""
        mean = np.full(len(u), np.nan)
        rows = np.flatnonzero(self.in_box(u))
        mean[rows] = self.surrogate.mean(u[rows])
        rows = rows[mean[rows] <= self.most_mean]
        claimed = np.full(len(u), np.nan)
        claimed[rows] = mean[rows] + self.log_support(u[rows])
        return claimed

    def in_box(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points are not far from all evaluations."""
        return np.asarray(((u >= self.lower) & (u <= self.upper)).all(axis=1))

    def log_support(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Log of the probability that the density is not zero."""
        if self.support is None:
            return np.zeros(len(u))
        return self.support.log_probability(self.surrogate.space.to_plain(u))

    def grows_outside(self, before: Mixture, after: Mixture, rng: np.random.Generator) -> bool:
        """Whether a mixture has moved a share of its mass outside."""
        return self.share_outside(after, rng) > self.share_outside(before, rng) + MOST_LEAK

    def share_outside(self, mixture: Mixture, rng: np.random.Generator) -> float:
        """Share of a mixture's mass outside, from 4000 draws."""
        return float(np.mean(np.isnan(self.log_density(sample(mixture, 4000, rng)))))

    def weighted_draws(
        self, mixture: Mixture, draws: int, rng: np.random.Generator
    ) -> tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]:
        """Draws of a mixture inside, with their importance weights towards the surrogate."""
        u = sample(mixture, draws, rng)
        mean = self.claimed_mean(u)
        u, mean = u[np.isfinite(mean)], mean[np.isfinite(mean)]
        if len(u) < 2:
            return u, np.full(len(u), 1.0)
        weights = truncated_weights(mean - log_pdf(mixture, u))
        # Variances are expensive: look at a thousand of the weightiest draws before asking for all of them.
        if np.mean(self.surrogate.variance(u[rng.choice(len(u), 1000, p=weights)]) > self.most_variance) < 0.01:
            return u, weights
        known = (self.surrogate.variance(u) <= self.most_variance) & (weights > 0)
        return u[known], weights[known] / (weights[known].sum() if known.any() else 1.0)


def reach(
    surrogate: LogDensityModel,
    centre: Float[ndarray, " d"],
    box: tuple[Float[ndarray, " d"], Float[ndarray, " d"]],
    most_variance: float,
) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"]]:
    """A box around some evaluations, widened on each side while the surrogate and its trend are known there.

    Evaluations along a line, or of a run that went straight to the mode, may tell a smooth density far beyond them.
    """
    ends = []
    for end in box:
        step = np.diag(end - centre)
        distances = 2.0 ** np.arange(1, DOUBLINGS + 1)
        there = centre + (distances[:, None, None] * step).reshape(-1, len(centre))
        trends = surrogate.trends(there)
        if not len(trends):  # a model that does not say what is open of its trend
            return box
        open_ = surrogate.variance(there) + (trends**2).sum(axis=0)
        known = np.logical_and.accumulate((open_ <= most_variance).reshape(DOUBLINGS, -1), axis=0)
        factor = 2.0 ** known.sum(axis=0)
        ends.append(centre + factor * (end - centre))
    return ends[0], ends[1]
