"""A surrogate whose hyperparameters and inducing points come from some of the evaluations, completed with all of them.

All that is needed of the others are sums of the size of the inducing points, which can be made part by part, here or
elsewhere: memory does not grow with the number of evaluations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.data.transform import GRID, ModelSpace
from vsbq.history import SurrogateFit
from vsbq.numerics import linalg, sgpr
from vsbq.numerics.contours import NEGLIGIBLE, POSTERIOR, contour_depth
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.sgpr import Statistics
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet, Trim

__all__ = ["Recipe", "Rows", "Sums", "complete", "recipe_of", "sums_of"]


class Rows(NamedTuple):
    """Evaluations in the user's space; sd is zero where they are exact."""

    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    sd: Float[ndarray, " n"]


class Part(NamedTuple):
    """One of the sparse GPs: how its coordinates and values follow from the main one's, and what its sums need."""

    turn: Float[ndarray, "d d"]
    shift: float
    hyp: Hyperparameters
    inducing: Float[ndarray, "m d"]
    chol_kernel: Float[ndarray, "m m"]
    jitter: float
    log_strength: float

    def start(self) -> Statistics:
        """The sums of no evaluations."""
        m = len(self.inducing)
        return Statistics(np.zeros((m, m), order="F"), np.zeros(m), 0.0, 0.0, 0.0)


class Recipe(NamedTuple):
    """From rows to sums: all that another process needs."""

    space: ModelSpace
    offset: float  # of the log densities
    top: float  # the highest level
    best: Float[ndarray, " d"]  # where it is
    threshold: float  # of the shaping: blocks of evaluations are too small to tell it
    lowest: float  # values surely below it are hopeless
    confidence: float
    levels: Surrogate | None  # predicts the levels of noisy evaluations, and contradicts those beyond a cliff
    noisy: bool
    cliffs: bool
    settings: SparseGP
    parts: tuple[Part, ...]


class Sums(NamedTuple):
    """What evaluations add up to: how many count, and the statistics of each sparse GP."""

    rows: int
    parts: tuple[Statistics, ...]

    def plus(self, other: Sums) -> Sums:
        """Those of both."""
        added = tuple(_added(a, b) for a, b in zip(self.parts, other.parts, strict=True))
        return Sums(self.rows + other.rows, added)


def _added(a: Statistics, b: Statistics) -> Statistics:
    return Statistics(
        a.gram + b.gram,
        a.projection + b.projection,
        a.residual_square + b.residual_square,
        a.log_noise + b.log_noise,
        a.trace + b.trace,
    )


def recipe_of(
    surrogate: Surrogate, training: TrainingSet, told: SurrogateFit, settings: SparseGP, trim: Trim
) -> Recipe:
    """How the evaluations that were left out are to be summed, from a surrogate of the others."""
    best = int(np.argmax(training.level))
    lower = training.values - trim.confidence * training.noise_sd
    d, factors = training.dimension, surrogate.factors
    own = factors.inducing, factors.chol_kernel, factors.jitter, float(np.log(told.shaping_strength))
    parts = [Part(np.eye(d), 0.0, surrogate.hyp, *own)]
    for sister in surrogate.sisters:
        inducing = sister.posterior.inducing
        chol, jitter = sgpr.factorise_inducing(sister.hyp, inducing)
        strength = float(np.log(sister.strength))
        parts.append(Part(sister.turn, sister.shift, sister.hyp, inducing, chol, jitter, strength))
    cliffs = len(training.zeros) > 0
    return Recipe(
        space=training.space,
        offset=training.offset,
        top=float(training.level[best]),
        best=training.points[best],
        threshold=settings.shaping.threshold(training, training.level),
        lowest=float(lower.max()) - contour_depth(trim.depth, d),
        confidence=trim.confidence,
        levels=surrogate if training.noisy or cliffs else None,
        noisy=training.noisy,
        cliffs=cliffs,
        settings=settings,
        parts=tuple(parts),
    )


