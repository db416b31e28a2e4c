"""Regressions, mixtures and time series."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, log_expit, log_ndtr, logsumexp, xlogy

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.cases.science.laws import Beta, Cauchy, Exponential, Gamma, HalfNormal, LogNormal, Normal, Uniform
from vsbq_bench.cases.science.model import Model, Warp

__all__ = [
    "ar2",
    "change_point",
    "gaussian_mixture",
    "gp_hyperparameters",
    "logistic_cauchy",
    "ordinal_probit",
    "robust_regression",
    "zero_inflated",
]

ROOT_TWO_PI = np.sqrt(2 * np.pi)


class Table(NamedTuple):
    """A design matrix and an outcome."""

    design: Float[ndarray, "t p"]
    outcome: Float[ndarray, " t"]


def _design(rng: np.random.Generator, rows: int, columns: int) -> Float[ndarray, "t p"]:
    """Make an intercept and standard normal predictors."""
    return np.column_stack([np.ones(rows), rng.standard_normal((rows, columns))])


# Logistic regression

COEFFICIENTS = np.array([0.5, 3.0, -2.0, 1.0, 0.0, 0.0, 0.7, 0.0])


def logistic_cauchy() -> Model:
    """Return few answers and eight coefficients with Cauchy priors: nearly separated, so that large ones fit too."""
    rng = np.random.default_rng([44, 1])
    design = _design(rng, 45, 7)
    outcome = (rng.random(45) < expit(design @ COEFFICIENTS)).astype(float)
    laws = {"b0": Cauchy(10.0)} | {f"b{i}": Cauchy(2.5) for i in range(1, 8)}
    return Model(
        name="logistic_cauchy",
        laws=laws,
        log_likelihood=partial(_logistic, Table(design, outcome)),
        plausible_bounds=np.tile([-5.0, 5.0], (8, 1)),
    )


def _logistic(data: Table, points: Float[ndarray, "n p"]) -> Float[ndarray, " n"]:
    result: ndarray = log_expit((points @ data.design.T) * (2 * data.outcome - 1)).sum(axis=1)
    return result


# Robust regression


def robust_regression() -> Model:
    """Return a regression with Student-t noise of unknown degrees of freedom."""
    rng = np.random.default_rng([44, 2])
    design = _design(rng, 40, 2)
    outcome = design @ np.array([1.0, 2.0, -0.5]) + 0.5 * rng.standard_t(2.5, 40)
    return Model(
        name="robust_regression",
        laws={
            "b0": Normal(0.0, 3.0),
            "b1": Normal(0.0, 3.0),
            "b2": Normal(0.0, 3.0),
            "sigma": HalfNormal(2.0),
            "nu": Gamma(2.0, 10.0),
        },
        log_likelihood=partial(_robust, Table(design, outcome)),
        plausible_bounds=np.array([[-3.0, 3.0], [-3.0, 3.0], [-3.0, 3.0], [0.1, 2.0], [1.0, 40.0]]),
    )


def _robust(data: Table, points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    sigma, nu = points[:, 3], points[:, 4]
    z = (data.outcome - points[:, :3] @ data.design.T) / sigma[:, None]
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(np.pi * nu) - np.log(sigma)
    result: ndarray = len(data.outcome) * constant - (nu + 1) / 2 * np.log1p(z**2 / nu[:, None]).sum(axis=1)
    return result


# Counts with too many zeros


def zero_inflated() -> Model:
    """Return Poisson counts with a predictor of the rate and one of the share of structural zeros."""
    rng = np.random.default_rng([44, 3])
    design = _design(rng, 70, 2)
    absent = rng.random(70) < expit(design[:, [0, 2]] @ np.array([-0.6, 1.0]))
    outcome = np.where(absent, 0, rng.poisson(np.exp(design @ np.array([0.2, 0.6, -0.3])))).astype(float)
    return Model(
        name="zero_inflated",
        laws={name: Normal(0.0, 1.5) for name in ("rate0", "rate1", "rate2", "zero0", "zero2")},
        log_likelihood=partial(_zero_inflated, Table(design, outcome)),
        plausible_bounds=np.tile([-1.5, 1.5], (5, 1)),
    )


def _zero_inflated(data: Table, points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    log_rate = points[:, :3] @ data.design.T
    drive = points[:, 3:] @ data.design[:, [0, 2]].T
    counted = log_expit(-drive) + data.outcome * log_rate - np.exp(log_rate) - gammaln(data.outcome + 1)
    result: ndarray = np.where(data.outcome == 0, np.logaddexp(log_expit(drive), counted), counted).sum(axis=1)
    return result


# Ordered categories


def ordinal_probit() -> Model:
    """Return ratings in five categories; one was never used, so that its thresholds press upon each other."""
    rng = np.random.default_rng([44, 4])
    predictor = rng.standard_normal(60)
    latent = 0.9 * predictor + rng.standard_normal(60)
    rating = np.searchsorted(np.array([-1.2, -0.1, -0.1, 1.0]), latent)
    laws = {"slope": Normal(0.0, 1.0), "c1": Normal(-1.0, 1.0)} | {f"c{i}": Exponential(1.0) for i in (2, 3, 4)}
    return Model(
        name="ordinal_probit",
        laws=laws,
        log_likelihood=partial(_ordinal, predictor, rating),
        plausible_bounds=np.array([[-1.0, 2.0], [-2.5, 0.0], [-1.5, 1.0], [-1.0, 1.5], [0.0, 2.5]]),
        edges=np.tile([-np.inf, np.inf], (5, 1)),
        warp=Warp(_thresholds, _gaps),
    )


def _thresholds(coordinates: Float[ndarray, "n 5"]) -> Float[ndarray, "n 5"]:
    return np.column_stack([coordinates[:, 0], np.cumsum(coordinates[:, 1:], axis=1)])


def _gaps(points: Float[ndarray, "n 5"]) -> tuple[Float[ndarray, "n 5"], Float[ndarray, " n"]]:
    return np.column_stack([points[:, :2], np.diff(points[:, 1:], axis=1)]), np.zeros(len(points))


def _ordinal(
    predictor: Float[ndarray, " t"], rating: Int[ndarray, " t"], points: Float[ndarray, "n 5"]
) -> Float[ndarray, " n"]:
    ends = np.full((len(points), 1), np.inf)
    thresholds = np.column_stack([-ends, points[:, 1:], ends])
    shift = points[:, :1] * predictor
    upper, lower = thresholds[:, rating + 1] - shift, thresholds[:, rating] - shift
    # The interval is mirrored into the lower half, where the difference of two small numbers is exact.
    flip = upper + lower > 0
    low, high = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    result: ndarray = (log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))).sum(axis=1)
    return result


# A mixture


def gaussian_mixture() -> Model:
    """Return a mixture of two normals that nothing but their labels tells apart: two modes."""
    rng = np.random.default_rng([44, 5])
    values = np.concatenate([rng.normal(-1.0, 0.8, 25), rng.normal(1.8, 0.6, 15)])
    return Model(
        name="gaussian_mixture",
        laws={
            "mu1": Normal(0.0, 2.0),
            "mu2": Normal(0.0, 2.0),
            "sigma1": LogNormal(0.8, 0.5),
            "sigma2": LogNormal(0.8, 0.5),
            "share1": Beta(2.0, 2.0),
        },
        log_likelihood=partial(_gaussian_mixture, values),
        plausible_bounds=np.array([[-2.5, 2.5], [-2.5, 2.5], [0.4, 1.6], [0.4, 1.6], [0.1, 0.9]]),
    )


def _gaussian_mixture(values: Float[ndarray, " t"], points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    mu1, mu2, sigma1, sigma2, share = points.T[:, :, None]
    first = np.log(share / (sigma1 * ROOT_TWO_PI)) - 0.5 * ((values - mu1) / sigma1) ** 2
    second = np.log((1 - share) / (sigma2 * ROOT_TWO_PI)) - 0.5 * ((values - mu2) / sigma2) ** 2
    result: ndarray = np.logaddexp(first, second).sum(axis=1)
    return result


# A Gaussian process


def gp_hyperparameters() -> Model:
    """Return length scale, signal and noise of a Gaussian process seen at 30 places: wiggles or noise, both fit."""
    rng = np.random.default_rng([44, 6])
    places = np.sort(rng.uniform(0.0, 10.0, 30))
    values = np.sin(1.3 * places) + 0.5 * np.sin(3.1 * places) + 0.6 * rng.standard_normal(30)
    return Model(
        name="gp_hyperparameters",
        laws={"length": LogNormal(1.0, 0.9), "signal": LogNormal(1.0, 0.6), "noise": LogNormal(0.5, 0.7)},
        log_likelihood=partial(_gp, (places[:, None] - places) ** 2, values),
        plausible_bounds=np.array([[0.2, 5.0], [0.3, 2.5], [0.15, 1.5]]),
    )


def _gp(
    squares: Float[ndarray, "t t"], values: Float[ndarray, " t"], points: Float[ndarray, "n 3"]
) -> Float[ndarray, " n"]:
    length, signal, noise = points.T[:, :, None, None]
    covariance = signal**2 * np.exp(-0.5 * squares / length**2) + (noise**2 + 1e-10) * np.eye(len(values))
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, values[:, None])[:, :, 0]
    log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    result: ndarray = -0.5 * (white**2).sum(axis=1) - log_root - len(values) * np.log(ROOT_TWO_PI)
    return result


# Autoregression


def ar2() -> Model:
    """Return an autoregression of order two near a unit root: outside the stationarity triangle there is nothing."""
    rng = np.random.default_rng([44, 7])
    series = np.zeros(60)
    for t in range(2, 60):
        series[t] = 1.35 * series[t - 1] - 0.37 * series[t - 2] + rng.standard_normal()
    return Model(
        name="ar2",
        laws={"phi1": Uniform(-1.0, 1.0), "phi2": Beta(1.0, 2.0, -1.0, 1.0), "sigma": LogNormal(1.0, 0.7)},
        log_likelihood=partial(_ar2, series[25:]),
        plausible_bounds=np.array([[-0.9, 1.8], [-0.9, 0.9], [0.4, 2.5]]),
        edges=np.array([[-2.0, 2.0], [-1.0, 1.0], [0.0, np.inf]]),
        warp=Warp(_from_partial, _to_partial),
    )


def _from_partial(coordinates: Float[ndarray, "n 3"]) -> Float[ndarray, "n 3"]:
    """From partial autocorrelations, with which the prior is uniform over the triangle."""
    first, second, sigma = coordinates.T
    return np.stack([first * (1 - second), second, sigma], axis=1)


def _to_partial(points: Float[ndarray, "n 3"]) -> tuple[Float[ndarray, "n 3"], Float[ndarray, " n"]]:
    phi1, phi2, sigma = points.T
    return np.stack([phi1 / (1 - phi2), phi2, sigma], axis=1), np.log1p(-phi2)


def _ar2(series: Float[ndarray, " t"], points: Float[ndarray, "n 3"]) -> Float[ndarray, " n"]:
    """Return the likelihood given the first two values."""
    phi1, phi2, sigma = points.T[:, :, None]
    residual = series[2:] - phi1 * series[1:-1] - phi2 * series[:-2]
    result: ndarray = (-0.5 * (residual / sigma) ** 2 - np.log(sigma * ROOT_TWO_PI)).sum(axis=1)
    return result


# A change point

SPAN = 10.0
RATE_SHAPE, RATE_SCALE = 2.0, 2.0


def change_point() -> Model:
    """Return times of accidents whose rate changes at an unknown time: the density jumps at every accident."""
    events = _accidents()
    return Model(
        name="change_point",
        laws={
            "rate_before": Gamma(RATE_SHAPE, RATE_SCALE),
            "rate_after": Gamma(RATE_SHAPE, RATE_SCALE),
            "change": Uniform(0.0, SPAN),
        },
        log_likelihood=partial(_change_point, events),
        plausible_bounds=np.array([[0.5, 8.0], [0.5, 8.0], [0.5, 9.5]]),
        log_evidence=partial(_change_point_evidence, events),
    )


def _accidents() -> Float[ndarray, " e"]:
    rng = np.random.default_rng([44, 8])
    return np.sort(np.concatenate([rng.uniform(0.0, 4.0, 16), rng.uniform(4.0, SPAN, 8)]))


def _change_point(events: Float[ndarray, " e"], points: Float[ndarray, "n 3"]) -> Float[ndarray, " n"]:
    before, after, change = points.T
    count = np.searchsorted(events, change).astype(float)
    result: ndarray = xlogy(count, before) - before * change
    return result + xlogy(len(events) - count, after) - after * (SPAN - change)


def _change_point_evidence(events: Float[ndarray, " e"]) -> float:
    """Integrate both rates by conjugacy, and the time by Gauss–Legendre rules between the jumps."""
    nodes, weights = np.polynomial.legendre.leggauss(30)
    edges = np.concatenate([[0.0], events, [SPAN]])
    width = np.diff(edges)[:, None]
    change = (edges[:-1, None] + width * (nodes + 1) / 2).ravel()
    count = np.repeat(np.arange(len(events) + 1.0), len(nodes))
    logs = np.log((width * weights / 2).ravel() / SPAN)
    for seen, time in ((count, change), (len(events) - count, SPAN - change)):
        logs = logs + gammaln(RATE_SHAPE + seen) - gammaln(RATE_SHAPE) - RATE_SHAPE * np.log(RATE_SCALE)
        logs = logs - (RATE_SHAPE + seen) * np.log(1 / RATE_SCALE + time)
    return float(logsumexp(logs))
