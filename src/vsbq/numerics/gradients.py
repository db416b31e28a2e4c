"""Sparse Gaussian process regression with gradients: the bound of `sgpr`, of values and of their derivatives.

Each place may have a gradient; a row of NaN says that it has none. A derivative counts in units of the length scale: as
ℓᵢ ∂f/∂xᵢ it has the prior variance of a value, σ_f², the covariance κ(z, x)(z − x)ᵢ/ℓᵢ with the value at z, and the
noise variance of the value at its place: noise stands for what the kernel gets wrong, and that changes over a length
scale as f does. Values come first, then all derivatives along the first axis, along the second, and so on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from vsbq._typing import Float, Int, ndarray
from vsbq.numerics import linalg, sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel, mean
from vsbq.numerics.sgpr import CHUNK, Factors, Gradient, Statistics


class Slopes(NamedTuple):
    """Gradients at some places, and the noise variance of the values there."""

    points: Float[ndarray, "k d"]
    gradients: Float[ndarray, "k d"]
    noise_variance: Float[ndarray, " k"]

    @classmethod
    def known(
        cls, points: Float[ndarray, "n d"], gradients: Float[ndarray, "n d"], noise_variance: Float[ndarray, " n"]
    ) -> Slopes:
        """Those of the places that have one."""
        rows = places(gradients)
        return cls(points[rows], gradients[rows], noise_variance[rows])

    def rest(self, hyp: Hyperparameters) -> Float[ndarray, "k d"]:
        """ℓ (∇f − ∇m): what the mean leaves of them."""
        rising = (self.points - hyp.mean_location) * np.exp(-2 * hyp.mean_log_widths)
        return np.asarray((self.gradients + rising) * np.exp(hyp.log_scales))

    def jacobian(self, hyp: Hyperparameters) -> float:
        """log |dℓ∇f / d∇f|: their density is with respect to the gradients as they are given."""
        return len(self.points) * float(hyp.log_scales.sum())


def places(gradients: Float[ndarray, "n d"]) -> Int[ndarray, " k"]:
    """Rows that have a gradient."""
    return np.flatnonzero(np.isfinite(gradients).all(axis=1))


def columns(
    hyp: Hyperparameters, inducing: Float[ndarray, "m d"], points: Float[ndarray, "k d"], between: Float[ndarray, "m k"]
) -> list[Float[ndarray, "m k"]]:
    """κ(z, x)(z − x)ᵢ/ℓᵢ for each axis i; `between` is κ(Z, X), its columns scaled or not."""
    z, x = inducing / np.exp(hyp.log_scales), points / np.exp(hyp.log_scales)
    return [np.asfortranarray(between * (z[:, i, None] - x[None, :, i])) for i in range(points.shape[1])]


def statistics(
    hyp: Hyperparameters, inducing: Float[ndarray, "m d"], chol_kernel: Float[ndarray, "m m"], slopes: Slopes
) -> Statistics:
    """What gradients add to the sums of `sgpr.statistics`; memory does not grow with their number."""
    m, (k, d) = len(inducing), slopes.points.shape
    noise_sd = np.sqrt(slopes.noise_variance)
    scaled = slopes.rest(hyp) / noise_sd[:, None]
    gram, projection, whiten = np.zeros((m, m), order="F"), np.zeros(m), linalg.inverse_lower(chol_kernel)
    for start in range(0, k, CHUNK):
        rows = slice(start, start + CHUNK)
        between = kernel(inducing, slopes.points[rows], hyp) / noise_sd[rows]
        for i, block in enumerate(columns(hyp, inducing, slopes.points[rows], between)):
            linalg.times_lower_in_place(whiten, block)
            gram = blas.dsyrk(1.0, block, beta=1.0, c=gram, lower=1, overwrite_c=1)
            projection += linalg.product_vector(block, scaled[rows, i])
    trace = d * hyp.output_variance * float((1.0 / slopes.noise_variance).sum())
    log_noise = d * float(np.log(slopes.noise_variance).sum())
    return Statistics(gram, projection, float((scaled**2).sum()), log_noise, trace)


def residual_projection(hyp: Hyperparameters, factors: Factors, slopes: Slopes) -> Float[ndarray, " m"]:
    """K S⁻¹ times what the posterior mean leaves of gradients."""
    out = np.zeros(len(factors.inducing))
    for start in range(0, len(slopes.points), CHUNK):
        part = Slopes(*(column[start : start + CHUNK] for column in slopes))
        between, rest = kernel(factors.inducing, part.points, hyp), part.rest(hyp)
        for i, block in enumerate(columns(hyp, factors.inducing, part.points, between)):
            left = rest[:, i] - linalg.product_vector(block.T, factors.weights)
            out += linalg.product_vector(block, left / part.noise_variance)
    return out


class _Observed(NamedTuple):
    """Values and derivatives as one long vector."""

    owner: Int[ndarray, " o"]  # the place of each
    points: Float[ndarray, "o d"]
    scaled: Float[ndarray, " o"]  # what the mean leaves, divided by the noise sd
    noise_variance: Float[ndarray, " o"]
    values_kernel: Float[ndarray, "m n"]  # K_ZX S^(−1/2) of the values alone
    kernel: Float[ndarray, "m o"]  # of all


def _observed(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    slopes: Slopes,
    rows: Int[ndarray, " k"],
) -> _Observed:
    owner = np.concatenate([np.arange(len(points)), np.tile(rows, points.shape[1])])
    rest = np.concatenate([values - mean(points, hyp), slopes.rest(hyp).T.ravel()])
    plain = kernel(inducing, points, hyp) / np.sqrt(noise_variance)
    every = np.asfortranarray(np.hstack([plain, *columns(hyp, inducing, slopes.points, plain[:, rows])]))
    noise = noise_variance[owner]
    return _Observed(owner, points[owner], rest / np.sqrt(noise), noise, plain, every)


def bound_and_gradient(
    theta: Float[ndarray, " p"],
    inducing: Float[ndarray, "m d"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    gradients: Float[ndarray, "n d"],
) -> Gradient:
    """GP-ELBO of values and gradients, and its derivatives, with those by E where gradients are multiplied by
    (I + E)⁻ᵀ as the points are by I + E.

    Raises `NotPositiveDefinite` where K_ZZ cannot be factorised with any allowed jitter.
    """
    hyp, n, rows = Hyperparameters.unpack(theta), len(points), places(gradients)
    slopes = Slopes(points[rows], gradients[rows], noise_variance[rows])
    seen = _observed(hyp, inducing, points, values, noise_variance, slopes, rows)
    kernel_zz = kernel(inducing, inducing, hyp)
    chol, jitter = linalg.jittered_cholesky(kernel_zz, hyp.output_variance)
    trace = hyp.output_variance * float((1.0 / seen.noise_variance).sum())
    value, by_kernel, by_zz, residual = _backwards(linalg.inverse_lower(chol), seen, trace)
    w, w_zz = by_kernel * seen.kernel, by_zz * kernel_zz
    column = w.sum(axis=0)
    to_jitter = jitter * hyp.output_variance * float(np.trace(by_zz))
    to_output = 2 * (column.sum() + float(w_zz.sum()) + to_jitter) - trace
    moments = linalg.product(w, np.column_stack([np.ones(len(seen.points)), seen.points]))
    spread = sgpr.spread(inducing, seen.points, moments, column, w_zz)
    by_mean = residual / np.sqrt(seen.noise_variance)
    by_theta, by_map = sgpr.chain_rule(hyp, points, spread, to_output, by_mean[:n])
    lifted = by_kernel[:, n:].reshape(len(inducing), points.shape[1], len(rows)) * seen.values_kernel[:, None, rows]
    more_theta, more_map = _along_axes(hyp, inducing, slopes, by_mean[n:], column[n:], lifted)
    by_each = residual * seen.scaled - column - 1.0 + hyp.output_variance / seen.noise_variance
    by_noise = np.bincount(seen.owner, by_each, n)
    return Gradient(value + slopes.jacobian(hyp), by_theta + more_theta, by_noise, by_map + more_map)


def _backwards(
    whiten: Float[ndarray, "m m"], seen: _Observed, trace: float
) -> tuple[float, Float[ndarray, "m o"], Float[ndarray, "m m"], Float[ndarray, " o"]]:
    """The bound, its derivatives by K_ZX S^(−1/2) and by K_ZZ, and r (see `sgpr.bound_and_gradient`)."""
    m, u = len(whiten), seen.kernel.copy(order="F")
    linalg.times_lower_in_place(whiten, u)
    projection = linalg.product_vector(u, seen.scaled)
    log_noise = float(np.log(seen.noise_variance).sum())
    stats = Statistics(blas.dsyrk(1.0, u, lower=1), projection, float(seen.scaled @ seen.scaled), log_noise, trace)
    v = linalg.mirror_lower(stats.gram) + np.eye(m)
    chol_v = linalg.cholesky(v)
    v_inverse = linalg.inverse_from_cholesky(chol_v)
    beta = linalg.product_vector(v_inverse, projection)
    residual = seen.scaled - linalg.product_vector(u.T, beta)
    lifted = linalg.times_lower(whiten, np.asfortranarray(np.eye(m) - v_inverse), transpose=True)
    by_kernel = linalg.product(lifted, u)
    by_kernel += np.outer(linalg.product_vector(whiten.T, beta), residual)
    by_zz = sgpr.by_inducing_kernel(whiten, v - 2 * np.eye(m) + v_inverse + np.outer(beta, beta))
    return sgpr.bound_value(stats, chol_v, len(seen.owner)), by_kernel, by_zz, residual


def _along_axes(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    slopes: Slopes,
    by_rest: Float[ndarray, " o"],
    column: Float[ndarray, " o"],
    lifted: Float[ndarray, "m d k"],
) -> tuple[Float[ndarray, " p"], Float[ndarray, "d d"]]:
    """What the hyperparameters and a map of the coordinates do to (z − x)ᵢ/ℓᵢ and to ℓ (∇f − ∇m).

    `by_rest` is −∂F/∂(ℓ(∇f − ∇m)), `column` Σ_m W of each derivative, `lifted` (∂F/∂K) ∘ κ(Z, X).
    """
    k, d = slopes.points.shape
    scales, curve = np.exp(hyp.log_scales), np.exp(-2 * hyp.mean_log_widths)
    shift, rest = slopes.points - hyp.mean_location, slopes.rest(hyp)
    by_rest, column = by_rest.reshape(d, k).T, column.reshape(d, k).T
    by_slope = by_rest * scales  # by ∇m
    to_scales = k - (column + by_rest * rest).sum(axis=0)
    to_location, to_widths = by_slope.sum(axis=0) * curve, 2 * (by_slope * shift).sum(axis=0) * curve
    apart = linalg.product(lifted.sum(axis=2).T, inducing) - linalg.product(lifted.sum(axis=0), slopes.points)
    to_map = apart / scales[:, None] - curve[:, None] * linalg.product(by_slope.T, shift)
    to_map += linalg.product(slopes.gradients.T, by_slope)
    return np.concatenate([to_scales, [0.0, 0.0], to_location, to_widths]), to_map
