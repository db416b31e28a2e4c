"""Variational families: a vector of free parameters to a mixture, and gradients back.

Both families work relative to a reference mixture: means move in units of the reference component's own scale, and
Cholesky factors are the reference's times a lower-triangular (or scaling) factor. That makes the optimiser blind to
the units and shapes of the components.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.mixture import Mixture, MixtureGradient


@runtime_checkable
class Family(Protocol):
    """What step 3 needs of a variational family around a reference mixture."""

    @property
    def reference(self) -> Mixture:
        """The mixture around which the free parameters are defined."""
        ...

    def start(self) -> Float[ndarray, " p"]:
        """Free parameters of the reference mixture itself."""
        ...

    def mixture(self, free: Float[ndarray, " p"]) -> Mixture:
        """The mixture at some free parameters."""
        ...

    def pull_back(self, free: Float[ndarray, " p"], gradient: MixtureGradient) -> Float[ndarray, " p"]:
        """The gradient with respect to the free parameters."""
        ...

    @staticmethod
    def roots(mass: Float[ndarray, " k"], cov: Float[ndarray, "k d d"]) -> Float[ndarray, "k d d"]:
        """Cholesky factors of the family's most likely covariances, given scatter matrices and their masses."""
        ...


def log_softmax(logits: Float[ndarray, " k"]) -> Float[ndarray, " k"]:
    """Logarithms of weights that sum to one."""
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def _pull_back_weights(log_weights: Float[ndarray, " k"], gradient: Float[ndarray, " k"]) -> Float[ndarray, " k"]:
    weights = np.exp(log_weights)
    return np.asarray(weights * (gradient - weights @ gradient))


@dataclass(frozen=True)
class FullCovariance:
    """Components with covariances of their own: μ = μ₀ + L₀ν, L = L₀ B with B lower triangular, log of its diagonal."""

    reference: Mixture

    def start(self) -> Float[ndarray, " p"]:
        """Weights of the reference; no shift, B = I."""
        k, d = self.reference.means.shape
        return np.concatenate([self.reference.log_weights, np.zeros(k * d + k * d * (d + 1) // 2)])

    def _split(
        self, free: Float[ndarray, " p"]
    ) -> tuple[Float[ndarray, " k"], Float[ndarray, "k d"], Float[ndarray, "k d d"]]:
        k, d = self.reference.means.shape
        lower = np.tril_indices(d)
        b = np.zeros((k, d, d))
        b[:, lower[0], lower[1]] = free[k + k * d :].reshape(k, -1)
        diagonal = np.arange(d)
        b[:, diagonal, diagonal] = np.exp(b[:, diagonal, diagonal])
        return free[:k], free[k : k + k * d].reshape(k, d), b

    def mixture(self, free: Float[ndarray, " p"]) -> Mixture:
        """The mixture at some free parameters."""
        logits, shift, b = self._split(free)
        means = self.reference.means + np.einsum("kij,kj->ki", self.reference.trils, shift)
        return Mixture(log_softmax(logits), means, np.matmul(self.reference.trils, b))

    def pull_back(self, free: Float[ndarray, " p"], gradient: MixtureGradient) -> Float[ndarray, " p"]:
        """The gradient with respect to the free parameters."""
        logits, _, b = self._split(free)
        d = b.shape[1]
        root_t = np.swapaxes(self.reference.trils, 1, 2)
        to_b = np.matmul(root_t, gradient.trils)
        diagonal = np.arange(d)
        to_b[:, diagonal, diagonal] *= b[:, diagonal, diagonal]
        lower = np.tril_indices(d)
        to_shift = np.einsum("kij,kj->ki", root_t, gradient.means)
        to_logits = _pull_back_weights(log_softmax(logits), gradient.weights)
        return np.concatenate([to_logits, to_shift.ravel(), to_b[:, lower[0], lower[1]].ravel()])

    @staticmethod
    def roots(mass: Float[ndarray, " k"], cov: Float[ndarray, "k d d"]) -> Float[ndarray, "k d d"]:
        """Cholesky factors of the scatter matrices themselves."""
        return np.asarray(np.linalg.cholesky(cov))


@dataclass(frozen=True)
class SharedDiagonal:
    """The paper's family (Eq. 20): Σ_k = σ_k² diag(λ²), with λ shared by all components."""

    reference: Mixture

    def start(self) -> Float[ndarray, " p"]:
        """Weights of the reference; no shift; log σ and log λ of its marginal scales."""
        k, d = self.reference.means.shape
        logs = np.log(self._scales())
        shared = logs.mean(axis=0)
        own = (logs - shared).mean(axis=1)
        return np.concatenate([self.reference.log_weights, np.zeros(k * d), own, shared])

    def _scales(self) -> Float[ndarray, "k d"]:
        """Marginal standard deviations of the reference."""
        return np.asarray(np.linalg.norm(self.reference.trils, axis=2))

    def mixture(self, free: Float[ndarray, " p"]) -> Mixture:
        """The mixture at some free parameters."""
        k, d = self.reference.means.shape
        means = self.reference.means + self._scales() * free[k : k + k * d].reshape(k, d)
        scales = np.exp(free[k + k * d : 2 * k + k * d, None] + free[2 * k + k * d :])
        return Mixture(log_softmax(free[:k]), means, scales[:, :, None] * np.eye(d))

    def pull_back(self, free: Float[ndarray, " p"], gradient: MixtureGradient) -> Float[ndarray, " p"]:
        """The gradient with respect to the free parameters."""
        mixture = self.mixture(free)
        to_scales = np.einsum("kii,kii->ki", gradient.trils, mixture.trils)
        to_logits = _pull_back_weights(mixture.log_weights, gradient.weights)
        to_shift = (self._scales() * gradient.means).ravel()
        return np.concatenate([to_logits, to_shift, to_scales.sum(axis=1), to_scales.sum(axis=0)])

    @staticmethod
    def roots(mass: Float[ndarray, " k"], cov: Float[ndarray, "k d d"]) -> Float[ndarray, "k d d"]:
        """σ_k diag(λ), by maximising the likelihood over σ and λ in turn."""
        d = cov.shape[1]
        variances = np.einsum("kii->ki", cov)
        shared = np.exp((mass @ np.log(variances)) / mass.sum())  # λ²
        for _ in range(20):
            own = (variances / shared).mean(axis=1)  # σ²
            shared = (mass @ (variances / own[:, None])) / mass.sum()
        return np.sqrt(own[:, None] * shared)[:, :, None] * np.eye(d)
