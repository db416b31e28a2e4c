"""The Bayesian timing model of the paper: how a person reproduces time intervals, five parameters.

A measurement x ~ N(τ, w_s τ) of the interval τ is combined with the observer's prior N(mu_p, sigma_p) into an estimate,
which is reproduced with motor noise w_m times itself; with probability lambda the response is a lapse, anywhere
in [0, 2] s. Responses come in bins of 0.02 s and the likelihood of a trial is the probability of its bin.

The definition integrates over 401 measurements per interval. Here all intervals share one grid of measurements, as fine
as each parameter vector needs it: the trapezoid rule converges so fast on Gaussians that the results are the same.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.problems import LogDensity
from vsbq_bench.spline_prior import SplineTrapezoid

__all__ = [
    "BOUNDS",
    "NAMES",
    "PLAUSIBLE_BOUNDS",
    "PRIOR",
    "TimingTrials",
    "read_trials",
    "simulate_trials",
    "timing_log_density",
    "timing_trials",
]


def _box(low: list[float], high: list[float]) -> Float[ndarray, "5 2"]:
    box = np.column_stack([low, high])
    box.flags.writeable = False
    return box


NAMES = ("w_s", "w_m", "mu_p", "sigma_p", "lambda")
BOUNDS = _box([0.01, 0.01, 0.3, 0.0375, 0.01], [0.5, 0.5, 1.95, 0.75, 0.2])
PLAUSIBLE_BOUNDS = _box([0.05, 0.02, 0.6, 0.075, 0.02], [0.25, 0.25, 0.975, 0.375, 0.05])
PRIOR = SplineTrapezoid(BOUNDS, PLAUSIBLE_BOUNDS)

BIN = 0.02
LONGEST = 2.0  # s, the end of the observer's grid and of the lapses
LAPSE_MASS = BIN / LONGEST

# The observer knows intervals on a grid of 101 nodes over [0, 2] s. At 0 the likelihood is a spike, which is left out.
GRID_STEP = 0.02
GRID = GRID_STEP * np.arange(1, 101)
GRID_WEIGHTS = np.append(np.ones(99), 0.5)  # trapezoid rule
GRID_MOMENTS = np.column_stack([GRID_WEIGHTS * GRID, GRID_WEIGHTS])

# The definition stops at 5 sd; 6 moves a log density of 1,512 trials by less than 1e-3 and makes the ends harmless.
REACH = 6.0
FEWEST_NODES, MOST_NODES, NODE_STEP = 64, 512, 32
CHUNK = 2**16  # numbers in the largest array of a pass, so that it stays in the cache

# A participant like the published one, for use without data: 6 intervals, 252 trials of each.
DESIGN = tuple(np.linspace(0.6, 0.975, 6).round(3).tolist())
REPEATS = 252
PARTICIPANT = (0.09, 0.04, 0.7, 0.14, 0.02)


@dataclass(frozen=True, eq=False)
class TimingTrials:
    """One interval and one response per trial, in seconds; a response stands for its bin of 0.02 s."""

    intervals: Float[ndarray, " t"]
    responses: Float[ndarray, " t"]

    def __post_init__(self) -> None:
        if not len(self.intervals):
            raise ValueError("there is no trial")
        _check_rows("interval", (self.intervals > 0) & (self.intervals < LONGEST), "above 0 and below 2 s")
        _check_rows("response", (self.responses >= 0) & (self.responses <= LONGEST), "from 0 to 2 s")


def _check_rows(what: str, good: ndarray, rule: str) -> None:
    if not good.all():
        rows = np.flatnonzero(~good) + 1
        shown = ", ".join(map(str, rows[:10])) + (", ..." if len(rows) > 10 else "")
        raise ValueError(f"every {what} must be {rule}; {len(rows)} are not, in trials {shown} (the first is 1)")


def timing_trials(path: Path | None = None) -> TimingTrials:
    """Return the trials of a CSV file or, without one, those of a simulated participant who is always the same."""
    return simulate_trials(np.random.default_rng(0)) if path is None else read_trials(path)


def read_trials(path: Path | str) -> TimingTrials:
    """Read trials from a CSV file with the columns interval_s and response_s; others are ignored."""
    columns = ("interval_s", "response_s")
    with Path(path).open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in columns if name not in (reader.fieldnames or ())]
        if missing:
            raise ValueError(f"{path}: no column {' and '.join(missing)}; it has {reader.fieldnames or 'none'}")
        cells = [(reader.line_num, [row[name] for name in columns]) for row in reader]
    numbers = [[_number(text) for text in texts] for _, texts in cells]
    bad = [line for (line, _), pair in zip(cells, numbers, strict=True) if not all(map(isfinite, pair))]
    if bad:
        shown = ", ".join(map(str, bad[:10])) + (", ..." if len(bad) > 10 else "")
        raise ValueError(f"{path}: {' and '.join(columns)} must be numbers; they are not in lines {shown}")
    intervals, responses = np.array(numbers).reshape(-1, 2).T
    try:
        return TimingTrials(intervals, responses)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _number(text: str | None) -> float:
    try:
        return float(text or "nan")
    except ValueError:
        return float("nan")


def simulate_trials(rng: Generator) -> TimingTrials:
    """Draw the responses of a typical participant in the published design: 6 intervals, 252 trials of each."""
    w_s, w_m, _, _, lapse = PARTICIPANT
    intervals = rng.permutation(np.repeat(DESIGN, REPEATS))
    measured = intervals * (1 + w_s * rng.standard_normal(len(intervals)))
    estimates = _estimates(np.array([PARTICIPANT]), measured[None])[0]
    reproduced = estimates * (1 + w_m * rng.standard_normal(len(intervals)))
    lapses = rng.random(len(intervals)) < lapse
    responses = np.where(lapses, rng.uniform(0, LONGEST, len(intervals)), reproduced)
    return TimingTrials(intervals, (_bins(responses) + 0.5) * BIN)


def timing_log_density(trials: TimingTrials) -> LogDensity:
    """Return the log of likelihood times prior: rows of parameters in the order of `NAMES`, -inf outside `BOUNDS`."""
    return partial(_log_density, _count(trials))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Counts:
    """The trials as counts of the distinct pairs of interval and bin, each bin as the places of its two edges."""

    intervals: Float[ndarray, " i"]
    edges: Float[ndarray, " e"]
    interval_of: Int[ndarray, " p"]
    lower: Int[ndarray, " p"]
    upper: Int[ndarray, " p"]
    counts: Float[ndarray, " p"]


def _count(trials: TimingTrials) -> _Counts:
    intervals, interval_of = np.unique(trials.intervals, return_inverse=True)
    pairs, counts = np.unique(np.column_stack([interval_of, _bins(trials.responses)]), axis=0, return_counts=True)
    edges = np.unique([pairs[:, 1], pairs[:, 1] + 1])
    return _Counts(
        intervals=intervals,
        edges=edges * BIN,
        interval_of=pairs[:, 0],
        lower=np.searchsorted(edges, pairs[:, 1]),
        upper=np.searchsorted(edges, pairs[:, 1] + 1),
        counts=counts.astype(float),
    )


def _bins(responses: Float[ndarray, " t"]) -> Int[ndarray, " t"]:
    """Number the bins from 0; a response on an edge, but for rounding, belongs to the upper bin."""
    return np.clip(np.floor(responses / BIN + 1e-9), 0, round(LONGEST / BIN) - 1).astype(np.int64)


def _log_density(trials: _Counts, points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    result = PRIOR.log_density(points)
    inside = np.flatnonzero(np.isfinite(result))
    for nodes, chunk in _chunks(_nodes_needed(trials, points[inside])):
        rows = inside[chunk]
        result[rows] += _log_likelihood(trials, points[rows], nodes)
    return result


def _nodes_needed(trials: _Counts, points: Float[ndarray, "n 5"]) -> Int[ndarray, " n"]:
    """Count the measurements that resolve the narrowest thing to integrate over, row by row."""
    w_s, w_m = points[:, 0], points[:, 1]
    low, high = trials.intervals[0], trials.intervals[-1]
    noise = low * np.minimum(w_s, w_m)
    # Where the measurement is sharper than the observer's grid, the estimate jumps from node to node.
    jumps = (low * w_s) ** 2 / GRID_STEP
    # Measurements near zero, possible under wide noise, are as sharp as that grid.
    near_zero = np.where(w_s > 0.2, GRID_STEP / 2, np.inf)
    span = high - low + REACH * w_s * (low + high)
    nodes = span / np.minimum(np.minimum(noise, jumps), near_zero)
    return np.clip(NODE_STEP * np.ceil(nodes / NODE_STEP), FEWEST_NODES, MOST_NODES).astype(np.int64)


def _chunks(nodes: Int[ndarray, " n"]) -> Iterator[tuple[int, Int[ndarray, " c"]]]:
    """Yield rows that need the same number of nodes, few enough at a time for the cache."""
    for count in np.unique(nodes).tolist():
        rows = np.flatnonzero(nodes == count)
        size = max(1, CHUNK // (count * len(GRID)))
        for start in range(0, len(rows), size):
            yield count, rows[start : start + size]


def _log_likelihood(trials: _Counts, points: Float[ndarray, "n 5"], nodes: int) -> Float[ndarray, " n"]:
    w_s, w_m, lapse = points[:, 0, None], points[:, 1, None, None], points[:, 4, None]
    start = trials.intervals[0] * (1 - REACH * w_s)
    end = trials.intervals[-1] * (1 + REACH * w_s)
    measured = start + (end - start) * np.linspace(0, 1, nodes)
    motor = trials.edges / _estimates(points, measured)[:, :, None]
    motor -= 1
    motor /= w_m
    below = ndtr(motor, out=motor)  # the probability of a response below each edge, given the measurement
    off = measured[:, None] / trials.intervals[:, None] - 1
    weights = np.exp(-0.5 * (off / w_s[:, :, None]) ** 2)
    weights /= weights.sum(axis=2, keepdims=True)
    cdf = weights @ below
    mass = cdf[:, trials.interval_of, trials.upper] - cdf[:, trials.interval_of, trials.lower]
    result: ndarray = np.log(lapse * LAPSE_MASS + (1 - lapse) * mass) @ trials.counts
    return result


def _estimates(points: Float[ndarray, "n 5"], measured: Float[ndarray, "n x"]) -> Float[ndarray, "n x"]:
    """Return what the observer makes of each measurement: the posterior mean, shrunk for the cost of motor noise."""
    w_s, w_m, mu_p, sigma_p = (points[:, i, None] for i in range(4))
    # log N(x; s, w_s s) + log N(s; mu_p, sigma_p) is a parabola in x for every s: one product of matrices.
    curve = -0.5 / (w_s * GRID) ** 2
    constant = -0.5 / w_s**2 - np.log(GRID) - 0.5 * ((GRID - mu_p) / sigma_p) ** 2
    coefficients = np.stack([curve, -2 * GRID * curve, constant], axis=1)
    posterior = np.stack([measured**2, measured, np.ones_like(measured)], axis=2) @ coefficients
    posterior -= posterior.max(axis=2, keepdims=True)
    moments = np.exp(posterior, out=posterior) @ GRID_MOMENTS
    result: ndarray = moments[:, :, 0] / moments[:, :, 1] / (1 + w_m**2)
    return result
