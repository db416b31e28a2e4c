"""Slow, obvious twins of what the library does cleverly: dense matrices, loops, and JAX where a gradient is wanted.

Everything is written from the paper (equation numbers as printed there), not from the code under test, and takes plain
arrays. The formulas run on NumPy, and on JAX inside `gradient`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

JITTER = 1e-10  # relative to the output variance, as in the library's first attempt


# Comparison


def module_of(array):
    """NumPy or jax.numpy, whichever an array belongs to."""
    return jnp if isinstance(array, jax.Array) else np


def gradient(function, *arguments):
    """The gradient of a scalar function with respect to all its arguments, by autodiff."""
    slopes = jax.jit(jax.grad(function, argnums=tuple(range(len(arguments)))))(*arguments)
    return [np.asarray(slope) for slope in slopes]


def agree(draws, value, errors=4.0):
    """Is the mean of independent draws within `errors` of its own standard errors of a value?"""
    draws = np.asarray(draws)
    standard_error = draws.std(ddof=1) / np.sqrt(len(draws))
    return bool(abs(draws.mean() - value) <= errors * standard_error)


def relative_error(got, wanted):
    """|got − wanted| / |wanted| in the Euclidean norm of all entries."""
    got, wanted = np.ravel(np.asarray(got)), np.ravel(np.asarray(wanted))
    return float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))


def squared_exp(log_sd):
    """Variances of logarithmic standard deviations."""
    return module_of(log_sd).exp(2 * log_sd)


# Random cases, as plain arrays


def random_theta(rng, d):
    """Packed hyperparameters of order one."""
    return np.concatenate(
        [
            rng.uniform(-0.5, 0.5, d) - 1 / d,  # shorter where points are dense, so that K is well conditioned
            [rng.uniform(0.0, 1.0), rng.normal()],
            0.5 * rng.normal(size=d),
            rng.uniform(0.0, 1.0, d),
        ]
    )


def random_regression(rng, n, d):
    """Points, values and noise variances that differ from point to point."""
    points = rng.uniform(-2.0, 2.0, (n, d))
    values = np.sin(2 * points).sum(axis=1) - (points**2).sum(axis=1) + 0.1 * rng.normal(size=n)
    return points, values, np.exp(rng.uniform(np.log(0.05), np.log(1.0), n))


def spread_points(points, count):
    """Some of the points, each as far as can be from those before: a well-conditioned choice of inducing points."""
    chosen = [0]
    while len(chosen) < count:
        gap = np.linalg.norm(points[:, None, :] - points[chosen], axis=2).min(axis=1)
        chosen.append(int(np.argmax(gap)))
    return points[chosen]


def random_mixture(rng, k, d):
    """Log weights, means and lower Cholesky factors."""
    trils = np.tril(0.3 * rng.normal(size=(k, d, d)), -1) + np.exp(rng.uniform(-0.7, 0.3, (k, 1, d))) * np.eye(d)
    return np.log(rng.dirichlet(np.full(k, 3.0))), rng.normal(size=(k, d)), trils


# Gaussian processes


class Theta(NamedTuple):
    """The hyperparameters of a packed vector, in natural units."""

    scales: Any
    output_variance: Any
    top: Any
    location: Any
    widths: Any


def unpack(theta):
    """(log ℓ, log σ_f, m₀, μ, log ω) of 3D + 2 numbers."""
    xp, d = module_of(theta), (len(theta) - 2) // 3
    log_scales, (log_output, top), location, log_widths = xp.split(theta, [d, d + 2, 2 * d + 2])
    return Theta(xp.exp(log_scales), xp.exp(2 * log_output), top, location, xp.exp(log_widths))


def kernel(theta, a, b):
    """Eq. 15, pair by pair."""
    h = unpack(theta)
    gap = (a[:, None, :] - b[None, :, :]) / h.scales
    return h.output_variance * module_of(theta).exp(-0.5 * (gap**2).sum(axis=2))


def prior_mean(theta, x):
    """Eq. 16."""
    h = unpack(theta)
    return h.top - 0.5 * (((x - h.location) / h.widths) ** 2).sum(axis=1)


def log_normal(y, mean, cov):
    """log N(y; mean, cov) of one vector."""
    xp, residual = module_of(cov), y - mean
    fit = residual @ xp.linalg.solve(cov, residual)
    return -0.5 * (len(y) * np.log(2 * np.pi) + xp.linalg.slogdet(cov)[1] + fit)


def exact_evidence(theta, points, values, noise_variance):
    """Log marginal likelihood of an exact GP with per-point noise."""
    return log_normal(
        values,
        prior_mean(theta, points),
        kernel(theta, points, points) + module_of(noise_variance).diag(noise_variance),
    )


def exact_posterior(theta, points, values, noise_variance, x):
    """Mean and covariance of an exact GP at x (Eqs. 4 and 5)."""
    cov = kernel(theta, points, points) + np.diag(noise_variance)
    cross = kernel(theta, x, points)
    mean = prior_mean(theta, x) + cross @ np.linalg.solve(cov, values - prior_mean(theta, points))
    return mean, kernel(theta, x, x) - cross @ np.linalg.solve(cov, cross.T)


def inducing_kernel(theta, inducing, jitter=JITTER):
    """K_ZZ with the library's jitter on the diagonal."""
    return kernel(theta, inducing, inducing) + jitter * unpack(theta).output_variance * np.eye(len(inducing))


