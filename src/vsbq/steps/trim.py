"""Step 1: from the user's evaluations to a training set in inference space, without the hopelessly low ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import GRID, ModelSpace, WhitenedSpace, infer_space
from vsbq.errors import Argument, FitError
from vsbq.history import Trimmed
from vsbq.numerics.contours import HOPELESS, POSTERIOR, SURROUNDINGS, contour_depth, near_top
from vsbq.numerics.subset import spread_rows


@dataclass(frozen=True, kw_only=True)
class Trim:
    """Drop evaluations that are surely more than `depth` standard deviations' worth of log density below the best."""

    depth: float = HOPELESS
    confidence: float = 1.96  # β of the lower and upper confidence bounds
    zero_depth: float = SURROUNDINGS  # a density of zero stands at this contour, or as low as its nearest neighbour
    guards_per_dimension: int = 100  # hopeless evaluations that the surrogate must not contradict


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Evaluations in inference space, in a canonical order; `values + offset` is the log density there.

    `level` is the best guess of the values without their noise: which points are high is asked of it, because the
    highest noisy value is mostly noise. `guards` are places of evaluations that were dropped as hopeless: the surrogate
    is not fitted to them, but must not contradict them.
    """

    space: ModelSpace
    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    noise_sd: Float[ndarray, " n"]
    offset: float
    level: Float[ndarray, " n"]
    guards: Float[ndarray, "g d"] | None = None
    zeros: Float[ndarray, "z d"] | None = None  # places of all evaluations of zero density, which stand-ins represent

    @property
    def seen(self) -> Float[ndarray, "m d"]:
        """The points whose density is not zero."""
        if self.zeros is None or not len(self.zeros):
            return self.points
        return self.points[np.asarray(cKDTree(self.zeros).query(self.points)[0]) > 0]

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return int(self.points.shape[1])

    def whitened(self, rotation: Float[ndarray, "d d"]) -> TrainingSet:
        """The same evaluations, so far in plain coordinates, in whitened ones."""
        if isinstance(self.space, WhitenedSpace):
            raise TypeError("These evaluations are in whitened coordinates already.")
        space = WhitenedSpace(self.space, rotation)
        return replace(
            self,
            space=space,
            points=space.from_plain(self.points),
            guards=None if self.guards is None else space.from_plain(self.guards),
            zeros=None if self.zeros is None else space.from_plain(self.zeros),
            values=self.values - space.log_determinant,
            level=self.level - space.log_determinant,
        )

    def smoothed(self, mean: Float[ndarray, " n"], variance: Float[ndarray, " n"]) -> TrainingSet:
        """The same evaluations with levels from a prediction of each value.

        The value itself has a say only where the prediction is less certain than it: points would otherwise seem high
        because of their own noise, and everything that prefers high points would prefer lucky ones.
        """
        noise = self.noise_sd**2
        share = noise / np.maximum(noise + np.maximum(variance - noise, 0.0), 1e-300)
        return replace(self, level=np.where(noise > 0, share * mean + (1 - share) * self.values, self.values))

    def joined(self, guards: Bool[ndarray, " g"], value: float) -> TrainingSet:
        """The same with some of the guards as evaluations of that value, at the end."""
        if self.guards is None or not guards.any():
            return self
        new = np.full(int(guards.sum()), value)
        return replace(
            self,
            points=np.concatenate([self.points, self.guards[guards]]),
            values=np.append(self.values, new),
            noise_sd=np.append(self.noise_sd, 0.0 * new),
            level=np.append(self.level, new),
            guards=self.guards[~guards],
        )

    def __len__(self) -> int:
        return len(self.points)


def trim_evaluations(evaluations: Evaluations, settings: Trim) -> tuple[TrainingSet, Trimmed]:
    """Transform, merge duplicates, trim (Eq. 15), and put the rest in canonical order."""
    space = infer_space(evaluations)
    finite = np.isfinite(evaluations.log_density)
    offset = float(evaluations.log_density[finite].max())
    relative = np.round((evaluations.log_density - offset) / GRID) * GRID
    sd = np.zeros(len(relative)) if evaluations.log_density_sd is None else evaluations.log_density_sd
    order = np.lexsort((sd, relative, *evaluations.points.T[::-1]))
    merged = _merge_duplicates(evaluations.points[order], relative[order], sd[order])
    u = space.forward(merged.points)
    values = merged.values + space.log_jacobian(u)
    zero = np.isneginf(values)
    if zero.all():
        raise FitError(
            "Every point with a finite log density was also evaluated as -inf, so that the density is zero everywhere. "
            "Check the evaluations that were repeated, or leave those of -inf out with ",
            Argument("nonfinite", "drop"),
            ".",
        )
    values = _stand_in(u, values, merged.noise_sd, settings)
    keep = _keep(values, merged.noise_sd, evaluations.dimension, settings)
    if keep.sum() < evaluations.dimension + 2:
        raise FitError(
            f"Only {int(keep.sum())} evaluations are within reach of the best one; the others are more than "
            f"{contour_depth(settings.depth, evaluations.dimension):.0f} nats below it. Add evaluations near the best "
            "point, or check that the log density has no spike there."
        )
    info = Trimmed(
        given=len(evaluations),
        kept=int(keep.sum()),
        trimmed=int((~keep).sum()),
        merged=len(evaluations) - len(merged.points),
        zero_density=int((~finite).sum()),
        at_edge=int(space.at_edge(merged.points).sum()),
    )
    guards = u[_guards(u, values, keep, settings)]
    kept = (u[keep], values[keep], merged.noise_sd[keep])
    return TrainingSet(space, *kept, offset, level=values[keep], guards=guards, zeros=u[zero]), info


def _guards(
    u: Float[ndarray, "n d"], values: Float[ndarray, " n"], keep: Bool[ndarray, " n"], settings: Trim
) -> Int[ndarray, " g"]:
    """Rows of hopeless evaluations that stand guard, a spread-out choice of those nearest to the better evaluations.

    Where the density ends at a cliff, a surrogate that knows of none of them would go on beyond it.
    """
    low = np.flatnonzero(~keep)
    count = settings.guards_per_dimension * u.shape[1]
    if not len(low) or not count:
        return low[:0]
    better = keep & near_top(values, POSTERIOR, u.shape[1])
    spread = u[keep].std(axis=0)
    scaled = u / np.where(spread > 0, spread, 1.0)
    distance = cKDTree(scaled[better]).query(scaled[low])[0]
    near = low[np.argsort(distance, kind="stable")[: 4 * count]]
    return near[spread_rows(scaled[near], count, np.random.default_rng(0))]


def _stand_in(
    u: Float[ndarray, "n d"], values: Float[ndarray, " n"], noise_sd: Float[ndarray, " n"], settings: Trim
) -> Float[ndarray, " n"]:
    """Values in which a zero density is as low as its nearest neighbour, and at least negligible.

    A value at the trimming depth would be a cliff that no smooth surrogate follows, and so low that noise shaping
    would wave it through.
    """
    zero = np.isneginf(values)
    if not zero.any():
        return values
    top = (values - settings.confidence * noise_sd).max()
    neighbour = values[~zero][cKDTree(u[~zero]).query(u[zero])[1]]
    filled = values.copy()
    filled[zero] = np.minimum(neighbour, top - contour_depth(settings.zero_depth, u.shape[1]))
    return filled


def _keep(
    values: Float[ndarray, " n"], noise_sd: Float[ndarray, " n"], dimension: int, settings: Trim
) -> Bool[ndarray, " n"]:
    """Which evaluations stay (Eq. 15)."""
    top = (values - settings.confidence * noise_sd).max()
    return top - (values + settings.confidence * noise_sd) <= contour_depth(settings.depth, dimension)


def copies(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> Bool[ndarray, " n"]:
    """Which of the rows (sorted) repeat the one before in point and value: a cached or copied evaluation is one."""
    again = (points[1:] == points[:-1]).all(axis=1) & (values[1:] == values[:-1])
    return np.append(False, again)


class _Merged(NamedTuple):
    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    noise_sd: Float[ndarray, " n"]


def _merge_duplicates(points: Float[ndarray, "n d"], values: Float[ndarray, " n"], sd: Float[ndarray, " n"]) -> _Merged:
    """Average rows of the same point (sorted) by inverse variance; exact evaluations win over noisy ones."""
    kept = ~copies(points, values)
    points, values, sd = points[kept], values[kept], sd[kept]
    new = np.concatenate([[True], (points[1:] != points[:-1]).any(axis=1)])
    if new.all():
        return _Merged(points, values, sd)
    first: Int[ndarray, " g"] = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    exact = np.bincount(group, weights=sd == 0) > 0
    counted = np.where(exact[group], (sd == 0).astype(float), 1.0 / np.where(sd > 0, sd, 1.0) ** 2)
    zero = np.bincount(group, weights=np.isneginf(values) & (counted > 0)) > 0
    weight = np.bincount(group, weights=counted)
    mean = np.bincount(group, weights=counted * np.where(np.isneginf(values), 0.0, values)) / weight
    return _Merged(points[first], np.where(zero, -np.inf, mean), np.where(exact, 0.0, weight**-0.5))
