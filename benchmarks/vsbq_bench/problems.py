"""Targets whose evidence and posterior are known, to measure against.

The formulas are those of the paper's section "Synthetic problems", in the version behind its numbers.
A problem is data: adding one means adding a function that returns a `Problem` and a line in `SYNTHETIC`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from math import erf, exp, log, pi, sqrt
from types import MappingProxyType

import numpy as np
from numpy.random import Generator
from scipy.special import ive

from vsbq._typing import Float, ndarray

__all__ = ["SYNTHETIC", "Problem", "rosenbrock_gaussian", "two_moons"]

LogDensity = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]
Draw = Callable[[int, Generator], Float[ndarray, "n d"]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A log density with the evidence and the posterior draws it should lead to.

    `bounds` is None where every coordinate is free, else one row (low, high) per coordinate, infinite where open.
    `plausible_bounds` is the box where an optimiser starts; it is finite.
    `log_evidence_sd` is the error of `log_evidence`: 0 where it is exact to rounding.
    `draw` gives posterior draws, `draw_prior` prior ones where the problem has a proper prior.
    """

    name: str
    dimension: int
    log_density: LogDensity
    bounds: Float[ndarray, "d 2"] | None
    plausible_bounds: Float[ndarray, "d 2"]
    names: tuple[str, ...]
    log_evidence: float
    log_evidence_sd: float
    draw: Draw
    draw_prior: Draw | None = None


# Two Moons

KAPPA = 8.0
RADIUS = 1 / sqrt(2)
RADIUS_SD = 0.1
LEFT_SHARE = 2 / 3


def two_moons() -> Problem:
    """Return the bimodal problem of the paper: an angle with two von Mises modes and a narrow ring of radii.

    The plausible box [-1, 1]² holds the ring of radius 0.71 and nearly all of its width.
    """
    # In polar coordinates: angle times radius, and ∫ exp(κ cos θ) dθ = 2π I0(κ) for either moon.
    # ∫ r exp(-(r - R)² / 2s²) dr over r > 0 = s² exp(-R² / 2s²) + R s sqrt(2π) Φ(R / s)
    depth = RADIUS / RADIUS_SD
    radial = RADIUS_SD**2 * exp(-(depth**2) / 2) + RADIUS * RADIUS_SD * sqrt(pi / 2) * (1 + erf(depth / sqrt(2)))
    return Problem(
        name="two_moons",
        dimension=2,
        log_density=_two_moons_log_density,
        bounds=None,
        plausible_bounds=_box(-1.0, 1.0, 2),
        names=("x1", "x2"),
        log_evidence=log(2 * pi * float(ive(0, KAPPA))) + KAPPA + log(radial),
        log_evidence_sd=0.0,
        draw=_two_moons_draw,
    )


def _two_moons_log_density(points: Float[ndarray, "n 2"]) -> Float[ndarray, " n"]:
    radius = np.hypot(points[:, 0], points[:, 1])
    cosine = points[:, 0] / np.where(radius > 0, radius, 1.0)  # the origin has no angle; any value will do there
    moons = np.logaddexp(KAPPA * cosine + log(1 - LEFT_SHARE), -KAPPA * cosine + log(LEFT_SHARE))
    result: ndarray = moons - 0.5 * ((radius - RADIUS) / RADIUS_SD) ** 2
    return result


def _two_moons_draw(n: int, rng: Generator) -> Float[ndarray, "n 2"]:
    left = rng.random(n) < LEFT_SHARE
    angle = rng.vonmises(np.where(left, pi, 0.0), KAPPA)
    radius = _two_moons_radius().draw(n, rng)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


@cache
def _two_moons_radius() -> _Tabulated:
    return _tabulate(lambda r: np.log(r) - 0.5 * ((r - RADIUS) / RADIUS_SD) ** 2, 0.0, RADIUS + 12 * RADIUS_SD)


# Rosenbrock–Gaussian

PRIOR_VARIANCE = 9.0
BANANA_VARIANCE = 0.5  # exp(-(x1² - x2)²) is a Gaussian in x2 around x1²


