"""Lotka–Volterra: eight parameters of the hares and lynxes of Hudson Bay, 1900 to 1920.

Data, priors and likelihood are those of B. Carpenter's case study "Predator-Prey Population Dynamics: the
Lotka-Volterra model in Stan" (2018); pelts in thousands. With hares u and lynxes v,

    du/dt = (α - β v) u,   dv/dt = (δ u - γ) v,   log pelts ~ N(log (u, v), (σ_u², σ_v²)) in each of 21 years,

    α, γ ~ N(1, 0.5²) and β, δ ~ N(0.05, 0.05²), both above zero;  u0, v0 ~ LogN(log 10, 1);  σ_u, σ_v ~ LogN(-1, 1).

Everything is normalised, the truncated priors too, so that the evidence is the density of the data. All parameters
have (0, ∞) as bounds, and the density is with respect to the parameters themselves, not their logarithms.
"""

from __future__ import annotations

from math import log, pi

import numpy as np
from numpy.random import Generator
from scipy.special import log_ndtr, ndtr, ndtri

from vsbq._typing import Float, ndarray

__all__ = ["BOUNDS", "NAMES", "PLAUSIBLE_BOUNDS", "draw_prior", "log_density"]

# fmt: off
HARES = (
    30.0, 47.2, 70.2, 77.4, 36.3, 20.6, 18.1, 21.4, 22.0, 25.4, 27.1,
    40.3, 57.0, 76.6, 52.3, 19.5, 11.2, 7.6, 14.6, 16.2, 24.7,
)
LYNXES = (
    4.0, 6.1, 9.8, 35.2, 59.4, 41.7, 19.0, 13.0, 8.3, 9.1, 7.4,
    8.0, 12.3, 19.5, 45.7, 51.1, 29.7, 15.8, 9.7, 10.1, 8.6,
)
# fmt: on
LOG_PELTS = np.log(np.array([HARES, LYNXES]))
YEARS = LOG_PELTS.shape[1]

NAMES = ("alpha", "beta", "gamma", "delta", "u0", "v0", "sigma_u", "sigma_v")
# Columns 0 to 3 are normals above zero, columns 4 to 7 log-normals.
PRIOR_MEAN = np.array([1.0, 0.05, 1.0, 0.05, log(10.0), log(10.0), -1.0, -1.0])
PRIOR_SD = np.array([0.5, 0.05, 0.5, 0.05, 1.0, 1.0, 1.0, 1.0])
RATES = slice(0, 4)
POSITIVE = slice(4, 8)

# The solver: steps a year to begin with, how often they may be doubled, and the error of a log likelihood that is left
# alone (before it is taken off). Over the posterior this leaves 1e-5 against a solver with tolerance 1e-11.
FIRST_STEPS = 6
DOUBLINGS = 5
TOLERANCE = 1e-4
RELATIVE_TOLERANCE = 1e-6
BLOCK = 2048  # rows at a time, so that the state stays in the cache
STAGES = ((0.5, 1 / 6), (0.5, 1 / 3), (1.0, 1 / 3), (0.0, 1 / 6))  # how far the next stage is, weight of this one


def log_density(points: Float[ndarray, "n 8"]) -> Float[ndarray, " n"]:
    """Return the log of prior times likelihood at each row; -inf unless all parameters are positive and finite."""
    result = np.full(len(points), -np.inf)
    inside = np.flatnonzero(np.all((points > 0) & (points < np.inf), axis=1))
    with np.errstate(all="ignore"):  # absurd parameters overflow
        for start in range(0, len(inside), BLOCK):
            rows = inside[start : start + BLOCK]
            result[rows] = _log_prior(points[rows]) + _log_likelihood(points[rows])
    result[~(result < np.inf)] = -np.inf
    return result


def draw_prior(n: int, rng: Generator) -> Float[ndarray, "n 8"]:
    """Return n independent draws of the prior."""
    return _prior_quantile(rng.uniform(1e-12, 1 - 1e-12, (n, len(NAMES))))  # neither zero nor infinite


