"""Separate regions of high probability, from the components of the mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components
from scipy.special import logsumexp

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.numerics import mixture as mix
from vsbq.numerics.mixture import Mixture

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior

__all__ = ["LEAST_SHARE", "Mode", "mixture_regions", "nearest_region", "separate_modes"]

#: Nats by which the density may dip between two components of one region.
DIP = 1.0

#: Share of the probability below which a region is part of a tail: in the report as for the verdict.
LEAST_SHARE = 0.05

#: Where the density is looked at between two components.
STATIONS = np.linspace(0.0, 1.0, 26)[1:-1]


class Mode(NamedTuple):
    """A region of high probability: its share, and mean and standard deviation of each parameter inside."""

    share: float
    mean: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]


def separate_modes(posterior: Posterior, draws: Float[ndarray, "n d"]) -> tuple[Mode, ...]:
    """Regions with valleys between them, the heaviest first; fewer than two mean that there is nothing to separate.

    Components are of one region if a chain of components links them along which the density of the mixture never dips
    by more than a factor of e; so a banana is one region. Draws go to the region that most likely made them.
    """
    region = mixture_regions(posterior.mixture)
    if region.max() == 0:
        return ()
    u = posterior.space.forward(draws)
    of_draws = nearest_region(posterior.mixture, region, u)
    modes = [_mode(draws, of_draws == k) for k in range(region.max() + 1) if np.mean(of_draws == k) >= LEAST_SHARE]
    return tuple(sorted(modes, key=lambda mode: -mode.share))


def mixture_regions(mixture: Mixture) -> Int[ndarray, " k"]:
    """The number of each component's region."""
    means = mixture.means
    i, j = np.triu_indices(len(means), 1)
    if not len(i):
        return np.zeros(1, dtype=np.int64)
    on_the_way = means[i, None] + STATIONS[:, None] * (means[j] - means[i])[:, None]
    between = mix.log_pdf(mixture, on_the_way.reshape(-1, means.shape[1])).reshape(len(i), -1).min(axis=1)
    height = mix.log_pdf(mixture, means)
    linked = np.zeros((len(means), len(means)), dtype=bool)
    linked[i, j] = between >= np.minimum(height[i], height[j]) - DIP
    return np.asarray(connected_components(linked, directed=False)[1], dtype=np.int64)


def nearest_region(mixture: Mixture, region: Int[ndarray, " k"], u: Float[ndarray, "n d"]) -> Int[ndarray, " n"]:
    """The region that most likely made each point."""
    parts = []
    for k in range(region.max() + 1):
        own = region == k
        weight = logsumexp(mixture.log_weights[own])
        part = Mixture(mixture.log_weights[own] - weight, mixture.means[own], mixture.trils[own])
        parts.append(weight + mix.log_pdf(part, u))
    return np.asarray(np.argmax(parts, axis=0), dtype=np.int64)


def _mode(draws: Float[ndarray, "n d"], own: Bool[ndarray, " n"]) -> Mode:
    return Mode(float(own.mean()), draws[own].mean(axis=0), draws[own].std(axis=0))
