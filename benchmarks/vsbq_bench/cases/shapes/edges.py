"""Shapes that end: at bounds, at slanted planes, in a disc or a simplex, and at cliffs of finite height."""

from __future__ import annotations

from math import exp, inf, log, pi

import numpy as np
from numpy.random import Generator
from scipy.special import betaln, gammaln, ndtr, ndtri, xlog1py, xlogy
from scipy.stats import ncx2

from vsbq._typing import Float, ndarray
from vsbq_bench.cases.shapes.base import Shape, random_rotation

__all__ = ["betas", "corner", "cut_normal", "disc", "simplex", "truncated_normals", "uniform"]


def betas(pairs: tuple[tuple[float, float], ...]) -> Shape:
    """Independent beta variables."""
    a, b = np.array(pairs).T
    constant = -float(betaln(a, b).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        result = np.full(len(x), -np.inf)
        inside = np.all((x >= 0) & (x <= 1), axis=1)
        result[inside] = constant + (xlogy(a - 1, x[inside]) + xlog1py(b - 1, -x[inside])).sum(axis=1)
        return result

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.asarray(rng.beta(a, b, (n, len(a))))

    return Shape(len(pairs), log_density, draw, np.tile([0.0, 1.0], (len(pairs), 1)))


def truncated_normals(laws: tuple[tuple[float, float, float, float], ...]) -> Shape:
    """Independent normals (mean, sd, low, high), each cut off at its bounds."""
    mean, sd, low, high = np.array(laws).T
    below, above = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
    constant = -float(np.log(sd * np.sqrt(2 * pi) * (above - below)).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        inside = np.all((x >= low) & (x <= high), axis=1)
        return np.where(inside, constant - 0.5 * (((x - mean) / sd) ** 2).sum(axis=1), -np.inf)

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        p = below + (above - below) * rng.uniform(1e-12, 1 - 1e-12, (n, len(mean)))
        return np.clip(mean + sd * ndtri(p), low, high)

    return Shape(len(laws), log_density, draw, np.column_stack([low, high]))


def uniform(dimension: int) -> Shape:
    """A constant between bounds."""

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.where(np.all((x >= 0) & (x <= 1), axis=1), 0.0, -np.inf)

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return rng.random((n, dimension))

    return Shape(dimension, log_density, draw, np.tile([0.0, 1.0], (dimension, 1)))


def cut_normal(dimension: int, place: float, height: float, seed: int) -> Shape:
    """A standard normal that falls by `height` nats (inf: to zero density) beyond a slanted plane.

    The plane is `place` from the centre; where that is negative, the centre is beyond it and the mode on the plane.
    """
    across = random_rotation(dimension, seed)[0]
    kept = float(ndtr(place))
    total = kept + exp(-height) * (1 - kept)
    constant = -0.5 * dimension * log(2 * pi) - log(total)

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        beyond = np.where(x @ across > place, height, 0.0)
        return np.asarray(constant - 0.5 * (x**2).sum(axis=1) - beyond)

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        p = rng.uniform(1e-15, 1.0, n)
        low = rng.random(n) < kept / total
        along = np.where(low, ndtri(kept * p), -ndtri((1 - kept) * p))
        z = rng.standard_normal((n, dimension))
        return np.asarray(z + np.outer(along - z @ across, across))

    return Shape(dimension, log_density, draw)


def disc(centre: tuple[float, float], sd: float) -> Shape:
    """A round normal that ends at the unit circle, inside of which its centre lies."""
    middle = np.array(centre)
    inside = float(ncx2.cdf(1 / sd**2, 2, float(middle @ middle) / sd**2))
    constant = -log(2 * pi * sd**2 * inside)

    def log_density(x: Float[ndarray, "n 2"]) -> Float[ndarray, " n"]:
        value = constant - 0.5 * (((x - middle) / sd) ** 2).sum(axis=1)
        return np.where((x**2).sum(axis=1) <= 1, value, -np.inf)

    def draw(n: int, rng: Generator) -> Float[ndarray, "n 2"]:
        found = np.empty((0, 2))
        while len(found) < n:
            more = middle + sd * rng.standard_normal((n, 2))
            found = np.concatenate([found, more[(more**2).sum(axis=1) <= 1]])
        return found[:n]

    return Shape(2, log_density, draw)


def simplex(concentrations: tuple[float, ...]) -> Shape:
    """Shares that sum to one (Dirichlet), without the last: the density ends where the others exceed one."""
    a = np.array(concentrations)
    constant = float(gammaln(a.sum()) - gammaln(a).sum())
    dimension = len(a) - 1

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        last = 1 - x.sum(axis=1)
        result = np.full(len(x), -np.inf)
        inside = np.all(x >= 0, axis=1) & (last >= 0)
        shares = np.column_stack([x[inside], last[inside]])
        result[inside] = constant + xlogy(a - 1, shares).sum(axis=1)
        return result

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.asarray(rng.dirichlet(a, n)[:, :dimension])

    return Shape(dimension, log_density, draw, np.tile([0.0, 1.0], (dimension, 1)))


def corner(rates: tuple[float, ...], seed: int) -> Shape:
    """Exponentials within a cone of slanted planes: the mode is its tip, beyond the planes the density is zero."""
    rate = np.array(rates)
    planes = np.eye(len(rate)) + np.random.default_rng(seed).uniform(-0.6, 0.6, (len(rate), len(rate)))
    constant = float(np.log(rate).sum() + np.linalg.slogdet(planes)[1])

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        depth = x @ planes.T
        slack = 1e-12 * (1 + np.abs(x).max(axis=1, keepdims=True))  # rounding, for points on a plane
        return np.where(np.all(depth >= -slack, axis=1), constant - depth @ rate, -inf)

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        depth = rng.exponential(1 / rate, (n, len(rate)))
        return np.asarray(np.linalg.solve(planes, depth.T).T)

    return Shape(len(rates), log_density, draw)
