"""Small sets of evaluations of targets whose evidence is known: shapes, bounds, noise, zeros and copies from a seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import gammaln, log_ndtr, ndtr


class Target(NamedTuple):
    """A log density of points (n, d), the log of its integral, a box that holds most of it, and its bounds."""

    log_density: Callable[[np.ndarray], np.ndarray]
    log_evidence: float
    box: np.ndarray
    bounds: Any


class Case(NamedTuple):
    """Evaluations of a target with all that `vsbq.fit` takes."""

    words: str
    points: np.ndarray
    log_density: np.ndarray
    options: dict[str, Any]
    log_evidence: float
    exact: np.ndarray  # the log densities without noise


def known_case(seed: int) -> Case:
    """The same case for the same seed."""
    rng = np.random.default_rng([23, seed])
    d = int(rng.integers(1, 5))
    n = max(20, int(rng.uniform(15, 100) * d))
    shape, where = _choose(rng, TARGETS), _choose(rng, TRACES)
    target = TARGETS[shape](rng, d)
    points = TRACES[where](rng, n, d, target)
    exact = target.log_density(points)
    values, sd, noise = _noisy(rng, exact)
    options = {"bounds": target.bounds, "log_density_sd": sd}
    copied = ""
    if rng.uniform() < 0.2:
        again = np.append(np.arange(len(points)), rng.integers(len(points), size=len(points) // 2))
        points, values, exact, copied = points[again], values[again], exact[again], ", copies"
        options["log_density_sd"] = sd if np.ndim(sd) == 0 else sd[again]
    words = f"{seed}: {shape}, {where}, {len(points)} x {d}, noise {noise}{copied}"
    return Case(words, points, values, options, target.log_evidence, exact)


def _choose(rng: np.random.Generator, table: dict[str, Any]) -> str:
    return list(table)[int(rng.integers(len(table)))]


# Targets


def _widths(rng, d):
    return 10.0 ** rng.uniform(-1, 1, d)


def _normal(rng, d, wide=False):
    scale, centre, constant = _widths(rng, d), rng.normal(0, 3, d), rng.normal(0, 20)
    mix = np.linalg.qr(rng.standard_normal((d, d)))[0] * 10.0 ** rng.uniform(-0.5, 0.5, d)

    def log_density(x):
        return constant - 0.5 * ((((x - centre) / scale) @ mix) ** 2).sum(axis=1)

    log_z = constant + 0.5 * d * np.log(2 * np.pi) + np.log(scale).sum() - np.linalg.slogdet(mix)[1]
    sd = scale * np.sqrt(np.diagonal(np.linalg.inv(mix @ mix.T)))
    box = np.stack([centre - 3 * sd, centre + 3 * sd], axis=1)
    if not wide:
        return Target(log_density, log_z, box, None)
    reach = 10.0 ** rng.uniform(2, 17)
    return Target(log_density, log_z, box, np.stack([centre - reach * sd, centre + reach * sd], axis=1))


def _wide_bounds(rng, d):
    return _normal(rng, d, wide=True)


def _cut_by_bounds(rng, d):
    """Independent normals, each cut by bounds: one near, the other anywhere."""
    scale, constant = _widths(rng, d), rng.normal(0, 20)
    low, high = -rng.uniform(0, 3, d), 10.0 ** rng.uniform(0, 6, d)

    def log_density(x):
        return constant - 0.5 * ((x / scale) ** 2).sum(axis=1)

    log_z = constant + (0.5 * np.log(2 * np.pi) + np.log(scale) + np.log(ndtr(high) - ndtr(low))).sum()
    box = np.stack([scale * low, scale * np.minimum(high, 3.0)], axis=1)
    return Target(log_density, log_z, box, np.stack([scale * low, scale * high], axis=1))


def _gammas(rng, d):
    shape, scale = rng.uniform(1.5, 6, d), _widths(rng, d)

    def log_density(x):
        with np.errstate(divide="ignore"):
            return ((shape - 1) * np.log(x) - x / scale).sum(axis=1)

    log_z = (gammaln(shape) + shape * np.log(scale)).sum()
    box = np.stack([0.05 * scale * shape, scale * (shape + 4 * np.sqrt(shape))], axis=1)
    return Target(log_density, log_z, box, [(0, None)] * d)


def _banana(rng, d):
    """The last coordinate bends with the first: a shear, so that the evidence is that of a normal."""
    bend = rng.uniform(0.2, 0.6)

    def log_density(x):
        z = x.copy()
        if d > 1:
            z[:, -1] = z[:, -1] - bend * (z[:, 0] ** 2 - 1)
        return -0.5 * (z**2).sum(axis=1)

    box = np.tile([-3.0, 3.0], (d, 1))
    box[-1] = [-4.0, 6.0] if d > 1 else box[-1]
    return Target(log_density, 0.5 * d * np.log(2 * np.pi), box, None)


def _half_space(rng, d):
    """A normal with zeros beyond a plane."""
    direction, offset = rng.standard_normal(d), rng.uniform(-0.5, 2.0)
    direction /= np.linalg.norm(direction)

    def log_density(x):
        return np.where(x @ direction > offset, -np.inf, -0.5 * (x**2).sum(axis=1))

    return Target(log_density, 0.5 * d * np.log(2 * np.pi) + log_ndtr(offset), np.tile([-3.0, 3.0], (d, 1)), None)


TARGETS = {
    "normal": _normal,
    "wide bounds": _wide_bounds,
    "cut by bounds": _cut_by_bounds,
    "gammas": _gammas,
    "banana": _banana,
    "half-space": _half_space,
}


# Traces


def _inside(target, points):
    if target.bounds is None:
        return points
    low, high = np.array([[-np.inf if a is None else a, np.inf if b is None else b] for a, b in target.bounds]).T
    return np.clip(points, low, high)


def _uniform(rng, n, d, target):
    return rng.uniform(target.box[:, 0], target.box[:, 1], (n, d))


def _cloud(rng, n, d, target):
    middle, half = target.box.mean(axis=1), 0.5 * np.ptp(target.box, axis=1)
    return _inside(target, middle + rng.uniform(0.3, 0.6) * half * rng.standard_normal((n, d)))


def _runs(rng, n, d, target):
    """All evaluations of Nelder–Mead from random starts, as many as are needed."""
    found: list[np.ndarray] = []

    def negative(x):
        point = _inside(target, x[None])
        found.append(point[0])
        value = target.log_density(point)[0]
        return 1e10 if not np.isfinite(value) else -value

    while len(found) < n:
        start = rng.uniform(target.box[:, 0], target.box[:, 1])
        minimize(negative, start, method="Nelder-Mead", options={"maxfev": max(10, n // 3)})
    return np.array(found[:n])


TRACES = {"uniform": _uniform, "cloud": _cloud, "runs": _runs}


# Noise


def _noisy(rng, exact):
    """Values, standard deviations to pass on, and in words what was done."""
    kind = rng.choice(["none", "none", "given", "by row", "practically none"])
    if kind == "none":
        return exact, None, kind
    sd = 10.0 ** rng.uniform(-1, 0.5) * (
        np.ones(len(exact)) if kind == "given" else 10.0 ** rng.normal(0, 0.3, len(exact))
    )
    if kind == "practically none":
        sd = np.full(len(exact), 10.0 ** rng.uniform(-12, -4))
    return exact + sd * rng.standard_normal(len(exact)), sd, kind
