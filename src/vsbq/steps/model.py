"""What the later steps ask of a surrogate: the thin interface between step 2 and the rest.

All points and mixtures are in the model's own coordinates, those of its `space`. A model that has these methods can
take the place of the sparse GP: the mixture, the refinement and the suggestions use nothing else.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from vsbq._typing import ArrayLike, Float, Int, ndarray
from vsbq.data.transform import ModelSpace
from vsbq.numerics.mixture import Mixture, MixtureGradient
from vsbq.numerics.sgpr import Variance

__all__ = ["LocatedPoints", "LogDensityModel", "Prediction", "predict"]


class Prediction(NamedTuple):
    """Mean and standard deviation of the log density."""

    mean: Float[ndarray, " n"]
    sd: Float[ndarray, " n"]


@runtime_checkable
class LocatedPoints(Protocol):
    """Points with what a model needs to tell their covariances many times over."""

    def take(self, rows: Int[ndarray, " k"]) -> LocatedPoints:
        """Some of the points."""

    def variance(self) -> Float[ndarray, " n"]:
        """The variance of the log density at each point."""

    def covariance(self, other: Any) -> Float[ndarray, "n k"]:
        """The covariance of the log density between these points and others that the same model located."""


@runtime_checkable
class LogDensityModel(Protocol):
    """A normal belief about the log density, relative to `offset`, in the coordinates of `space`."""

    @property
    def space(self) -> ModelSpace:
        """The coordinates, and how they relate to the user's."""

    @property
    def offset(self) -> float:
        """What is added to the model's log density to get the user's."""

    @property
    def tested(self) -> float:
        """How far it was tested on held-out evaluations, from 0 (not at all) to 1."""

    @property
    def prior_variance(self) -> float:
        """The variance that evaluations have reduced; far from all of them it is at least as large."""

    @property
    def rise(self) -> float:
        """Nats above the highest evaluation up to which its mean may be believed, as far as those can tell."""

    def predict(self, x: ArrayLike) -> Prediction:
        """Mean and sd at points of the user's space; the function below does it for every model."""

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The expected log density at each point."""

    def means(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "k n"]:
        """What each of the models that it averages over expects; the mean alone if it is one model."""

    def variance(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Its variance at each point."""

    def variances(self, u: Float[ndarray, "n d"]) -> Variance:
        """Its variance at each point, and the part of it that is the evaluations' own noise."""

    def covariance(self, a: Float[ndarray, "n d"], b: Float[ndarray, "k d"]) -> Float[ndarray, "n k"]:
        """Its covariance between two sets of points."""

    def at(self, u: Float[ndarray, "n d"]) -> LocatedPoints:
        """Points whose covariances are asked for again and again."""

    def changes(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "b n"]:
        """How the mean changes at each point if one block of evaluations, or another, is left out."""

    def doubt_beyond(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Nats by which its mean may be off beyond the evaluations, as far as those can tell; zero elsewhere."""

    def trends(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "t n"]:
        """What is open of its mean far from all evaluations, besides its covariance: independent directions of unit
        variance."""

    def expectation(self, mixture: Mixture) -> tuple[float, MixtureGradient]:
        """The expected log density under a mixture of Gaussians (Eq. 9), and its gradient."""

    def expectation_variance(self, mixture: Mixture) -> float:
        """The variance of that expectation (Eq. 23)."""


def predict(model: LogDensityModel, x: ArrayLike) -> Prediction:
    """Log density at points (n, D) of the user's space: mean and sd of a model."""
    u = model.space.forward(np.atleast_2d(np.asarray(x, dtype=np.float64)))
    mean = model.mean(u) - model.space.log_jacobian(u) + model.offset
    return Prediction(mean, np.sqrt(model.variance(u)))
