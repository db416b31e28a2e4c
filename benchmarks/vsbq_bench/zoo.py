"""Targets unlike the paper's, with exact draws and evidence: to see that one default serves them all.

Bounded and half-bounded parameters, strong correlation, heavy tails, several modes, one parameter, many parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import stats

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import Problem

__all__ = ["ZOO"]


def _names(dimension: int) -> tuple[str, ...]:
    return tuple(f"x{i + 1}" for i in range(dimension))


def _box(low: ndarray, high: ndarray) -> Float[ndarray, "d 2"]:
    return np.column_stack([low, high])


def correlated_gaussian(dimension: int = 8, condition: float = 1e4, name: str = "correlated_gaussian") -> Problem:
    """A normal whose longest axis is √condition times its shortest, in a random orientation (fixed seed)."""
    rng = np.random.default_rng(8)
    rotation = np.linalg.qr(rng.standard_normal((dimension, dimension)))[0]
    scales = np.geomspace(1.0, condition**-0.5, dimension)
    root = rotation * scales
    centre = rng.uniform(-1, 1, dimension)
    sd = np.linalg.norm(root, axis=1)

    def log_density(x: ndarray) -> ndarray:
        z = (x - centre) @ rotation / scales
        return np.asarray(3.0 - 0.5 * (z**2).sum(axis=1))

    def draw(n: int, rng: Generator) -> ndarray:
        return centre + rng.standard_normal((n, dimension)) @ root.T

    return Problem(
        name=name,
        dimension=dimension,
        log_density=log_density,
        bounds=None,
        plausible_bounds=_box(centre - 3 * sd, centre + 3 * sd),
        names=_names(dimension),
        log_evidence=3.0 + 0.5 * dimension * np.log(2 * np.pi) + float(np.log(scales).sum()),
        log_evidence_sd=0.0,
        draw=draw,
    )


def student(dimension: int = 4, freedom: int = 4) -> Problem:
    """A multivariate t: tails that fall like a power."""
    law = stats.multivariate_t(np.zeros(dimension), np.eye(dimension), df=freedom)
    return Problem(
        name="student",
        dimension=dimension,
        log_density=lambda x: np.asarray(law.logpdf(x)).reshape(-1) - 5.0,
        bounds=None,
        plausible_bounds=_box(-3 * np.ones(dimension), 3 * np.ones(dimension)),
        names=_names(dimension),
        log_evidence=-5.0,
        log_evidence_sd=0.0,
        draw=lambda n, rng: np.asarray(law.rvs(n, random_state=rng)).reshape(n, dimension),
    )


def _mixture_problem(name: str, weights: ndarray, means: ndarray, sds: ndarray, margin: float) -> Problem:
    dimension = means.shape[1]
    sds = np.broadcast_to(sds if sds.ndim == 2 else sds[:, None], means.shape)

    def log_density(x: ndarray) -> ndarray:
        z = (x[:, None, :] - means) / sds
        logs = np.log(weights) - 0.5 * (z**2).sum(axis=2) - np.log(sds * np.sqrt(2 * np.pi)).sum(axis=1)
        return np.asarray(np.logaddexp.reduce(logs, axis=1))

    def draw(n: int, rng: Generator) -> ndarray:
        k = rng.choice(len(weights), n, p=weights)
        return np.asarray(means[k] + sds[k] * rng.standard_normal((n, dimension)))

    return Problem(
        name=name,
        dimension=dimension,
        log_density=log_density,
        bounds=None,
        plausible_bounds=_box(means.min(axis=0) - margin, means.max(axis=0) + margin),
        names=_names(dimension),
        log_evidence=0.0,
        log_evidence_sd=0.0,
        draw=draw,
    )


def three_modes(dimension: int = 3) -> Problem:
    """Three well separated normals with masses 0.6, 0.3 and 0.1 and widths of their own."""
    means = np.zeros((3, dimension))
    means[0, 0], means[1, 0], means[2, 1 % dimension] = -3.0, 3.0, 5.0
    return _mixture_problem("three_modes", np.array([0.6, 0.3, 0.1]), means, np.array([0.8, 0.6, 0.5]), 2.0)


def _independent(
    name: str, laws: list[Any], limits: list[tuple[float, float]], plausible: list[tuple[float, float]]
) -> Problem:
    def log_density(x: ndarray) -> ndarray:
        return np.asarray(sum(law.logpdf(x[:, i]) for i, law in enumerate(laws)))

    def draw(n: int, rng: Generator) -> ndarray:
        return np.column_stack([law.rvs(n, random_state=rng) for law in laws])

    return Problem(
        name=name,
        dimension=len(laws),
        log_density=log_density,
        bounds=np.array(limits, dtype=float),
        plausible_bounds=np.array(plausible, dtype=float),
        names=_names(len(laws)),
        log_evidence=0.0,
        log_evidence_sd=0.0,
        draw=draw,
    )


def bounded() -> Problem:
    """Two-sided bounds: one marginal away from them, one skewed, one piled up at a bound, one nearly flat."""
    laws = [stats.beta(20, 30), stats.beta(2, 8), stats.beta(1, 4), stats.beta(1.2, 1.1)]
    return _independent("bounded", laws, [(0, 1)] * 4, [(0.05, 0.95)] * 4)


def half_bounded() -> Problem:
    """One-sided bounds on either side and an open parameter: gamma, mirrored log-normal, normal."""
    inf = np.inf
    gamma, mirrored = stats.gamma(3.0, scale=2.0), stats.lognorm(0.6)
    flipped = _Mirror(mirrored)
    return _independent(
        "half_bounded",
        [gamma, flipped, stats.norm(1.0, 2.0)],
        [(0, inf), (-inf, 0), (-inf, inf)],
        [(0.5, 20), (-5, -0.1), (-6, 8)],
    )


class _Mirror:
    """The law of −X."""

    def __init__(self, law: Any) -> None:
        self.law = law

    def logpdf(self, x: ndarray) -> ndarray:
        return np.asarray(self.law.logpdf(-x))

    def rvs(self, n: int, random_state: Generator) -> ndarray:
        return -np.asarray(self.law.rvs(n, random_state=random_state))


def single() -> Problem:
    """One parameter, two modes."""
    return _mixture_problem("single", np.array([0.7, 0.3]), np.array([[-2.0], [2.0]]), np.array([0.7, 0.5]), 2.0)


ZOO: Mapping[str, Callable[[], Problem]] = MappingProxyType(
    {
        "correlated_gaussian": correlated_gaussian,
        "student": student,
        "three_modes": three_modes,
        "bounded": bounded,
        "half_bounded": half_bounded,
        "single": single,
        "wide_gaussian": partial(correlated_gaussian, 15, 1e2, "wide_gaussian"),
    }
)
