"""Exact Gaussian process regression with per-point noise: evidence, gradient and prediction (Eqs. 3 and 4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters, kernel, mean
from vsbq.numerics.sgpr import Gradient, ceiling, chain_rule


class ExactFactors(NamedTuple):
    """Cholesky factor of K + S and the weights (K + S)⁻¹ (y − m)."""

    points: Float[ndarray, "n d"]
    chol: Float[ndarray, "n n"]
    weights: Float[ndarray, " n"]


def fit_factors(
    hyp: Hyperparameters,
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
) -> ExactFactors:
    """Factorise K + S at fixed hyperparameters."""
    chol = linalg.cholesky(kernel(points, points, hyp) + np.diag(noise_variance))
    residual = values - mean(points, hyp)
    weights = linalg.solve_lower(chol, linalg.solve_lower(chol, residual), transpose=True)
    return ExactFactors(points, chol, weights)


def evidence_and_gradient(
    theta: Float[ndarray, " p"],
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise_variance: Float[ndarray, " n"],
    further: Float[ndarray, "n n"] | None = None,
) -> Gradient:
    """Log marginal likelihood log N(y; m, K + S) and its gradient; raises `NotPositiveDefinite`.

    `further` is a known covariance that adds to K + S.
    """
    hyp = Hyperparameters.unpack(theta)
    k = kernel(points, points, hyp)
    total = k + np.diag(noise_variance)
    chol = linalg.cholesky(total if further is None else total + further)
    residual = values - mean(points, hyp)
    weights = linalg.solve_lower(chol, linalg.solve_lower(chol, residual), transpose=True)
    value = -0.5 * (len(points) * np.log(2 * np.pi) + linalg.log_determinant(chol) + residual @ weights)
    if value > ceiling(len(points), float(np.log(noise_variance).sum())):
        raise linalg.NotPositiveDefinite("rounding errors exceed the noise")
    by_kernel = 0.5 * (np.outer(weights, weights) - linalg.inverse_from_cholesky(chol))
    w = by_kernel * k
    row = w.sum(axis=1)
    x = points - points.mean(axis=0)
    spread = 2 * linalg.product((x * row[:, None]).T, x) - 2 * linalg.product(x.T, linalg.product(w, x))
    by_theta, by_coordinates = chain_rule(hyp, points, spread, float(2 * row.sum()), weights)
    return Gradient(float(value), by_theta, 2 * noise_variance * np.diagonal(by_kernel), by_coordinates)


def predict(
    hyp: Hyperparameters, factors: ExactFactors, x: Float[ndarray, "k d"]
) -> tuple[Float[ndarray, " k"], Float[ndarray, " k"]]:
    """Posterior mean and variance of the latent log density."""
    cross = kernel(factors.points, x, hyp)
    half = linalg.solve_lower(factors.chol, cross)
    variance = hyp.output_variance - np.einsum("nk,nk->k", half, half)
    return mean(x, hyp) + linalg.product_vector(cross.T, factors.weights), np.maximum(variance, 0.0)
