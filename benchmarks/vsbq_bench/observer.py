"""A Bayesian observer of two headings who infers whether they have one cause: twelve parameters.

The trials are those of `multisensory`: a chair and a visual field move, and the participant says whether in the same
direction. This observer (Körding et al. 2007) knows how noisy its measurements are and which headings are usual. It
measures x ~ N(s, σ(s)²) of either heading s, with noise that grows with eccentricity,

    σ(s)² = base² (1 + (w s)²),

w in 1/degree, for the chair and for the visual field at each of three coherences. It takes σ(x) for the noise of a
measurement x, and N(mu_prior, sigma_prior²) for the headings. One heading behind both measurements, or two independent
ones, are then both Gaussian: with A = σ(x_vest)² + sigma_prior², B = σ(x_vis)² + sigma_prior² and the correlation
ρ = sigma_prior² / sqrt(A B) that a common cause brings, the log posterior odds of a common cause are

    log(p_common / (1 - p_common)) - log(1 - ρ²) / 2 - (ρ² a² / A + ρ² b² / B - 2 ρ a b / sqrt(A B)) / (2 (1 - ρ²)),

a and b the measurements minus mu_prior. The answer is "same" if they exceed a criterion of zero that jitters from trial
to trial by a logistic variable of scale 1/8, little beside the noise of the measurements; with probability lapse it is
a guess. The jitter makes the likelihood smooth, where a sharp criterion would give it kinks on any grid.

The prior of the parameters is flat between `PLAUSIBLE_BOUNDS` and falls to zero at `BOUNDS`.
"""

from __future__ import annotations

from functools import partial
from math import asinh, ceil, hypot, log
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.multisensory import (
    DISPARITIES,
    LEVELS,
    MEAN_HEADINGS,
    TRIALS_PER_LEVEL,
    MultisensoryTrials,
)
from vsbq_bench.problems import LogDensity
from vsbq_bench.spline_prior import SplineTrapezoid

__all__ = [
    "BOUNDS",
    "NAMES",
    "PLAUSIBLE_BOUNDS",
    "PRIOR",
    "SIMULATED_PARAMETERS",
    "log_density",
    "log_odds",
    "noise_sd",
    "probability_same",
    "simulate_trials",
]

NAMES = (
    *("sigma_vest", "sigma_vis_1", "sigma_vis_2", "sigma_vis_3"),
    *("w_vest", "w_vis_1", "w_vis_2", "w_vis_3"),
    *("mu_prior", "sigma_prior", "p_common", "lapse"),
)


def _box(sigma: float, w: float, *others: float) -> list[float]:
    return [sigma] * (LEVELS + 1) + [w] * (LEVELS + 1) + list(others)


BOUNDS = np.array([_box(0.5, 0.0, -40.0, 2.0, 0.0, 0.005), _box(80.0, 0.2, 40.0, 120.0, 1.0, 0.5)]).T
PLAUSIBLE_BOUNDS = np.array([_box(1.0, 0.005, -10.0, 5.0, 0.1, 0.01), _box(40.0, 0.1, 10.0, 60.0, 0.9, 0.2)]).T
BOUNDS.flags.writeable = PLAUSIBLE_BOUNDS.flags.writeable = False
PRIOR = SplineTrapezoid(BOUNDS, PLAUSIBLE_BOUNDS)

SIMULATED_PARAMETERS = (5.0, 4.0, 5.0, 8.0, 0.02, 0.03, 0.03, 0.04, 1.0, 15.0, 0.5, 0.03)

JITTER = 1 / 8  # scale of the criterion's logistic; `_same` takes a power of 1 / (2 JITTER) = 4 by squaring twice
# The sum over measurements converges geometrically: its error is about exp(-2π² JITTER / (change of the log odds from
# node to node)), so that change is kept below FINENESS. No step is longer than LONGEST_STEP local standard deviations.
REACH = 5.0  # standard deviations of a measurement that the grid covers
FINENESS = 0.25
LONGEST_STEP = 0.4
ECCENTRIC = 45.0  # degrees, the largest heading of the design


class _Design(NamedTuple):
    """The distinct headings, and the answers to each combination of level, chair and visual field that was shown."""

    vestibular: Float[ndarray, " v"]
    visual: Float[ndarray, " s"]
    shown: tuple[Int[ndarray, " g"], Int[ndarray, " g"], Int[ndarray, " g"]]
    same: Float[ndarray, " g"]
    different: Float[ndarray, " g"]


