"""What can be wrong with a trace: each kind of sabotage takes a trace and returns a worse one.

Everything follows from the generator. `needs` says which traces a kind can be applied to, from attributes alone, so
that the population is known before any trace is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import Problem
from vsbq_bench.traces import Trace

__all__ = ["SABOTAGES", "Sabotage"]

Change = Callable[[Problem, Trace, Generator], Trace]

LEAST = 24  # rows that a trace keeps at least, and 6 for each parameter: fewer are refused at the door
DATA_POINTS = 100  # of the regression that a loss is pretended to be of
TRUTH_DRAWS = 2000


class Sabotage(NamedTuple):
    """A kind: how a trace is changed, and whether it takes exact values or several runs."""

    change: Change
    exact: bool = False
    several: bool = False


def _taken(trace: Trace, rows: ndarray) -> Trace:
    sd = None if trace.log_density_sd is None else trace.log_density_sd[rows]
    return Trace(trace.points[rows], trace.log_density[rows], sd, trace.run[rows])


def _least(trace: Trace) -> int:
    return max(LEAST, 6 * trace.points.shape[1])


def _same(problem: Problem, trace: Trace, rng: Generator) -> Trace:
    return trace


def _first(problem: Problem, trace: Trace, rng: Generator, per_dimension: int) -> Trace:
    """The first rows only."""
    return _taken(trace, np.arange(min(per_dimension * problem.dimension, len(trace.points))))


def _thinned(problem: Problem, trace: Trace, rng: Generator, per_dimension: int) -> Trace:
    """Some rows of the whole trace."""
    count = min(per_dimension * problem.dimension, len(trace.points))
    return _taken(trace, np.sort(rng.permutation(len(trace.points))[:count]))


def _one_run(problem: Problem, trace: Trace, rng: Generator) -> Trace:
    """The longest run only."""
    return _taken(trace, np.flatnonzero(trace.run == np.argmax(np.bincount(trace.run))))


def _one_side(problem: Problem, trace: Trace, rng: Generator) -> Trace:
    """Rows on one side of the median of one parameter of the true posterior."""
    truth, side = problem.draw(TRUTH_DRAWS, rng), rng.choice([-1.0, 1.0])
    i = int(rng.integers(problem.dimension))
    beyond = side * (trace.points[:, i] - np.median(truth[:, i]))
    return _taken(trace, np.sort(np.argsort(beyond)[: max(int((beyond < 0).sum()), _least(trace))]))


def _top(problem: Problem, trace: Trace, rng: Generator, nats: float = 2.0) -> Trace:
    """Rows within two nats of the best."""
    order = np.argsort(-trace.log_density)
    count = int((trace.log_density >= trace.log_density.max() - nats).sum())
    return _taken(trace, np.sort(order[: max(count, _least(trace))]))


def _noisy(problem: Problem, trace: Trace, rng: Generator, sd: float, said: float | None) -> Trace:
    """Noise of a standard deviation, and what is said of it."""
    values = trace.log_density + sd * rng.standard_normal(len(trace.log_density))
    return replace(trace, log_density=values, log_density_sd=None if said is None else np.full(len(values), said))


def _offset(problem: Problem, trace: Trace, rng: Generator, nats: float = 5.0) -> Trace:
    """Runs, or where there is one only its second half, with a constant added: a changed model or data set."""
    late = (
        trace.run >= (trace.run.max() + 1) / 2 if trace.run.max() else np.arange(len(trace.run)) >= len(trace.run) / 2
    )
    return replace(trace, log_density=trace.log_density + np.where(late, nats, 0.0))


def _outliers(problem: Problem, trace: Trace, rng: Generator, share: float = 0.005) -> Trace:
    """Some low rows that claim to be higher than the best."""
    finite = np.flatnonzero(np.isfinite(trace.log_density))
    low = finite[trace.log_density[finite] <= np.median(trace.log_density[finite])]
    rows = rng.permutation(low)[: max(2, round(share * len(trace.log_density)))]
    values = trace.log_density.copy()
    values[rows] = trace.log_density.max() + rng.uniform(0.0, 10.0, len(rows))
    return replace(trace, log_density=values)


def _loss(problem: Problem, trace: Trace, rng: Generator, of: Callable[[ndarray], ndarray]) -> Trace:
    """A loss that is no log density; values of zero density are left out."""
    kept = _taken(trace, np.flatnonzero(np.isfinite(trace.log_density)))
    return replace(kept, log_density=np.asarray(of(kept.log_density)), log_density_sd=None)


def _mean_square(y: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return -(1.0 + 2.0 * (y.max() - y) / DATA_POINTS)


def _root_mean_square(y: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return -np.sqrt(-_mean_square(y))


def _density(y: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    return np.asarray(np.exp(y - y.max()))


SABOTAGES: Mapping[str, Sabotage] = MappingProxyType(
    {
        "none": Sabotage(_same),
        "first 30 D": Sabotage(partial(_first, per_dimension=30)),
        "first 100 D": Sabotage(partial(_first, per_dimension=100)),
        "thinned to 30 D": Sabotage(partial(_thinned, per_dimension=30)),
        "thinned to 100 D": Sabotage(partial(_thinned, per_dimension=100)),
        "thinned to 300 D": Sabotage(partial(_thinned, per_dimension=300)),
        "one run": Sabotage(_one_run, several=True),
        "one side": Sabotage(_one_side),
        "top two nats": Sabotage(_top, exact=True),
        "noise said 3 times": Sabotage(partial(_noisy, sd=1.0, said=3.0), exact=True),
        "noise said a third": Sabotage(partial(_noisy, sd=3.0, said=1.0), exact=True),
        "noise unsaid": Sabotage(partial(_noisy, sd=1.0, said=None), exact=True),
        "noise 15": Sabotage(partial(_noisy, sd=15.0, said=15.0), exact=True),
        "offset": Sabotage(_offset),
        "outliers": Sabotage(_outliers),
        "mean square": Sabotage(partial(_loss, of=_mean_square), exact=True),
        "root mean square": Sabotage(partial(_loss, of=_root_mean_square), exact=True),
        "density": Sabotage(partial(_loss, of=_density), exact=True),
    }
)