def sgpr_bound(theta, inducing, points, values, noise_variance, jitter=JITTER):
    """GP-ELBO with N×N matrices: log N(y; m, Q + S) − ½ Tr((K − Q) S⁻¹) (Supplement A.1)."""
    xp, cross = module_of(theta), kernel(theta, points, inducing)
    q = cross @ xp.linalg.solve(inducing_kernel(theta, inducing, jitter), cross.T)
    fit = log_normal(values, prior_mean(theta, points), q + xp.diag(noise_variance))
    return fit - 0.5 * ((unpack(theta).output_variance - xp.diag(q)) / noise_variance).sum()


def sgpr_posterior(theta, inducing, points, values, noise_variance, x, jitter=JITTER):
    """Mean and covariance at x by way of q(u) = N(m_u, R_uu), as printed in Supplement A.1 and A.3."""
    kzz, kzx = inducing_kernel(theta, inducing, jitter), kernel(theta, inducing, points)
    sigma = np.linalg.inv(kzx / noise_variance @ kzx.T + kzz)
    r = kzz @ sigma @ kzz
    mz = prior_mean(theta, inducing)
    data = values - prior_mean(theta, points) + kzx.T @ np.linalg.solve(kzz, mz)
    m_u = kzz @ sigma @ (kzx / noise_variance @ data + mz)
    project = np.linalg.solve(kzz, kernel(theta, inducing, x)).T
    mean = prior_mean(theta, x) + project @ (m_u - mz)
    return mean, kernel(theta, x, x) - project @ kzz @ project.T + project @ r @ project.T


# With gradients: (values, then gradients place by place), by autodiff of the kernel and of the mean


def _one(theta, a, b):
    return kernel(theta, a[None], b[None])[0, 0]


def sloped_cross(theta, points, sloped, z):
    """Covariance of values at points and of gradients at `sloped` with the values at z."""
    theta = jnp.asarray(theta)
    slope = jax.vmap(jax.vmap(jax.grad(_one, argnums=1), (None, None, 0)), (None, 0, None))
    by_place = jnp.moveaxis(slope(theta, sloped, z), 2, 1).reshape(-1, len(z))
    return jnp.concatenate([kernel(theta, points, z), by_place])


def sloped_rest(theta, points, values, sloped, gradients):
    """What the mean leaves of values and gradients."""
    theta = jnp.asarray(theta)
    slope = jax.vmap(jax.grad(lambda x: prior_mean(theta, x[None])[0]))(sloped)
    return jnp.concatenate([values - prior_mean(theta, points), (gradients - slope).ravel()])


def sloped_noise(theta, noise_variance, sloped_noise_variance):
    """Variances of the noise: of a derivative, that of its place in units of the squared length scale."""
    theta = jnp.asarray(theta)
    per_scale = sloped_noise_variance[:, None] / unpack(theta).scales ** 2
    return jnp.concatenate([noise_variance, per_scale.ravel()])


