"""Mixtures of Gaussians: density, draws, and the Monte Carlo entropy with its gradient (reparameterised draws).

A mixture is (log w, μ, L) with lower Cholesky factors L of the component covariances. Log densities are linear in the
features (1, x, x xᵀ) of a point, so that the densities of all draws under all components are one matrix product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from vsbq._typing import Float, ndarray


class Mixture(NamedTuple):
    """Weights (as logarithms that sum to one), means and lower Cholesky factors of K components."""

    log_weights: Float[ndarray, " k"]
    means: Float[ndarray, "k d"]
    trils: Float[ndarray, "k d d"]

    @property
    def weights(self) -> Float[ndarray, " k"]:
        """Mixture weights."""
        return np.exp(self.log_weights)


class MixtureGradient(NamedTuple):
    """Derivatives with respect to the weights (not their logarithms), means and Cholesky factors (lower part)."""

    weights: Float[ndarray, " k"]
    means: Float[ndarray, "k d"]
    trils: Float[ndarray, "k d d"]


def inverse_trils(trils: Float[ndarray, "k d d"]) -> Float[ndarray, "k d d"]:
    """L⁻¹ of each component, by forward substitution over all components at once."""
    k, d, _ = trils.shape
    inverse = np.zeros((k, d, d))
    diagonal = np.einsum("kii->ki", trils)
    for i in range(d):
        inverse[:, i, i] = 1.0
        if i:
            inverse[:, i, :i] -= np.einsum("kj,kjl->kl", trils[:, i, :i], inverse[:, :i, :i])
        inverse[:, i, : i + 1] /= diagonal[:, i, None]
    return inverse


def features(x: Float[ndarray, "d t"]) -> Float[ndarray, "f t"]:
    """Rows x_i x_j (i ≤ j), then x_i, then 1."""
    d = len(x)
    upper = np.triu_indices(d)
    out = np.empty((len(upper[0]) + d + 1, x.shape[1]))
    np.multiply(x[upper[0]], x[upper[1]], out=out[: len(upper[0])])
    out[len(upper[0]) : -1] = x
    out[-1] = 1.0
    return out


class Coefficients(NamedTuple):
    """Log of weight times density of each component as a linear form of `features(x − centre)`, and its parts."""

    linear_form: Float[ndarray, "k f"]
    precision: Float[ndarray, "k d d"]
    precision_mean: Float[ndarray, "k d"]


def coefficients(mixture: Mixture, centre: Float[ndarray, " d"]) -> Coefficients:
    """The linear forms of a mixture."""
    d = mixture.means.shape[1]
    inverse = inverse_trils(mixture.trils)
    precision = np.matmul(np.swapaxes(inverse, 1, 2), inverse)
    shifted = mixture.means - centre
    linear = np.einsum("kij,kj->ki", precision, shifted)
    i, j = np.triu_indices(d)
    quadratic = -precision[:, i, j] * np.where(i == j, 0.5, 1.0)
    log_det = np.log(np.einsum("kii->ki", inverse)).sum(axis=1)
    constant = mixture.log_weights + log_det - 0.5 * d * np.log(2 * np.pi)
    constant = constant - 0.5 * np.einsum("ki,ki->k", linear, shifted)
    return Coefficients(np.concatenate([quadratic, linear, constant[:, None]], axis=1), precision, linear)


def log_sum_exp_in_place(logs: Float[ndarray, "k t"]) -> Float[ndarray, " t"]:
    """Log of the column sums; `logs` becomes the responsibilities."""
    top = logs.max(axis=0)
    logs -= top
    np.exp(logs, out=logs)
    total = logs.sum(axis=0)
    logs /= total
    return top + np.log(total)


def log_pdf(mixture: Mixture, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """log q(x), by whitening each component (exact also far from the mixture's centre)."""
    inverse = inverse_trils(mixture.trils)
    log_det = np.log(np.einsum("kii->ki", inverse)).sum(axis=1)
    d = x.shape[1]
    logs = np.empty((len(inverse), len(x)))
    for k, (inv, mu) in enumerate(zip(inverse, mixture.means, strict=True)):
        e = (x - mu) @ inv.T
        logs[k] = -0.5 * np.einsum("nd,nd->n", e, e)
    logs += (mixture.log_weights + log_det - 0.5 * d * np.log(2 * np.pi))[:, None]
    return log_sum_exp_in_place(logs)


def sample(mixture: Mixture, n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """n independent draws in random order, the share of each component as close to its weight as n allows."""
    k, d = mixture.means.shape
    # Systematic resampling: counts within one of n·w, unbiased, and much less noisy than multinomial ones.
    edges = np.cumsum(mixture.weights / mixture.weights.sum())
    component = np.searchsorted(edges, (np.arange(n) + rng.uniform()) / n, side="right")
    component = rng.permutation(np.minimum(component, k - 1))
    z = rng.standard_normal((n, d))
    return mixture.means[component] + np.einsum("nij,nj->ni", mixture.trils[component], z)


def standard_draws(k: int, per_component: int, d: int, rng: np.random.Generator) -> Float[ndarray, "k s d"]:
    """Scrambled Sobol normals per component, antithetic, each set whitened to mean zero and unit covariance.

    Quadratic functions are then integrated exactly within a component, which removes most of the entropy's noise.
    """
    half = per_component // 2
    draws = np.empty((k, 2 * half, d))
    m = max(1, int(np.ceil(np.log2(half))))
    for c in range(k):
        u = qmc.Sobol(d, rng=rng).random_base2(m)[:half]
        z = ndtri(np.clip(u, 1e-12, 1 - 1e-12))
        draws[c] = np.concatenate([z, -z])
    if 2 * half > 2 * d:
        moment = np.einsum("ksi,ksj->kij", draws, draws) / (2 * half)
        root = inverse_trils(np.linalg.cholesky(moment))
        draws = np.einsum("ksi,kji->ksj", draws, root)
    return draws


def entropy_and_gradient(mixture: Mixture, draws: Float[ndarray, "k s d"]) -> tuple[float, MixtureGradient]:
    """H[q] from fixed standard draws per component, and the exact gradient of that estimate."""
    k, s, d = draws.shape
    centre = mixture.weights @ mixture.means
    x = (mixture.means - centre)[:, None, :] + np.matmul(draws, np.swapaxes(mixture.trils, 1, 2))
    x = np.ascontiguousarray(x.reshape(k * s, d).T)  # draws of component after component, as columns
    phi = features(x)
    form, precision, linear = coefficients(mixture, centre)
    share = form @ phi
    log_q = log_sum_exp_in_place(share)  # share: responsibilities (k, t)
    per_component = log_q.reshape(k, s).mean(axis=1)
    weights = mixture.weights
    value = -float(weights @ per_component)

    # Through the draws: ∂H/∂x_t = c_t Σ_j share_jt P_j (x_t − μ_j), with c_t = w_k / s.
    i, j = np.triu_indices(d)
    mixed = np.concatenate([precision[:, i, j], linear], axis=1).T @ share
    slope = -mixed[len(i) :]
    for row, (a, b) in enumerate(zip(i, j, strict=True)):
        slope[a] += mixed[row] * x[b]
        if a != b:
            slope[b] += mixed[row] * x[a]
    slope = slope.reshape(d, k, s).transpose(1, 2, 0) * (weights / s)[:, None, None]
    to_means = slope.sum(axis=1)
    to_trils = np.matmul(np.swapaxes(slope, 1, 2), draws)

    # Through the components' own parameters, from the moments of the shares.
    share *= np.repeat(weights / s, s)
    moments = share @ phi.T
    mass, first = moments[:, -1], moments[:, len(i) : -1]
    second = np.empty((k, d, d))
    second[:, i, j] = second[:, j, i] = moments[:, : len(i)]
    shifted = mixture.means - centre
    about = (
        second
        - first[:, :, None] * shifted[:, None, :]
        - shifted[:, :, None] * first[:, None, :]
        + mass[:, None, None] * shifted[:, :, None] * shifted[:, None, :]
    )
    inverse_t = np.swapaxes(inverse_trils(mixture.trils), 1, 2)
    to_means -= np.einsum("kij,kj->ki", precision, first) - mass[:, None] * linear
    to_trils -= np.matmul(np.matmul(precision, about), inverse_t) - mass[:, None, None] * inverse_t
    to_weights = -per_component - mass / np.maximum(weights, 1e-300)
    return value, MixtureGradient(to_weights, to_means, np.tril(to_trils))