def _prior_quantile(p: Float[ndarray, "n 8"]) -> Float[ndarray, "n 8"]:
    below_zero = ndtr(-PRIOR_MEAN[RATES] / PRIOR_SD[RATES])
    z = ndtri(p)
    z[:, RATES] = ndtri(below_zero + (1 - below_zero) * p[:, RATES])
    values = PRIOR_MEAN + PRIOR_SD * z
    values[:, POSITIVE] = np.exp(values[:, POSITIVE])
    return values


def _boxes() -> tuple[Float[ndarray, "8 2"], Float[ndarray, "8 2"]]:
    """Return the bounds and, as plausible bounds, the central 68 % of the prior."""
    bounds = np.tile([0.0, np.inf], (len(NAMES), 1))
    plausible = _prior_quantile(np.tile(ndtr([[-1.0], [1.0]]), (1, len(NAMES)))).T.copy()
    bounds.flags.writeable = plausible.flags.writeable = False
    return bounds, plausible


BOUNDS, PLAUSIBLE_BOUNDS = _boxes()


def _log_prior(points: Float[ndarray, "n 8"]) -> Float[ndarray, " n"]:
    z = points.copy()
    z[:, POSITIVE] = np.log(points[:, POSITIVE])
    jacobian = z[:, POSITIVE].sum(axis=1)
    z = (z - PRIOR_MEAN) / PRIOR_SD
    constant = np.log(PRIOR_SD * np.sqrt(2 * pi)).sum() + log_ndtr(PRIOR_MEAN[RATES] / PRIOR_SD[RATES]).sum()
    result: ndarray = -0.5 * (z**2).sum(axis=1) - jacobian - constant
    return result


def _log_likelihood(points: Float[ndarray, "n 8"]) -> Float[ndarray, " n"]:
    sds = points[:, 6:]
    constant = LOG_PELTS.sum() + YEARS * log(2 * pi)
    result: ndarray = -_misfit(points) - YEARS * np.log(sds).sum(axis=1) - constant
    return result


def _misfit(points: Float[ndarray, "n 8"]) -> Float[ndarray, " n"]:
    """Half the sum of squared residuals over their variances, with as many steps for a row as it needs.

    The error of a solution falls with the fourth power of the step, so that two of them tell the error and what the
    next one would mostly be. A row is judged by itself: its value does not depend on the rows beside it.
    """
    coarse = _misfit_with(points, FIRST_STEPS)
    result = np.empty(len(points))
    rows = np.arange(len(points))
    for doubling in range(1, DOUBLINGS + 1):
        fine = _misfit_with(points[rows], FIRST_STEPS * 2**doubling)
        error = (fine - coarse) / 15
        good = np.abs(error) < TOLERANCE + RELATIVE_TOLERANCE * fine
        result[rows] = np.where(good, fine + error, fine)
        rows, coarse = rows[~good], fine[~good]
        if len(rows) == 0:
            break
    return result


def _misfit_with(points: Float[ndarray, "n 8"], steps: int) -> Float[ndarray, " n"]:
    """Solve for log (u, v) with the classical Runge–Kutta method, `steps` a year, and compare with the pelts."""
    alpha, beta, gamma, delta = points[:, RATES].T / steps
    growth, coupling = np.array([alpha, -gamma]), np.array([-beta, delta])
    state = np.log(points[:, 4:6].T)
    squares = (state - LOG_PELTS[:, :1]) ** 2
    for year in range(1, YEARS):
        for _ in range(steps):
            stage, change = state, np.zeros_like(state)
            for reach, weight in STAGES:
                slope = np.exp(stage[::-1])  # each population drives the other
                slope *= coupling
                slope += growth
                change += weight * slope
                stage = state + reach * slope
            state += change
        squares += (state - LOG_PELTS[:, year, None]) ** 2
    return 0.5 * (squares.T / points[:, 6:] ** 2).sum(axis=1)
