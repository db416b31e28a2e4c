"""The paper's three metrics, their floors, and the interval it reports around a median."""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.fft import dct, idct
from scipy.linalg import LinAlgError, eigh
from scipy.optimize import brentq

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import Problem

__all__ = [
    "CASE_DRAWS",
    "DRAWS",
    "MedianInterval",
    "Scores",
    "delta_lml",
    "floor",
    "gskl",
    "median_interval",
    "mmtv",
    "scores",
]

DRAWS = 20_000
CASE_DRAWS = 10_000  # of the cases: half of the draws that are stored of their truths, so that a floor has two sets
CELLS = 2**14
SINGULAR = 1e-14  # variance ratios beyond this are rounding errors of a zero
MARGIN = 0.25  # room on either side of the draws, in units of their range


class Scores(NamedTuple):
    """How far a posterior is from the truth; for all three, lower is better and 0 is perfect."""

    delta_lml: float
    mmtv: float
    gskl: float


class MedianInterval(NamedTuple):
    """A median and the bounds of its bootstrap interval."""

    median: float
    low: float
    high: float


def scores(
    problem: Problem,
    draws: Float[ndarray, "n d"],
    log_evidence: float,
    rng: Generator,
    *,
    truth_draws: int = DRAWS,
) -> Scores:
    """Compare posterior draws and a log evidence with `truth_draws` fresh exact draws and the true evidence."""
    truth = problem.draw(truth_draws, rng)
    return Scores(delta_lml(log_evidence, problem.log_evidence), mmtv(draws, truth), gskl(draws, truth))


def floor(problem: Problem, n: int, rng: Generator, repeats: int = 5) -> Scores:
    """Return what a perfect posterior scores: medians over pairs of disjoint sets of n exact draws.

    Each pair is one draw of 2 n, split: where the true draws are stored, two draws of n would share some.
    The floor of the evidence is the error of the true one, which is 0 for problems solved exactly.
    """
    pairs = [np.split(problem.draw(2 * n, rng), 2) for _ in range(repeats)]
    return Scores(
        delta_lml=problem.log_evidence_sd,
        mmtv=float(np.median([mmtv(a, b) for a, b in pairs])),
        gskl=float(np.median([gskl(a, b) for a, b in pairs])),
    )


def delta_lml(estimate: float, truth: float) -> float:
    """Return the absolute difference of two log marginal likelihoods."""
    return abs(estimate - truth)


def gskl(a: Float[ndarray, "n d"], b: Float[ndarray, "m d"]) -> float:
    """Return the symmetrised KL divergence of the moment-matched Gaussians, divided by 2 D (Eq. GsKL of the paper).

    It is infinite where a covariance is singular, as for draws that have collapsed onto fewer dimensions, and where one
    is beyond the largest number.
    """
    _check_draws(a, b)
    with np.errstate(over="ignore", invalid="ignore"):
        covariances = [np.atleast_2d(np.cov(draws, rowvar=False)) for draws in (a, b)]
    if not np.isfinite(covariances).all():
        return np.inf
    # With V' Σ_b V = I and V' Σ_a V = diag(λ) the log determinants cancel and every term left is non-negative:
    # KL(a|b) + KL(b|a) = Σ [(λ - 1)² / λ + δ² (1 + 1/λ)] / 2,  δ = V' (μ_a - μ_b)
    try:
        ratio, axes = eigh(*covariances)
    except LinAlgError:
        return np.inf
    if ratio.min() < SINGULAR * max(1.0, ratio.max()) or ratio.max() > 1 / SINGULAR:
        return np.inf
    shift = axes.T @ (a.mean(axis=0) - b.mean(axis=0))
    both_ways = 0.5 * np.sum((ratio - 1) ** 2 / ratio + shift**2 * (1 + 1 / ratio))
    return float(both_ways / (2 * a.shape[1]))


def mmtv(a: Float[ndarray, "n d"], b: Float[ndarray, "m d"]) -> float:
    """Return the mean over dimensions of the total variation between marginals (Eq. MMTV of the paper).

    Each marginal is a Gaussian kernel density estimate with its own bandwidth (improved Sheather–Jones) on its own
    grid; |p - q| / 2 is integrated by the trapezoid rule over the nodes of both grids.
    """
    _check_draws(a, b)
    return float(np.mean([_total_variation(_kde(p), _kde(q)) for p, q in zip(a.T, b.T, strict=True)]))


