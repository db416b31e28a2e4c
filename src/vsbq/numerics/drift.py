"""What evaluations leave open of the mean: universal kriging with all quadratics, linear in their coefficients.

The mean of the surrogate is learnt, and its parameters (top, location, widths, coordinates) are known as far as the
evaluations determine them. To first order they span all quadratics, φ(x) = (1, z, z zᵀ) with z = (x − μ)/ω. With
F = φ(X), S and Q as in `sgpr`, and Λ the precision of a vague prior, the coefficients have the precision
G = Fᵀ (Q + S)⁻¹ F + Λ, and the log density at x the additional variance r(x)ᵀ G⁻¹ r(x) with r(x) = φ(x) − W_Fᵀ κ(Z, x),
W_F the weights that the sparse GP would have if F were the values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.gradients import columns
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.observations import Regression
from vsbq.numerics.sgpr import CHUNK, Factors

#: Prior standard deviations of the coefficients, for which the mean has a unit curvature in every direction.
CONSTANT_SD, LINEAR_SD, QUADRATIC_SD = 100.0, 10.0, 1.0


class Drift(NamedTuple):
    """The open part of the mean: rows of `root`ᵀ r(x) are independent, of unit variance."""

    weights: Float[ndarray, "m p"]  # W_F
    root: Float[ndarray, "p p"]  # root rootᵀ = G⁻¹


def features(x: Float[ndarray, "n d"], hyp: Hyperparameters) -> Float[ndarray, "n p"]:
    """φ(x): a constant, the coordinates, and all products of two, in units of the mean's widths."""
    z = (x - hyp.mean_location) / np.exp(hyp.mean_log_widths)
    i, j = np.triu_indices(z.shape[1])
    return np.column_stack([np.ones(len(z)), z, z[:, i] * z[:, j]])


def prior_sd(dimension: int) -> Float[ndarray, " p"]:
    """Of the coefficients."""
    products = dimension * (dimension + 1) // 2
    return np.repeat([CONSTANT_SD, LINEAR_SD, QUADRATIC_SD], [1, dimension, products])


def fit_drift(hyp: Hyperparameters, factors: Factors, seen: Regression) -> Drift:
    """What these evaluations leave open of the mean, whatever their values; memory does not grow with their number.

    Fᵀ (Q + S)⁻¹ F is r(X)ᵀ S⁻¹ r(X) + W_Fᵀ K_ZZ W_F: a sum of squares, in which rounding errors of W_F show as what the
    kernel leaves of φ. As a difference, of huge numbers, it would be lost to them.
    """
    sd = prior_sd(seen.points.shape[1])
    projection = np.zeros((len(factors.inducing), len(sd)))
    for block, phi, noise in _observed(hyp, factors, seen):
        projection += linalg.product(block / noise, phi)
    half = linalg.solve_lower(factors.chol_v, linalg.solve_lower(factors.chol_kernel, np.asfortranarray(projection)))
    lifted = linalg.solve_lower(factors.chol_v, half, transpose=True)
    weights = linalg.solve_lower(factors.chol_kernel, lifted, transpose=True)
    smooth = linalg.product(np.asfortranarray(factors.chol_kernel).T, weights) * sd
    precision = np.eye(len(sd)) + linalg.product(smooth.T, smooth)
    for block, phi, noise in _observed(hyp, factors, seen):
        left = (phi - linalg.product(block.T, weights)) * sd / np.sqrt(noise)[:, None]
        precision += linalg.product(left.T, left)
    values, vectors = np.linalg.eigh(precision)
    root = sd[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
    return Drift(np.ascontiguousarray(weights), np.ascontiguousarray(root))


def _observed(
    hyp: Hyperparameters, factors: Factors, seen: Regression
) -> Iterator[tuple[Float[ndarray, "m b"], Float[ndarray, "b p"], Float[ndarray, " b"]]]:
    """Values and then gradients in blocks: their covariance with the inducing values, φ for them, and their noise."""
    for rows in _chunks(len(seen.points)):
        x = seen.points[rows]
        yield kernel(factors.inducing, x, hyp), features(x, hyp), seen.noise_variance[rows]
    slopes = seen.slopes
    for rows in _chunks(0 if slopes is None else len(slopes.points)):
        assert slopes is not None
        x = slopes.points[rows]
        blocks = columns(hyp, factors.inducing, x, kernel(factors.inducing, x, hyp))
        for block, phi in zip(blocks, _derivatives(x, hyp), strict=True):
            yield block, phi, slopes.noise_variance[rows]


def _derivatives(x: Float[ndarray, "n d"], hyp: Hyperparameters) -> Iterator[Float[ndarray, "n p"]]:
    """ℓᵢ ∂φ/∂xᵢ for each axis i."""
    z = (x - hyp.mean_location) / np.exp(hyp.mean_log_widths)
    i, j = np.triu_indices(z.shape[1])
    for axis, ratio in zip(np.eye(z.shape[1]), np.exp(hyp.log_scales - hyp.mean_log_widths), strict=True):
        linear = np.tile(axis, (len(z), 1))
        yield ratio * np.column_stack([np.zeros(len(z)), linear, axis[i] * z[:, j] + z[:, i] * axis[j]])


def _open_part(
    weights: Float[ndarray, "m p"], hyp: Hyperparameters, factors: Factors, x: Float[ndarray, "n d"]
) -> Float[ndarray, "n p"]:
    """r(x), one row for each point."""
    return features(x, hyp) - linalg.product(kernel(x, factors.inducing, hyp), weights)


def _chunks(n: int) -> Iterator[slice]:
    for start in range(0, n, CHUNK):
        yield slice(start, start + CHUNK)


def spread(drift: Drift, hyp: Hyperparameters, factors: Factors, x: Float[ndarray, "n d"]) -> Float[ndarray, "p n"]:
    """rootᵀ r(x): products of its columns are the covariance that the open mean adds."""
    out = np.empty((drift.root.shape[1], len(x)))
    for rows in _chunks(len(x)):
        out[:, rows] = linalg.product(drift.root.T, _open_part(drift.weights, hyp, factors, x[rows]).T)
    return out
