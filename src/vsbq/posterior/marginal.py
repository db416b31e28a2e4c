"""One parameter of a posterior: a mixture of normals seen through a monotone transform, and what refinement adds."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import logsumexp, ndtr

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.data.transform import InferenceSpace

#: Gauss–Hermite nodes for moments of transformed normals; exact for open parameters.
NODES = 64

#: Knots of the correction, at equal shares of the mixture.
KNOTS = 65


class Correction:
    """From the mixture's distribution function to the refined one: a monotone cubic through (0, 0) and (1, 1)."""

    def __init__(self, refined: Float[ndarray, " k"]) -> None:
        self.refined = refined
        self._curve = PchipInterpolator(np.linspace(0.0, 1.0, len(refined)), refined)
        self._slope = self._curve.derivative()

    @classmethod
    def between(
        cls,
        mixture_share: Float[ndarray, " n"],
        weights: Float[ndarray, " n"],
        mixture_weights: Float[ndarray, " n"],
        share: float = 1.0,
    ) -> Correction:
        """From weighted draws, each with the share of the mixture below it.

        The same draws stand for both distributions, so that their difference has little noise. Where little is left of
        the mixture, what is known of it exactly is of little help, and counts by a share.
        """
        cell = np.minimum((mixture_share * (KNOTS - 1)).astype(np.int64), KNOTS - 2)
        more = np.bincount(cell, weights - share * mixture_weights, KNOTS - 1)
        mass = np.maximum(share / (KNOTS - 1) + more, 1e-3 / (KNOTS - 1))
        return cls(np.concatenate([[0.0], np.cumsum(mass) / mass.sum()]))

    def share(self, mixture_share: ndarray) -> ndarray:
        """Refined share below a point with this share of the mixture below it."""
        return np.clip(self._curve(mixture_share), 0.0, 1.0)

    def slope(self, mixture_share: ndarray) -> ndarray:
        """Ratio of the refined density to the mixture's."""
        return np.maximum(self._slope(mixture_share), 1e-300)


@dataclass(frozen=True, eq=False)
class Marginal:
    """The marginal posterior of one parameter in the user's space."""

    name: str
    space: InferenceSpace  # of this parameter alone
    log_weights: Float[ndarray, " k"]
    means: Float[ndarray, " k"]
    sds: Float[ndarray, " k"]
    correction: Correction | None = None

    def corrected(
        self,
        u: Float[ndarray, " n"],
        weights: Float[ndarray, " n"],
        mixture_weights: Float[ndarray, " n"],
        share: float = 1.0,
    ) -> Marginal:
        """The marginal of the refined posterior, from the inference coordinates of its draws."""
        return replace(self, correction=Correction.between(self._mixture_cdf(u), weights, mixture_weights, share))

    def pdf(self, x: ArrayLike) -> ndarray:
        """Density at values of the parameter, zero outside its bounds."""
        return np.asarray(np.exp(self.log_pdf(x)))

    def log_pdf(self, x: ArrayLike) -> ndarray:
        """Log density at values of the parameter, −inf outside its bounds."""
        values = np.asarray(x, dtype=np.float64)
        u, inside = self._forward(values)
        z = (u[:, None] - self.means) / self.sds
        logs = logsumexp(self.log_weights - np.log(self.sds) - 0.5 * z**2, axis=1) - 0.5 * np.log(2 * np.pi)
        if self.correction is not None:
            logs = logs + np.log(self.correction.slope(self._mixture_cdf(u)))
        out = np.where(inside, logs - self.space.log_jacobian(u[:, None]), -np.inf)
        return out.reshape(values.shape)

    def cdf(self, x: ArrayLike) -> ndarray:
        """Probability of being below values of the parameter."""
        values = np.asarray(x, dtype=np.float64)
        u, inside = self._forward(values)
        out = np.where(inside, self._cdf(u), values.ravel() >= self.space.bounds.upper[0])
        return out.reshape(values.shape)

    def quantile(self, q: ArrayLike) -> ndarray:
        """Values below which a share q of the posterior lies, by bisection on the distribution function."""
        q = np.asarray(q, dtype=np.float64)
        if not ((q >= 0) & (q <= 1)).all():
            raise ValueError(f"Quantiles are asked for as shares between 0 and 1, not {q}.")
        share = np.clip(q.ravel(), 1e-300, 1.0)
        low = np.full(share.shape, (self.means - 40 * self.sds).min())
        high = np.full(share.shape, (self.means + 40 * self.sds).max())
        for _ in range(100):
            middle = 0.5 * (low + high)
            below = self._cdf(middle) < share
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        values = self.space.inverse(0.5 * (low + high)[:, None])[:, 0]
        values = np.where(q.ravel() == 0, self.space.bounds.lower[0], values)
        return np.where(q.ravel() == 1, self.space.bounds.upper[0], values).reshape(q.shape)

    def mean(self) -> float:
        """Posterior mean."""
        return float(self._moment(lambda x: x))

    def sd(self) -> float:
        """Posterior standard deviation."""
        centre = self.mean()
        return float(np.sqrt(self._moment(lambda x: (x - centre) ** 2)))

    def _moment(self, function) -> float:  # type: ignore[no-untyped-def]
        nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
        u = (self.means[:, None] + self.sds[:, None] * nodes).ravel()
        values = function(self.space.inverse(u[:, None])[:, 0])
        mass = (np.exp(self.log_weights)[:, None] * (weights / weights.sum())).ravel()
        if self.correction is not None:
            mass = mass * self.correction.slope(self._mixture_cdf(u))
        return float(mass @ values / mass.sum())

    def _cdf(self, u: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        share = self._mixture_cdf(u)
        return share if self.correction is None else self.correction.share(share)

    def _mixture_cdf(self, u: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        return ndtr((u[:, None] - self.means) / self.sds) @ np.exp(self.log_weights)

    def _forward(self, values: ndarray) -> tuple[Float[ndarray, " n"], ndarray]:
        column = values.reshape(-1, 1)
        inside = ~self.space.bounds.outside(column)[:, 0]
        held = np.clip(column, self.space.bounds.lower, self.space.bounds.upper)
        return self.space.forward(held)[:, 0], inside


@dataclass(frozen=True, eq=False)
class DrawnMarginal(Marginal):
    """A marginal whose moments are the mixture's plus what the draws say is different.

    A density with an edge makes the ratio to the mixture jump, which draws take better than quadrature. Where little is
    left of the mixture, its moments are of little help, and count by a share.
    """

    u: Float[ndarray, " n"] = field(kw_only=True)
    more: Float[ndarray, " n"] = field(kw_only=True)  # weight of each draw beyond that share of the mixture's
    share: float = field(kw_only=True, default=1.0)

    @classmethod
    def of(
        cls, marginal: Marginal, u: Float[ndarray, " n"], more: Float[ndarray, " n"], share: float = 1.0
    ) -> DrawnMarginal:
        """A corrected marginal with its draws."""
        own = {part.name: getattr(marginal, part.name) for part in fields(marginal)}
        return cls(**own, u=u, more=more, share=share)

    def _moment(self, function) -> float:  # type: ignore[no-untyped-def]
        plain = replace(Marginal(*(getattr(self, part.name) for part in fields(Marginal))), correction=None)
        drawn = float(self.more @ function(self.space.inverse(self.u[:, None])[:, 0]))
        return self.share * plain._moment(function) + drawn