def sums_of(recipe: Recipe, blocks: Iterable[Rows]) -> Sums:
    """What blocks of evaluations add up to, in their order."""
    whitening = [linalg.inverse_lower(part.chol_kernel) for part in recipe.parts]
    total = Sums(0, tuple(part.start() for part in recipe.parts))
    for rows in blocks:
        data = _shaped(recipe, rows)
        if not len(data.points):
            continue
        found = []
        for part, whiten in zip(recipe.parts, whitening, strict=True):
            regression = data.points @ part.turn.T, data.values - part.shift, data.noise(part.log_strength)
            found.append(sgpr.statistics(part.hyp, part.inducing, part.chol_kernel, *regression, whiten=whiten))
        total = total.plus(Sums(len(data.points), tuple(found)))
    return total


def _shaped(recipe: Recipe, rows: Rows) -> ShapedData:
    """Evaluations as the sparse GPs see them, without the hopeless ones.

    How much one counts depends on how far it is below the highest of all: this one joins them for the moment.
    """
    u = recipe.space.forward(rows.points)
    values = np.round((rows.values - recipe.offset) / GRID) * GRID + recipe.space.log_jacobian(u)
    kept = values + recipe.confidence * rows.sd >= recipe.lowest
    if recipe.cliffs:
        kept[kept] = ~_beyond_a_cliff(recipe, u[kept], values[kept] + 3 * rows.sd[kept])
    none = np.zeros((0, u.shape[1]))
    given = u[kept], values[kept], rows.sd[kept], recipe.offset
    training = TrainingSet(recipe.space, *given, level=values[kept], low=none, zeros=none)
    if recipe.noisy and len(training):
        assert recipe.levels is not None
        training = training.smoothed(recipe.levels.mean(u[kept]), recipe.levels.variance(u[kept]))
    together = replace(
        training,
        points=np.concatenate([training.points, recipe.best[None]]),
        values=np.append(training.values, recipe.top),
        noise_sd=np.append(training.noise_sd, 0.0),
        level=np.append(np.minimum(training.level, recipe.top), recipe.top),
    )
    settings = recipe.settings
    data = ShapedData.shaped(together, settings, recipe.threshold)
    data = data.tempered(together, settings.shaping.noise_growth)
    return data.take(np.arange(len(training)))


def _beyond_a_cliff(
    recipe: Recipe, u: Float[ndarray, "n d"], surely_below: Float[ndarray, " n"]
) -> Bool[ndarray, " n"]:
    """Negligible evaluations where the surrogate sees the posterior: it was fitted without those beyond a cliff."""
    assert recipe.levels is not None
    d, beyond = u.shape[1], surely_below <= recipe.top - contour_depth(NEGLIGIBLE, u.shape[1])
    beyond[beyond] = recipe.levels.mean(u[beyond]) > recipe.top - contour_depth(POSTERIOR, d)
    return beyond


def complete(surrogate: Surrogate, told: SurrogateFit, recipe: Recipe, total: Sums) -> tuple[Surrogate, SurrogateFit]:
    """The same surrogate, of all evaluations."""
    fitted = []
    for part, sums in zip(recipe.parts, total.parts, strict=True):
        fitted.append(sgpr.posterior_factors(part.inducing, part.chol_kernel, part.jitter, sums))
    main, *others = fitted
    passes = recipe.settings.residual_passes
    sisters = tuple(
        sister._replace(posterior=sister.posterior._replace(weights=sgpr.with_implied_passes(one, passes).weights))
        for sister, one in zip(surrogate.sisters, others, strict=True)
    )
    bound = sgpr.bound_value(total.parts[0], main.chol_v, total.rows)
    factors = sgpr.with_implied_passes(main, surrogate.passes)
    return replace(surrogate, factors=factors, sisters=sisters), told._replace(bound=bound)
