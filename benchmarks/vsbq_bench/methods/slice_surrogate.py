"""Slice sampling of the surrogate: the cautionary tale of the paper's Supplement C.8.

The sparse Gaussian process is that of the paper's algorithm. Its mean is then sampled as if it were the log density
everywhere, also where nothing was evaluated: no trusted region, no mixture to smooth over what it makes up there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Bool, Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.subset import spread_rows
from vsbq.progress import Progress
from vsbq.settings import Steps
from vsbq.steps.published import PublishedGP
from vsbq.steps.trim import TrainingSet, trim_evaluations
from vsbq_bench.task import Answer, Stopwatch, Task

__all__ = ["Chains", "evaluations_of", "slice_sample", "slice_surrogate"]

CHAINS = 40
START_DEPTH = 2.0  # chains start at evaluations within this contour of the best
SPREAD = 200  # evaluations between which chains learn to leap
LEAPS = 2000
BURN_IN = 0.25  # share of all sweeps, thrown away
FEWEST_SWEEPS = 400  # kept for each chain
STEPS_OUT = 30  # most steps outwards, both sides together
SHRINKAGES = 200  # an interval this often shrunk is a point
FARTHEST = 1e100  # exp() of a wandering chain still has to be a number

LogDensity = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]


def slice_surrogate(task: Task) -> Answer:
    """Fit the paper's sparse GP to the trace and slice sample its mean in inference space; there is no evidence.

    `details` tell the share of draws outside the box of the training points, where the surrogate is made up, and the
    largest R-hat of a coordinate (over 1.1: the chains do not agree).
    """
    watch, settings, how = Stopwatch(), Steps.published(), PublishedGP()
    with watch.stage("surrogate"):
        training, _ = trim_evaluations(evaluations_of(task), settings.trim)
        surrogate, training, fitted = how.fit(training, task.rng, Progress(1, False))
    with watch.stage("sampling"):
        sweeps = max(FEWEST_SWEEPS, -(-task.draws // CHAINS))
        chains = slice_sample(surrogate.mean, _starts(training, task.rng), _leaps(training, task.rng), sweeps, task.rng)
    flat = chains.draws.reshape(-1, training.dimension)
    u = flat[task.rng.choice(len(flat), task.draws, replace=len(flat) < task.draws)]
    with np.errstate(over="ignore"):
        draws = np.clip(training.space.inverse(u), -FARTHEST, FARTHEST)
    low, high = training.points.min(axis=0), training.points.max(axis=0)
    chosen = {"surrogate": asdict(how), "chains": chains.draws.shape[1], "sweeps": sweeps}
    details = {
        "inducing": fitted.inducing,
        "surrogate_calls": chains.calls,
        "rhat": float(rhat(chains.draws).max()),
        "outside_box": float(np.mean(((u < low) | (u > high)).any(axis=1))),
    }
    return Answer(draws=draws, log_evidence=None, seconds=watch.seconds, settings=chosen, details=details)


def evaluations_of(task: Task) -> Evaluations:
    """The trace as the package's own methods take it."""
    return Evaluations(
        task.trace.points,
        task.trace.log_density,
        log_density_sd=task.trace.log_density_sd,
        bounds=task.problem.bounds,
    )


def _high(training: TrainingSet) -> Float[ndarray, "k d"]:
    """Evaluations within a contour of the best, or the best of all where few are."""
    near = training.level >= training.level.max() - contour_depth(START_DEPTH, training.dimension)
    if near.sum() < CHAINS:
        near = np.zeros(len(training), dtype=bool)
        near[np.argsort(-training.level, kind="stable")[:CHAINS]] = True
    return training.points[near]


def _starts(training: TrainingSet, rng: Generator) -> Float[ndarray, "c d"]:
    """High evaluations far from each other, so that every mode the optimiser has found gets its chains."""
    high = _high(training)
    return high[spread_rows(high, CHAINS, rng)]


def _leaps(training: TrainingSet, rng: Generator) -> Float[ndarray, "m d"]:
    """Twice the differences of high evaluations far from each other: as long as the posterior, and along it.

    Thinned, because an optimiser piles its evaluations up at the mode.
    """
    high = _high(training)
    high = high[spread_rows(high, SPREAD, rng)]
    first, second = rng.integers(len(high), size=(2, LEAPS))
    least = 1e-3 * np.ptp(training.points, axis=0) * rng.standard_normal((LEAPS, training.dimension))
    return 2 * (high[first] - high[second]) + least


class Chains(NamedTuple):
    """Draws by sweep and chain, and how many points the log density was asked for."""

    draws: Float[ndarray, "s c d"]
    calls: int


