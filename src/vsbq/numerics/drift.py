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
from vsbq.numerics.gradients import Slopes, columns
from vsbq.numerics.kernel import Hyperparameters, kernel
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


def fit_drift(
    hyp: Hyperparameters,
    factors: Factors,
    points: Float[ndarray, "n d"],
    noise_variance: Float[ndarray, " n"],
    gradients: Float[ndarray, "n d"] | None = None,
) -> Drift:
    """What evaluations at these points, with this noise, leave open of the mean; memory does not grow with n. Gradients
    count where they are known, whatever they are.

    Fᵀ (Q + S)⁻¹ F is r(X)ᵀ S⁻¹ r(X) + W_Fᵀ K_ZZ W_F: a sum of squares, in which rounding errors of W_F show as what the
    kernel leaves of φ. As a difference, of huge numbers, it would be lost to them.
    """
    sd = prior_sd(points.shape[1])
    slopes = None if gradients is None else Slopes.known(points, gradients, noise_variance)
    projection = np.zeros((len(factors.inducing), len(sd)))
    for rows in _chunks(len(points)):
        block = kernel(factors.inducing, points[rows], hyp) / noise_variance[rows]
        projection += linalg.product(block, features(points[rows], hyp))
    for block, phi, noise in _derivatives(hyp, factors, slopes):
        projection += linalg.product(block / noise, phi)
    half = linalg.solve_lower(factors.chol_v, linalg.solve_lower(factors.chol_kernel, np.asfortranarray(projection)))
    lifted = linalg.solve_lower(factors.chol_v, half, transpose=True)
    weights = linalg.solve_lower(factors.chol_kernel, lifted, transpose=True)
    smooth = linalg.product(np.asfortranarray(factors.chol_kernel).T, weights) * sd
    precision = np.eye(len(sd)) + linalg.product(smooth.T, smooth)
    for rows in _chunks(len(points)):
        left = _open_part(weights, hyp, factors, points[rows]) * sd / np.sqrt(noise_variance[rows])[:, None]
        precision += linalg.product(left.T, left)
    for block, phi, noise in _derivatives(hyp, factors, slopes):
        left = (phi - linalg.product(block.T, weights)) * sd / np.sqrt(noise)[:, None]
        precision += linalg.product(left.T, left)
    values, vectors = np.linalg.eigh(precision)
    root = sd[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
    return Drift(np.ascontiguousarray(weights), np.ascontiguousarray(root))


def _derivatives(
    hyp: Hyperparameters, factors: Factors, slopes: Slopes | None
) -> Iterator[tuple[Float[ndarray, "m b"], Float[ndarray, "b p"], Float[ndarray, " b"]]]:
    """Of derivatives in blocks: the covariance with the inducing values, ℓᵢ ∂φ/∂xᵢ, and the noise."""
    if slopes is None:
        return
    i, j = np.triu_indices(slopes.points.shape[1])
    ratios = np.exp(hyp.log_scales - hyp.mean_log_widths)
    for rows in _chunks(len(slopes.points)):
        x = slopes.points[rows]
        z = (x - hyp.mean_location) / np.exp(hyp.mean_log_widths)
        blocks = columns(hyp, factors.inducing, x, kernel(factors.inducing, x, hyp))
        for block, axis, ratio in zip(blocks, np.eye(z.shape[1]), ratios, strict=True):
            linear = np.tile(axis, (len(z), 1))
            phi = np.column_stack([np.zeros(len(z)), linear, axis[i] * z[:, j] + z[:, i] * axis[j]])
            yield block, ratio * phi, slopes.noise_variance[rows]


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
