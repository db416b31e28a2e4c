"""Where the density is not zero: learnt from evaluations of −inf, or told by the user.

An evaluation of −inf is no low value. It says on which side of an edge a point lies, and nothing else: the surrogate is
fitted to the finite values alone, and the edge is learnt as a classification of the evaluations by planes and quadrics,
as many as the evaluations ask for; see `edges`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import log_expit, logsumexp

from vsbq._typing import Bool, Float, ndarray
from vsbq.data.transform import InferenceSpace
from vsbq.errors import EvaluationsError
from vsbq.numerics.contours import NEGLIGIBLE, POSTERIOR, contour_depth
from vsbq.numerics.subset import spread_rows
from vsbq.progress import logger
from vsbq.steps.edges import DRAWS, features, find_surfaces
from vsbq.steps.model import LogDensityModel
from vsbq.steps.trim import TrainingSet

__all__ = ["Support", "beyond_cliffs", "find_support", "learn_support"]

#: Log of the least probability to be inside.
OUTSIDE = -700.0

#: Points that are looked at together.
CHUNK = 10_000

HOW_TO_TELL = "It takes points (n, D) and returns n booleans, true where the density is not zero."

#: How many times as far out as evaluations that are not negligible anything bears on the edge near the posterior.
REACH = 5.0

#: Evaluations of either class that the edge is learnt from.
MOST_OF_A_CLASS = 500

#: Share of the contradicted evaluations that have to be on the outer side of a surface for a cliff, and how many of the
#: hopeless ones are looked at.
SEPARABLE = 0.8
MOST_LOW = 20_000


#: Tells which points of the user's space, (n, D), have a density that is not zero.
InSupport = Callable[[Float[ndarray, "n d"]], Bool[ndarray, " n"]]


@dataclass(frozen=True, eq=False)
class Support:
    """The probability that a point of plain inference coordinates has density: by learnt surfaces of the whitened
    coordinates (u − centre) root, each with draws of its coefficients, and by the user's own word."""

    centre: Float[ndarray, " d"]
    root: Float[ndarray, "d d"]
    surfaces: tuple[Float[ndarray, "f k"], ...] = ()
    told: Told | None = None

    def log_probabilities(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n k"]:
        """Log of the probability to be inside, for each draw of the edge."""
        out = np.zeros((len(u), DRAWS))
        if self.surfaces:
            phi = features((u - self.centre) @ self.root)
            out = np.sum([log_expit(phi @ surface) for surface in self.surfaces], axis=0)
        if self.told is not None:
            out[~self.told.inside(u)] = OUTSIDE
        return np.maximum(out, OUTSIDE)

    def log_probability(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Log of the probability to be inside, averaged over the draws of the edge."""
        out = np.zeros(len(u))
        for start in range(0, len(u), CHUNK):
            rows = slice(start, start + CHUNK)
            out[rows] = logsumexp(self.log_probabilities(u[rows]), axis=1) - np.log(DRAWS)
        return out

    def inside(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points rather have density than not."""
        return self.log_probability(u) > np.log(0.5)


class Told(NamedTuple):
    """The user's own word on where the density is not zero."""

    in_support: InSupport
    space: InferenceSpace

    def inside(self, u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points of plain inference coordinates have density."""
        return asked(self.in_support, self.space.inverse(u))


def asked(in_support: InSupport, points: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
    """The user's answer for points of the user's space; raises `EvaluationsError` if it makes no sense."""
    try:
        answer = np.asarray(in_support(points))
    except Exception as error:
        raise EvaluationsError(f"support= raised {type(error).__name__}: {error}. {HOW_TO_TELL}") from error
    if answer.shape != (len(points),) or not (answer.dtype == bool or np.isin(answer, (0, 1)).all()):
        raise EvaluationsError(
            f"support= gave an array of shape {answer.shape} and type {answer.dtype} for {len(points)} points. "
            f"{HOW_TO_TELL}"
        )
    return answer.astype(bool)


def find_support(training: TrainingSet, in_support: InSupport | None, rng: np.random.Generator) -> Support | None:
    """The support of a training set in plain coordinates: what the user tells, and what evaluations of zero density
    show beyond that; None where neither says anything."""
    d, zeros, told = training.dimension, training.zeros, None
    if in_support is not None:
        assert isinstance(training.space, InferenceSpace)
        told = Told(in_support, training.space)
        outside = ~told.inside(training.points)
        if outside.any():
            some = training.space.inverse(training.points[outside][:3])
            raise EvaluationsError(
                f"support= says that {int(outside.sum())} evaluations with a finite log density have none, for example "
                f"{', '.join(map(str, some.tolist()))}. It has to be true wherever the log density is finite."
            )
        zeros = zeros[told.inside(zeros)] if len(zeros) else zeros
    found = learn_support(training.points, training.values, zeros, rng) if len(zeros) else None
    if found is None and told is None:
        return None
    return replace(found or Support(np.zeros(d), np.eye(d)), told=told)


def beyond_cliffs(
    surrogate: LogDensityModel, training: TrainingSet, support: Support | None, rng: np.random.Generator
) -> tuple[TrainingSet, Support] | None:
    """Evaluations beyond a cliff of finite height as evaluations of zero density, with the support that they show; None
    if there is no cliff.

    A smooth surrogate sees the posterior go on beyond a cliff and contradicts what was evaluated there: values that are
    surely negligible. If a surface separates these from the high ones, they say where the density ends and nothing
    else. The training set is in plain coordinates.
    """
    d, top = training.dimension, float(training.level.max())
    shift = float(surrogate.space.log_jacobian(np.zeros((1, d)))[0] - training.space.log_jacobian(np.zeros((1, d)))[0])

    def claimed(points: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Where the surrogate sees the posterior."""
        seen = surrogate.mean(surrogate.space.from_plain(points)) - shift > top - contour_depth(POSTERIOR, d)
        return seen if support is None else seen & support.inside(points)

    low = training.values + 3 * training.noise_sd <= top - contour_depth(NEGLIGIBLE, d)
    wrong, wrong_low = np.zeros(len(training), dtype=bool), np.zeros(len(training.low), dtype=bool)
    wrong[low] = claimed(training.points[low])
    some = rng.permutation(len(training.low))[:MOST_LOW]
    wrong_low[some] = claimed(training.low[some])
    contradicted = np.concatenate([training.points[wrong], training.low[wrong_low]])
    if len(contradicted) <= d:
        return None
    high = ~low
    places = np.concatenate([contradicted, training.zeros])
    found = learn_support(training.points[high], training.values[high], places, rng)
    if found is None or np.mean(~found.inside(contradicted)) < SEPARABLE:
        return None
    # What lies on the outer side and is negligible is not for the surrogate to explain, contradicted or not.
    out, out_low = low.copy(), np.zeros(len(training.low), dtype=bool)
    out[low] = ~found.inside(training.points[low])
    out_low[wrong_low] = True
    logger.info(
        "a cliff: %d evaluations beyond it are negligible, %d of them contradicted", out.sum(), len(contradicted)
    )
    told = None if support is None else support.told
    return training.without(out, out_low), replace(found, told=told)


def learn_support(
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    zeros: Float[ndarray, "z d"],
    rng: np.random.Generator,
) -> Support | None:
    """The edge between evaluations that are not negligible and those of zero density; None where too few of either are
    near to tell."""
    d = points.shape[1]
    if len(points) <= d:
        return None
    depth = values.max() - values
    near = points[depth <= max(contour_depth(POSTERIOR, d), np.sort(depth)[min(len(depth) - 1, 2 * d + 1)])]
    near = near[spread_rows(near, 100 + 20 * d, rng)]
    centre, root = near.mean(axis=0), _whitening(near)
    high = points[depth <= contour_depth(NEGLIGIBLE, d)]
    inside, outside = ((part - centre) @ root for part in (high, zeros))
    # Not so many standard deviations: evaluations that crowd at a mode are narrower than the posterior.
    reach = REACH * np.sqrt((inside**2).sum(axis=1).max())
    outside = outside[(outside**2).sum(axis=1) <= reach**2]
    inside, outside = _facing(inside, outside, rng), _facing(outside, inside, rng)
    limits = _sides(points, zeros, centre, root)
    if limits:
        return Support(centre, root, limits)
    if len(outside) <= d:
        return None
    surfaces, left = find_surfaces(inside, outside, rng)
    logger.info(
        "support: %d surfaces, %d of %d evaluations of zero density are within", len(surfaces), left, len(outside)
    )
    return Support(centre, root, tuple(surfaces)) if surfaces else None


def _sides(
    points: Float[ndarray, "n d"],
    zeros: Float[ndarray, "z d"],
    centre: Float[ndarray, " d"],
    root: Float[ndarray, "d d"],
) -> tuple[Float[ndarray, "f k"], ...]:
    """Limits of single parameters, if they explain every evaluation of zero density; otherwise none.

    A limit is anywhere between the outermost evaluation with density and the first one without.
    """
    d = points.shape[1]
    back = np.linalg.inv(root)
    ends = [(axis, sign, float((sign * points[:, axis]).max())) for axis in range(d) for sign in (1.0, -1.0)]
    beyond = np.array([sign * zeros[:, axis] > end for axis, sign, end in ends])
    count = beyond.sum(axis=0)
    if not (count > 0).all():
        return ()
    surfaces = []
    for (axis, sign, end), out in zip(ends, beyond, strict=True):
        alone = zeros[out & (count == 1)]
        if len(alone):
            first = float((sign * alone[:, axis]).min())
            limits = end + (first - end) * (np.arange(DRAWS) + 0.5) / DRAWS
            steep = 1e6 / max(first - end, 1e-12)
            linear = np.repeat(-sign * steep * back[:, axis : axis + 1], DRAWS, axis=1)
            constant = steep * (limits - sign * centre[axis])
            surfaces.append(np.concatenate([constant[None], linear, np.zeros((d * (d + 1) // 2, DRAWS))]))
    return tuple(surfaces)


def _whitening(points: Float[ndarray, "n d"]) -> Float[ndarray, "d d"]:
    cov = np.atleast_2d(np.cov(points.T))
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values, 1e-12 * max(values[-1], 1e-300))
    return (vectors / np.sqrt(values)) @ vectors.T


def _facing(
    points: Float[ndarray, "n d"], others: Float[ndarray, "m d"], rng: np.random.Generator
) -> Float[ndarray, "k d"]:
    """At most so many of the points: half of them those nearest to the others, half spread out."""
    if len(points) <= MOST_OF_A_CLASS or not len(others):
        return points[:MOST_OF_A_CLASS]
    nearest = np.argsort(cKDTree(others).query(points)[0], kind="stable")[: MOST_OF_A_CLASS // 2]
    rest = np.setdiff1d(np.arange(len(points)), nearest)
    return points[np.append(nearest, rest[spread_rows(points[rest], MOST_OF_A_CLASS // 2, rng)])]
