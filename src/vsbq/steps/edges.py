"""Surfaces between points with density and points without: how many, of what form, and how sharp.

The density is where all surfaces have their inner side. Planes are dealt out first, each point without density to the
plane that keeps it out best; then each part chooses a form (a plane or a quadric) and a sharpness. All of this is
chosen by evidence, from which points that no surface keeps out take a fixed share: calls that failed for another
reason.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.numerics.logistic import Logistic

__all__ = ["DRAWS", "features", "find_surfaces"]

#: How sharp an edge may be: prior standard deviations of the coefficients of whitened coordinates and their products.
#: An optimiser whose mode is at an edge gets as close to it as it can.
SHARPNESS = (50.0, 1e3, 2e4, 4e5, 8e6)

#: Surfaces at the most, and draws of the coefficients of each.
MOST_SURFACES = 6
DRAWS = 64

#: Nats for a point without density that no surface keeps out: one in twenty.
STRAY = 3.0

#: Share of the points with density that may lie on an outer side.
MOST_WRONG = 0.05

#: Ways to deal out the points, and rounds of each.
STARTS = 8
ROUNDS = 15


class Points(NamedTuple):
    """Points with density and without, in whitened coordinates."""

    inside: Float[ndarray, "n d"]
    outside: Float[ndarray, "m d"]

    def features(self, degree: int) -> Points:
        """Both as features of a plane (1) or a quadric (2)."""
        return Points(features(self.inside, degree), features(self.outside, degree))


class Surface(NamedTuple):
    """A surface, what speaks for it, which points it keeps out, and which of those with density are on its inner
    side."""

    regression: Logistic
    evidence: float
    out: Bool[ndarray, " m"]
    kept: Bool[ndarray, " n"]


class Edge(NamedTuple):
    """Several surfaces, what speaks for them together, and which points none of them keeps out."""

    surfaces: tuple[Surface, ...]
    evidence: float
    left: Bool[ndarray, " m"]


def features(x: Float[ndarray, "n d"], degree: int = 2) -> Float[ndarray, "n f"]:
    """1, the coordinates, and half of their products."""
    i, j = np.triu_indices(x.shape[1] if degree > 1 else 0)
    return np.column_stack([np.ones(len(x)), x, 0.5 * x[:, i] * x[:, j]])


def find_surfaces(
    inside: Float[ndarray, "n d"], outside: Float[ndarray, "m d"], rng: np.random.Generator
) -> tuple[list[Float[ndarray, "f k"]], int]:
    """Draws of the coefficients of each surface, and how many points without density are left on the inner side."""
    points = Points(inside, outside)
    found = Edge((), -STRAY * len(outside), np.ones(len(outside), dtype=bool))
    in_vain = 0
    for count in range(1, MOST_SURFACES + 1):
        if count * inside.shape[1] >= len(outside) or in_vain == 2:
            break
        edge = _edge(points, _dealt(points, count, rng))
        # One plane of a corner says less than none.
        in_vain = 0 if edge.evidence > found.evidence or not found.surfaces else in_vain + 1
        found = max(found, edge, key=lambda edge: edge.evidence)
    size = features(inside[:1]).shape[1]
    draws = [surface.regression.draws(DRAWS, rng) for surface in found.surfaces]
    return [np.pad(b, ((0, size - len(b)), (0, 0))) for b in draws], int(found.left.sum())


def _dealt(points: Points, count: int, rng: np.random.Generator) -> Int[ndarray, " m"]:
    """Which of so many planes keeps each point out best, from several starts."""
    inner, outer = points.features(1)
    best, least = np.zeros(len(outer), dtype=np.int64), np.inf
    for _ in range(STARTS if count > 1 else 1):
        label = (outer @ _first_planes(inner, outer, count, rng)).argmin(axis=1)
        for _ in range(ROUNDS):
            planes = np.stack([_mode(inner, outer[label == k]) for k in range(count)], axis=1)
            margin = outer @ planes
            before, label = label, margin.argmin(axis=1)
            if (before == label).all():
                break
        loss = float(np.logaddexp(0.0, margin.min(axis=1)).sum() + np.logaddexp(0.0, -inner @ planes).sum())
        if loss < least:
            best, least = label, loss
    return best


def _first_planes(
    inner: Float[ndarray, "n f"], outer: Float[ndarray, "m f"], count: int, rng: np.random.Generator
) -> Float[ndarray, "f k"]:
    """Planes each of which keeps one point out that those before it do not; nothing is known of the others."""
    planes: list[Float[ndarray, " f"]] = []
    left = np.ones(len(outer), dtype=bool)
    while len(planes) < count:
        row = rng.choice(np.flatnonzero(left) if left.any() else len(outer))
        planes.append(_mode(inner, outer[[row]]))
        left &= outer @ planes[-1] >= 0
        left[row] = False
    return np.stack(planes, axis=1)


def _mode(inner: Float[ndarray, "n f"], outer: Float[ndarray, "m f"]) -> Float[ndarray, " f"]:
    """The most probable plane that keeps some points out; one that keeps out nothing if there are none."""
    if not len(outer):
        return np.append(SHARPNESS[0], np.zeros(inner.shape[1] - 1))
    return _regression(inner, outer, SHARPNESS[-1]).mode()[0]


def _likeliest(inner: Float[ndarray, "n f"], outer: Float[ndarray, "m f"]) -> Logistic:
    """The regression of the sharpness with the most evidence."""
    return max((_regression(inner, outer, sharpness) for sharpness in SHARPNESS), key=Logistic.evidence)


def _regression(inner: Float[ndarray, "n f"], outer: Float[ndarray, "m f"], sharpness: float) -> Logistic:
    phi = np.asfortranarray(np.concatenate([inner, outer]))
    return Logistic(phi, np.arange(len(phi)) < len(inner), sharpness)


def _edge(points: Points, label: Int[ndarray, " m"]) -> Edge:
    """A surface for each part, and what they say together; nothing speaks for one that is contradicted too often."""
    surfaces: list[Surface] = []
    evidence, forms = 0.0, (points.features(1), points.features(2))
    for part in range(label.max() + 1):
        mine = label == part
        found = [surface for form in forms if (surface := _surface(form, mine, points.inside.shape[1])) is not None]
        if found:
            surfaces.append(max(found, key=lambda surface: surface.evidence))
            evidence += surfaces[-1].evidence
        else:
            evidence -= STRAY * float(mine.sum())
    kept = np.all([np.ones(len(points.inside), dtype=bool), *(surface.kept for surface in surfaces)], axis=0)
    out = np.any([np.zeros(len(label), dtype=bool), *(surface.out for surface in surfaces)], axis=0)
    return Edge(tuple(surfaces), evidence if np.mean(~kept) <= MOST_WRONG else -np.inf, ~out)


def _surface(points: Points, mine: Bool[ndarray, " m"], least: int) -> Surface | None:
    """A surface that keeps all of the one in and as many as it can of its part of the other out; None if these are not
    more than the least.

    Those of its part that end on the inner side are not for this surface to explain: it is learnt again without them.
    """
    explained = mine
    while explained.sum() > least:
        regression = _likeliest(points.inside, points.outside[explained])
        mode, _ = regression.mode()
        out = points.outside @ mode < 0
        if out[explained].all():
            strays = float((mine & ~out).sum())
            return Surface(regression, regression.evidence() - STRAY * strays, out, points.inside @ mode > 0)
        explained = explained & out
    return None
