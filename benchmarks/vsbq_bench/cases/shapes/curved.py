"""Shapes that bend: rings and shells, crescents, chains of bananas, funnels."""

from __future__ import annotations

from math import lgamma, log, pi

import numpy as np
from numpy.random import Generator
from scipy.special import ive

from vsbq._typing import Float, ndarray
from vsbq_bench.cases.shapes.base import Shape
from vsbq_bench.problems import _tabulate

__all__ = ["banana_chain", "crescent", "funnel"]


def crescent(dimension: int, width: float, concentration: float) -> Shape:
    """A shell of radius one and normal width; its density falls towards one pole (von Mises–Fisher).

    With a concentration of zero it is a ring or a closed shell.
    """
    reach = 12 * width
    radius = _tabulate(
        lambda r: (dimension - 1) * np.log(r) - 0.5 * ((r - 1) / width) ** 2, max(0.0, 1 - reach), 1 + reach
    )
    constant = -radius.log_integral - _log_sphere(dimension, concentration)

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        r = np.linalg.norm(x, axis=1)
        cosine = x[:, 0] / np.where(r > 0, r, 1.0)
        return np.asarray(constant - 0.5 * ((r - 1) / width) ** 2 + concentration * cosine)

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        return np.asarray(radius.draw(n, rng)[:, None] * _directions(dimension, concentration, n, rng))

    return Shape(dimension, log_density, draw)


def _log_sphere(dimension: int, concentration: float) -> float:
    """Log of ∫ exp(κ u1) over the unit sphere: (2π)^(D/2) I_(D/2-1)(κ) / κ^(D/2-1), its area for κ = 0."""
    half = 0.5 * dimension
    if concentration == 0:
        return log(2.0) + half * log(pi) - lgamma(half)
    bessel = log(float(ive(half - 1, concentration))) + concentration
    return half * log(2 * pi) + bessel - (half - 1) * log(concentration)


def _directions(dimension: int, concentration: float, n: int, rng: Generator) -> Float[ndarray, "n d"]:
    if dimension == 2:
        angle = rng.vonmises(0.0, concentration, n)
        return np.column_stack([np.cos(angle), np.sin(angle)])
    power = 0.5 * (dimension - 3)
    cosine = _tabulate(lambda w: concentration * w + power * np.log1p(-(w**2)), -1.0, 1.0).draw(n, rng)
    tangent = rng.standard_normal((n, dimension - 1))
    tangent *= (np.sqrt(1 - cosine**2) / np.linalg.norm(tangent, axis=1))[:, None]
    return np.column_stack([cosine, tangent])


def banana_chain(pairs: int, bend: float, width: float, link: float) -> Shape:
    """Bananas in a row: their first coordinates form a chain of correlated normals, the second ones bend with them.

    x1 | the x1 before: N(link x1', 1 - link²);  x2 | x1: N(bend (x1² - 1), width²).
    """
    steps = np.full(pairs, np.sqrt(1 - link**2))
    steps[0] = 1.0
    constant = -pairs * log(2 * pi * width) - float(np.log(steps).sum())

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        spine, rib = x[:, ::2], x[:, 1::2]
        before = np.column_stack([np.zeros(len(x)), spine[:, :-1]])
        along, across = (spine - link * before) / steps, (rib - bend * (spine**2 - 1)) / width
        return np.asarray(constant - 0.5 * (along**2 + across**2).sum(axis=1))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        x = np.empty((n, 2 * pairs))
        before = np.zeros(n)
        for i, step in enumerate(steps):
            x[:, 2 * i] = before = link * before + step * rng.standard_normal(n)
        x[:, 1::2] = bend * (x[:, ::2] ** 2 - 1) + width * rng.standard_normal((n, pairs))
        return x

    return Shape(2 * pairs, log_density, draw)


def funnel(dimension: int, sd: float) -> Shape:
    """Neal's funnel: v ~ N(0, sd²) first, then x ~ N(0, exp(v)) in all other coordinates."""
    constant = -0.5 * dimension * log(2 * pi) - log(sd)

    def log_density(x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        v = x[:, 0]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = (x[:, 1:] ** 2).sum(axis=1)
            pull = np.where(squares > 0, squares * np.exp(-v), 0.0)
        return np.asarray(constant - 0.5 * ((v / sd) ** 2 + (dimension - 1) * v + pull))

    def draw(n: int, rng: Generator) -> Float[ndarray, "n d"]:
        v = sd * rng.standard_normal(n)
        return np.column_stack([v, np.exp(0.5 * v)[:, None] * rng.standard_normal((n, dimension - 1))])

    return Shape(dimension, log_density, draw)
