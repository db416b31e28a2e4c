"""Soft limits of the mixture (Supplement C.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.mixture import Mixture, MixtureGradient

#: τ of the soft bounds (Supplement C.1).
SOFTNESS = 0.01


class SoftBox(NamedTuple):
    """Limits of the means (the training points' range, and some way beyond) and of the log scales of the components
    (Table C.1)."""

    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]

    @classmethod
    def around(cls, points: Float[ndarray, "n d"], beyond: float = 0.0) -> SoftBox:
        """The box of the training points, wider on each side by a share of its width."""
        low, high = points.min(axis=0), points.max(axis=0)
        return cls(low - beyond * (high - low), high + beyond * (high - low))

    def penalty_and_gradient(self, mixture: Mixture) -> tuple[float, MixtureGradient]:
        """Squared distance outside the limits, in units of τ times their width, halved; zero inside."""
        width = np.where(self.upper > self.lower, self.upper - self.lower, 1.0)  # of no width: of unknown scale
        variance = np.einsum("kij,kij->ki", mixture.trils, mixture.trils)
        log_scale = 0.5 * np.log(variance)
        out_mean = _outside(mixture.means, self.lower, self.upper) / (SOFTNESS * width)
        span = np.log(1e6)
        out_scale = _outside(log_scale, np.log(1e-6 * width), np.log(width)) / (SOFTNESS * span)
        value = 0.5 * float((out_mean**2).sum() + (out_scale**2).sum())
        to_scale = out_scale / (SOFTNESS * span) / variance
        gradient = MixtureGradient(
            np.zeros(len(variance)), out_mean / (SOFTNESS * width), to_scale[:, :, None] * mixture.trils
        )
        return value, gradient


def _outside(
    x: Float[ndarray, "k d"], lower: Float[ndarray, " d"], upper: Float[ndarray, " d"]
) -> Float[ndarray, "k d"]:
    """Signed distance to the box: negative below, positive above, zero inside."""
    return np.minimum(x - lower, 0.0) + np.maximum(x - upper, 0.0)