def sloped_bound(theta, inducing, points, values, noise_variance, rows, gradients, jitter=JITTER):
    """GP-ELBO of values and of gradients at some rows, with dense matrices."""
    theta = jnp.asarray(theta)
    sloped, h = points[rows], unpack(theta)
    cross = sloped_cross(theta, points, sloped, inducing)
    q = cross @ jnp.linalg.solve(inducing_kernel(theta, inducing, jitter), cross.T)
    noise = sloped_noise(theta, noise_variance, noise_variance[rows])
    rest = sloped_rest(theta, points, values, sloped, gradients)
    own = h.output_variance * jnp.concatenate([jnp.ones(len(points)), jnp.tile(h.scales**-2.0, len(rows))])
    return log_normal(rest, 0.0, q + jnp.diag(noise)) - 0.5 * ((own - jnp.diag(q)) / noise).sum()


def sloped_covariance(theta, points, sloped):
    """The covariance of values and gradients among themselves."""
    theta = jnp.asarray(theta)
    both = jax.vmap(jax.vmap(jax.jacfwd(jax.grad(_one, argnums=1), argnums=2), (None, None, 0)), (None, 0, None))
    k, d = sloped.shape
    to_values = sloped_cross(theta, points, sloped, points)
    among = jnp.moveaxis(both(theta, sloped, sloped), 2, 1).reshape(k * d, k * d)
    return np.asarray(jnp.hstack([to_values, jnp.vstack([to_values[len(points) :].T, among])]))


def greedy(cov, noise_variance, count):
    """Plain greedy variance selection (Eq. 20): solve for Q anew at every pivot."""
    chosen: list[int] = []
    for _ in range(count):
        explained = np.zeros(len(cov))
        if chosen:
            cross = cov[chosen]
            explained = (cross * np.linalg.solve(cov[np.ix_(chosen, chosen)], cross)).sum(axis=0)
        score = (np.diag(cov) - explained) / noise_variance
        score[chosen] = -np.inf
        chosen.append(int(np.argmax(score)))
    return chosen


# Mixtures: (weights, means, trils), or their logarithms where it says so


def mixture_log_pdf(log_weights, means, trils, x):
    """log q(x), component by component, by SciPy."""
    parts = [
        log_weight + np.atleast_1d(stats.multivariate_normal(mean, tril @ tril.T).logpdf(x))
        for log_weight, mean, tril in zip(log_weights, means, trils, strict=True)
    ]
    return np.logaddexp.reduce(parts, axis=0)


def mixture_moments(weights, means, trils):
    """Mean and covariance of a mixture."""
    mean = sum(w * m for w, m in zip(weights, means, strict=True))
    cov = sum(
        w * (tril @ tril.T + np.outer(m - mean, m - mean)) for w, m, tril in zip(weights, means, trils, strict=True)
    )
    return mean, cov


def em_step(log_weights, means, trils, x, weights, caution):
    """One step of expectation maximisation on weighted points: new weights, means and covariances.

    A component that n of the effective points speak for has its covariance averaged with the old one, n : caution.
    """
    effective = 1.0 / (weights**2).sum()
    joint = np.array([mixture_log_pdf([w], [m], [t], x) for w, m, t in zip(log_weights, means, trils, strict=True)])
    share = weights * np.exp(joint - np.logaddexp.reduce(joint, axis=0))
    mass = share.sum(axis=1)
    new_means = [row @ x / row.sum() for row in share]
    covs = []
    for row, mean, old in zip(share, new_means, trils, strict=True):
        count = effective * row.sum()
        cov = sum(weight * np.outer(point - mean, point - mean) for weight, point in zip(row, x, strict=True))
        covs.append((count * cov / row.sum() + caution * old @ old.T) / (count + caution))
    return mass, np.array(new_means), np.array(covs)


def entropy(weights, means, trils, draws):
    """−Σ_k w_k mean_s log q(μ_k + L_k ε_ks): the estimate on fixed draws ε."""
    xp, d = module_of(means), means.shape[1]
    x = means[:, None, :] + xp.einsum("kij,ksj->ksi", trils, draws)
    z = xp.einsum("jab,ksjb->ksja", xp.linalg.inv(trils), x[:, :, None, :] - means)
    scale = xp.prod(xp.diagonal(trils, axis1=1, axis2=2), axis=1) * (2 * np.pi) ** (d / 2)
    density = (weights / scale * xp.exp(-0.5 * (z**2).sum(axis=3))).sum(axis=2)
    return -(weights @ xp.log(density).mean(axis=1))


