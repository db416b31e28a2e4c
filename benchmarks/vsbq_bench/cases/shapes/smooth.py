"""Shapes without bounds and without bends: normals, skewness, tails, several modes, flat tops."""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln, log_ndtr

from vsbq._typing import Float, ndarray
from vsbq_bench.cases.shapes.base import Shape, random_rotation

__all__ = ["flat_top", "laplace", "log_normal", "mixture", "normal", "rotated_log_gamma", "skew_normal", "student"]


def normal(dimension: int, condition: float, seed: int) -> Shape:
    """A normal in a random orientation whose variances along its axes differ by up to `condition`."""
    rotation = random_rotation(dimension, seed)
    scales = np.geomspace(1.0, condition**-0.5, dimension)
    constant = -0.5 * dimension * log(2 * pi) - float(np.log(scales).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.asarray(constant - 0.5 * ((x @ rotation / scales) ** 2).sum(axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.asarray(rng.standard_normal((n, dimension)) * scales @ rotation.T)

    return Shape(dimension, log_density, draw)


def log_normal(sds: tuple[float, ...]) -> Shape:
    """Independent log-normals: positive parameters."""
    spread = np.array(sds)
    constant = -float(np.log(spread * np.sqrt(2 * pi)).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        result = np.full(len(x), -np.inf)
        inside = np.all(x > 0, axis=1)
        logs = np.log(x[inside])
        result[inside] = constant - (0.5 * (logs / spread) ** 2 + logs).sum(axis=1)
        return result

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.exp(spread * rng.standard_normal((n, len(spread))))

    return Shape(len(sds), log_density, draw, np.tile([0.0, np.inf], (len(sds), 1)))


def skew_normal(slants: tuple[float, ...]) -> Shape:
    """Independent skew-normals, 2 φ(x) Φ(slant x)."""
    slant = np.array(slants)
    constant = len(slants) * (log(2.0) - 0.5 * log(2 * pi))

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.asarray(constant + (log_ndtr(slant * x) - 0.5 * x**2).sum(axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        share = slant / np.sqrt(1 + slant**2)
        half, free = np.abs(rng.standard_normal((n, len(slant)))), rng.standard_normal((n, len(slant)))
        return np.asarray(share * half + np.sqrt(1 - share**2) * free)

    return Shape(len(slants), log_density, draw)


def rotated_log_gamma(shapes: tuple[float, ...], seed: int) -> Shape:
    """Logarithms of gamma variables, rotated: an exponential tail on one side and a steep fall on the other."""
    k = np.array(shapes)
    rotation = random_rotation(len(shapes), seed)
    constant = -float(gammaln(k).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        y = x @ rotation
        with np.errstate(over="ignore"):
            return np.asarray(constant + (k * y - np.exp(y)).sum(axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.asarray(np.log(rng.gamma(k, size=(n, len(k)))) @ rotation.T)

    return Shape(len(shapes), log_density, draw)


def student(dimension: int, freedom: float, seed: int) -> Shape:
    """A multivariate t with axes of unequal length in a random orientation."""
    rotation = random_rotation(dimension, seed)
    scales = np.geomspace(1.0, 0.2, dimension)
    half = 0.5 * (freedom + dimension)
    constant = lgamma(half) - lgamma(0.5 * freedom) - 0.5 * dimension * log(pi * freedom) - float(np.log(scales).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.asarray(constant - half * np.log1p(((x @ rotation / scales) ** 2).sum(axis=1) / freedom))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        z = rng.standard_normal((n, dimension)) / np.sqrt(rng.chisquare(freedom, (n, 1)) / freedom)
        return np.asarray(z * scales @ rotation.T)

    return Shape(dimension, log_density, draw)


def laplace(dimension: int, seed: int) -> Shape:
    """Independent Laplace variables, rotated: a sharp peak and exponential tails."""
    rotation = random_rotation(dimension, seed)

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.asarray(-dimension * log(2.0) - np.abs(x @ rotation).sum(axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.asarray(rng.laplace(size=(n, dimension)) @ rotation.T)

    return Shape(dimension, log_density, draw)


def flat_top(dimension: int, exponent: float, seed: int) -> Shape:
    """Generalised normals exp(-|x|^exponent), rotated: a plateau with steep sides."""
    rotation = random_rotation(dimension, seed)
    constant = -dimension * (log(2.0) + lgamma(1 + 1 / exponent))

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        return np.asarray(constant - (np.abs(x @ rotation) ** exponent).sum(axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        size = rng.gamma(1 / exponent, size=(n, dimension)) ** (1 / exponent)
        return np.asarray(size * rng.choice([-1.0, 1.0], (n, dimension)) @ rotation.T)

    return Shape(dimension, log_density, draw)


def mixture(weights: tuple[float, ...], means: Float[ndarray, "k d"], sds: Float[ndarray, "k d"]) -> Shape:
    """Normals with axes along the coordinates, of unequal masses and widths."""
    share = np.array(weights) / np.sum(weights)
    dimension = means.shape[1]
    constants = np.log(share) - np.log(sds * np.sqrt(2 * pi)).sum(axis=1)

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        z = (x[:, None, :] - means) / sds
        return np.asarray(np.logaddexp.reduce(constants - 0.5 * (z**2).sum(axis=2), axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        k = rng.choice(len(share), n, p=share)
        return np.asarray(means[k] + sds[k] * rng.standard_normal((n, dimension)))

    return Shape(dimension, log_density, draw)
