"""Sparse Bayesian quadrature: integrals of the surrogate under Gaussian components (Eqs. 21 to 23, Supplement A.4)."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture, MixtureGradient, inverse_trils
from vsbq.numerics.sgpr import Factors, Mean


def _whitened(
    mixture: Mixture, inducing: Float[ndarray, "m d"], hyp: Hyperparameters
) -> tuple[Float[ndarray, "k d d"], Float[ndarray, "k d m"], Float[ndarray, "k m"]]:
    """In units of the length scales: root R of (I + Σ_k)⁻¹ = RᵀR, R (z − μ_k), and the kernel integrals w_k."""
    scales = np.exp(hyp.log_scales)
    a = mixture.trils / scales[:, None]
    spread = np.eye(len(scales)) + np.matmul(a, np.swapaxes(a, 1, 2))
    root = inverse_trils(np.linalg.cholesky(spread))
    z = (inducing - hyp.mean_location) / scales
    mu = (mixture.means - hyp.mean_location) / scales
    e = root @ z.T - np.einsum("kij,kj->ki", root, mu)[:, :, None]
    log_det = np.log(np.einsum("kii->ki", root)).sum(axis=1)
    w = np.exp(2 * hyp.log_output + log_det[:, None] - 0.5 * np.einsum("kdm,kdm->km", e, e))
    return root, e, w


def kernel_integrals(mixture: Mixture, inducing: Float[ndarray, "m d"], hyp: Hyperparameters) -> Float[ndarray, "k m"]:
    """(w_k)_p = ∫ N(x; μ_k, Σ_k) κ(x, z_p) dx, Supplement A.4."""
    return _whitened(mixture, inducing, hyp)[2]


def mean_integrals(mixture: Mixture, hyp: Hyperparameters) -> Float[ndarray, " k"]:
    """∫ N(x; μ_k, Σ_k) m(x) dx for the negative quadratic mean."""
    variances = np.einsum("kij,kij->ki", mixture.trils, mixture.trils)
    squares = (mixture.means - hyp.mean_location) ** 2 + variances
    return hyp.mean_top - 0.5 * squares @ np.exp(-2 * hyp.mean_log_widths)


def expected_and_gradient(
    mixture: Mixture, hyp: Hyperparameters, factors: Factors | Mean, turn: Float[ndarray, "d d"] | None = None
) -> tuple[float, MixtureGradient]:
    """E_f E_q[f] (Eq. 9 by Eq. 22) and its gradient; the weights' gradient is the vector of component integrals.

    `turn` maps the coordinates of the mixture to those of the Gaussian process.
    """
    if turn is not None:
        mixture = mixture._replace(means=mixture.means @ turn.T, trils=turn @ mixture.trils)
    root, e, w = _whitened(mixture, factors.inducing, hyp)
    t = w * factors.weights
    kernel_part = t.sum(axis=1)
    scales, widths = np.exp(hyp.log_scales), np.exp(-2 * hyp.mean_log_widths)
    te = t[:, None, :] * e
    to_mu = np.einsum("kji,kj->ki", root, te.sum(axis=2)) / scales
    second = np.matmul(te, np.swapaxes(e, 1, 2)) - kernel_part[:, None, None] * np.eye(len(scales))
    to_spread = np.matmul(np.matmul(np.swapaxes(root, 1, 2), second), root)  # 2 ∂/∂(I + A Aᵀ)
    to_tril = np.matmul(to_spread, mixture.trils / scales[:, None]) / scales[:, None]
    to_mu -= (mixture.means - hyp.mean_location) * widths
    to_tril -= mixture.trils * widths[:, None]
    integrals = kernel_part + mean_integrals(mixture, hyp)
    weights = mixture.weights
    if turn is not None:
        to_mu, to_tril = to_mu @ turn, turn.T @ to_tril
    gradient = MixtureGradient(integrals, weights[:, None] * to_mu, np.tril(weights[:, None, None] * to_tril))
    return float(weights @ integrals), gradient


def integral_covariance(mixture: Mixture, hyp: Hyperparameters, factors: Factors) -> Float[ndarray, "k k"]:
    """Cov(I_j, I_k) of Eq. 23, Supplement A.4."""
    scales = np.exp(hyp.log_scales)
    a = mixture.trils / scales[:, None]
    cov = np.matmul(a, np.swapaxes(a, 1, 2))
    spread = np.eye(len(scales)) + cov[:, None] + cov[None, :]
    root = inverse_trils(np.linalg.cholesky(spread).reshape(-1, *cov.shape[1:])).reshape(spread.shape)
    mu = mixture.means / scales
    e = np.einsum("jkab,jkb->jka", root, mu[:, None] - mu[None, :])
    log_det = np.log(np.einsum("jkaa->jka", root)).sum(axis=2)
    prior = np.exp(2 * hyp.log_output + log_det - 0.5 * np.einsum("jka,jka->jk", e, e))
    half = linalg.solve_lower(factors.chol_kernel, np.asfortranarray(_whitened(mixture, factors.inducing, hyp)[2].T))
    post = linalg.solve_lower(factors.chol_v, half)
    covariance = prior - half.T @ half + post.T @ post
    return 0.5 * (covariance + covariance.T)
