"""A cost, a box and a look at what was recorded last, for all tests of recorders."""

from __future__ import annotations

import numpy as np

from vsbq.record import read_store

NAMES = ["a", "b"]
BOX = [(-5.0, 5.0), (-4.0, 6.0)]


def cost(x, shift=0.0):
    return 0.5 * float(np.sum((np.asarray(x) - shift) ** 2))


def cost_of_rows(x):
    return 0.5 * np.sum(x**2, axis=1)


def last(rec):
    """The evaluation that was recorded last."""
    stored = read_store(rec)
    sd = None if stored.log_density_sd is None else stored.log_density_sd[-1]
    prior = None if stored.log_prior is None else stored.log_prior[-1]
    return stored.points[-1].tolist(), stored.log_density[-1], sd, prior


def raising(error):
    def fail(x):
        raise error

    return fail


def fill(rec, n=60, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    rec.minimise(cost_of_rows)(x)
    return x
