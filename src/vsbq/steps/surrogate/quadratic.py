"""A full quadratic through the better evaluations: where the surrogate's mean and coordinates start to learn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from vsbq._typing import Float, ndarray
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS
from vsbq.numerics.subset import better_rows

#: A direction in which the evaluations do not fall off is taken for one in which they fall off slowly.
LEAST_CURVATURE = 1e-3

#: Nothing is narrower in one direction than in another by more than this.
LEAST_RATIO = 1e-5

#: What is tried of the misfit of a quadratic, as a share of the depth below the top, and of the prior sd of curvatures
#: in units of their first guess. The evidence of the regression decides.
MISFITS = 10.0 ** np.arange(-5.0, 0.6, 0.5)
FREEDOMS = 10.0 ** np.arange(-1.0, 3.0)


class Quadratic(NamedTuple):
    """top − ½ (x − location)ᵀ curvature (x − location), with a positive definite curvature, and the root mean square
    by which it misses the evaluations, in units of `1 + 10 depth`."""

    top: float
    location: Float[ndarray, " d"]
    curvature: Float[ndarray, "d d"]
    misfit: float

    def values(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """The quadratic at points."""
        x = points - self.location
        return self.top - 0.5 * np.einsum("ni,ij,nj->n", x, self.curvature, x)

    @property
    def whitening(self) -> Float[ndarray, "d d"]:
        """Coordinates in which it falls off alike in all directions, turned as little as possible."""
        return _root(self.curvature)

    def turned(self, by: Float[ndarray, "d d"]) -> Quadratic:
        """The same density in coordinates that are multiplied by a matrix."""
        back = np.linalg.inv(by)
        top = self.top - float(np.linalg.slogdet(by)[1])
        return Quadratic(top, by @ self.location, back.T @ self.curvature @ back, self.misfit)

    def triangular(self) -> tuple[Float[ndarray, "d d"], Float[ndarray, " d"]]:
        """B, unit lower triangular, and widths ω with a curvature of BᵀΩ⁻²B."""
        # By the root, whose condition is the root of the curvature's.
        lower = qr(self.whitening[:, ::-1], mode="r", check_finite=False)[0][::-1, ::-1]
        inverse_widths = np.diagonal(lower)
        return lower / inverse_widths[:, None], 1.0 / np.abs(inverse_widths)


def fit_quadratic(
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    noise: Float[ndarray, " n"],
    level: Float[ndarray, " n"],
    rng: np.random.Generator,
) -> Quadratic:
    """Bayesian regression of the better evaluations on all products of two coordinates.

    The covariance of the better points, thinned, gives a first guess, which is a unit curvature in its own
    coordinates. How far the regression may leave it, and how far a quadratic may miss the evaluations, is what makes
    these most probable: an exactly quadratic log density is found exactly, from few evaluations.
    """
    d = points.shape[1]
    near = better_rows(points, level, POSTERIOR, rng)
    first = _root(np.linalg.inv(_covariance(points[near])))
    middle = points[near].mean(axis=0)
    rows = better_rows(points, level, SURROUNDINGS, rng, count=5 * d * d)
    x, depth = (points[rows] - middle) @ first.T, np.maximum(level.max() - level[rows], 0.0)
    i, j = np.triu_indices(d)
    design = np.column_stack([np.ones(len(x)), x, np.where(i == j, 0.5, 1.0) * x[:, i] * x[:, j]])
    expected = np.concatenate([np.zeros(d + 1), np.where(i == j, -1.0, 0.0)])
    misfit, solution = _most_probable(design, values[rows], noise[rows], 0.1 + depth, expected)
    curvature = np.empty((d, d))
    curvature[i, j] = curvature[j, i] = -solution[d + 1 :]
    eigenvalues, vectors = np.linalg.eigh(curvature)
    eigenvalues = np.maximum(eigenvalues, LEAST_CURVATURE)
    shift = vectors @ ((vectors.T @ solution[1 : d + 1]) / eigenvalues)
    low, high = x.min(axis=0), x.max(axis=0)
    shift = np.clip(shift, low - (high - low), high + (high - low))
    curvature = (vectors * eigenvalues) @ vectors.T
    falling = np.einsum("ni,ij,nj->n", x - shift, curvature, x - shift)
    weight = 1.0 / (noise[rows] + (misfit * (0.1 + depth)) ** 2)
    top = float(np.average(values[rows] + 0.5 * falling, weights=weight))
    location = middle + np.linalg.solve(first, shift)
    return Quadratic(top, location, first.T @ curvature @ first, misfit)


def _most_probable(
    design: Float[ndarray, "n p"],
    values: Float[ndarray, " n"],
    noise: Float[ndarray, " n"],
    unit: Float[ndarray, " n"],
    expected: Float[ndarray, " p"],
) -> tuple[float, Float[ndarray, " p"]]:
    """The misfit and the coefficients that make the evaluations most probable."""
    linear = int(np.argmax(expected != 0)) if expected.any() else 0
    best = (-np.inf, 1.0, expected)
    offset = float(values.max())
    rest = values - offset - design @ expected
    for misfit in MISFITS:
        weight = 1.0 / np.sqrt(noise + (misfit * unit) ** 2)
        weighted = np.column_stack([design, rest]) * weight[:, None]
        for freedom in FREEDOMS:
            prior = np.full(len(expected), 1.0 / freedom)
            prior[:linear] = 1e-6
            stacked = np.concatenate([weighted, np.column_stack([np.diag(prior), np.zeros(len(prior))])])
            r = qr(stacked, mode="r", check_finite=False)[0]
            p = len(prior)
            diagonal = np.abs(np.diagonal(r)[:p])
            evidence = np.log(weight).sum() + np.log(prior).sum() - np.log(diagonal).sum() - 0.5 * r[p, p] ** 2
            if evidence > best[0]:
                solution = np.linalg.lstsq(r[:p, :p], r[:p, p], rcond=None)[0]
                solution[0] += offset
                best = (float(evidence), float(misfit), expected + solution)
    return best[1], best[2]


def _covariance(points: Float[ndarray, "n d"]) -> Float[ndarray, "d d"]:
    """The covariance of some points, where need be with a little width in directions that they do not have."""
    cov = np.atleast_2d(np.cov(points.T))
    return cov + (LEAST_RATIO**2 * float(np.trace(cov)) + 1e-300) * np.eye(len(cov))


def _root(matrix: Float[ndarray, "d d"]) -> Float[ndarray, "d d"]:
    """The symmetric root of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, LEAST_RATIO**2 * values[-1]))) @ vectors.T)
