"""Sparse Gaussian process regression with per-point noise: bound, gradient and prediction (Supplement A.1 to A.3).

Notation of the paper: X training points, Z inducing points, S = diag(s²) noise variances, L Lᵀ = K_ZZ,
U = L⁻¹ K_ZX S^(−1/2), V = I + U Uᵀ, c = L_V⁻¹ U ȳ with ȳ = S^(−1/2) (y − m(X)).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from vsbq._typing import Float, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters, kernel, left_vectors, mean, mean_gradient, right_vectors

#: Columns of K_ZX that are worked on at a time, so that a block of some hundred rows stays in the cache.
CHUNK = 1024


class Factors(NamedTuple):
    """What prediction and quadrature need of a fitted sparse GP."""

    inducing: Float[ndarray, "m d"]
    chol_kernel: Float[ndarray, "m m"]  # L
    chol_v: Float[ndarray, "m m"]  # L_V
    weights: Float[ndarray, " m"]  # K_ZZ⁻¹ (m_u − m(Z)) = L⁻ᵀ L_V⁻ᵀ c
    jitter: float  # relative to σ_f²


class Mean(NamedTuple):
    """What the posterior mean alone needs."""

    inducing: Float[ndarray, "m d"]
    weights: Float[ndarray, " m"]


class Statistics(NamedTuple):
    """Sums over the training points: all that the posterior of the inducing variables needs."""

    gram: Float[ndarray, "m m"]  # U Uᵀ (lower triangle valid)
    projection: Float[ndarray, " m"]  # U ȳ
    residual_square: float  # ȳᵀ ȳ
    log_noise: float  # Σ log s²
    trace: float  # Tr K_XX S⁻¹


class Gradient(NamedTuple):
    """A bound with its derivatives: by the packed hyperparameters, by the logarithm of each point's noise sd, and by
    E where all points, inducing points and the location of the mean are multiplied by I + E (at E = 0)."""

    value: float
    hyperparameters: Float[ndarray, " p"]
    log_noise_sd: Float[ndarray, " n"]
    coordinates: Float[ndarray, "d d"] | None = None


class Workspace:
    """Two buffers that a run of `bound_and_gradient` calls shares: fresh pages cost more than the arithmetic."""

    def __init__(self, size: int) -> None:
        self._kernel = np.empty(size)
        self._u = np.empty(size)

    def arrays(self, m: int, n: int) -> tuple[Float[ndarray, "m n"], Float[ndarray, "m n"]]:
        """Two m×n arrays in Fortran order, their contents left over from earlier calls."""
        if m * n > len(self._kernel):
            self.__init__(m * n)  # type: ignore[misc]
        return self._kernel[: m * n].reshape((m, n), order="F"), self._u[: m * n].reshape((m, n), order="F")


def _chunks(n: int) -> Iterator[slice]:
    for start in range(0, n, CHUNK):
        yield slice(start, min(start + CHUNK, n))


def _scaled_kernel_block(
    left: Float[ndarray, "m e"], right: Float[ndarray, "b e"], most: Float[ndarray, " b"], out: ndarray | None = None
) -> Float[ndarray, "m b"]:
    """A block of K_ZX S^(−1/2) in Fortran order; `most` is log σ_f² s⁻¹, which rounding must not exceed."""
    block = linalg.product(left, right.T, out)
    np.minimum(block, most, out=block)
    return np.exp(block, out=block)


def factorise_inducing(
    hyp: Hyperparameters, inducing: Float[ndarray, "m d"], first_jitter: float = linalg.FIRST_JITTER
) -> tuple[Float[ndarray, "m m"], float]:
    """L with L Lᵀ = K_ZZ + jitter σ_f² I, and the jitter."""
    return linalg.jittered_cholesky(kernel(inducing, inducing, hyp), hyp.output_variance, first_jitter)


def statistics(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    chol_kernel: Float[ndarray, "m m"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    *,
    whiten: Float[ndarray, "m m"] | None = None,
) -> Statistics:
    """One pass over the training points in chunks; memory does not grow with n. `whiten` is L⁻¹, if it is known."""
    m = len(inducing)
    noise_sd = np.sqrt(noise_variance)
    scaled = (values - mean(points, hyp)) / noise_sd
    log_sd = np.log(noise_sd)
    left, right, most = left_vectors(inducing, hyp), right_vectors(points, hyp, log_sd), 2 * hyp.log_output - log_sd
    gram, projection = np.zeros((m, m), order="F"), np.zeros(m)
    whiten = linalg.inverse_lower(chol_kernel) if whiten is None else whiten
    for rows in _chunks(len(points)):
        block = _scaled_kernel_block(left, right[rows], most[rows])
        linalg.times_lower_in_place(whiten, block)
        gram = blas.dsyrk(1.0, block, beta=1.0, c=gram, lower=1, overwrite_c=1)
        projection += linalg.product_vector(block, scaled[rows])
    trace = hyp.output_variance * float((1.0 / noise_variance).sum())
    return Statistics(gram, projection, float(scaled @ scaled), float(np.log(noise_variance).sum()), trace)


def posterior_factors(
    inducing: Float[ndarray, "m d"], chol_kernel: Float[ndarray, "m m"], jitter: float, stats: Statistics
) -> Factors:
    """The optimal q(u) of Eqs. 13 and 14, in the stable form of Supplement A.3.

    With a non-zero mean the supplement's three terms in m(Z) cancel: it is the zero-mean formula for f − m.
    """
    chol_v = linalg.cholesky(linalg.mirror_lower(stats.gram) + np.eye(len(inducing)))
    c = linalg.solve_lower(chol_v, stats.projection)
    weights = linalg.solve_lower(chol_kernel, linalg.solve_lower(chol_v, c, transpose=True), transpose=True)
    return Factors(inducing, chol_kernel, chol_v, weights, jitter)


def bound_value(stats: Statistics, chol_v: Float[ndarray, "m m"], n: int) -> float:
    """GP-ELBO (Eq. 24, Supplement A.2); the supplement prints −½cᵀc, the sign that follows from its own lines is +.

    NaN if it is above what any model of these values can reach: only rounding errors of huge terms get there.
    """
    c = linalg.solve_lower(chol_v, stats.projection)
    fit = -0.5 * (n * np.log(2 * np.pi) + linalg.log_determinant(chol_v) + stats.log_noise + stats.residual_square)
    value = float(fit + 0.5 * c @ c - 0.5 * stats.trace + 0.5 * np.trace(stats.gram))
    return value if value <= ceiling(n, stats.log_noise) else np.nan


def ceiling(n: int, log_noise: float) -> float:
    """−½ Σ log(2π s²): no density of values with noise variances s² is higher, nor any lower bound of one."""
    return -0.5 * (n * float(np.log(2 * np.pi)) + log_noise)


def bound_and_gradient(
    theta: Float[ndarray, " p"],
    inducing: Float[ndarray, "m d"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    workspace: Workspace | None = None,
) -> Gradient:
    """GP-ELBO and its gradient, about 4·n·m² flops.

    Raises `NotPositiveDefinite` where K_ZZ cannot be factorised with any allowed jitter.
    """
    hyp = Hyperparameters.unpack(theta)
    n, m = len(points), len(inducing)
    kernel_zz = kernel(inducing, inducing, hyp)
    chol, jitter = linalg.jittered_cholesky(kernel_zz, hyp.output_variance)
    noise_sd = np.sqrt(noise_variance)
    scaled = (values - mean(points, hyp)) / noise_sd  # ȳ
    log_sd = np.log(noise_sd)
    left, right, most = left_vectors(inducing, hyp), right_vectors(points, hyp, log_sd), 2 * hyp.log_output - log_sd

    gram, projection = np.zeros((m, m), order="F"), np.zeros(m)
    ks, u = (workspace or Workspace(m * n)).arrays(m, n)  # K_ZX S^(−1/2) and U
    whiten = linalg.inverse_lower(chol)
    for rows in _chunks(n):
        u[:, rows] = _scaled_kernel_block(left, right[rows], most[rows], ks[:, rows])
        linalg.times_lower_in_place(whiten, u[:, rows])
        gram = blas.dsyrk(1.0, u[:, rows], beta=1.0, c=gram, lower=1, overwrite_c=1)
        projection += linalg.product_vector(u[:, rows], scaled[rows])
    trace = hyp.output_variance * float((1.0 / noise_variance).sum())
    stats = Statistics(gram, projection, float(scaled @ scaled), float(np.log(noise_variance).sum()), trace)
    v = linalg.mirror_lower(gram) + np.eye(m)
    chol_v = linalg.cholesky(v)
    value = bound_value(stats, chol_v, n)

    # ∂/∂U = P U + β rᵀ with P = I − V⁻¹, β = V⁻¹ U ȳ, r = ȳ − Uᵀβ; and (∂/∂U) Uᵀ = V − 2I + V⁻¹ + ββᵀ.
    v_inverse = linalg.inverse_from_cholesky(chol_v)
    beta = linalg.product_vector(v_inverse, projection)
    lifted = linalg.times_lower(whiten, np.asfortranarray(np.eye(m) - v_inverse), transpose=True)  # L⁻ᵀ P
    lifted_beta = linalg.product_vector(whiten.T, beta)
    residual = scaled - linalg.product_vector(u.T, beta)
    moments, column = _moments(lifted, lifted_beta, ks, u, residual, points)
    w_zz = by_inducing_kernel(whiten, v - 2 * np.eye(m) + v_inverse + np.outer(beta, beta))
    on_diagonal = jitter * hyp.output_variance * float(np.trace(w_zz))
    w_zz *= kernel_zz
    to_output = 2 * (column.sum() + float(w_zz.sum()) + on_diagonal) - trace
    apart = spread(inducing, points, moments, column, w_zz)
    by_theta, by_coordinates = chain_rule(hyp, points, apart, to_output, residual / noise_sd)
    by_noise = residual * scaled - column - 1.0 + hyp.output_variance / noise_variance
    return Gradient(value, by_theta, by_noise, by_coordinates)


def _moments(
    lifted: Float[ndarray, "m m"],
    lifted_beta: Float[ndarray, " m"],
    ks: Float[ndarray, "m n"],
    u: Float[ndarray, "m n"],
    residual: Float[ndarray, " n"],
    points: Float[ndarray, "n d"],
) -> tuple[Float[ndarray, "m f"], Float[ndarray, " n"]]:
    """Σ_n W_mn (1, x_n) for each inducing point and Σ_m W_mn for each point, W = (∂/∂K_ZX) ∘ K_ZX."""
    features = np.column_stack([np.ones(len(points)), points])
    moments, column = np.zeros((len(lifted), features.shape[1])), np.empty(len(points))
    buffer = np.empty((len(lifted), min(CHUNK, len(points))), order="F")
    for rows in _chunks(len(points)):
        w = linalg.product(lifted, u[:, rows], buffer[:, : rows.stop - rows.start])
        w = blas.dger(1.0, lifted_beta, residual[rows], a=w, overwrite_a=1)
        w *= ks[:, rows]
        moments += linalg.product(w, features[rows])
        column[rows] = w.sum(axis=0)
    return moments, column


def by_inducing_kernel(whiten: Float[ndarray, "m m"], t: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """∂/∂K_ZZ = −½ L⁻ᵀ T L⁻¹ with T = (∂/∂U) Uᵀ; `whiten` is L⁻¹."""
    half = linalg.times_lower(whiten, np.asfortranarray(t), transpose=True)
    return -0.5 * linalg.times_lower(whiten, np.asfortranarray(half.T), transpose=True)


def spread(
    inducing: Float[ndarray, "m d"],
    points: Float[ndarray, "n d"],
    moments: Float[ndarray, "m f"],
    column: Float[ndarray, " n"],
    within: Float[ndarray, "m m"],
) -> Float[ndarray, "d d"]:
    """Σ W (a − b)(a − b)ᵀ over all pairs of points whose kernel the bound contains, W = (∂/∂K) ∘ K."""
    origin = inducing.mean(axis=0)  # far from it the sums below would cancel
    z, x = inducing - origin, points - origin
    count, first = moments[:, 0], moments[:, 1:] - moments[:, :1] * origin
    mixed = linalg.product(z.T, first) + linalg.product(z.T, linalg.product(within, z))
    own = linalg.product((z * (count + 2 * within.sum(axis=1))[:, None]).T, z)
    return own + linalg.product((x * column[:, None]).T, x) - mixed - mixed.T


def chain_rule(
    hyp: Hyperparameters,
    points: Float[ndarray, "n d"],
    spread: Float[ndarray, "d d"],
    to_output: float,
    by_mean: Float[ndarray, " n"],
) -> tuple[Float[ndarray, " p"], Float[ndarray, "d d"]]:
    """From kernel matrices and mean to the packed hyperparameters, and to a linear map of all coordinates."""
    to_scales = np.diagonal(spread) * np.exp(-2 * hyp.log_scales)
    to_top, to_location, to_widths = mean_gradient(points, hyp, by_mean)
    shift = points - hyp.mean_location
    second = linalg.product((shift * by_mean[:, None]).T, shift)
    to_map = -np.exp(-2 * hyp.log_scales)[:, None] * spread - np.exp(-2 * hyp.mean_log_widths)[:, None] * second
    return np.concatenate([to_scales, [to_output, to_top], to_location, to_widths]), to_map


def fit_factors(
    hyp: Hyperparameters,
    inducing: Float[ndarray, "m d"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
) -> tuple[Factors, float]:
    """The sparse posterior at fixed hyperparameters, and its GP-ELBO."""
    chol, jitter = factorise_inducing(hyp, inducing)
    stats = statistics(hyp, inducing, chol, points, values, noise_variance)
    factors = posterior_factors(inducing, chol, jitter, stats)
    return factors, bound_value(stats, factors.chol_v, len(points))


def with_implied_passes(factors: Factors, passes: int) -> Factors:
    """What `with_residual_passes` gives in exact arithmetic, without the evaluations.

    With a = V⁻¹ U ȳ, what the mean leaves of them projects to U (ȳ − Uᵀ a) = a, so that each pass adds V⁻¹ times what
    the one before has added.
    """
    added = linalg.product_vector(np.asfortranarray(factors.chol_kernel).T, factors.weights)
    weights = factors.weights
    for _ in range(passes):
        added = linalg.solve_lower(factors.chol_v, linalg.solve_lower(factors.chol_v, added), transpose=True)
        weights = weights + linalg.solve_lower(factors.chol_kernel, added, transpose=True)
    return factors._replace(weights=weights)


def with_residual_passes(
    hyp: Hyperparameters,
    factors: Factors,
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    passes: int,
) -> Factors:
    """The same with a mean to which what it leaves of the values is added, smoothed likewise (Tukey's twicing).

    Of a true f the posterior mean S f misses (I − S) f; p passes miss (I − S)^(p + 1) f. The covariance stays.
    """
    for _ in range(passes):
        projection = np.zeros(len(factors.inducing))
        for rows in _chunks(len(points)):
            block = kernel(factors.inducing, points[rows], hyp)
            missed = values[rows] - mean(points[rows], hyp) - linalg.product_vector(block.T, factors.weights)
            projection += linalg.product_vector(block, missed / noise_variance[rows])
        c = linalg.solve_lower(factors.chol_v, linalg.solve_lower(factors.chol_kernel, projection))
        added = linalg.solve_lower(factors.chol_v, c, transpose=True)
        added = linalg.solve_lower(factors.chol_kernel, added, transpose=True)
        factors = factors._replace(weights=factors.weights + added)
    return factors


def predict_mean(hyp: Hyperparameters, factors: Factors | Mean, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Posterior mean, Eq. 18."""
    out = mean(x, hyp)
    for rows in _chunks(len(x)):
        out[rows] += linalg.product_vector(kernel(x[rows], factors.inducing, hyp), factors.weights)
    return out


class Variance(NamedTuple):
    """The posterior variance of the latent log density at each point, and the part of it that is the evaluations' own
    noise: that of the mean, if the evaluations were repeated."""

    total: Float[ndarray, " n"]
    by_noise: Float[ndarray, " n"]


def predict_variance(hyp: Hyperparameters, factors: Factors, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Posterior variance of the latent log density, the diagonal of Eq. 19."""
    return predict_variances(hyp, factors, x, noise=False).total


def predict_variances(
    hyp: Hyperparameters, factors: Factors, x: Float[ndarray, "n d"], *, noise: bool = True
) -> Variance:
    """The posterior variance and its part that is noise, aᵀ V⁻¹ (V − I) V⁻¹ a with a = L⁻¹ k; zero if not asked for."""
    total, by_noise = np.empty(len(x)), np.zeros(len(x))
    for rows in _chunks(len(x)):
        prior = linalg.solve_lower(factors.chol_kernel, kernel(factors.inducing, x[rows], hyp))
        post = linalg.solve_lower(factors.chol_v, prior)
        known = np.einsum("mn,mn->n", post, post)
        total[rows] = hyp.output_variance - np.einsum("mn,mn->n", prior, prior) + known
        if noise:
            twice = linalg.solve_lower(factors.chol_v, post, transpose=True)
            by_noise[rows] = known - np.einsum("mn,mn->n", twice, twice)
    total = np.maximum(total, 0.0)
    return Variance(total, np.clip(by_noise, 0.0, total))


def predict_covariance(
    hyp: Hyperparameters, factors: Factors, a: Float[ndarray, "n d"], b: Float[ndarray, "k d"]
) -> Float[ndarray, "n k"]:
    """Posterior covariance between two sets of points, Eq. 19."""
    prior_a = linalg.solve_lower(factors.chol_kernel, kernel(factors.inducing, a, hyp))
    prior_b = linalg.solve_lower(factors.chol_kernel, kernel(factors.inducing, b, hyp))
    post_a = linalg.solve_lower(factors.chol_v, prior_a)
    post_b = linalg.solve_lower(factors.chol_v, prior_b)
    return kernel(a, b, hyp) - linalg.product(prior_a.T, prior_b) + linalg.product(post_a.T, post_b)
