"""Finite differences: a place and one tiny step from it along each parameter are one evaluation and a gradient.

`scipy.optimize.minimize` without `jac`, and least squares, evaluate the log density D times more at each place, one
millionth of a unit away. As evaluations these are copies of one; their differences are the gradient there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace, infer_space

#: Steps are at most this share of the range of the evaluations. An error of half a step times the curvature is then
#: small beside the noise that the surrogate allows for.
STEP = 1e-5

#: Gradients are believed if differences between neighbouring places contradict them by no more than this, in nats for
#: half the width of the high-density box: by as much as the surrogate smooths values at the top.
TOLERABLE = 0.03

#: Share of the neighbours, those that agree best, by which gradients are judged. The others are too far apart.
JUDGES = 0.25


class Differences(NamedTuple):
    """The places, and the gradient of each in plain inference coordinates; NaN where there is none."""

    evaluations: Evaluations
    gradients: Float[ndarray, "n d"]
    steps: int  # evaluations that were steps


class _Pairs(NamedTuple):
    """Rows that differ in one parameter alone, by next to nothing; the parameter, and the slope between them."""

    first: Int[ndarray, " p"]
    second: Int[ndarray, " p"]
    axis: Int[ndarray, " p"]
    slope: Float[ndarray, " p"]


def find_gradients(evaluations: Evaluations) -> Differences | None:
    """Places with steps along every parameter, and their gradients; None if there are none, or none to be believed.

    Noise of any size drowns the differences: by gradients that contradict the values of neighbouring places it is told.
    """
    noisy = evaluations.log_density_sd is not None and (evaluations.log_density_sd > 0).any()
    if noisy or evaluations.dimension == 1:  # in one dimension, any two neighbours would be a place and a step
        return None
    unique = np.sort(np.unique(evaluations.points, axis=0, return_index=True)[1])
    if _contradictory(evaluations, unique):
        return None
    once = evaluations.take(unique)
    pairs = _steps(once.points, once.log_density)
    gradients = _gradients(pairs, once.points.shape)
    complete = np.isfinite(gradients).all(axis=1)
    if not complete.any():
        return None
    kept = ~_beside(pairs, complete)
    found = once.take(kept)
    space = infer_space(found)
    gradients = _in_inference_space(space, found.points, np.where(complete[:, None], gradients, np.nan)[kept])
    if not _believable(space, found, gradients):
        return None
    return Differences(found, gradients, int((~kept).sum()))


def _contradictory(evaluations: Evaluations, unique: Int[ndarray, " k"]) -> bool:
    """Whether a point was evaluated twice, with other results."""
    if len(unique) == len(evaluations):
        return False
    order = np.lexsort(evaluations.points.T)
    same = (np.diff(evaluations.points[order], axis=0) == 0).all(axis=1)
    values = evaluations.log_density[order]
    return bool((values[1:] != values[:-1])[same].any())


def _steps(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> _Pairs:
    """Neighbours along each axis that share all other coordinates."""
    reach, finite, found = STEP * np.ptp(points, axis=0), np.isfinite(values), []
    for axis in range(points.shape[1]):
        others = np.delete(points, axis, axis=1)
        order = np.lexsort((points[:, axis], *others.T))
        a, b = order[:-1], order[1:]
        step = points[b, axis] - points[a, axis]
        near = (others[a] == others[b]).all(axis=1) & (step > 0) & (step <= reach[axis]) & finite[a] & finite[b]
        a, b, step = a[near], b[near], step[near]
        found.append(_Pairs(a, b, np.full(len(a), axis), (values[b] - values[a]) / step))
    return _Pairs(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _gradients(pairs: _Pairs, shape: tuple[int, ...]) -> Float[ndarray, "n d"]:
    """The average of the slopes on both sides of each point, along each axis; NaN where there is no neighbour."""
    total, count = np.zeros(shape), np.zeros(shape)
    for rows in (pairs.first, pairs.second):
        np.add.at(total, (rows, pairs.axis), pairs.slope)
        np.add.at(count, (rows, pairs.axis), 1.0)
    return np.where(count > 0, total / np.maximum(count, 1.0), np.nan)


def _beside(pairs: _Pairs, complete: Bool[ndarray, " n"]) -> Bool[ndarray, " n"]:
    """Which points are steps from a place that has all of them."""
    steps = np.zeros(len(complete), dtype=bool)
    for place, other in ((pairs.first, pairs.second), (pairs.second, pairs.first)):
        steps[other[complete[place]]] = True
    return steps & ~complete


def _in_inference_space(
    space: InferenceSpace, points: Float[ndarray, "n d"], gradients: Float[ndarray, "n d"]
) -> Float[ndarray, "n d"]:
    """The gradients of the log density of inference space; points that had to be moved off a bound have none."""
    found = space.gradient(space.forward(points), gradients)
    found[space.at_edge(points)] = np.nan
    return found


def _believable(space: InferenceSpace, found: Evaluations, gradients: Float[ndarray, "n d"]) -> bool:
    """Whether differences between neighbouring places are what the average of their gradients says."""
    rows = np.flatnonzero(np.isfinite(gradients).all(axis=1))
    if len(rows) < 2:
        return False
    u, slope = space.forward(found.points[rows]), gradients[rows]
    values = found.log_density[rows] + space.log_jacobian(u)
    found_by_tree = cKDTree(u).query(u, k=2)
    distance, other = np.asarray(found_by_tree[0])[:, 1], np.asarray(found_by_tree[1])[:, 1]
    expected = np.einsum("nd,nd->n", slope + slope[other], u[other] - u) / 2
    wrong = np.abs(values[other] - values - expected) / distance
    return bool(np.quantile(wrong, JUDGES) <= TOLERABLE)
