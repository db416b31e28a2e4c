"""Weighted expectation maximisation: a mixture of Gaussians towards importance-weighted draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.families import FullCovariance
from vsbq.numerics.mixture import BLOCK, Mixture, coefficients, features

Roots = Callable[[ndarray, ndarray], ndarray]


def truncated_weights(log_weights: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Importance weights that sum to one, none above √n times their mean (Ionides 2008)."""
    weights = np.exp(log_weights - log_weights.max())
    weights = np.minimum(weights, weights.mean() * np.sqrt(len(weights)))
    return np.asarray(weights / weights.sum())


def effective_size(weights: Float[ndarray, " n"]) -> float:
    """Number of equally weighted draws that are worth as much as these."""
    return float(weights.sum() ** 2 / (weights**2).sum())


def weighted_em(
    mixture: Mixture,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    iterations: int,
    caution: float,
    roots: Roots = FullCovariance.roots,
) -> Mixture:
    """EM steps on weighted points; each scatter is averaged with that of the start, which counts `caution` points.

    `roots` turns scatter matrices into the Cholesky factors that a family allows.

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
        form = coefficients(mixture, centre).linear_form
        moments = np.zeros(form.shape)
        for start in range(0, len(points), BLOCK):
            logs = form @ phi[:, start : start + BLOCK]
            logs -= logs.max(axis=0)
            share = np.exp(logs.astype(np.float32))  # single precision is plenty for responsibilities
            moments += (share / share.sum(axis=0)) @ weighted[:, start : start + BLOCK].T
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
        mixture = Mixture(np.log(mass / mass.sum()), means + centre, roots(mass, cov))
    return mixture
