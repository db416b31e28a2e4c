"""Where the evaluations end before the posterior does.

A posterior that is cut has a marginal with no tail: its outermost quantiles lie close together. In inference
coordinates every proper posterior has tails, on bounds too. Where they are missing, and where the surrogate is no
longer trusted a little farther out, the posterior goes on beyond what was evaluated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.steps.region import TrustedRegion

__all__ = ["Cut", "find_cuts"]

#: Shares of the mass beyond the quantiles that tell a tail: from the first to the second is the flank, from the second
#: to the third the tail.
BEYOND = (0.1, 0.01, 0.0005)

#: Tail over flank: 0.91 for a normal, 1.3 for an exponential, 0.1 for a cut that leaves the density as it is. Below
#: this a marginal has no tail.
LEAST_TAIL = 0.4

#: How far beyond the outermost draws the surrogate is asked, in flanks, and the share that has to be untrusted there.
STEP = 0.5
MOST_TRUSTED = 0.5


class Cut(NamedTuple):
    """A parameter, by number, on one side of which (−1 below, 1 above) the evaluations end before the posterior."""

    parameter: int
    side: int


def find_cuts(points: Float[ndarray, "n d"], weights: Float[ndarray, " n"], region: TrustedRegion) -> tuple[Cut, ...]:
    """The cuts of weighted draws in the surrogate's coordinates."""
    plain = region.surrogate.space.to_plain(points)
    return tuple(
        Cut(parameter, side)
        for parameter in range(plain.shape[1])
        for side in (-1, 1)
        if _no_tail(side * plain[:, parameter], weights)
        and _untrusted_beyond(side * plain[:, parameter], points, weights, region)
    )


def _no_tail(values: Float[ndarray, " n"], weights: Float[ndarray, " n"]) -> bool:
    near, far, last = _quantiles_from_above(values, weights)
    return bool(last - far < LEAST_TAIL * (far - near))


def _quantiles_from_above(values: Float[ndarray, " n"], weights: Float[ndarray, " n"]) -> Float[ndarray, " 3"]:
    order = np.argsort(-values, kind="stable")
    above = np.cumsum(weights[order]) / weights.sum()
    return values[order][np.minimum(np.searchsorted(above, BEYOND), len(values) - 1)]


def _untrusted_beyond(
    values: Float[ndarray, " n"], points: Float[ndarray, "n d"], weights: Float[ndarray, " n"], region: TrustedRegion
) -> bool:
    """Whether the outermost draws, moved on in the direction that leads to them, leave the trusted region."""
    near, far, _ = _quantiles_from_above(values, weights)
    tip, flank = values >= far, (values < far) & (values >= near)
    if not (weights[tip].sum() > 0 and weights[flank].sum() > 0):
        return False
    ahead = np.average(points[tip], axis=0, weights=weights[tip])
    behind = np.average(points[flank], axis=0, weights=weights[flank])
    moved = points[tip] + STEP * (ahead - behind)
    trusted = np.isfinite(region.log_density(moved)) | (region.log_support(moved) < np.log(0.5))
    return bool(np.average(trusted, weights=weights[tip]) < MOST_TRUSTED)