def median_interval(
    values: Float[ndarray, " n"], rng: Generator, level: float = 0.95, resamples: int = 10_000
) -> MedianInterval:
    """Return the median with its percentile bootstrap interval; infinite values are allowed."""
    picks = rng.integers(len(values), size=(resamples, len(values)))
    medians = np.median(values[picks], axis=1)
    # inverted_cdf picks one of the medians and never averages two, which infinities would not survive
    low, high = np.quantile(medians, [(1 - level) / 2, (1 + level) / 2], method="inverted_cdf")
    return MedianInterval(float(np.median(values)), float(low), float(high))


def _check_draws(a: ndarray, b: ndarray) -> None:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or min(len(a), len(b)) < 2:
        raise ValueError(f"draws must be rows, at least two, with equally many columns, got {a.shape} and {b.shape}")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("draws must be finite")


# Kernel density estimates in one dimension


class _Density(NamedTuple):
    nodes: Float[ndarray, " c"]
    values: Float[ndarray, " c"]

    def __call__(self, x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        result: ndarray = np.interp(x, self.nodes, self.values, left=0.0, right=0.0)
        return result


def _total_variation(p: _Density, q: _Density) -> float:
    x = np.union1d(p.nodes, q.nodes)
    # Between nodes that are far apart for one of the two the trapezoid may hold too much.
    return min(float(np.trapezoid(np.abs(p(x) - q(x)), x) / 2), 1.0)


def _kde(draws: Float[ndarray, " n"]) -> _Density:
    """Smooth the histogram of the draws with a Gaussian, which the cosine transform makes a product."""
    span = np.ptp(draws) or 1.0
    low, width = draws.min() - MARGIN * span, (1 + 2 * MARGIN) * span
    counts, edges = np.histogram(draws, CELLS, (low, low + width))
    waves = dct(counts / len(draws))
    bandwidth = _bandwidth(draws / width, waves)
    smoothed = idct(waves * np.exp(-0.5 * (np.arange(CELLS) * pi * bandwidth) ** 2))
    return _Density((edges[:-1] + edges[1:]) / 2, np.maximum(smoothed, 0.0) * CELLS / width)


def _bandwidth(scaled: Float[ndarray, " n"], waves: Float[ndarray, " c"]) -> float:
    """Return the improved Sheather–Jones bandwidth of draws on an interval of length 1, or Silverman's if it fails.

    Botev, Grotowski and Kroese (2010), Annals of Statistics 38, Algorithm 1: the squared bandwidth t solves
    t = ξ γ^[5](t). Unlike rules made for one Gaussian bump it does not oversmooth several narrow ones.
    """
    # Resampled draws come with ties, which would pass for spikes of the density. Counted as a weight, c copies of
    # a value make the noise in the spectrum that of (Σ c)² / Σ c² draws.
    copies = np.unique(scaled, return_counts=True)[1]
    n = len(scaled) ** 2 / float(np.sum(copies**2))
    upper = 1e-8
    while _excess(upper, n, waves) <= 0:
        upper *= 4
        if upper > 0.1:
            return _silverman(scaled, n)
    return sqrt(brentq(_excess, 0.0, upper, args=(n, waves), xtol=1e-12, rtol=1e-8))


def _excess(t: float, n: float, waves: Float[ndarray, " c"]) -> float:
    """Return t - ξ γ^[5](t), whose root is the squared bandwidth."""
    frequency = (pi * np.arange(1, len(waves))) ** 2
    power = 0.5 * waves[1:] ** 2

    def roughness(order: int, time: float) -> float:
        """Estimate the squared norm of the derivative of that order after diffusing for `time`."""
        seen = frequency[: int(10 / (pi * sqrt(time))) + 1] if time > 0 else frequency  # the rest is below e^-100
        return float(np.sum(seen**order * power[: len(seen)] * np.exp(-seen * time)))

    norm = roughness(7, t)
    for order in range(6, 1, -1):
        odd = prod(range(1, 2 * order, 2)) / sqrt(2 * pi)
        time = (2 * (1 + 0.5 ** (order + 0.5)) / 3 * odd / (n * norm)) ** (2 / (3 + 2 * order))
        norm = roughness(order, time)
    return t - float((2 * n * sqrt(pi) * norm) ** -0.4)


def _silverman(scaled: Float[ndarray, " n"], n: float) -> float:
    spread = float(scaled.std())
    quartiles = float(np.ptp(np.quantile(scaled, [0.25, 0.75]))) / 1.34
    return float(max(0.9 * (min(spread, quartiles) or spread) * n**-0.2, 1 / CELLS))