class _Measurement(NamedTuple):
    """A grid of measurements, the variance at each, and the probability of each given a heading."""

    values: Float[ndarray, " k"]
    variance: Float[ndarray, " k"]
    weights: Float[ndarray, "s k"]


def simulate_trials(rng: Generator) -> MultisensoryTrials:
    """Return a participant of the published design who is the observer with `SIMULATED_PARAMETERS`."""
    level = np.repeat(np.arange(LEVELS), TRIALS_PER_LEVEL)
    disparity = rng.choice(DISPARITIES, len(level))
    mean = rng.choice(MEAN_HEADINGS, len(level))
    vestibular, visual = mean + disparity / 2, mean - disparity / 2
    point = np.array(SIMULATED_PARAMETERS)
    sigma_vis, w_vis = point[1 + level], point[5 + level]
    x_vest = vestibular + noise_sd(vestibular, point[0], point[4]) * rng.standard_normal(len(level))
    x_vis = visual + noise_sd(visual, sigma_vis, w_vis) * rng.standard_normal(len(level))
    odds = log_odds(x_vest, noise_sd(x_vest, point[0], point[4]), x_vis, noise_sd(x_vis, sigma_vis, w_vis), point[8:11])
    guesses = rng.random(len(level)) < point[11]
    same = np.where(guesses, rng.random(len(level)) < 0.5, odds > rng.logistic(scale=JITTER, size=len(level)))
    return MultisensoryTrials(level=level, vestibular=vestibular, visual=visual, same=same)


def noise_sd(
    heading: Float[ndarray, " n"], base: float | Float[ndarray, " n"], w: float | Float[ndarray, " n"]
) -> Float[ndarray, " n"]:
    """Return the standard deviation of a measurement of each heading."""
    return base * np.hypot(1.0, w * heading)


def log_odds(
    x_vest: Float[ndarray, " n"],
    sd_vest: Float[ndarray, " n"],
    x_vis: Float[ndarray, " n"],
    sd_vis: Float[ndarray, " n"],
    belief: Float[ndarray, " 3"],
) -> Float[ndarray, " n"]:
    """Return the log posterior odds of a common cause for an observer of the belief (mu_prior, sigma_prior, p_common).

    `_same` has the same formula for all pairs of two grids.
    """
    mu, sigma, p_common = belief
    spread_vest, spread_vis = np.hypot(sd_vest, sigma), np.hypot(sd_vis, sigma)
    u, v = (x_vest - mu) / spread_vest, (x_vis - mu) / spread_vis
    rho = sigma**2 / (spread_vest * spread_vis)
    coincidence = ((rho * u) ** 2 + (rho * v) ** 2 - 2 * rho * u * v) / (1 - rho**2)
    result: ndarray = log(p_common / (1 - p_common)) - 0.5 * np.log1p(-(rho**2)) - 0.5 * coincidence
    return result


def log_density(trials: MultisensoryTrials) -> LogDensity:
    """Return the log of prior times likelihood as a function of rows of parameters; -inf where the prior is zero."""
    return partial(_log_density, _design(trials))


def _design(trials: MultisensoryTrials) -> _Design:
    vestibular, chair = np.unique(trials.vestibular, return_inverse=True)
    visual, screen = np.unique(trials.visual, return_inverse=True)
    shown, member = np.unique(np.column_stack([trials.level, chair, screen]), axis=0, return_inverse=True)
    same = np.bincount(member, weights=trials.same, minlength=len(shown))
    different = np.bincount(member, weights=~trials.same, minlength=len(shown))
    level, chair, screen = shown.T
    return _Design(vestibular, visual, (level, chair, screen), same, different)


def _log_density(design: _Design, points: Float[ndarray, "n 12"]) -> Float[ndarray, " n"]:
    result = PRIOR.log_density(points)
    inside = result > -np.inf
    result[~inside] = -np.inf  # also where a coordinate is NaN
    for row in np.flatnonzero(inside):
        lapse = points[row, 11]
        p_same = 0.5 * lapse + (1 - lapse) * probability_same(design.vestibular, design.visual, points[row])
        shown = p_same[design.shown]
        result[row] += np.log(shown) @ design.same + np.log1p(-shown) @ design.different
    return result


