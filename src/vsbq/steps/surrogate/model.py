"""The sparse GP as a model of the log density: what step 2 hands over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vsbq._typing import ArrayLike, Float, Int, ndarray
from vsbq.data.transform import ModelSpace
from vsbq.numerics import linalg, quadrature, sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.mixture import Mixture, MixtureGradient
from vsbq.steps.model import Prediction, predict

__all__ = ["Surrogate"]


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The sparse GP posterior of the log density; `predict` speaks the user's space, the rest inference space."""

    space: ModelSpace
    hyp: Hyperparameters
    factors: sgpr.Factors
    offset: float
    overconfidence: float = 1.0  # by which the sparse GP's own sd has to be multiplied
    without: Float[ndarray, "b m"] | None = None  # changes of the weights if blocks of evaluations were not there
    tested: float = 1.0  # how far the error bars were tested on held-out evaluations, from 0 (not at all) to 1

    def predict(self, x: ArrayLike) -> Prediction:
        """Log density at points (n, D) of the user's space: mean and sd of the surrogate."""
        return predict(self, x)

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior mean in inference space, relative to `offset`."""
        return sgpr.predict_mean(self.hyp, self.factors, u)

    def changes(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "b n"]:
        """How the mean changes at each point if one block of evaluations, or another, is left out."""
        if self.without is None:
            return np.zeros((0, len(u)))
        return np.asarray(linalg.product(self.without, kernel(self.factors.inducing, u, self.hyp)))

    def variance(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior variance in inference space, as held-out evaluations suggest it."""
        return self.overconfidence**2 * sgpr.predict_variance(self.hyp, self.factors, u)

    def covariance(self, a: Float[ndarray, "n d"], b: Float[ndarray, "k d"]) -> Float[ndarray, "n k"]:
        """Posterior covariance between two sets of points, Eq. 19, as held-out evaluations suggest it."""
        return self.overconfidence**2 * sgpr.predict_covariance(self.hyp, self.factors, a, b)

    @property
    def prior_variance(self) -> float:
        """The variance far from all evaluations."""
        return self.overconfidence**2 * self.hyp.output_variance

    @property
    def inducing(self) -> Float[ndarray, "m d"]:
        """The inducing points, in inference space."""
        return self.factors.inducing

    def at(self, u: Float[ndarray, "n d"]) -> Located:
        """Points whose covariances are asked for again and again."""
        prior = linalg.solve_lower(self.factors.chol_kernel, kernel(self.factors.inducing, u, self.hyp))
        return Located(self, u, prior, linalg.solve_lower(self.factors.chol_v, prior))

    def expectation(self, mixture: Mixture) -> tuple[float, MixtureGradient]:
        """E_f E_q[f], Eq. 9 by Eq. 22, and its gradient."""
        return quadrature.expected_and_gradient(mixture, self.hyp, self.factors)

    def expectation_variance(self, mixture: Mixture) -> float:
        """The variance of E_q[f], Eq. 23, as held-out evaluations suggest it."""
        covariance = quadrature.integral_covariance(mixture, self.hyp, self.factors)
        return max(self.overconfidence**2 * float(mixture.weights @ covariance @ mixture.weights), 0.0)

    def packed(self) -> tuple[dict[str, ndarray], dict[str, float]]:
        """Plain arrays and scalars by name: with the space, all that `unpacked` needs to make it again."""
        arrays = {"hyperparameters": self.hyp.pack()}
        arrays |= {name: getattr(self.factors, name) for name in ("inducing", "weights", "chol_kernel", "chol_v")}
        if self.without is not None:
            arrays["without"] = self.without
        scalars = {"offset": self.offset, "jitter": self.factors.jitter}
        return arrays, scalars | {"overconfidence": self.overconfidence, "tested": self.tested}

    @classmethod
    def unpacked(cls, space: ModelSpace, arrays: dict[str, ndarray], scalars: dict[str, float]) -> Surrogate:
        """The surrogate that `packed` took apart."""
        factors = sgpr.Factors(
            inducing=arrays["inducing"],
            chol_kernel=np.asfortranarray(arrays["chol_kernel"]),
            chol_v=np.asfortranarray(arrays["chol_v"]),
            weights=arrays["weights"],
            jitter=scalars["jitter"],
        )
        hyp, without = Hyperparameters.unpack(arrays["hyperparameters"]), arrays.get("without")
        return cls(space, hyp, factors, scalars["offset"], scalars["overconfidence"], without, scalars["tested"])


class Located(NamedTuple):
    """Points with what the covariance of the sparse GP needs of them: L⁻¹ k(Z, x), and L_V⁻¹ of that."""

    surrogate: Surrogate
    points: Float[ndarray, "n d"]
    prior: Float[ndarray, "m n"]
    post: Float[ndarray, "m n"]

    def take(self, rows: Int[ndarray, " k"]) -> Located:
        """Some of the points."""
        prior, post = (np.asfortranarray(part[:, rows]) for part in (self.prior, self.post))
        return Located(self.surrogate, self.points[rows], prior, post)

    def variance(self) -> Float[ndarray, " n"]:
        """The posterior variance at each point."""
        plain = self.surrogate.hyp.output_variance - np.einsum("mn,mn->n", self.prior, self.prior)
        return self.surrogate.overconfidence**2 * np.maximum(plain + np.einsum("mn,mn->n", self.post, self.post), 0.0)

    def covariance(self, other: Located) -> Float[ndarray, "n k"]:
        """The posterior covariance with other points, Eq. 19."""
        out = kernel(self.points, other.points, self.surrogate.hyp)
        out -= linalg.product(np.asfortranarray(self.prior).T, other.prior)
        out += linalg.product(np.asfortranarray(self.post).T, other.post)
        out *= self.surrogate.overconfidence**2
        return out
