"""Models of physics: decays, oscillations, images, supernovae, counts, dates."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ive, xlogy

from vsbq._typing import Float, ndarray
from vsbq_bench.cases.science.laws import Exponential, HalfNormal, LogNormal, Normal, Uniform, normal_sum
from vsbq_bench.cases.science.model import Model

__all__ = ["damped_oscillator", "dead_time", "on_off", "radiocarbon", "supernovae", "t2_relaxation", "two_exponentials"]

ROOT_TWO_PI = np.sqrt(2 * np.pi)

# Two exponentials

DELAYS = np.linspace(0.1, 8.0, 30)


def two_exponentials() -> Model:
    """Return a decay with two components that nothing tells apart: the posterior has each order of them."""
    rng = np.random.default_rng([43, 1])
    signal = 1.0 * np.exp(-1.8 * DELAYS) + 0.8 * np.exp(-0.35 * DELAYS) + 0.03 * rng.standard_normal(len(DELAYS))
    return Model(
        name="two_exponentials",
        laws={
            "A1": LogNormal(1.0, 0.7),
            "k1": LogNormal(0.8, 1.0),
            "A2": LogNormal(1.0, 0.7),
            "k2": LogNormal(0.8, 1.0),
            "sigma": LogNormal(0.05, 0.7),
        },
        log_likelihood=partial(_two_exponentials, signal),
        plausible_bounds=np.array([[0.4, 2.5], [0.2, 3.0], [0.4, 2.5], [0.2, 3.0], [0.02, 0.12]]),
    )


def _two_exponentials(signal: Float[ndarray, " t"], points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    a1, k1, a2, k2, sigma = points.T[:, :, None]
    mean = a1 * np.exp(-k1 * DELAYS) + a2 * np.exp(-k2 * DELAYS)
    return normal_sum(signal - mean, sigma)


# A damped oscillator, seldom seen


class Series(NamedTuple):
    """Times and what was measured."""

    times: Float[ndarray, " t"]
    values: Float[ndarray, " t"]


def damped_oscillator() -> Model:
    """Return an oscillation sampled about once a second: frequencies that differ by 1 Hz fit nearly as well."""
    rng = np.random.default_rng([43, 2])
    times = np.arange(14.0) + rng.normal(0.0, 0.035, 14)
    values = np.exp(-0.06 * times) * np.cos(2 * np.pi * 0.31 * times + 0.8) + 0.3 * rng.standard_normal(14)
    return Model(
        name="damped_oscillator",
        laws={
            "amplitude": HalfNormal(1.5),
            "frequency": Uniform(0.0, 2.0),
            "damping": LogNormal(0.07, 0.6),
            "phase": Uniform(-np.pi, np.pi),
            "sigma": LogNormal(0.3, 0.5),
        },
        log_likelihood=partial(_damped_oscillator, Series(times, values)),
        plausible_bounds=np.array([[0.3, 2.0], [0.1, 1.9], [0.02, 0.2], [-2.5, 2.5], [0.15, 0.6]]),
    )


def _damped_oscillator(data: Series, points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    amplitude, frequency, damping, phase, sigma = points.T[:, :, None]
    mean = amplitude * np.exp(-damping * data.times) * np.cos(2 * np.pi * frequency * data.times + phase)
    return normal_sum(data.values - mean, sigma)


# Radioactive decay

MINUTES = np.arange(20.0)
SECONDS = 1.0  # counted in each minute


def dead_time() -> Model:
    """Return counts of a decaying source over a background, by a detector that is blind for a while after each."""
    rng = np.random.default_rng([43, 3])
    counts = rng.poisson(_counted(np.array([[3000.0, 4.0, 150.0, 100.0]]))[0]).astype(float)
    return Model(
        name="dead_time",
        laws={
            "rate": LogNormal(3000.0, 0.5),
            "half_life": LogNormal(5.0, 0.5),
            "background": LogNormal(100.0, 0.7),
            "dead_time_us": Exponential(100.0),
        },
        log_likelihood=partial(_dead_time, counts),
        plausible_bounds=np.array([[1500.0, 6000.0], [2.0, 10.0], [40.0, 300.0], [5.0, 250.0]]),
    )


def _counted(points: Float[ndarray, "n 4"]) -> Float[ndarray, "n t"]:
    rate, half_life, background, blind = points.T[:, :, None]
    true = rate * 0.5 ** (MINUTES / half_life) + background
    result: ndarray = SECONDS * true / (1 + true * blind * 1e-6)
    return result


def _dead_time(counts: Float[ndarray, " t"], points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    mean = _counted(points)
    result: ndarray = (xlogy(counts, mean) - mean - gammaln(counts + 1)).sum(axis=1)
    return result


# Magnetic resonance

ECHOES = np.tile(np.arange(10.0, 170.0, 20.0), 2)  # ms


def t2_relaxation() -> Model:
    """Return the decay of an echo in a voxel: the noise of magnitudes is Rician, so that late echoes have a floor."""
    rng = np.random.default_rng([43, 4])
    clean = 100.0 * np.exp(-ECHOES / 45.0)
    magnitude = np.hypot(clean + 18.0 * rng.standard_normal(len(ECHOES)), 18.0 * rng.standard_normal(len(ECHOES)))
    return Model(
        name="t2_relaxation",
        laws={"S0": LogNormal(100.0, 0.5), "T2": LogNormal(60.0, 0.6), "sigma": LogNormal(15.0, 0.6)},
        log_likelihood=partial(_t2_relaxation, magnitude),
        plausible_bounds=np.array([[50.0, 200.0], [20.0, 150.0], [5.0, 40.0]]),
    )


def _t2_relaxation(magnitude: Float[ndarray, " t"], points: Float[ndarray, "n 3"]) -> Float[ndarray, " n"]:
    s0, t2, sigma = points.T[:, :, None]
    clean = s0 * np.exp(-ECHOES / t2)
    variance = sigma**2
    # log I0(x) = log ive(0, x) + x, and the x completes the square
    logs = np.log(magnitude / variance) - (magnitude - clean) ** 2 / (2 * variance)
    result: ndarray = (logs + np.log(ive(0, magnitude * clean / variance))).sum(axis=1)
    return result


# Supernovae

LIGHT_SPEED = 299_792.458  # km / s
NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(12)


class Supernovae(NamedTuple):
    """Redshifts, apparent magnitudes and the standard deviations of these."""

    redshift: Float[ndarray, " s"]
    magnitude: Float[ndarray, " s"]
    sd: Float[ndarray, " s"]


def supernovae() -> Model:
    """Return a flat universe with dark energy of a constant w; brightness and Hubble constant are nearly one number."""
    rng = np.random.default_rng([43, 5])
    redshift = np.sort(np.concatenate([rng.uniform(0.015, 0.1, 15), rng.uniform(0.1, 1.0, 30)]))
    sd = np.full(len(redshift), 0.15)
    truth = np.array([[70.0, 0.3, -1.0, -19.3]])
    magnitude = _magnitudes(redshift, truth)[0] + sd * rng.standard_normal(len(redshift))
    return Model(
        name="supernovae",
        laws={
            "H0": Normal(70.0, 4.0),
            "Omega_m": Uniform(0.0, 1.0),
            "w": Uniform(-3.0, 0.0),
            "M": Normal(-19.3, 0.1),
        },
        log_likelihood=partial(_supernovae, Supernovae(redshift, magnitude, sd)),
        plausible_bounds=np.array([[62.0, 78.0], [0.1, 0.6], [-2.0, -0.4], [-19.5, -19.1]]),
    )


def _magnitudes(redshift: Float[ndarray, " s"], points: Float[ndarray, "n 4"]) -> Float[ndarray, "n s"]:
    hubble, matter, w, absolute = points.T[:, :, None]
    log_scale = np.log1p(redshift[:, None] * (NODES + 1) / 2).ravel()
    expansion = matter * np.exp(3 * log_scale) + (1 - matter) * np.exp(3 * (1 + w) * log_scale)
    integral = (expansion**-0.5).reshape(len(points), len(redshift), -1) @ NODE_WEIGHTS / 2 * redshift
    luminosity_distance = (1 + redshift) * LIGHT_SPEED / hubble * integral  # Mpc
    result: ndarray = absolute + 5 * np.log10(luminosity_distance) + 25
    return result


def _supernovae(data: Supernovae, points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    return normal_sum(data.magnitude - _magnitudes(data.redshift, points), data.sd)


# A weak source

ON, OFF, OFF_EXPOSURE = 7.0, 24.0, 4.0


def on_off() -> Model:
    """Return a weak source over a background that is measured beside it; no source at all is nearly as probable."""
    return Model(
        name="on_off",
        laws={"signal": Exponential(10.0), "background": Exponential(10.0)},
        log_likelihood=_on_off,
        plausible_bounds=np.array([[0.2, 15.0], [2.0, 12.0]]),
    )


def _on_off(points: Float[ndarray, "n 2"]) -> Float[ndarray, " n"]:
    signal, background = points.T
    on, off = signal + background, OFF_EXPOSURE * background
    constant = gammaln(ON + 1) + gammaln(OFF + 1)
    result: ndarray = xlogy(ON, on) - on + xlogy(OFF, off) - off - constant
    return result


# A date

MEASURED_AGE, MEASURED_SD = 2450.0, 25.0
WIGGLES = ((60.0, 210.0, 0.4), (35.0, 88.0, 1.9), (45.0, 500.0, 2.6))  # amplitude, period, phase


def radiocarbon() -> Model:
    """Return the calendar age behind a radiocarbon age: the calibration curve goes up and down, so several fit."""
    return Model(
        name="radiocarbon",
        laws={"age": Uniform(1500.0, 3500.0)},
        log_likelihood=_radiocarbon,
        plausible_bounds=np.array([[2000.0, 2900.0]]),
    )


def _radiocarbon(points: Float[ndarray, "n 1"]) -> Float[ndarray, " n"]:
    age = points[:, 0]
    curve = age + sum(size * np.sin(2 * np.pi * age / period + phase) for size, period, phase in WIGGLES)
    result: ndarray = -0.5 * ((MEASURED_AGE - curve) / MEASURED_SD) ** 2 - np.log(MEASURED_SD * ROOT_TWO_PI)
    return result
