"""A fit to so many evaluations, for settings that are so coarse, that an update may go on from it."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

import vsbq
from improve_cases import FAST, log_normal
from vsbq.steps.surrogate.shaped_data import Level, SparseGP

#: So coarse that some hundred evaluations are many.
COARSE = SparseGP(exact_points=60, coarse=(Level(20, 10, 30, 1), Level(40, 15, 30, 2)), fine=Level(60, 20, 20, 1))
STEPS = replace(FAST, surrogate=COARSE)


def wide(rng, n):
    return rng.normal(size=(n, 2)) * rng.uniform(0.2, 2.5, (n, 1)) @ [[1.0, 0.7], [0.0, 0.5]]


def many():
    """The fit."""
    x = wide(np.random.default_rng(0), 400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return vsbq.fit(x, log_normal(x), names=["a", "b"], settings=STEPS, rng=1, progress=False)
