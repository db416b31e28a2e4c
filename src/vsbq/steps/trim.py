"""Step 1: from the user's evaluations to a training set in inference space, without the hopelessly low ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.data.differences import find_gradients
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import GRID, InferenceSpace, ModelSpace, WhitenedSpace, infer_space
from vsbq.errors import Argument, FitError, count_in_words
from vsbq.history import Trimmed
from vsbq.numerics.contours import HOPELESS, contour_depth


@dataclass(frozen=True, kw_only=True)
class Trim:
    """Drop evaluations that are surely more than `depth` standard deviations' worth of log density below the best, and
    make gradients of finite differences."""

    depth: float = HOPELESS
    confidence: float = 1.96  # β of the lower and upper confidence bounds
    gradients: bool = True  # False: steps of finite differences are evaluations like any others


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Evaluations in inference space, in a canonical order; `values + offset` is the log density there.

    `level` is the best guess of the values without their noise: which points are high is asked of it, because the
    highest noisy value is mostly noise. `low` are places of evaluations that were dropped as hopeless, `zeros` those of
    evaluations of zero density: the surrogate is fitted to neither. `gradients` are known where an optimiser took
    finite differences: a row for each evaluation, NaN where there is none; None if there are none at all.
    """

    space: ModelSpace
    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    noise_sd: Float[ndarray, " n"]
    offset: float
    level: Float[ndarray, " n"]
    low: Float[ndarray, "g d"]
    zeros: Float[ndarray, "z d"]
    gradients: Float[ndarray, "n d"] | None = None

    @property
    def dimension(self) -> int:
        """Number of parameters."""
        return int(self.points.shape[1])

    @property
    def noisy(self) -> bool:
        """Whether any value has noise."""
        return bool((self.noise_sd > 0).any())

    def turned(self, by: Float[ndarray, "d d"]) -> TrainingSet:
        """The same evaluations in coordinates that are multiplied by a matrix."""
        rotation = by if isinstance(self.space, InferenceSpace) else by @ self.space.rotation
        space = WhitenedSpace(self.space.plain, rotation)
        shift = float(np.linalg.slogdet(by)[1])
        return replace(
            self,
            space=space,
            points=self.points @ by.T,
            low=self.low @ by.T,
            zeros=self.zeros @ by.T,
            values=self.values - shift,
            level=self.level - shift,
            gradients=None if self.gradients is None else np.linalg.solve(by.T, self.gradients.T).T,
        )

    def smoothed(self, mean: Float[ndarray, " n"], variance: Float[ndarray, " n"]) -> TrainingSet:
        """The same evaluations with levels from a prediction of each value.

        The value itself has a say only where the prediction is less certain than it: points would otherwise seem high
        because of their own noise, and everything that prefers high points would prefer lucky ones.
        """
        noise = self.noise_sd**2
        share = noise / np.maximum(noise + np.maximum(variance - noise, 0.0), 1e-300)
        return replace(self, level=np.where(noise > 0, share * mean + (1 - share) * self.values, self.values))

    def without(self, rows: Bool[ndarray, " n"], low: Bool[ndarray, " g"]) -> TrainingSet:
        """The same with some of the evaluations, and some of those that were dropped, as places of zero density."""
        if not (rows.any() or low.any()):
            return self
        kept = ~rows
        return replace(
            self,
            points=self.points[kept],
            values=self.values[kept],
            noise_sd=self.noise_sd[kept],
            level=self.level[kept],
            gradients=None if self.gradients is None else self.gradients[kept],
            low=self.low[~low],
            zeros=np.concatenate([self.zeros, self.points[rows], self.low[low]]),
        )

    def __len__(self) -> int:
        return len(self.points)


def trim_evaluations(evaluations: Evaluations, settings: Trim) -> tuple[TrainingSet, Trimmed]:
    """Transform, merge duplicates, trim (Eq. 15), and put the rest in canonical order."""
    given, found = evaluations, find_gradients(evaluations) if settings.gradients else None
    if found is not None:
        evaluations = found.evaluations
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
    keep = _keep(values, merged.noise_sd, evaluations.dimension, settings)
    if keep.sum() < evaluations.dimension + 2:
        if found is not None:  # too few places for what follows: their steps have to count
            return trim_evaluations(given, replace(settings, gradients=False))
        raise _too_few(keep, evaluations.dimension, settings)
    info = Trimmed(
        given=len(given),
        kept=int(keep.sum()),
        trimmed=int((~keep & ~zero).sum()),
        merged=len(given) - len(merged.points) - (0 if found is None else found.steps),
        zero_density=int((~finite).sum()),
        at_edge=int(space.at_edge(merged.points).sum()),
        steps=0 if found is None else found.steps,
    )
    kept = (u[keep], values[keep], merged.noise_sd[keep])
    gradients = None if found is None else found.gradients[order][keep]  # their points are distinct
    places = {"low": u[~keep & ~zero], "zeros": u[zero]}
    return TrainingSet(space, *kept, offset, level=values[keep], **places, gradients=gradients), info


def _too_few(keep: Bool[ndarray, " n"], dimension: int, settings: Trim) -> FitError:
    return FitError(
        f"Only {count_in_words(int(keep.sum()), 'evaluation')} within reach of the best log density; the others "
        f"are more than {contour_depth(settings.depth, dimension):.0f} nats below it. Add evaluations near the best "
        "point, or check that the log density has no spike there."
    )


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
