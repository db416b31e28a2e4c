"""What evaluations leave open of the mean: universal kriging with all quadratics, linear in their coefficients.

The mean of the surrogate is learnt, and its parameters (top, location, widths, coordinates) are known as far as the
evaluations determine them. To first order they span all quadratics, φ(x) = (1, z, z zᵀ) with z = (x − μ)/ω. With
F = φ(X), S and Q as in `sgpr`, and Λ the precision of a vague prior, the coefficients have the precision
G = Fᵀ (Q + S)⁻¹ F + Λ, and the log density at x the additional variance r(x)ᵀ G⁻¹ r(x) with r(x) = φ(x) − W_Fᵀ κ(Z, x),
W_F the weights that the sparse GP would have if F were the values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics import linalg
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
    hyp: Hyperparameters, factors: Factors, points: Float[ndarray, "n d"], noise_variance: Float[ndarray, " n"]
) -> Drift:
    """What evaluations at these points, with this noise, leave open of the mean; memory does not grow with n."""
    sd = prior_sd(points.shape[1])
    gram, projection = np.zeros((len(sd), len(sd))), np.zeros((len(factors.inducing), len(sd)))
    for start in range(0, len(points), CHUNK):
        rows = slice(start, start + CHUNK)
        noise_sd = np.sqrt(noise_variance[rows])
        scaled = features(points[rows], hyp) * sd / noise_sd[:, None]
        block = kernel(factors.inducing, points[rows], hyp) / noise_sd
        gram += linalg.product(scaled.T, scaled)
        projection += linalg.product(block, scaled)
    half = linalg.solve_lower(factors.chol_kernel, np.asfortranarray(projection))
    half = linalg.solve_lower(factors.chol_v, half)
    # In units of the prior no direction is known less precisely than by it; rounding may say otherwise.
    values, vectors = np.linalg.eigh(gram - linalg.product(half.T, half) + np.eye(len(sd)))
    root = sd[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
    lifted = linalg.solve_lower(factors.chol_v, half, transpose=True)
    weights = linalg.solve_lower(factors.chol_kernel, lifted, transpose=True) / sd
    return Drift(np.ascontiguousarray(weights), np.ascontiguousarray(root))


def spread(drift: Drift, hyp: Hyperparameters, factors: Factors, x: Float[ndarray, "n d"]) -> Float[ndarray, "p n"]:
    """rootᵀ r(x): products of its columns are the covariance that the open mean adds."""
    out = np.empty((drift.root.shape[1], len(x)))
    for start in range(0, len(x), CHUNK):
        rows = slice(start, start + CHUNK)
        open_part = features(x[rows], hyp) - linalg.product(kernel(x[rows], factors.inducing, hyp), drift.weights)
        out[:, rows] = linalg.product(drift.root.T, open_part.T)
    return out
