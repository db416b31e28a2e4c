"""Low evaluations that a surrogate contradicts: behind a cliff the shaping noise would hide all that was evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.numerics.contours import POSTERIOR, contour_depth
from vsbq.progress import logger
from vsbq.steps.surrogate.shaped_data import ShapedData, SparseGP
from vsbq.steps.trim import TrainingSet

#: Guards that have joined are exactly as high as they have to be.
TINY = 1e-9

#: Share of the overruled evaluations that may still be contradicted before everything is learnt again.
MOST_IN_VAIN = 0.1


class Corrected(NamedTuple):
    """What a surrogate that knows better has to be fitted to; `overruled` are the rows that have got a say so far."""

    training: TrainingSet
    overruled: Bool[ndarray, " n"]
    data: ShapedData
    in_vain: bool  # a good part of those that had a say before is still contradicted


def correct(
    training: TrainingSet,
    overruled: Bool[ndarray, " n"],
    mean: Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]],
    settings: SparseGP,
) -> Corrected | None:
    """Give a say to evaluations that are surely negligible where the surrogate sees the posterior; None if there are
    none.

    They count as evaluations at the threshold of the shaping do, and are as high: what lies far below may be as high as
    that without a change of the posterior, and no smooth surrogate would fall as far as they do. Guards become
    evaluations if they are contradicted.
    """
    d, top = training.dimension, float(training.level.max())
    height, posterior = top - contour_depth(settings.shaping.depth, d), top - contour_depth(POSTERIOR, d)
    low = training.values + 3 * training.noise_sd <= height + TINY
    wrong = np.zeros(len(training), dtype=bool)
    wrong[low] = mean(training.points[low]) > posterior
    places = training.points[:0] if training.guards is None else training.guards
    guards = mean(places) > posterior
    if not (wrong.any() or guards.any()):
        return None
    logger.info("%d low evaluations and %d guards are contradicted: they get a say", wrong.sum(), guards.sum())
    in_vain = bool((wrong & overruled).sum() > MOST_IN_VAIN * overruled.sum())
    training = training.joined(guards, height)
    overruled = np.append(overruled | wrong, np.ones(int(guards.sum()), dtype=bool))
    data = ShapedData.shaped(training, settings).raised(overruled, height, settings.shaping)
    return Corrected(training, overruled, data, in_vain)
