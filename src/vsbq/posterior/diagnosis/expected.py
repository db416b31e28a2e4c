"""How wrong a posterior may be, as far as its surrogate can tell.

Its evidence, marginals and moments are averages over draws. What is open of the log density moves them, to first order,
by its covariance with what is averaged: the surrogate's own covariance with what its sisters differ by, its trend, and
what it continues beyond the outermost evaluations. What single blocks of evaluations decide is another matter: without
a block a mode may be missing that nobody doubts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.linalg import product
from vsbq.posterior.diagnosis.distance import CELLS
from vsbq.posterior.diagnosis.measures import MOST_CHANGE, View
from vsbq.steps.model import LogDensityModel

__all__ = ["USABLE", "Expected", "expected_error"]

#: Draws in each of two sets. Pairs of different sets alone count: what is open at single points has no volume.
POINTS = 250


class Expected(NamedTuple):
    """Errors of the log evidence, of the marginals (mean total variation) and of the moments (symmetrised divergence of
    the normals that have them, divided by twice the number of parameters)."""

    evidence: float
    marginals: float
    moments: float

    @property
    def worst(self) -> float:
        """The largest, as a multiple of what makes a posterior unusable; that of the moments goes with a square."""
        moments = float(np.sqrt(self.moments / USABLE.moments))
        return max(self.evidence / USABLE.evidence, self.marginals / USABLE.marginals, moments)


#: A posterior with smaller errors than these can be used; the thresholds are those of the paper.
USABLE = Expected(1.0, 0.2, 0.125)


def expected_error(view: View) -> Expected:
    """Standard deviation of the log evidence, and expectations of the other two."""
    rows = np.random.default_rng(0).permutation(len(view.draws))
    a, b = rows[:POINTS], rows[POINTS : 2 * POINTS]
    covariance = open_covariance(view.model, view.draws[a], view.draws[b])
    unit = _whitened(view.plain)
    d = unit.shape[1]

    cells = np.concatenate([_cells(column) for column in view.plain.T], axis=1)
    squares = (unit[:, :, None] * unit[:, None, :]).reshape(len(unit), d * d)
    features = np.concatenate([cells, unit, squares], axis=1)
    features -= features.mean(axis=0)
    # The variances of the changes of their averages.
    variances = np.einsum("nf,nf->f", features[a], product(covariance, features[b])) / (len(a) * len(b))
    by_cell, means, spreads = np.split(variances, [cells.shape[1], cells.shape[1] + d])
    # Half the sum over the cells of expected absolute changes, with the same variance in each.
    of_each = np.maximum(by_cell.reshape(d, CELLS).mean(axis=1), 0.0)
    moved = 0.5 * CELLS * np.sqrt(2 / np.pi * of_each)
    moments = (2 * float(means.sum()) + float(spreads.sum())) / (4 * d)
    return Expected(float(np.sqrt(max(covariance.mean(), 0.0))), float(np.mean(moved)), max(moments, 0.0))


def open_covariance(
    model: LogDensityModel, a: Float[ndarray, "n d"], b: Float[ndarray, "m d"]
) -> Float[ndarray, "n m"]:
    """Covariance of the log density between two sets of points, with everything that is open of it."""
    beyond = [np.minimum(model.doubt_beyond(u), MOST_CHANGE) for u in (a, b)]
    return np.asarray(model.covariance(a, b) + model.trends(a).T @ model.trends(b) + np.outer(*beyond))


def _cells(column: Float[ndarray, " n"]) -> Float[ndarray, "n c"]:
    """For each draw the cell of equal mass that it is in, as a column of zeros and ones for each."""
    place = np.empty(len(column), dtype=np.int64)
    place[np.argsort(column, kind="stable")] = np.arange(len(column)) * CELLS // len(column)
    return np.asarray(np.eye(CELLS)[place])


def _whitened(points: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
    """Moved and turned to mean zero and covariance one; directions that do not vary are zero."""
    centred = points - points.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(points))
    varying = values > np.finfo(float).eps * max(float(values.max()), 0.0)
    scale = np.where(varying, 1.0 / np.sqrt(np.where(varying, values, 1.0)), 0.0)
    return np.asarray(centred @ vectors * scale)
