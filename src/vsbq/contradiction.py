"""Low evaluations that a surrogate contradicts: behind a cliff the shaping noise would hide all that was evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.numerics.shaping import contour_depth
from vsbq.progress import logger
from vsbq.shaped_data import ShapedData, SparseGP
from vsbq.trim import TrainingSet

#: The contour within which nearly all of a posterior is.
POSTERIOR = 3.0


class Corrected(NamedTuple):
    """What a surrogate that knows better has to be fitted to; `overruled` are the rows that have got a say so far."""

    training: TrainingSet
    overruled: Bool[ndarray, " n"]
    data: ShapedData


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
    low = (training.values + 3 * training.noise_sd < height) & ~overruled
    wrong = np.zeros(len(training), dtype=bool)
    wrong[low] = mean(training.points[low]) > posterior
    places = training.points[:0] if training.guards is None else training.guards
    guards = mean(places) > posterior
    if not (wrong.any() or guards.any()):
        return None
    logger.info("%d low evaluations and %d guards are contradicted: they get a say", wrong.sum(), guards.sum())
    training = training.joined(guards, height)
    overruled = np.append(overruled | wrong, np.zeros(int(guards.sum()), dtype=bool))
    data = ShapedData.shaped(training, settings).raised(overruled, height, settings.shaping)
    return Corrected(training, overruled, data)
