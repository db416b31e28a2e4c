"""Small training sets, log densities and models that the tests of the steps share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace, ModelSpace, WhitenedSpace
from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture
from vsbq.numerics.sgpr import Variance
from vsbq.progress import Progress
from vsbq.steps.model import Prediction, predict
from vsbq.steps.support import DRAWS, Support
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.trim import TrainingSet

QUIET = Progress(1, False)


def plain_space(d):
    """Inference space that is the user's space."""
    return InferenceSpace(Bounds.parse(None, d), np.zeros(d), np.zeros(d), np.ones(d))


def training_set(points, values, noise_sd=None, offset=0.0, **more):
    """Evaluations in a plain space, with levels that are the values."""
    sd = np.zeros(len(values)) if noise_sd is None else np.broadcast_to(noise_sd, len(values)).astype(float)
    nowhere = np.empty((0, points.shape[1]))
    places = {"low": nowhere, "zeros": nowhere} | more
    return TrainingSet(plain_space(points.shape[1]), points, values, sd, offset, values, **places)


def normal(x):
    """Log density of the standard normal, without its constant."""
    return -0.5 * (x**2).sum(axis=1)


def banana(x):
    """A curved ridge, normalised: x1 is standard normal, x2 has mean 1/2 and variance 3/4."""
    return -0.5 * x[:, 0] ** 2 - 0.5 * ((x[:, 1] - 0.5 * x[:, 0] ** 2) / 0.5) ** 2 - np.log(2 * np.pi * 0.5)


def wavy(x):
    """Smooth, unimodal, and no quadratic."""
    return normal(x) + 0.5 * np.sin(2 * x).sum(axis=1)


def two_modes(x):
    """Equal modes at ±2 along the first axis, each a normal with sd 1/2, normalised in two dimensions."""
    one, other = (-2 * ((x - [c, 0.0]) ** 2).sum(axis=1) for c in (-2.0, 2.0))
    return np.logaddexp(one, other) - np.log(2 * 2 * np.pi * 0.25)


def cloud(rng, n, d=2, spread=1.5):
    """Points of a normal, as wide as the posterior and half again."""
    return spread * rng.standard_normal((n, d))


def one_normal(mean, sd):
    """A mixture of one component with independent coordinates."""
    return Mixture(
        np.zeros(1), np.atleast_2d(np.asarray(mean, dtype=float)), np.diag(np.asarray(sd, dtype=float))[None]
    )


def normal_surrogate(d, output=0.01, offset=0.0):
    """A sparse GP of the standard normal's log density, which its mean function is exactly."""
    points = np.random.default_rng(0).standard_normal((20, d))
    hyp = Hyperparameters(np.zeros(d), np.log(output), 0.0, np.zeros(d), np.zeros(d))
    factors, _ = sgpr.fit_factors(hyp, points[:8], points, normal(points), np.ones(20))
    return Surrogate(plain_space(d), hyp, factors, offset)


def edges_at(limits, d=1, steep=1e4):
    """A support that ends at limits of the first coordinate, each as probable as the others."""
    limits = np.resize(limits, DRAWS)
    surface = np.zeros((1 + d + d * (d + 1) // 2, DRAWS))
    surface[0], surface[1] = steep * limits, -steep
    return Support(np.zeros(d), np.eye(d), (surface,))


@dataclass(frozen=True)
class Known:
    """A model whose mean and variance are any functions; what it is asked for is counted."""

    mean_of: Callable[[Any], Any]
    variance_of: Callable[[Any], Any] = lambda u: np.zeros(len(u))
    d: int = 2
    offset: float = 0.0
    tested: float = 1.0
    prior_variance: float = 1.0
    beyond: Callable[[Any], Any] = lambda u: np.zeros(len(u))
    others: tuple[float, ...] = (0.0,)  # by which the models that it averages over differ from the mean
    turn: Any = None  # from plain coordinates to its own
    rise: float = 0.0
    open_trends: Callable[[Any], Any] = lambda u: np.zeros((0, len(u)))
    noise_of: Callable[[Any], Any] = lambda u: np.zeros(len(u))  # the part of the variance that is noise
    asked: list[int] = field(default_factory=list)  # points of each question about the variance

    @property
    def space(self) -> ModelSpace:
        return plain_space(self.d) if self.turn is None else WhitenedSpace(plain_space(self.d), self.turn)

    def predict(self, x) -> Prediction:
        return predict(self, x)

    def mean(self, u):
        return np.asarray(self.mean_of(u), dtype=float)

    def means(self, u):
        return np.stack([self.mean(u) + shift for shift in self.others])

    def variance(self, u):
        self.asked.append(len(u))
        return np.asarray(self.variance_of(u), dtype=float)

    def variances(self, u):
        return Variance(self.variance(u), np.asarray(self.noise_of(u), dtype=float))

    def changes(self, u):
        return np.zeros((0, len(u)))

    def doubt_beyond(self, u):
        return np.asarray(self.beyond(u), dtype=float)

    def trends(self, u):
        return np.asarray(self.open_trends(u), dtype=float)

    def covariance(self, a, b):
        raise NotImplementedError

    def at(self, u):
        raise NotImplementedError

    def expectation(self, mixture):
        raise NotImplementedError

    def expectation_variance(self, mixture):
        raise NotImplementedError
