"""Where the surrogate is believed: nothing may leak to where nothing was evaluated."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.numerics.em import truncated_weights
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq.surrogate import Surrogate
from vsbq.trim import TrainingSet

#: Share of its mass that a higher ELBO may move to where the surrogate cannot be trusted.
MOST_LEAK = 0.01


@dataclass(frozen=True, eq=False)
class TrustedRegion:
    """In the training points' box, where the surrogate is not merely guessing, and where it does not claim more than
    any evaluation has shown."""

    surrogate: Surrogate
    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]
    most_variance: float
    most_mean: float

    @classmethod
    def around(cls, surrogate: Surrogate, training: TrainingSet) -> TrustedRegion:
        """Up to a standard deviation of half a nat plus thrice the usual one near the top, and as far above the top."""
        near = np.argsort(-training.level, kind="stable")[: max(100, len(training) // 20)]
        usual = np.sqrt(np.quantile(surrogate.variance(training.points[near[:: max(1, len(near) // 500)]]), 0.9))
        slack = float(0.5 + 3.0 * usual)
        lower, upper = training.points.min(axis=0), training.points.max(axis=0)
        return cls(surrogate, lower, upper, slack**2, float(training.level.max()) + slack)

    def believed_mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The surrogate's mean, relative to its offset; NaN outside the region."""
        mean = self.claimed_mean(u)
        rows = np.flatnonzero(np.isfinite(mean))
        mean[rows[~self.knows(u[rows])]] = np.nan
        return mean

    def claimed_mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The same without the question whether the surrogate knows, which is the dear one."""
        mean = np.full(len(u), np.nan)
        rows = np.flatnonzero(self._in_box(u))
        mean[rows] = self.surrogate.mean(u[rows])
        mean[mean > self.most_mean] = np.nan
        return mean

    def knows(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Where the surrogate is not merely guessing."""
        return np.asarray(self.surrogate.variance(u) <= self.most_variance)

    def grows_outside(self, before: Mixture, after: Mixture, rng: np.random.Generator) -> bool:
        """Whether a mixture has moved a share of its mass outside."""
        return self.share_outside(after, rng) > self.share_outside(before, rng) + MOST_LEAK

    def share_outside(self, mixture: Mixture, rng: np.random.Generator) -> float:
        """Share of a mixture's mass outside, from 4000 draws."""
        return float(np.mean(np.isnan(self.believed_mean(sample(mixture, 4000, rng)))))

    def weighted_draws(
        self, mixture: Mixture, draws: int, rng: np.random.Generator
    ) -> tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]:
        """Draws of a mixture inside, with their importance weights towards the surrogate."""
        u = sample(mixture, draws, rng)
        u = u[self._in_box(u)]
        mean = self.surrogate.mean(u)
        u, mean = u[mean <= self.most_mean], mean[mean <= self.most_mean]
        if len(u) < 2:
            return u, np.full(len(u), 1.0)
        weights = truncated_weights(mean - log_pdf(mixture, u))
        # Variances are dear: look at a thousand of the weightiest draws before asking for all of them.
        if np.mean(self.surrogate.variance(u[rng.choice(len(u), 1000, p=weights)]) > self.most_variance) < 0.01:
            return u, weights
        known = self.surrogate.variance(u) <= self.most_variance
        return u[known], weights[known] / weights[known].sum()

    def _in_box(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        return np.asarray(((u >= self.lower) & (u <= self.upper)).all(axis=1))
