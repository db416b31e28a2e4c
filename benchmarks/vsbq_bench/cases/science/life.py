"""Models of biology: epidemics, nerves, doses, growth, enzymes, populations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import betaln, binom, gammaln, xlogy

from vsbq._typing import Float, ndarray
from vsbq_bench.cases.science.laws import Beta, HalfNormal, LogNormal, Normal, Uniform, normal_sum
from vsbq_bench.cases.science.model import Model

__all__ = ["capture_recapture", "dose_response", "epidemic", "fitzhugh_nagumo", "gompertz", "michaelis_menten"]

ROOT_TWO_PI = np.sqrt(2 * np.pi)

Slope = Callable[[ndarray], ndarray]


def runge_kutta(slope: Slope, state: Float[ndarray, "s n"], step: float) -> Float[ndarray, "s n"]:
    """Return the state after one step of the classical method."""
    first = slope(state)
    second = slope(state + step / 2 * first)
    third = slope(state + step / 2 * second)
    fourth = slope(state + step * third)
    result: ndarray = state + step / 6 * (first + 2 * (second + third) + fourth)
    return result


# Epidemic

PEOPLE = 10_000.0
DAYS = 35
STEPS_PER_DAY = 6


def epidemic() -> Model:
    """Return the SIR equations behind daily reported cases, which are negative binomial."""
    rng = np.random.default_rng([42, 1])
    mean = reported_cases(np.array([[2.2, 4.5, 15.0, 0.3, 8.0]]))[0]
    cases = rng.poisson(rng.gamma(8.0, mean / 8.0)).astype(float)
    return Model(
        name="epidemic",
        laws={
            "R0": LogNormal(2.0, 0.4),
            "infectious_days": LogNormal(5.0, 0.4),
            "first_infected": LogNormal(10.0, 1.0),
            "reported_share": Beta(2.0, 3.0),
            "dispersion": LogNormal(8.0, 0.8),
        },
        log_likelihood=partial(_epidemic, cases),
        plausible_bounds=np.array([[1.2, 4.0], [2.5, 10.0], [2.0, 50.0], [0.1, 0.8], [2.0, 30.0]]),
    )


def reported_cases(points: Float[ndarray, "n 5"]) -> Float[ndarray, "n t"]:
    """Return the mean number of reported cases of each day."""
    reproduction, days, first, share, _ = points.T
    recovery = 1 / days
    contact = reproduction * recovery / PEOPLE

    def slope(state: ndarray) -> ndarray:
        infection = contact * state[0] * state[1]
        return np.stack([-infection, infection - recovery * state[1]])

    state = np.stack([PEOPLE - first, first])
    susceptible = [state[0]]
    for _ in range(DAYS):
        for _ in range(STEPS_PER_DAY):
            state = runge_kutta(slope, state, 1 / STEPS_PER_DAY)
        susceptible.append(state[0])
    return share[:, None] * np.maximum(-np.diff(np.stack(susceptible, axis=1), axis=1), 1e-9)


def _epidemic(cases: Float[ndarray, " t"], points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    mean, size = reported_cases(points), points[:, 4:]
    logs = gammaln(cases + size) - gammaln(size) - gammaln(cases + 1)
    logs += size * np.log(size / (size + mean)) + xlogy(cases, mean / (size + mean))
    result: ndarray = logs.sum(axis=1)
    return result


# A nerve cell

NERVE_TIMES = 20
NERVE_STEPS = 16


def fitzhugh_nagumo() -> Model:
    """Return the FitzHugh–Nagumo equations, voltage and recovery observed with noise at twenty times."""
    rng = np.random.default_rng([42, 2])
    path = nerve_path(np.array([[0.2, 0.2, 3.0]]))[:, :, 0]
    observed = path + 0.4 * rng.standard_normal(path.shape)
    return Model(
        name="fitzhugh_nagumo",
        laws={
            "a": Normal(0.0, 0.5),
            "b": Normal(0.0, 0.5),
            "c": LogNormal(3.0, 0.3),
            "sigma": LogNormal(0.5, 0.5),
        },
        log_likelihood=partial(_fitzhugh_nagumo, observed),
        plausible_bounds=np.array([[-0.6, 0.6], [-0.6, 0.6], [2.0, 5.0], [0.2, 1.2]]),
    )


def nerve_path(points: Float[ndarray, "n 3"]) -> Float[ndarray, "t 2 n"]:
    """Return voltage and recovery at times 1 to 20."""
    a, b, c = points.T

    def slope(state: ndarray) -> ndarray:
        voltage, recovery = state
        return np.stack([c * (voltage - voltage * voltage * voltage / 3 + recovery), -(voltage - a + b * recovery) / c])

    state = np.stack([np.full(len(points), -1.0), np.full(len(points), 1.0)])
    path = []
    for _ in range(NERVE_TIMES):
        for _ in range(NERVE_STEPS):
            state = runge_kutta(slope, state, 1 / NERVE_STEPS)
        path.append(state)
    return np.stack(path)


def _fitzhugh_nagumo(observed: Float[ndarray, "t 2"], points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    sigma = points[:, 3]
    squares = ((nerve_path(points[:, :3]) - observed[:, :, None]) ** 2).sum(axis=(0, 1))
    result: ndarray = -0.5 * squares / sigma**2 - observed.size * np.log(sigma * ROOT_TWO_PI)
    return result


# Dose and response

LOG_DOSES = np.repeat(np.linspace(-2.0, 1.0, 8), 3)


def dose_response() -> Model:
    """Return a four-parameter logistic curve; the highest dose is barely above its middle, so the top is uncertain."""
    rng = np.random.default_rng([42, 3])
    response = 0.1 + 0.9 / (1 + 10 ** (-1.2 * (LOG_DOSES - 0.6))) + 0.06 * rng.standard_normal(len(LOG_DOSES))
    return Model(
        name="dose_response",
        laws={
            "bottom": Normal(0.0, 0.3),
            "top": LogNormal(1.0, 0.5),
            "log_ec50": Normal(0.0, 1.0),
            "hill": LogNormal(1.0, 0.5),
            "sigma": HalfNormal(0.2),
        },
        log_likelihood=partial(_dose_response, response),
        plausible_bounds=np.array([[-0.3, 0.3], [0.5, 2.0], [-1.0, 1.0], [0.5, 2.0], [0.02, 0.3]]),
    )


def _dose_response(response: Float[ndarray, " t"], points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    bottom, top, middle, hill, sigma = points.T[:, :, None]
    mean = bottom + (top - bottom) / (1 + 10 ** (-hill * (LOG_DOSES - middle)))
    return normal_sum(response - mean, sigma)


# Growth

AGES = np.linspace(0.5, 12.0, 24)


def gompertz() -> Model:
    """Return Gompertz growth that is not yet finished, with noise that grows with a power of the size."""
    rng = np.random.default_rng([42, 4])
    size = 50.0 * np.exp(-4.0 * np.exp(-0.18 * AGES))
    measured = size + 0.25 * size**0.7 * rng.standard_normal(len(AGES))
    return Model(
        name="gompertz",
        laws={
            "asymptote": LogNormal(50.0, 0.6),
            "displacement": LogNormal(4.0, 0.4),
            "rate": LogNormal(0.2, 0.6),
            "noise": LogNormal(0.3, 0.8),
            "power": Normal(0.5, 0.4),
        },
        log_likelihood=partial(_gompertz, measured),
        plausible_bounds=np.array([[25.0, 120.0], [2.5, 6.0], [0.08, 0.5], [0.1, 1.0], [0.0, 1.0]]),
    )


def _gompertz(measured: Float[ndarray, " t"], points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    asymptote, displacement, rate, noise, power = points.T[:, :, None]
    log_size = np.log(asymptote) - displacement * np.exp(-rate * AGES)
    return normal_sum(measured - np.exp(log_size), noise * np.exp(power * log_size))


# Enzymes

SUBSTRATE = np.repeat(np.array([0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]), 2)
OUTLIER_FACTOR = 10.0


def michaelis_menten() -> Model:
    """Return Michaelis–Menten kinetics where a share of the measurements has ten times the noise."""
    rng = np.random.default_rng([42, 5])
    wide = np.where(rng.random(len(SUBSTRATE)) < 0.15, OUTLIER_FACTOR, 1.0)
    rates = 2.0 * SUBSTRATE / (1.5 + SUBSTRATE) + 0.05 * wide * rng.standard_normal(len(SUBSTRATE))
    return Model(
        name="michaelis_menten",
        laws={
            "Vmax": LogNormal(2.0, 0.7),
            "Km": LogNormal(1.0, 1.0),
            "sigma": LogNormal(0.1, 0.8),
            "outlier_share": Beta(1.0, 6.0),
        },
        log_likelihood=partial(_michaelis_menten, rates),
        plausible_bounds=np.array([[1.0, 4.0], [0.3, 5.0], [0.02, 0.3], [0.01, 0.4]]),
    )


def _michaelis_menten(rates: Float[ndarray, " t"], points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    vmax, km, sigma, share = points.T[:, :, None]
    z = (rates - vmax * SUBSTRATE / (km + SUBSTRATE)) / sigma
    good = np.log1p(-share) - 0.5 * z**2
    bad = np.log(share / OUTLIER_FACTOR) - 0.5 * (z / OUTLIER_FACTOR) ** 2
    result: ndarray = (np.logaddexp(good, bad) - np.log(sigma * ROOT_TWO_PI)).sum(axis=1)
    return result


# Populations

OCCASIONS = 6


def capture_recapture() -> Model:
    """Return how many animals there are when some are shyer than others; there are no fewer than were seen."""
    rng = np.random.default_rng([42, 6])
    captures = rng.binomial(OCCASIONS, rng.beta(1.6, 2.4, 70))
    counts = np.bincount(captures, minlength=OCCASIONS + 1)[1:].astype(float)
    return Model(
        name="capture_recapture",
        laws={
            "N": LogNormal(100.0, 0.8),
            "p": Uniform(0.0, 1.0),
            "precision": LogNormal(4.0, 0.8),
        },
        log_likelihood=partial(_capture_recapture, counts),
        plausible_bounds=np.array([[70.0, 250.0], [0.1, 0.7], [1.0, 15.0]]),
    )


def _capture_recapture(counts: Float[ndarray, " k"], points: Float[ndarray, "n 3"]) -> Float[ndarray, " n"]:
    animals, p, precision = points.T[:, :, None]
    k = np.arange(OCCASIONS + 1)
    a, b = p * precision, (1 - p) * precision
    log_share = np.log(binom(OCCASIONS, k)) + betaln(a + k, b + OCCASIONS - k) - betaln(a, b)
    seen = counts.sum()
    unseen = animals[:, 0] - seen
    result: ndarray = log_share[:, 1:] @ counts - gammaln(counts + 1).sum() + unseen * log_share[:, 0]
    result = result + gammaln(animals[:, 0] + 1) - gammaln(unseen + 1)
    return np.where(unseen >= 0, result, -np.inf)
