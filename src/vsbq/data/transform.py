"""The user's space and the unbounded inference space, with the log-Jacobian between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from vsbq._typing import Bool, Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.numerics.contours import BULK, contour_depth
from vsbq.numerics.mixture import Mixture

#: Points this close to a bound are moved inwards, so that their inference coordinates stay finite; how many were moved
#: is reported. The first is a share of the box, the second of the evaluations' typical distance from their nearest
#: bound: the smaller counts, so that no bound, however far the other one is, moves more than the few that lie on it.
EDGE_OF_BOX = 1e-9
EDGE_OF_DISTANCE = 1e-6

#: A bound that is farther from all evaluations than this many times their range bends no coordinate: there the bounded
#: and the plain coordinate are the same but for rounding errors, which grow with the distance.
FAR = 1e5

#: No edge is smaller: its logarithm has to be a number.
SMALLEST = 1e-300

#: Log densities, relative to the best, are taken on this grid: with it, adding a constant to all of them cannot change
#: a single bit of what follows.
GRID = 2.0**-20

#: Logarithm of the largest distance from a bound: a draw of a fit that has run away is still a number.
LARGEST = 700.0


@dataclass(frozen=True, eq=False)
class InferenceSpace:
    """Plain inference coordinates: probit for two-sided bounds, log for one-sided, identity for none; then
    u = (v − centre) / scale. Posteriors live here.

    `near` are the bounds that bend the coordinates, open where a bound is too far from all evaluations to matter; None
    if all of them do.
    """

    bounds: Bounds
    edge: Float[ndarray, " d"]
    centre: Float[ndarray, " d"]
    scale: Float[ndarray, " d"]
    near: Bounds | None = None

    @property
    def bending(self) -> Bounds:
        """The bounds that bend the coordinates."""
        return self.bounds if self.near is None else self.near

    @property
    def plain(self) -> InferenceSpace:
        """This space itself."""
        return self

    def columns(self, chosen: Sequence[int]) -> InferenceSpace:
        """The space of some of the parameters."""
        rows, near = list(chosen), None if self.near is None else self.near.columns(chosen)
        bounds = self.bounds.columns(chosen)
        return InferenceSpace(bounds, self.edge[rows], self.centre[rows], self.scale[rows], near)

    def forward(self, points: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Coordinates in inference space."""
        return (_unbound(points, self.bending, self.edge) - self.centre) / self.scale

    def inverse(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Coordinates in the user's space, never outside the bounds."""
        return np.clip(_rebound(u * self.scale + self.centre, self.bending), self.bounds.lower, self.bounds.upper)

    def log_jacobian(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """log |dx/du|: added to a log density of the user's space, it gives that of inference space."""
        return _log_slope(u * self.scale + self.centre, self.bending).sum(axis=1) + float(np.log(self.scale).sum())

    def gradient(self, u: Float[ndarray, "n d"], gradient: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """The gradient of the log density of inference space at u, from that of the user's space."""
        v = u * self.scale + self.centre
        bend = np.zeros_like(v)  # of `_log_slope`
        for i, kind in enumerate(self.bending.kind):
            bend[:, i] = {"both": -v[:, i], "lower": 1.0, "upper": -1.0}.get(kind, 0.0)
        return np.asarray((gradient * np.exp(_log_slope(v, self.bending)) + bend) * self.scale)

    def at_edge(self, points: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points `forward` moves off a bound."""
        low, high = points - self.bending.lower, self.bending.upper - points
        return (np.minimum(low, high) < self.edge).any(axis=1)

    def to_plain(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Points of this space in plain coordinates: the same."""
        return u

    def from_plain(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Points of plain coordinates in this space: the same."""
        return u

    def mixture_to_plain(self, mixture: Mixture) -> Mixture:
        """A mixture of this space in plain coordinates: the same."""
        return mixture


@dataclass(frozen=True, eq=False)
class WhitenedSpace:
    """Plain coordinates times an invertible matrix: those in which a surrogate may work. Nothing else lives here.

    It is a type of its own, so that nothing can take its points for plain ones: they come from the user's space by
    `forward`, or from plain coordinates by `from_plain`, and leave it the same way.
    """

    plain: InferenceSpace
    rotation: Float[ndarray, "d d"]

    @property
    def bounds(self) -> Bounds:
        """Hard bounds of the parameters."""
        return self.plain.bounds

    @property
    def log_determinant(self) -> float:
        """log |det| of the rotation."""
        return float(np.linalg.slogdet(self.rotation)[1])

    def forward(self, points: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Coordinates of points of the user's space."""
        return self.from_plain(self.plain.forward(points))

    def inverse(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Coordinates in the user's space, never outside the bounds."""
        return self.plain.inverse(self.to_plain(u))

    def log_jacobian(self, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """log |dx/du|, of the user's coordinates by these."""
        return self.plain.log_jacobian(self.to_plain(u)) - self.log_determinant

    def at_edge(self, points: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
        """Which points `forward` moves off a bound."""
        return self.plain.at_edge(points)

    def to_plain(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Points of this space in plain coordinates."""
        return np.linalg.solve(self.rotation, u.T).T

    def from_plain(self, u: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Points of plain coordinates in this space."""
        return u @ self.rotation.T

    def mixture_to_plain(self, mixture: Mixture) -> Mixture:
        """A mixture of this space in plain coordinates: the same density."""
        back = np.linalg.inv(self.rotation)
        half = back @ mixture.trils
        # The Cholesky factor of half @ half.T, without forming that: its condition would be squared.
        upper = np.linalg.qr(np.swapaxes(half, 1, 2), mode="r")
        signs = np.where(np.einsum("kii->ki", upper) < 0, -1.0, 1.0)
        # In the order of files: a posterior that was saved and loaded then computes the same, bit for bit.
        trils = np.ascontiguousarray(np.swapaxes(signs[:, :, None] * upper, 1, 2))
        return Mixture(mixture.log_weights, mixture.means @ back.T, trils)


#: The coordinates of a surrogate.
ModelSpace = InferenceSpace | WhitenedSpace


def infer_space(evaluations: Evaluations) -> InferenceSpace:
    """The inference space of some evaluations, standardised by the plausible box or by the high-density points."""
    bounds = near_bounds(evaluations)
    edge = _edges(evaluations.points, bounds)
    if evaluations.plausible_bounds is not None:
        box = np.stack([evaluations.plausible_bounds.lower, evaluations.plausible_bounds.upper])
        low, high = _unbound(box, bounds, edge)
    else:
        low, high = _high_density_box(evaluations, bounds, edge)
    near = None if bounds == evaluations.bounds else bounds
    return InferenceSpace(evaluations.bounds, edge, (low + high) / 2, (high - low) / 2, near)


def near_bounds(evaluations: Evaluations) -> Bounds:
    """The bounds of some evaluations, open where they are far from all of them."""
    given, low, high = evaluations.bounds, evaluations.points.min(axis=0), evaluations.points.max(axis=0)
    with np.errstate(over="ignore"):
        reach = FAR * (high - low)
        far_below, far_above = low - given.lower > reach, given.upper - high > reach
    return Bounds(np.where(far_below, -np.inf, given.lower), np.where(far_above, np.inf, given.upper))


def _edges(points: Float[ndarray, "n d"], bounds: Bounds) -> Float[ndarray, " d"]:
    """How far from its bounds each parameter has to stay; zero where it has none."""
    edge = np.zeros(bounds.dimension)
    for i in np.flatnonzero(np.isfinite(bounds.lower) | np.isfinite(bounds.upper)):
        distance = np.minimum(points[:, i] - bounds.lower[i], bounds.upper[i] - points[:, i])
        typical = EDGE_OF_DISTANCE * float(np.median(distance[distance > 0])) if (distance > 0).any() else np.inf
        edge[i] = max(min(typical, EDGE_OF_BOX * (bounds.upper[i] - bounds.lower[i])), SMALLEST)
    return edge


def _high_density_box(
    evaluations: Evaluations, bounds: Bounds, edge: Float[ndarray, " d"]
) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"]]:
    v = _unbound(evaluations.points, bounds, edge)
    value = evaluations.log_density + _log_slope(v, bounds).sum(axis=1)
    noise = 0.0 if evaluations.log_density_sd is None else 1.96 * evaluations.log_density_sd
    below = np.round(((value - noise).max() - (value + noise)) / GRID) * GRID
    d = v.shape[1]
    enough = np.partition(below, min(10 * d, len(below) - 1))[min(10 * d, len(below) - 1)]
    near = v[below <= max(contour_depth(BULK, d), enough)]
    low, high = near.min(axis=0), near.max(axis=0)
    flat = high <= low
    low[flat], high[flat] = v[:, flat].min(axis=0), v[:, flat].max(axis=0)
    return low, high


def _unbound(points: Float[ndarray, "n d"], bounds: Bounds, edge: Float[ndarray, " d"]) -> Float[ndarray, "n d"]:
    v = np.array(points, dtype=np.float64)
    for i, kind in enumerate(bounds.kind):
        low = np.maximum(points[:, i] - bounds.lower[i], edge[i])
        high = np.maximum(bounds.upper[i] - points[:, i], edge[i])
        if kind == "both":
            width = bounds.upper[i] - bounds.lower[i]
            v[:, i] = np.where(low < high, ndtri(low / width), -ndtri(high / width))
        elif kind == "lower":
            v[:, i] = np.log(low)
        elif kind == "upper":
            v[:, i] = -np.log(high)
    return v


def _rebound(v: Float[ndarray, "n d"], bounds: Bounds) -> Float[ndarray, "n d"]:
    x = np.array(v)
    for i, kind in enumerate(bounds.kind):
        lower, upper = bounds.lower[i], bounds.upper[i]
        if kind == "both":
            near_low, near_high = ndtr(v[:, i]), ndtr(-v[:, i])
            width = upper - lower
            x[:, i] = np.where(v[:, i] < 0, lower + width * near_low, upper - width * near_high)
        elif kind == "lower":
            x[:, i] = lower + np.exp(np.minimum(v[:, i], LARGEST))
        elif kind == "upper":
            x[:, i] = upper - np.exp(np.minimum(-v[:, i], LARGEST))
    return x


def _log_slope(v: Float[ndarray, "n d"], bounds: Bounds) -> Float[ndarray, "n d"]:
    slope = np.zeros_like(v)
    for i, kind in enumerate(bounds.kind):
        if kind == "both":
            width = bounds.upper[i] - bounds.lower[i]
            slope[:, i] = np.log(width) - 0.5 * v[:, i] ** 2 - 0.5 * np.log(2 * np.pi)
        elif kind == "lower":
            slope[:, i] = v[:, i]
        elif kind == "upper":
            slope[:, i] = -v[:, i]
    return slope
