"""One parameter of a posterior: a mixture of normals seen through a monotone transform, all in closed form."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.transform import InferenceSpace

#: Gauss–Hermite nodes for moments of transformed normals; exact for open parameters.
NODES = 64


@dataclass(frozen=True, eq=False)
class Marginal:
    """The marginal posterior of one parameter in the user's space."""

    name: str
    space: InferenceSpace  # of this parameter alone
    log_weights: Float[ndarray, " k"]
    means: Float[ndarray, " k"]
    sds: Float[ndarray, " k"]

    def pdf(self, x: ArrayLike) -> ndarray:
        """Density at values of the parameter, zero outside its bounds."""
        return np.asarray(np.exp(self.log_pdf(x)))

    def log_pdf(self, x: ArrayLike) -> ndarray:
        """Log density at values of the parameter, −inf outside its bounds."""
        values = np.asarray(x, dtype=np.float64)
        u, inside = self._forward(values)
        z = (u[:, None] - self.means) / self.sds
        logs = logsumexp(self.log_weights - np.log(self.sds) - 0.5 * z**2, axis=1) - 0.5 * np.log(2 * np.pi)
        out = np.where(inside, logs - self.space.log_jacobian(u[:, None]), -np.inf)
        return out.reshape(values.shape)

    def cdf(self, x: ArrayLike) -> ndarray:
        """Probability of being below values of the parameter."""
        values = np.asarray(x, dtype=np.float64)
        u, inside = self._forward(values)
        out = np.where(inside, self._cdf(u), values.ravel() >= self.space.bounds.upper[0])
        return out.reshape(values.shape)

    def quantile(self, q: ArrayLike) -> ndarray:
        """Values below which a share q of the posterior lies, by bisection on the exact distribution function."""
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
        x = self.space.inverse((self.means[:, None] + self.sds[:, None] * nodes).reshape(-1, 1)).reshape(-1, NODES)
        return float(np.exp(self.log_weights) @ (function(x) @ (weights / weights.sum())))

    def _cdf(self, u: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
        return ndtr((u[:, None] - self.means) / self.sds) @ np.exp(self.log_weights)

    def _forward(self, values: ndarray) -> tuple[Float[ndarray, " n"], ndarray]:
        column = values.reshape(-1, 1)
        inside = ~self.space.bounds.outside(column)[:, 0]
        held = np.clip(column, self.space.bounds.lower, self.space.bounds.upper)
        return self.space.forward(held)[:, 0], inside
