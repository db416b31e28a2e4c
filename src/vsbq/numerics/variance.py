"""The posterior variance of a sparse GP where it is asked for at many points: one triangular product instead of two.

With P = I − V⁻¹ (positive semidefinite) the variance of Eq. 19 is σ_f² − κᵀ L⁻ᵀ P L⁻¹ κ, and the part of it that is the
evaluations' own noise is κᵀ L⁻ᵀ P V⁻¹ L⁻¹ κ. For a lower triangular T with Tᵀ T = P, C = T L⁻¹ is lower triangular as
well, and the first is σ_f² − |C κ|².
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics import linalg
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.sgpr import CHUNK, Factors, Variance, predict_variances

#: What is added to the diagonal of P, whose eigenvalues are from 0 to 1: a hundred rounding errors. The variance
#: changes by no more than this share of σ_f².
SLIGHT = 1e-14


class Roots(NamedTuple):
    """Lower triangular C: |C κ|² is what the evaluations take off the variance, or the noise that they add to it."""

    explained: Float[ndarray, "m m"]
    noise: Float[ndarray, "m m"]


def variance_roots(factors: Factors) -> Roots | None:
    """Both roots; None where rounding errors leave the matrices without any, so that two products are needed."""
    whiten, inverse = linalg.inverse_lower(factors.chol_kernel), linalg.inverse_from_cholesky(factors.chol_v)
    explained = np.eye(len(inverse)) - inverse
    noise = linalg.product(explained, inverse)
    try:
        found = [linalg.times_lower(_root(a), whiten) for a in (explained, 0.5 * (noise + noise.T))]
    except NotPositiveDefinite:
        return None
    return Roots(*found)


def _root(a: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """Lower triangular T with Tᵀ T = a."""
    flipped = np.array(a[::-1, ::-1], order="F")
    np.einsum("ii->i", flipped)[:] += SLIGHT
    return np.asfortranarray(linalg.cholesky(flipped)[::-1, ::-1].T)


def variances(
    hyp: Hyperparameters, factors: Factors, roots: Roots | None, x: Float[ndarray, "n d"], *, noise: bool
) -> Variance:
    """What `sgpr.predict_variances` gives; zero noise if it is not asked for."""
    if roots is None:
        return predict_variances(hyp, factors, x, noise=noise)
    total, by_noise = np.empty(len(x)), np.zeros(len(x))
    for start in range(0, len(x), CHUNK):
        rows = slice(start, start + CHUNK)
        block = kernel(factors.inducing, x[rows], hyp)
        by_noise[rows] = _squares(linalg.times_lower(roots.noise, block)) if noise else 0.0
        linalg.times_lower_in_place(roots.explained, block)
        total[rows] = hyp.output_variance - _squares(block)
    total = np.maximum(total, 0.0)
    return Variance(total, np.clip(by_noise, 0.0, total))


def _squares(block: Float[ndarray, "m n"]) -> Float[ndarray, " n"]:
    return np.einsum("mn,mn->n", block, block)
