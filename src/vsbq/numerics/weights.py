"""Importance weights: smoothed, and whether they are good enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.em import effective_size
from vsbq.numerics.pareto import Smoothed, smoothed_weights

#: A Pareto shape that says: not even the first moment exists.
HOPELESS = 99.0

#: Importance weights are used if their Pareto shape is at most this (Vehtari et al. 2024),
WORST_SHAPE = 0.7

#: or, whatever the shape, if this share of the draws is effective and none of them weighs more than that.
EVEN_SHARE = 0.9
MAX_WEIGHT = 0.002


class Weighed(NamedTuple):
    """Smoothed importance weights that sum to one, the shape of their tail, the log of the mean of the smoothed weights
    before that, and how many equal draws they are worth."""

    weights: Float[ndarray, " n"]
    shape: float
    log_mean: float
    effective: float

    def good_enough(self, draws: int, min_effective: float) -> bool:
        """Whether they may be used: nearly even, or with a tail that has moments and enough effective draws."""
        even = self.effective / draws >= EVEN_SHARE and self.weights.max() <= MAX_WEIGHT
        return bool(even or (self.shape <= WORST_SHAPE and self.effective >= min_effective))


def weigh(log_weights: Float[ndarray, " n"]) -> Weighed:
    """Pareto-smoothed importance weights; equal ones have no tail.

    The mean is that of the smoothed weights, as the draws are theirs: a single draw must not make it.
    """
    if np.ptp(log_weights) < 1e-9:
        found = Smoothed(np.full(len(log_weights), 1.0 / len(log_weights)), 0.0, float(log_weights[0]))
    else:
        found = smoothed_weights(log_weights)
    shape = found.shape if np.isfinite(found.shape) else HOPELESS
    return Weighed(found.weights, shape, found.log_mean, effective_size(found.weights))