def slice_sample(
    log_density: LogDensity, starts: Float[ndarray, "c d"], leaps: Float[ndarray, "m d"], sweeps: int, rng: Generator
) -> Chains:
    """Slice sampling (Neal 2003, stepping out and shrinkage) of many chains at once; burn-in comes on top of `sweeps`.

    A sweep goes along every axis in turn and then as often along vectors picked from `leaps`, which also say how far
    to step at first.
    """
    dimension = starts.shape[1]
    axes = np.tile(np.diag(leaps.std(axis=0))[:, None], (1, len(starts), 1))
    burn_in = round(sweeps * BURN_IN / (1 - BURN_IN))
    kept = np.empty((sweeps, *starts.shape))
    state = _State(starts, log_density(starts), len(starts))
    for sweep in range(-burn_in, sweeps):
        picked = leaps[rng.integers(len(leaps), size=(dimension, len(starts)))]
        for direction in (*axes, *picked):
            state = _update(log_density, state, direction, rng)
        if sweep >= 0:
            kept[sweep] = state.points
    return Chains(kept, state.calls)


class _State(NamedTuple):
    points: Float[ndarray, "c d"]
    values: Float[ndarray, " c"]
    calls: int


class _Line:
    """The log density along a line through each chain's point; asked only for the chains that still need it."""

    def __init__(self, log_density: LogDensity, points: Float[ndarray, "c d"], direction: Float[ndarray, "c d"]):
        self.log_density, self.points, self.direction = log_density, points, direction
        self.calls = 0

    def at(self, t: Float[ndarray, " c"], needed: Bool[ndarray, " c"]) -> Float[ndarray, " c"]:
        """Values at `t` in units of the direction; -inf for chains that are not needed."""
        values = np.full(len(t), -np.inf)
        if needed.any():
            values[needed] = self.log_density(self.points[needed] + t[needed, None] * self.direction[needed])
            self.calls += int(needed.sum())
        return values


def _update(log_density: LogDensity, state: _State, direction: Float[ndarray, "c d"], rng: Generator) -> _State:
    """Move every chain along its direction."""
    line = _Line(log_density, state.points, direction)
    level = state.values + np.log1p(-rng.random(len(state.points)))
    left, right = _step_out(line, level, rng)
    t, values = _shrink(line, level, left, right, rng)
    stuck = ~np.isfinite(values)  # shrunk to nothing, as only rounding can make it: stay
    points = state.points + np.where(stuck, 0.0, t)[:, None] * direction
    return _State(points, np.where(stuck, state.values, values), state.calls + line.calls)


def _step_out(
    line: _Line, level: Float[ndarray, " c"], rng: Generator
) -> tuple[Float[ndarray, " c"], Float[ndarray, " c"]]:
    """An interval around 0 whose ends are outside the slice, in steps of 1 (Neal's Figure 3)."""
    left = -rng.random(len(level))
    right = left + 1.0
    steps_left = np.floor(STEPS_OUT * rng.random(len(level)))  # shared at random, for detailed balance
    for end, sign, steps in ((left, -1.0, steps_left), (right, 1.0, STEPS_OUT - 1 - steps_left)):
        going = steps > 0
        while going.any():
            going &= line.at(end, going) > level
            end[going] += sign
            steps[going] -= 1
            going &= steps > 0
    return left, right


def _shrink(
    line: _Line, level: Float[ndarray, " c"], left: Float[ndarray, " c"], right: Float[ndarray, " c"], rng: Generator
) -> tuple[Float[ndarray, " c"], Float[ndarray, " c"]]:
    """Uniform draws from the interval, which shrinks towards 0 with every miss (Neal's Figure 5)."""
    t, values = np.zeros(len(level)), np.full(len(level), -np.inf)
    open_ = np.full(len(level), True)
    for _ in range(SHRINKAGES):
        proposal = left + (right - left) * rng.random(len(level))
        found = line.at(proposal, open_)
        hit = open_ & (found > level)
        t[hit], values[hit] = proposal[hit], found[hit]
        open_ &= ~hit
        if not open_.any():
            break
        left = np.where(open_ & (proposal < 0), proposal, left)
        right = np.where(open_ & (proposal >= 0), proposal, right)
    return t, values


def rhat(draws: Float[ndarray, "s c d"]) -> Float[ndarray, " d"]:
    """Split R-hat of each coordinate (Gelman et al., Bayesian Data Analysis)."""
    half = len(draws) // 2
    parts = np.concatenate([draws[:half], draws[-half:]], axis=1)
    within = parts.var(axis=0, ddof=1).mean(axis=0)
    between = parts.mean(axis=0).var(axis=0, ddof=1)
    return np.sqrt((half - 1) / half + between / np.maximum(within, 1e-300))