def probability_same(
    vestibular: Float[ndarray, " v"], visual: Float[ndarray, " s"], point: Float[ndarray, " 12"]
) -> Float[ndarray, "3 v s"]:
    """Return the probability that an attentive observer says "same", by level, heading of the chair and of the screen.

    The integral over the two measurements is a sum over two grids that all headings share.
    """
    result = np.empty((LEVELS, len(vestibular), len(visual)))
    sigma, w = point[: LEVELS + 1], point[LEVELS + 1 : 2 * LEVELS + 2]
    for level in range(LEVELS):
        own = [0, 1 + level]
        steps = _steps(sigma[own], w[own], point[8:11])
        chair = _measure(vestibular, float(sigma[0]), float(w[0]), float(steps[0]))
        screen = _measure(visual, float(sigma[1 + level]), float(w[1 + level]), float(steps[1]))
        result[level] = chair.weights @ _same(chair, screen, point[8:11]) @ screen.weights.T
    return result


def _steps(base: Float[ndarray, " 2"], w: Float[ndarray, " 2"], belief: Float[ndarray, " 3"]) -> Float[ndarray, " 2"]:
    """Return the steps of both measurements, in local standard deviations, by how fast the log odds change with each.

    Near the criterion the odds are a parabola of the disparity that is `top` high; far from the mean of the headings
    they also change along the diagonal.
    """
    mu, sigma, p_common = belief
    variance = base**2 * (1 + np.multiply.outer([0.0, ECCENTRIC], w) ** 2)
    share = (variance / variance.sum(axis=1, keepdims=True)).max(axis=0)
    spread = base**2 + sigma**2
    top = log(p_common / (1 - p_common)) - 0.5 * log(1 - sigma**4 / spread.prod())
    slope = np.sqrt((1 + 2 * max(top, 0.0)) * share) + base * (ECCENTRIC + abs(mu)) / spread
    return np.minimum(FINENESS / slope, LONGEST_STEP)


def _measure(headings: Float[ndarray, " s"], base: float, w: float, step: float) -> _Measurement:
    """Measurements at equal steps of t = asinh(w x) / (w base), for which dx/dt = σ(x), by the trapezoid rule in t."""
    sd = noise_sd(headings, base, w)
    low = asinh(w * float((headings - REACH * sd).min())) / (w * base)
    high = asinh(w * float((headings + REACH * sd).max())) / (w * base)
    # σ(x) itself changes over a distance of 1 / (w base) in t.
    nodes = ceil((high - low) * hypot(1.0, w * base) / step) + 1
    t = w * base * np.linspace(low, high, nodes)
    values, local_sd = np.sinh(t) / w, base * np.cosh(t)
    # -(x - s)² / (2 σ(s)²) and log σ(x) in one product
    parabola = np.stack([-0.5 * np.ones_like(sd), headings, sd**2, -0.5 * headings**2], axis=1) / sd[:, None] ** 2
    weights = parabola @ np.stack([values**2, values, np.log(local_sd), np.ones_like(values)])
    np.exp(weights, out=weights)
    weights /= weights.sum(axis=1, keepdims=True)
    return _Measurement(values, local_sd**2, weights)


def _same(chair: _Measurement, screen: _Measurement, belief: Float[ndarray, " 3"]) -> Float[ndarray, "j k"]:
    """Return the probability of "same" for each pair of measurements: 1 / (1 + exp(-log odds / JITTER))."""
    mu, sigma, p_common = belief
    share_vest, share_vis = sigma**2 / (chair.variance + sigma**2), sigma**2 / (screen.variance + sigma**2)
    pull_vest, pull_vis = share_vest * (chair.values - mu) / sigma, share_vis * (screen.values - mu) / sigma
    # ρ² is the product of the shares: each part of the odds is a product of few columns and rows.
    columns = np.stack([pull_vest**2, share_vest, -2 * pull_vest], axis=1) / (2 * JITTER)
    rows = np.stack([share_vis, pull_vis**2, pull_vis])
    rest = np.multiply.outer(-share_vest, share_vis)
    rest += 1
    against = columns @ rows
    against /= rest
    against -= log(p_common / (1 - p_common)) / JITTER
    with np.errstate(over="ignore"):  # beyond doubt: the probability is zero
        np.exp(against, out=against)
        for _ in range(2):
            rest *= rest
        against *= rest
    against += 1
    return np.reciprocal(against, out=against)
