"""The example of `vsbq demo`: Two Moons, a density with two curved modes, and runs of an optimiser on it.

In polar coordinates the radius is nearly normal, and the angle has a von Mises mode on either side.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from math import erf, exp, log, pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.optimize import minimize
from scipy.special import ive

from vsbq._typing import Float, ndarray
from vsbq.io.record import Recorder, read_store

__all__ = ["NAMES", "RIGHT_SHARE", "Run", "log_density", "log_evidence", "optimise"]

NAMES = ("x1", "x2")
CONCENTRATION = 8.0  # of the angles
RADIUS = 1 / sqrt(2)
RADIUS_SD = 0.1
RIGHT_SHARE = 1 / 3

LOW, HIGH = -1.0, 1.0  # where runs start, in either parameter
TOLERANCE = 0.1  # a run ends where the log density varies by less
CANDIDATES = 40  # CMA-ES starts at the best of so many points
INITIAL_SD = (HIGH - LOW) / 4
RUN_BUDGET = 100  # of one run of Nelder-Mead

Cost = Callable[[Float[ndarray, " 2"]], Any]


class Run(NamedTuple):
    """What an optimiser leaves behind."""

    optimiser: str
    points: Float[ndarray, "n 2"]
    log_density: Float[ndarray, " n"]


def log_density(points: Float[ndarray, "n 2"]) -> Float[ndarray, " n"]:
    """Return the log density, which is not normalised, at each point."""
    radius = np.hypot(points[:, 0], points[:, 1])
    cosine = points[:, 0] / np.where(radius > 0, radius, 1.0)  # the origin has no angle: any value will do
    right = CONCENTRATION * cosine + log(RIGHT_SHARE)
    left = -CONCENTRATION * cosine + log(1 - RIGHT_SHARE)
    result: ndarray = np.logaddexp(right, left) - 0.5 * ((radius - RADIUS) / RADIUS_SD) ** 2
    return result


def log_evidence() -> float:
    """Return the exact log integral of the density: that over the angle plus that over the radius."""
    # ∫ exp(κ cos θ) dθ = 2π I0(κ), and I0(κ) = exp(κ) ive(0, κ)
    angular = log(2 * pi * float(ive(0, CONCENTRATION))) + CONCENTRATION
    # ∫ r exp(-(r - R)² / 2s²) dr over r > 0 = s² exp(-R² / 2s²) + R s sqrt(2π) Φ(R / s)
    depth = RADIUS / RADIUS_SD
    radial = RADIUS_SD**2 * exp(-(depth**2) / 2) + RADIUS * RADIUS_SD * sqrt(pi / 2) * (1 + erf(depth / sqrt(2)))
    return angular + log(radial)


def optimise(budget: int, rng: Generator, path: Path) -> Run:
    """Look for the highest point from one start after the other, and record every evaluation in a file at `path`.

    With CMA-ES if pycma is installed, with Nelder-Mead of SciPy else; no run begins once the budget is used.
    """
    name, run = ("CMA-ES", _cma) if importlib.util.find_spec("cma") is not None else ("Nelder-Mead", _nelder_mead)
    with Recorder(path, names=NAMES, tag="Two Moons") as record:
        cost = record.minimise(lambda x: -float(log_density(x[None])[0]))
        while len(record) < budget:
            run(cost, rng)
    stored = read_store(path)
    return Run(name, stored.points, stored.log_density)


def _cma(cost: Cost, rng: Generator) -> None:
    import cma

    candidates = rng.uniform(LOW, HIGH, (CANDIDATES, len(NAMES)))
    start = candidates[np.argmin([cost(x) for x in candidates])]
    options = {
        "randn": lambda *shape: rng.standard_normal(shape),
        "seed": np.nan,  # pycma's word for: leave NumPy's global random state alone
        "tolfun": TOLERANCE,
        "verbose": -10,  # no output and no files
    }
    strategy = cma.CMAEvolutionStrategy(start, INITIAL_SD, options)
    while not strategy.stop():
        asked = strategy.ask()
        strategy.tell(asked, [cost(x) for x in asked])


def _nelder_mead(cost: Cost, rng: Generator) -> None:
    options = {"fatol": TOLERANCE, "xatol": 0.1, "maxfev": RUN_BUDGET}
    start = rng.uniform(LOW, HIGH, len(NAMES))
    minimize(cost, start, method="Nelder-Mead", options=options)  # type: ignore[call-overload]
