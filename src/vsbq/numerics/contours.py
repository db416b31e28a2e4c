"""How far down is low: contours of a normal, named by what happens between them, and the points above them.

All depths are in standard deviations of a D-dimensional normal with the same top; `contour_depth` turns them into nats
(Supplement C.1). They mean the same in every dimension, which a depth in nats does not.
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfc
from scipy.stats import chi2

from vsbq._typing import Bool, Float, Int, ndarray

#: Around the mode: within it a density is nearly quadratic.
CORE = 1.0

#: The box of the coordinates, and the spread-out start of the mixture: where most of the mass is, with room to spare.
BULK = 2.0
SPREAD = 2.5

#: All but 0.3 % of a posterior; an error outside hardly matters.
POSTERIOR = 3.0

#: Negligible: below it an evaluation tells no more than "low", and noise shaping lets go of its value.
NEGLIGIBLE = 5.0

#: The surroundings of the posterior, in which the surrogate has to be right enough not to invent mass.
SURROUNDINGS = 6.0

#: Hopeless (the paper's η_trim): evaluations surely below it are left out.
HOPELESS = 20.0


def contour_depth(n_sigma: float, dimension: int) -> float:
    """How far below its top, in nats, a D-dimensional normal is on its n-sigma contour.

    The paper's [Δy](n) is a quantile of twice that difference; in log-density units it is half of it.
    """
    return float(chi2.isf(erfc(n_sigma / np.sqrt(2.0)), dimension) / 2)


def near_top(level: Float[ndarray, " n"], n_sigma: float, dimension: int) -> Bool[ndarray, " n"]:
    """Which points are within a contour of the highest."""
    return np.asarray(level >= level.max() - contour_depth(n_sigma, dimension))


def highest(level: Float[ndarray, " n"], count: int) -> Int[ndarray, " k"]:
    """The rows of the highest points, the highest first; all of them if there are fewer."""
    return np.argsort(-level, kind="stable")[:count]
