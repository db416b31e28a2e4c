"""The sparse GP as a model of the log density: what step 2 hands over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np

from vsbq._typing import ArrayLike, Float, Int, ndarray
from vsbq.data.transform import ModelSpace
from vsbq.numerics import drift, linalg, quadrature, sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.mixture import Mixture, MixtureGradient
from vsbq.numerics.variance import Roots, variance_roots, variances
from vsbq.steps.model import Prediction, predict
from vsbq.steps.surrogate.calibration import Sides

__all__ = ["Surrogate"]


class Sister(NamedTuple):
    """Another sparse GP of the same evaluations, with other coordinates and hyperparameters: its mean alone.

    `turn` maps the coordinates of the main one to its own; `shift` is added to its mean, whose density is with respect
    to its own coordinates.
    """

    turn: Float[ndarray, "d d"]
    shift: float
    hyp: Hyperparameters
    posterior: sgpr.Mean
    strength: float = 1.0  # the factor of its shaping noise

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Its mean at points of the main one's coordinates."""
        return sgpr.predict_mean(self.hyp, self.posterior, u @ self.turn.T) + self.shift


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The sparse GP posterior of the log density; `predict` speaks the user's space, the rest inference space.

    Hyperparameters and coordinates are known as far as the evaluations tell them. Sisters that learnt theirs from other
    evaluations stand for what these leave open: the mean is the average over all, and what they differ by adds to the
    variance.
    """

    space: ModelSpace
    hyp: Hyperparameters
    factors: sgpr.Factors
    offset: float
    without: Float[ndarray, "b m"] | None = None  # changes of the weights if blocks of evaluations were not there
    tested: float = 1.0  # how far the error bars were tested on held-out evaluations, from 0 (not at all) to 1
    sides: Sides | None = None  # what the outermost evaluations decide
    sisters: tuple[Sister, ...] = ()
    rise: float = 0.0  # nats above the highest evaluation that may be believed
    drift: drift.Drift | None = None  # what the evaluations leave open of the mean
    passes: int = 0  # residual passes of the mean

    def predict(self, x: ArrayLike) -> Prediction:
        """Log density at points (n, D) of the user's space: mean and sd of the surrogate."""
        return predict(self, x)

    def mean(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior mean in inference space, relative to `offset`."""
        return self.means(u).mean(axis=0)

    def means(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "k n"]:
        """The mean of each sparse GP, the main one first."""
        main = sgpr.predict_mean(self.hyp, self.factors, u)
        return np.stack([main, *(sister.mean(u) for sister in self.sisters)])

    def differences(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "k n"]:
        """How each sparse GP differs from their average, scaled so that squares add up to a variance."""
        means = self.means(u)
        return np.asarray((means - means.mean(axis=0)) / np.sqrt(max(1, len(means) - 1)))

    def trends(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "t n"]:
        """What the evaluations leave open of the mean far out: independent directions of unit variance."""
        if self.drift is None:
            return np.zeros((0, len(u)))
        return drift.spread(self.drift, self.hyp, self.factors, u)

    def changes(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "b n"]:
        """How the mean changes at each point if one block of evaluations, or another, is left out."""
        if self.without is None:
            return np.zeros((0, len(u)))
        return np.asarray(linalg.product(self.without, kernel(self.factors.inducing, u, self.hyp)))

    def doubt_beyond(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Nats by which the mean may be off beyond the better evaluations; zero elsewhere."""
        return np.zeros(len(u)) if self.sides is None else self.sides.doubt(u)

    def variance(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Posterior variance in inference space, with what the sisters differ by."""
        within = variances(self.hyp, self.factors, self._roots, u, noise=False).total
        return within + (self.differences(u) ** 2).sum(axis=0)

    def variances(self, u: Float[ndarray, "n d"]) -> sgpr.Variance:
        """The same, and the part of it that is the evaluations' own noise."""
        within = variances(self.hyp, self.factors, self._roots, u, noise=True)
        return within._replace(total=within.total + (self.differences(u) ** 2).sum(axis=0))

    @cached_property
    def _roots(self) -> Roots | None:
        return variance_roots(self.factors)

    def covariance(self, a: Float[ndarray, "n d"], b: Float[ndarray, "k d"]) -> Float[ndarray, "n k"]:
        """Posterior covariance between two sets of points, Eq. 19, with what the sisters differ by."""
        within = sgpr.predict_covariance(self.hyp, self.factors, a, b)
        return within + linalg.product(self.differences(a).T, self.differences(b))

    @property
    def prior_variance(self) -> float:
        """The variance that evaluations have reduced; far from all of them it is at least as large."""
        return self.hyp.output_variance

    @property
    def inducing(self) -> Float[ndarray, "m d"]:
        """The inducing points, in inference space."""
        return self.factors.inducing

    def at(self, u: Float[ndarray, "n d"]) -> Located:
        """Points whose covariances are asked for again and again."""
        prior = linalg.solve_lower(self.factors.chol_kernel, kernel(self.factors.inducing, u, self.hyp))
        return Located(self, u, prior, linalg.solve_lower(self.factors.chol_v, prior), self.differences(u))

    def expectation(self, mixture: Mixture) -> tuple[float, MixtureGradient]:
        """E_f E_q[f], Eq. 9 by Eq. 22, and its gradient, averaged over the sparse GPs."""
        found = [quadrature.expected_and_gradient(mixture, self.hyp, self.factors)]
        for sister in self.sisters:
            value, gradient = quadrature.expected_and_gradient(mixture, sister.hyp, sister.posterior, sister.turn)
            found.append((value + sister.shift, gradient))
        values, gradients = zip(*found, strict=True)
        weights, means, trils = (np.mean(parts, axis=0) for parts in zip(*gradients, strict=True))
        return float(np.mean(values)), MixtureGradient(weights, means, trils)

    def expectation_variance(self, mixture: Mixture) -> float:
        """The variance of E_q[f], Eq. 23, with what the sisters differ by."""
        covariance = quadrature.integral_covariance(mixture, self.hyp, self.factors)
        within = max(float(mixture.weights @ covariance @ mixture.weights), 0.0)
        each = [quadrature.expected_and_gradient(mixture, self.hyp, self.factors)[0]]
        for sister in self.sisters:
            value, _ = quadrature.expected_and_gradient(mixture, sister.hyp, sister.posterior, sister.turn)
            each.append(value + sister.shift)
        return within + (float(np.var(each, ddof=1)) if self.sisters else 0.0)

    def packed(self) -> tuple[dict[str, ndarray], dict[str, float]]:
        """Plain arrays and scalars by name: with the space, all that `unpacked` needs to make it again."""
        arrays = {"hyperparameters": self.hyp.pack()}
        arrays |= {name: getattr(self.factors, name) for name in ("inducing", "weights", "chol_kernel", "chol_v")}
        if self.without is not None:
            arrays["without"] = self.without
        if self.sides is not None:
            arrays |= {f"sides_{name}": part for name, part in self.sides._asdict().items()}
        for number, sister in enumerate(self.sisters):
            parts = {"turn": sister.turn, "hyperparameters": sister.hyp.pack(), **sister.posterior._asdict()}
            arrays |= {f"sister_{number}_{name}": part for name, part in parts.items()}
            arrays |= {f"sister_{number}_{name}": np.array(getattr(sister, name)) for name in ("shift", "strength")}
        scalars = {"offset": self.offset, "jitter": self.factors.jitter}
        if self.drift is not None:
            arrays |= {f"drift_{name}": part for name, part in self.drift._asdict().items()}
        return arrays, scalars | {"tested": self.tested, "rise": self.rise, "passes": self.passes}

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
        sides = Sides(*(arrays[f"sides_{name}"] for name in Sides._fields)) if "sides_axes" in arrays else None
        trend = drift.Drift(arrays["drift_weights"], arrays["drift_root"]) if "drift_weights" in arrays else None
        known = scalars["offset"], without, scalars["tested"], sides
        sisters, passes = tuple(_unpacked_sisters(arrays)), int(scalars["passes"])
        return cls(space, hyp, factors, *known, sisters, scalars["rise"], trend, passes)


def _unpacked_sisters(arrays: dict[str, ndarray]) -> Iterator[Sister]:
    for number in count():
        head = f"sister_{number}_"
        if f"{head}turn" not in arrays:
            return
        hyp = Hyperparameters.unpack(arrays[f"{head}hyperparameters"])
        posterior = sgpr.Mean(arrays[f"{head}inducing"], arrays[f"{head}weights"])
        shift, strength = (float(arrays[head + name]) for name in ("shift", "strength"))
        yield Sister(arrays[f"{head}turn"], shift, hyp, posterior, strength)


class Located(NamedTuple):
    """Points with what the covariance of the sparse GP needs of them: L⁻¹ k(Z, x), and L_V⁻¹ of that."""

    surrogate: Surrogate
    points: Float[ndarray, "n d"]
    prior: Float[ndarray, "m n"]
    post: Float[ndarray, "m n"]
    differences: Float[ndarray, "k n"]

    def take(self, rows: Int[ndarray, " k"]) -> Located:
        """Some of the points."""
        prior, post = (np.asfortranarray(part[:, rows]) for part in (self.prior, self.post))
        return Located(self.surrogate, self.points[rows], prior, post, self.differences[:, rows])

    def variance(self) -> Float[ndarray, " n"]:
        """The posterior variance at each point."""
        plain = self.surrogate.hyp.output_variance - np.einsum("mn,mn->n", self.prior, self.prior)
        within = np.maximum(plain + np.einsum("mn,mn->n", self.post, self.post), 0.0)
        return within + (self.differences**2).sum(axis=0)

    def covariance(self, other: Located) -> Float[ndarray, "n k"]:
        """The posterior covariance with other points, Eq. 19."""
        out = kernel(self.points, other.points, self.surrogate.hyp)
        out -= linalg.product(np.asfortranarray(self.prior).T, other.prior)
        out += linalg.product(np.asfortranarray(self.post).T, other.post)
        out += linalg.product(self.differences.T, other.differences)
        return out