def rosenbrock_gaussian(dimension: int = 6) -> Problem:
    """Return (D - 2) / 2 banana-shaped pairs and one Gaussian pair under a N(0, 9 I) prior.

    The banana is R(x1, x2) = -(x1² - x2)² - (x1 - 1)² / 100. The paper's text has (x2 - 1)² there and a normalised
    Gaussian pair, but its numbers belong to this banana and to exp(-(x5² + x6²) / 2) without the constant.
    The plausible box [-3, 3]^D is one prior standard deviation to either side.
    """
    if dimension < 4 or dimension % 2:
        raise ValueError(f"dimension must be even and at least 4, got {dimension}")
    # One Gaussian coordinate: ∫ exp(-x²/2) N(x; 0, v) dx = 1 / sqrt(1 + v)
    log_gaussian_pair = -log(1 + PRIOR_VARIANCE)
    return Problem(
        name="rosenbrock_gaussian" if dimension == 6 else f"rosenbrock_gaussian_{dimension}",
        dimension=dimension,
        log_density=_rosenbrock_log_density,
        bounds=None,
        plausible_bounds=_box(-3.0, 3.0, dimension),
        names=tuple(f"x{i + 1}" for i in range(dimension)),
        log_evidence=(dimension - 2) / 2 * _banana_spine().log_integral + log_gaussian_pair,
        log_evidence_sd=0.0,
        draw=partial(_rosenbrock_draw, dimension),
        draw_prior=partial(_rosenbrock_draw_prior, dimension),
    )


def _rosenbrock_log_density(points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    x1, x2 = points[:, :-2:2], points[:, 1:-2:2]
    bananas = -((x1**2 - x2) ** 2) - (x1 - 1) ** 2 / 100
    log_prior = -0.5 * points**2 / PRIOR_VARIANCE - 0.5 * log(2 * pi * PRIOR_VARIANCE)
    result: ndarray = bananas.sum(axis=1) - 0.5 * (points[:, -2:] ** 2).sum(axis=1) + log_prior.sum(axis=1)
    return result


def _rosenbrock_draw(dimension: int, n: int, rng: Generator) -> Float[ndarray, "n d"]:
    x1 = _banana_spine().draw(n * (dimension - 2) // 2, rng).reshape(n, -1)
    # x2 | x1: the banana N(x2; x1², 1/2) times the prior N(x2; 0, 9)
    share = PRIOR_VARIANCE / (PRIOR_VARIANCE + BANANA_VARIANCE)
    x2 = share * x1**2 + sqrt(share * BANANA_VARIANCE) * rng.standard_normal(x1.shape)
    points = np.empty((n, dimension))
    points[:, :-2:2], points[:, 1:-2:2] = x1, x2
    points[:, -2:] = sqrt(PRIOR_VARIANCE / (1 + PRIOR_VARIANCE)) * rng.standard_normal((n, 2))
    return points


def _rosenbrock_draw_prior(dimension: int, n: int, rng: Generator) -> Float[ndarray, "n d"]:
    return sqrt(PRIOR_VARIANCE) * rng.standard_normal((n, dimension))


@cache
def _banana_spine() -> _Tabulated:
    """Tabulate x1 of a banana under the prior, x2 integrated out: sqrt(π) N(x1²; 0, 9 + 1/2) is what it leaves."""
    spread = PRIOR_VARIANCE + BANANA_VARIANCE
    constant = 0.5 * log(pi) - 0.5 * log(2 * pi * spread) - 0.5 * log(2 * pi * PRIOR_VARIANCE)
    return _tabulate(
        lambda x: constant - x**4 / (2 * spread) - (x - 1) ** 2 / 100 - x**2 / (2 * PRIOR_VARIANCE), -6.0, 6.0
    )


# Shared pieces


@dataclass(frozen=True, eq=False)
class _Tabulated:
    """A density on a line as masses of narrow cells: its integral, and draws by the inverse of its cdf."""

    edges: Float[ndarray, " c"]
    cumulative: Float[ndarray, " c"]
    log_integral: float

    def draw(self, n: int, rng: Generator) -> Float[ndarray, " n"]:
        """Return n independent draws."""
        result: ndarray = np.interp(rng.random(n), self.cumulative, self.edges)
        return result


def _tabulate(log_density: Callable[[ndarray], ndarray], low: float, high: float, cells: int = 2**16) -> _Tabulated:
    """Tabulate by the midpoint rule, which converges geometrically for a smooth density that vanishes at both ends."""
    edges = np.linspace(low, high, cells + 1)
    mass = np.exp(log_density((edges[:-1] + edges[1:]) / 2)) * (high - low) / cells
    cumulative = np.concatenate([[0.0], np.cumsum(mass)])
    return _Tabulated(edges, cumulative / cumulative[-1], log(cumulative[-1]))


def _box(low: float, high: float, dimension: int) -> Float[ndarray, "d 2"]:
    box = np.tile([low, high], (dimension, 1))
    box.flags.writeable = False
    return box


SYNTHETIC: Mapping[str, Callable[[], Problem]] = MappingProxyType(
    {"two_moons": two_moons, "rosenbrock_gaussian": rosenbrock_gaussian}
)