def kernel_integrals(theta, means, trils, inducing):
    """∫ N(x; μ_k, Σ_k) κ(x, z) dx = σ_f² Λ N(μ_k; z, Σ_k + Σ_ℓ) for each k and z (Supplement A.4)."""
    h, xp = unpack(theta), module_of(means)
    spread = xp.einsum("kij,klj->kil", trils, trils) + np.diag(h.scales**2)
    gap = inducing - means[:, None, :]
    distance = xp.einsum("kmi,kij,kmj->km", gap, xp.linalg.inv(spread), gap)
    ratio = np.prod(h.scales) / xp.sqrt(xp.linalg.det(spread))
    return h.output_variance * ratio[:, None] * xp.exp(-0.5 * distance)


def expected_log_density(weights, means, trils, theta, inducing, inducing_weights):
    """E_q of the sparse posterior mean m(x) + κ(x, Z) K_ZZ⁻¹(m_u − m(Z)), in closed form (Eq. 24)."""
    h = unpack(theta)
    squares = ((means - h.location) ** 2 + (trils**2).sum(axis=2)) / h.widths**2
    integrals = kernel_integrals(theta, means, trils, inducing) @ inducing_weights
    return weights @ (h.top - 0.5 * squares.sum(axis=1) + integrals)


def soft_penalty(means, trils, lower, upper, tau=0.01):
    """Supplement C.1, with the distance *outside* the limits: ½ (distance / (τ (UB − LB)))², summed."""
    xp, total, width = module_of(trils), 0.0, upper - lower
    log_sd = 0.5 * xp.log((trils**2).sum(axis=2))
    for value, low, high in ((means, lower, upper), (log_sd, np.log(1e-6 * width), np.log(width))):
        distance = xp.maximum(xp.maximum(low - value, value - high), 0.0)
        total = total + 0.5 * ((distance / (tau * (high - low))) ** 2).sum()
    return total


def softmax(logits):
    """Weights that sum to one."""
    scores = module_of(logits).exp(logits)
    return scores / scores.sum()


def full_covariance(free, log_weights, means, trils):
    """(weights, means, trils) of the free parameters around a reference: μ₀ + L₀ν, L₀B, log of B's diagonal."""
    xp, (k, d) = module_of(free), means.shape
    logits, shift, packed = xp.split(free, [k, k + k * d])
    units = np.zeros((d * (d + 1) // 2, d, d))  # the lower triangle, row by row
    units[np.arange(len(units)), *np.tril_indices(d)] = 1.0
    lower = xp.einsum("kp,pij->kij", packed.reshape(k, -1), units)
    b = xp.where(np.eye(d) == 1, xp.exp(lower), lower)
    return softmax(logits), means + xp.einsum("kij,kj->ki", trils, shift.reshape(k, d)), trils @ b


def shared_diagonal(free, log_weights, means, trils):
    """(weights, means, trils) of the paper's family; means in units of the reference's marginal scales."""
    xp, (k, d) = module_of(free), means.shape
    logits, shift, log_own, log_shared = xp.split(free, [k, k + k * d, 2 * k + k * d])
    unit = np.array([np.sqrt(np.diag(tril @ tril.T)) for tril in trils])
    return softmax(logits), means + unit * shift.reshape(k, d), xp.exp(log_own[:, None, None] + log_shared) * np.eye(d)


# Thresholds and shaping

#: [Δy](n) in nats, that is half the chi-square quantile: by dimension, for n = 10 and n = 20.
DEPTHS = {
    2: (52.54, 203.22),
    5: (58.38, 210.97),
    6: (60.07, 213.27),
    8: (63.23, 217.59),
    10: (66.19, 221.67),
    20: (79.20, 239.78),
}


def shaping_sd(below_top, threshold, sd_min, sd_med, slope):
    """Eq. 21, point by point."""
    out = []
    for gap in below_top:
        rho = min(1.0, gap / threshold)
        sd = np.exp((1 - rho) * np.log(sd_min) + rho * np.log(sd_med))
        if gap >= threshold:
            sd += slope * (gap - threshold)
        out.append(sd)
    return np.array(out)


def kept(values, sd, depth, confidence):
    """Eq. 14: which evaluations are not surely deeper than `depth` below the best lower confidence bound."""
    top = max(value - confidence * s for value, s in zip(values, sd, strict=True))
    return [top - (value + confidence * s) <= depth for value, s in zip(values, sd, strict=True)]
