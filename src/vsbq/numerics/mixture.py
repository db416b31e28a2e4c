"""Mixtures of Gaussians: density, draws, and the Monte Carlo entropy with its gradient (reparameterised draws).

A mixture is (log w, μ, L) with lower Cholesky factors L of the component covariances. Log densities are linear in the
features (1, x, x xᵀ) of a point, so that the densities of all draws under all components are one matrix product.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from vsbq._typing import Float, ndarray
from vsbq.numerics.resampling import systematic_rows

#: Draws that are worked on at a time, so that their densities under all components stay in the cache.
BLOCK = 4096

#: A coordinate whose sd, given those before it, is less than this share of its sd makes a component degenerate.
FLAT = 1e-6


class Mixture(NamedTuple):
    """Weights (as logarithms that sum to one), means and lower Cholesky factors of K components."""

    log_weights: Float[ndarray, " k"]
    means: Float[ndarray, "k d"]
    trils: Float[ndarray, "k d d"]

    @property
    def weights(self) -> Float[ndarray, " k"]:
        """Mixture weights."""
        return np.exp(self.log_weights)


def is_degenerate(mixture: Mixture) -> bool:
    """Whether some component is flat in a direction, so that its density is mostly rounding errors."""
    diagonal = np.einsum("kii->ki", mixture.trils)
    return bool((diagonal < FLAT * np.linalg.norm(mixture.trils, axis=2)).any())


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
    """n draws in random order, the share of each component as close to its weight as n allows."""
    d = mixture.means.shape[1]
    component = rng.permutation(systematic_rows(mixture.weights, n, rng))
    z = rng.standard_normal((n, d))
    return mixture.means[component] + np.einsum("nij,nj->ni", mixture.trils[component], z)


def standard_draws(k: int, per_component: int, d: int, rng: np.random.Generator) -> Float[ndarray, "k s d"]:
    """Sobol normals, shifted at random for each component, antithetic, each set whitened to unit covariance.

    Quadratic functions are then integrated exactly within a component, which removes most of the entropy's noise at
    the price of a bias that falls with the number of draws: good for optimising, not for reporting.
    """
    draws = unbiased_draws(k, per_component, d, rng)
    if draws.shape[1] <= 2 * d:
        return draws
    moment = np.matmul(np.swapaxes(draws, 1, 2), draws) / draws.shape[1]
    root = inverse_trils(np.linalg.cholesky(moment))
    return np.matmul(draws, np.swapaxes(root, 1, 2))


def unbiased_draws(k: int, per_component: int, d: int, rng: np.random.Generator) -> Float[ndarray, "k s d"]:
    """Sobol normals, shifted at random for each component, and their mirror images."""
    half = per_component // 2
    u = qmc.Sobol(d, rng=rng).random_base2(max(1, int(np.ceil(np.log2(half)))))[:half]
    z = ndtri(np.clip((u + rng.uniform(size=(k, 1, d))) % 1.0, 1e-12, 1 - 1e-12))
    return np.concatenate([z, -z], axis=1)


def _component_blocks(k: int, s: int) -> Iterator[slice]:
    """Components whose draws together stay in the cache."""
    step = max(1, BLOCK // s)
    for start in range(0, k, step):
        yield slice(start, min(start + step, k))


def entropy(mixture: Mixture, draws: Float[ndarray, "k s d"]) -> float:
    """H[q] = −Σ w_k E_k[log q] from draws per component, with |ε|² (whose mean is D) as control variate."""
    k, s, d = draws.shape
    centre = mixture.weights @ mixture.means
    form = coefficients(mixture, centre).linear_form
    log_q = np.empty((k, s))
    for block in _component_blocks(k, s):
        phi = features(_placed(mixture, draws, centre, block))
        log_q[block] = log_sum_exp_in_place(form @ phi).reshape(-1, s)
    control = np.einsum("ksd,ksd->ks", draws, draws) - d
    within = control - control.mean(axis=1, keepdims=True)
    weight = mixture.weights[:, None]
    slope = float((weight * within * log_q).sum() / max((weight * within**2).sum(), 1e-300))
    return -float(mixture.weights @ (log_q - slope * control).mean(axis=1))


def _placed(
    mixture: Mixture, draws: Float[ndarray, "k s d"], centre: Float[ndarray, " d"], block: slice
) -> Float[ndarray, "d t"]:
    """Draws of some components relative to a centre, component after component, as columns."""
    x = np.matmul(draws[block], np.swapaxes(mixture.trils[block], 1, 2)) + (mixture.means[block] - centre)[:, None]
    return np.ascontiguousarray(x.reshape(-1, x.shape[2]).T)


def entropy_and_gradient(mixture: Mixture, draws: Float[ndarray, "k s d"]) -> tuple[float, MixtureGradient]:
    """H[q] from fixed standard draws per component, and the exact gradient of that estimate."""
    k, s, d = draws.shape
    centre = mixture.weights @ mixture.means
    form, precision, linear = coefficients(mixture, centre)
    i, j = np.triu_indices(d)
    packed = np.concatenate([precision[:, i, j], linear], axis=1).T
    per_component, moments = np.empty(k), np.zeros((k, form.shape[1]))
    to_means, to_trils = np.empty((k, d)), np.empty((k, d, d))
    scale = mixture.weights / s
    for block in _component_blocks(k, s):
        x = _placed(mixture, draws, centre, block)
        phi = features(x)
        share = form @ phi
        per_component[block] = log_sum_exp_in_place(share).reshape(-1, s).mean(axis=1)
        # Through the draws: ∂H/∂x_t = c_t Σ_j share_jt P_j (x_t − μ_j), with c_t = w_k / s.
        slope = _slope(packed @ share, x).reshape(d, -1, s).transpose(1, 2, 0) * scale[block, None, None]
        to_means[block] = slope.sum(axis=1)
        to_trils[block] = np.matmul(np.swapaxes(slope, 1, 2), draws[block])
        phi *= np.repeat(scale[block], s)
        moments += share @ phi.T
    own = _own_parameters(mixture, moments, centre, precision, linear)
    to_weights = -per_component - moments[:, -1] / np.maximum(mixture.weights, 1e-300)
    gradient = MixtureGradient(to_weights, to_means - own.means, np.tril(to_trils - own.trils))
    return -float(mixture.weights @ per_component), gradient


def _slope(mixed: Float[ndarray, "f t"], x: Float[ndarray, "d t"]) -> Float[ndarray, "d t"]:
    """Σ_j share_jt (P_j x_t − P_j μ_j), from the packed upper triangles of Σ_j share_jt P_j."""
    d = len(x)
    i, j = np.triu_indices(d)
    slope = -mixed[len(i) :]
    for row, (a, b) in enumerate(zip(i, j, strict=True)):
        slope[a] += mixed[row] * x[b]
        if a != b:
            slope[b] += mixed[row] * x[a]
    return slope


def _own_parameters(
    mixture: Mixture,
    moments: Float[ndarray, "k f"],
    centre: Float[ndarray, " d"],
    precision: Float[ndarray, "k d d"],
    linear: Float[ndarray, "k d"],
) -> MixtureGradient:
    """Σ_t c_t ∂ log q(x_t) through the components' own means and Cholesky factors, from the moments of the shares."""
    k, d = linear.shape
    i, j = np.triu_indices(d)
    mass, first = moments[:, -1], moments[:, len(i) : -1]
    second = np.empty((k, d, d))
    second[:, i, j] = second[:, j, i] = moments[:, : len(i)]
    shifted = mixture.means - centre
    crossed = first[:, :, None] * shifted[:, None, :]
    about = second - crossed - np.swapaxes(crossed, 1, 2) + mass[:, None, None] * shifted[:, :, None] * shifted[:, None]
    inverse_t = np.swapaxes(inverse_trils(mixture.trils), 1, 2)
    to_means = np.einsum("kij,kj->ki", precision, first) - mass[:, None] * linear
    to_trils = np.matmul(np.matmul(precision, about), inverse_t) - mass[:, None, None] * inverse_t
    return MixtureGradient(np.zeros(k), to_means, to_trils)
