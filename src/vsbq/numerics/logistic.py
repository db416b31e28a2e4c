"""Bayesian logistic regression: the most probable coefficients, and draws of all probable ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_expit

from vsbq._typing import Bool, Float, ndarray
from vsbq.numerics import linalg

#: Newton's method: at most so many steps, until the gain of one is below this many nats.
STEPS = 100
TOLERANCE = 1e-6

#: Steps of each chain of draws.
MOVES = 240


@dataclass(frozen=True, eq=False)
class Logistic:
    """Features (n, f) and labels of a regression whose coefficients have independent normal priors N(0, prior_sd²)."""

    features: Float[ndarray, "n f"]
    labels: Bool[ndarray, " n"]
    prior_sd: float

    def log_density(self, b: Float[ndarray, "f k"]) -> Float[ndarray, " k"]:
        """Log of likelihood times prior of k vectors of coefficients, up to a constant."""
        signed = np.where(self.labels, 1.0, -1.0)[:, None] * linalg.product(self.features, b)
        return np.asarray(log_expit(signed).sum(axis=0) - 0.5 * (b**2).sum(axis=0) / self.prior_sd**2)

    def mode(self) -> tuple[Float[ndarray, " f"], Float[ndarray, "f f"]]:
        """The most probable coefficients, and the Cholesky factor of the negative Hessian there."""
        return self._mode

    def evidence(self) -> float:
        """Log of the probability of the labels, by Laplace's method."""
        b, chol = self.mode()
        return float(
            self.log_density(b[:, None])[0] - len(b) * np.log(self.prior_sd) - 0.5 * linalg.log_determinant(chol)
        )

    @cached_property
    def _mode(self) -> tuple[Float[ndarray, " f"], Float[ndarray, "f f"]]:
        f = self.features.shape[1]
        b, value = np.zeros(f), float(self.log_density(np.zeros((f, 1)))[0])
        for _ in range(STEPS):
            gradient, chol = self._slopes(b)
            step = linalg.solve_lower(chol, linalg.solve_lower(chol, gradient), transpose=True)
            size = 1.0
            while size > 1e-6:  # a full step may overshoot where the classes are nearly apart
                new = b + size * step
                gained = float(self.log_density(new[:, None])[0]) - value
                if gained >= 0:
                    break
                size *= 0.5
            else:
                break
            b, value = new, value + gained
            if gained < TOLERANCE:
                break
        return b, self._slopes(b)[1]

    def _slopes(self, b: Float[ndarray, " f"]) -> tuple[Float[ndarray, " f"], Float[ndarray, "f f"]]:
        """The gradient, and the Cholesky factor of the negative Hessian."""
        share = np.exp(log_expit(self.features @ b))
        gradient = self.features.T @ (self.labels - share) - b / self.prior_sd**2
        weighted = self.features * (share * (1 - share))[:, None]
        hessian = weighted.T @ self.features + np.eye(len(b)) / self.prior_sd**2
        return gradient, linalg.jittered_cholesky(hessian, float(np.trace(hessian)), first=np.finfo(float).eps)[0]

    def draws(self, count: int, rng: np.random.Generator) -> Float[ndarray, "f k"]:
        """Draws of the coefficients by elliptical slice sampling around the normal approximation, one chain each.

        Where the classes are apart the approximation is poor (too wide in few dimensions): the slices correct it
        (Nishihara et al. 2014).
        """
        mode, chol = self.mode()

        def excess(z: Float[ndarray, "f k"]) -> Float[ndarray, " k"]:
            """By how much the target exceeds the approximation, in its own coordinates."""
            b = mode[:, None] + linalg.solve_lower(chol, z, transpose=True)
            return self.log_density(b) + 0.5 * (z**2).sum(axis=0)

        z = np.asfortranarray(0.1 * rng.standard_normal((len(mode), count)))
        now = excess(z)
        for _ in range(MOVES):
            z, now = _slice_step(z, now, excess, rng)
        return mode[:, None] + linalg.solve_lower(chol, z, transpose=True)


def _slice_step(z: ndarray, now: ndarray, excess: object, rng: np.random.Generator) -> tuple[ndarray, ndarray]:
    """One move of every chain along an ellipse through its state and a normal draw (Murray et al. 2010)."""
    assert callable(excess)
    other = rng.standard_normal(z.shape)
    level = now + np.log(rng.uniform(size=len(now)))
    angle = rng.uniform(0, 2 * np.pi, len(now))
    low, high = angle - 2 * np.pi, angle.copy()
    new, value, open_ = z.copy(order="F"), now.copy(), np.arange(len(now))
    while len(open_):
        trial = z[:, open_] * np.cos(angle[open_]) + other[:, open_] * np.sin(angle[open_])
        found = excess(np.asfortranarray(trial))
        done = found > level[open_]
        new[:, open_[done]], value[open_[done]] = trial[:, done], found[done]
        open_ = open_[~done]
        low[open_] = np.where(angle[open_] < 0, angle[open_], low[open_])
        high[open_] = np.where(angle[open_] >= 0, angle[open_], high[open_])
        angle[open_] = rng.uniform(low[open_], high[open_])
        open_ = open_[high[open_] - low[open_] > 1e-9]  # numerically stuck: stay
    return new, value
