"""Weighted expectation maximisation: a mixture of Gaussians towards importance-weighted draws."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.mixture import Mixture, coefficients, features, log_sum_exp_in_place


def truncated_weights(log_weights: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Importance weights that sum to one, none above √n times their mean (Ionides 2008)."""
    weights = np.exp(log_weights - log_weights.max())
    weights = np.minimum(weights, weights.mean() * np.sqrt(len(weights)))
    return np.asarray(weights / weights.sum())


def effective_size(weights: Float[ndarray, " n"]) -> float:
    """Number of equally weighted draws that are worth as much as these."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def weighted_em(
    mixture: Mixture, points: Float[ndarray, "n d"], weights: Float[ndarray, " n"], iterations: int, caution: float
) -> Mixture:
    """EM steps on weighted points; each covariance is averaged with that of the start, which counts `caution` points.

    Components that less than D + 1 effective points speak for are dropped.
    """
    d = points.shape[1]
    effective = effective_size(weights)
    centre = weights @ points
    phi = features(np.ascontiguousarray((points - centre).T))
    weighted = phi * weights
    i, j = np.triu_indices(d)
    before = np.matmul(mixture.trils, np.swapaxes(mixture.trils, 1, 2))
    for _ in range(iterations):
        share = coefficients(mixture, centre).linear_form @ phi
        log_sum_exp_in_place(share)
        moments = share @ weighted.T
        mass = moments[:, -1]
        keep = mass >= min((d + 1) / effective, mass.max())
        moments, before, mass = moments[keep], before[keep], mass[keep]
        moments = moments / mass[:, None]
        means = moments[:, len(i) : -1]
        cov = np.empty((len(mass), d, d))
        cov[:, i, j] = cov[:, j, i] = moments[:, : len(i)]
        cov -= means[:, :, None] * means[:, None, :]
        count = (mass * effective)[:, None, None]
        cov = (count * cov + caution * before) / (count + caution)
        mixture = Mixture(np.log(mass / mass.sum()), means + centre, np.linalg.cholesky(cov))
    return mixture
