"""Samplers of the true density: what one reaches for where evaluations cost nothing.

Both call the density without noise, whatever the noise of the task, many more times than the trace is long; how often
is in the details of the answer. They are a reference for the recycling methods, not their competitors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.subset import spread_rows
from vsbq_bench.problems import Problem
from vsbq_bench.task import Answer, Stopwatch, Target, Task

__all__ = ["BoxMap", "dynesty_sampler", "emcee_sampler"]

FEWEST_WALKERS = 32
WALKERS_PER_DIMENSION = 4
START_DEPTH = 3.0  # walkers start at evaluations within this contour of the best
FIRST_STEPS = 1000
GROWTH = 0.25  # by which the chain grows between looks at its autocorrelation
LEAST_LENGTH = 50.0  # of the kept chain, in autocorrelation times
EFFECTIVE_DRAWS = 5000  # independent draws that the kept chains are worth
BURN_IN = 0.2  # share of the chain, thrown away
MOST_TRACES = 100  # evaluations, in lengths of the trace

LIVE_POINTS = 500
EFFECTIVE_SAMPLES = 5000
MOST_CALLS = 1_000_000


def emcee_sampler(task: Task) -> Answer:
    """Draw with the affine-invariant ensemble of emcee until it is long enough, or 100 times the trace is spent.

    Walkers start at high evaluations of the trace far from each other. Moves are stretches (40 %), differential
    evolution (50 %) and the same with a step of one whole difference (10 %), which leaps between modes; emcee's
    snooker move is left out because it is biased. "Long enough" is 50 autocorrelation times of every coordinate and
    as many steps as make 5000 independent draws.
    """
    watch, target = Stopwatch(), Target(task.problem, 0.0, task.rng)
    with watch.stage("sampling"):
        sampler = _ensemble(task, target)
        state: Any = _walkers(task)
        most = MOST_TRACES * task.budget // sampler.nwalkers
        kept = None
        while kept is None or not (kept.enough or sampler.iteration >= most):
            steps = max(FIRST_STEPS, round(GROWTH * sampler.iteration))
            state = sampler.run_mcmc(state, min(steps, most - sampler.iteration))
            kept = _kept(sampler)
    flat = kept.chain.reshape(-1, task.problem.dimension)
    draws = flat[task.rng.choice(len(flat), task.draws, replace=len(flat) < task.draws)]
    details = {
        "evaluations": target.evaluations,
        "walkers": sampler.nwalkers,
        "steps": sampler.iteration,
        "autocorrelation_time": kept.time,
        "long_enough": kept.enough,
        "acceptance": float(np.mean(sampler.acceptance_fraction)),
    }
    return Answer(draws=draws, log_evidence=None, seconds=watch.seconds, details=details)


def _ensemble(task: Task, target: Target) -> Any:
    try:
        import emcee
    except ImportError as error:
        raise ImportError("ensemble sampling needs emcee: pip install ./benchmarks") from error
    moves = [(emcee.moves.StretchMove(), 0.4), (emcee.moves.DEMove(), 0.5), (emcee.moves.DEMove(gamma0=1.0), 0.1)]
    dimension = task.problem.dimension
    walkers = max(FEWEST_WALKERS, WALKERS_PER_DIMENSION * dimension)
    sampler = emcee.EnsembleSampler(walkers, dimension, target, moves=moves, vectorize=True)
    sampler.random_state = np.random.MT19937(int(task.rng.integers(2**63))).state
    return sampler


def _walkers(task: Task) -> Float[ndarray, "w d"]:
    """High evaluations far from each other, each shaken a little so that together they span the space."""
    count = max(FEWEST_WALKERS, WALKERS_PER_DIMENSION * task.problem.dimension)
    points, values = task.trace.points, task.trace.log_density
    noise = 0.0 if task.trace.log_density_sd is None else task.trace.log_density_sd
    high = np.flatnonzero(values >= (values - noise).max() - contour_depth(START_DEPTH, task.problem.dimension))
    if len(high) < 2 * count:
        high = np.argsort(-values, kind="stable")[: 2 * count]
    rows = high[spread_rows(points[high], count, task.rng)]
    rows = np.concatenate([rows, task.rng.choice(high, count - len(rows))])
    width = np.maximum(points[high].std(axis=0), 1e-6 * np.ptp(points, axis=0))
    shaken = points[rows] + 1e-2 * width * task.rng.standard_normal(points[rows].shape)
    if task.problem.bounds is None:
        return shaken
    low, side = task.problem.bounds.T
    return np.where((shaken > low) & (shaken < side), shaken, points[rows])


class _Kept(NamedTuple):
    """The chain without its burn-in, its longest autocorrelation time in steps, and whether it will do."""

    chain: Float[ndarray, "s w d"]
    time: float
    enough: bool


def _kept(sampler: Any) -> _Kept:
    burnt = round(BURN_IN * sampler.iteration)
    chain = sampler.get_chain(discard=burnt)
    time = float(np.max(sampler.get_autocorr_time(discard=burnt, tol=0)))
    needed = max(LEAST_LENGTH, EFFECTIVE_DRAWS / sampler.nwalkers) * time
    return _Kept(chain, time, bool(len(chain) > needed))  # False for a NaN, as a chain that never moved has


def dynesty_sampler(task: Task) -> Answer:
    """Draw by dynamic nested sampling with random walks, which gives the evidence too.

    A problem has no prior to sample from, only a density: `BoxMap` stands in for it, and what dynesty integrates is
    the density divided by that of the map, so that the evidence is right whatever the map.
    """
    watch, target = Stopwatch(), Target(task.problem, 0.0, task.rng)
    box = BoxMap.of(task.problem)
    with watch.stage("sampling"):
        results = _nested(target, box, task.rng)
    weights = results.importance_weights()
    draws = results["samples"][_systematic(weights, task.draws, task.rng)]
    details = {
        "evaluations": target.evaluations,
        "live_points": LIVE_POINTS,
        "effective_draws": float(1.0 / np.sum(weights**2)),
    }
    return Answer(
        draws=draws,
        log_evidence=float(results["logz"][-1]),
        log_evidence_sd=float(results["logzerr"][-1]),
        seconds=watch.seconds,
        details=details,
    )


def _nested(target: Target, box: BoxMap, rng: Generator) -> Any:
    try:
        import dynesty
    except ImportError as error:
        raise ImportError("nested sampling needs dynesty: pip install ./benchmarks") from error

    def log_likelihood(x: Float[ndarray, " d"]) -> float:
        return float((target(x[None]) - box.log_density(x[None]))[0])

    def transform(p: Float[ndarray, " d"]) -> Float[ndarray, " d"]:
        return box.quantile(p[None])[0]

    sampler = dynesty.DynamicNestedSampler(
        log_likelihood, transform, len(box.centre), nlive=LIVE_POINTS, sample="rwalk", rstate=rng
    )
    sampler.run_nested(n_effective=EFFECTIVE_SAMPLES, maxcall=MOST_CALLS, print_progress=False, save_bounds=False)
    return sampler.results


def _systematic(weights: Float[ndarray, " n"], count: int, rng: Generator) -> Any:
    """Rows drawn in proportion to their weights with little noise, in random order."""
    edges = np.cumsum(weights / weights.sum())
    rows = np.searchsorted(edges, (np.arange(count) + rng.random()) / count, side="right")
    return rng.permutation(np.minimum(rows, len(weights) - 1))


class BoxMap(NamedTuple):
    """From the unit cube to the problem's space, coordinate by coordinate.

    Between two finite bounds the map is uniform. A coordinate without bounds gets the quantiles of Student's t with
    two degrees of freedom, whose heavy tails leave nothing out, centred on the plausible box with half of its width
    as scale. With one bound, the distance from it has the density s / (s + x)², s being its value in the middle of
    the plausible box.
    """

    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]
    centre: Float[ndarray, " d"]
    scale: Float[ndarray, " d"]

    @classmethod
    def of(cls, problem: Problem) -> BoxMap:
        """The map of a problem, from its bounds and its plausible box."""
        low, high = problem.plausible_bounds.T
        open_ = np.full(problem.dimension, np.inf)
        lower, upper = (-open_, open_) if problem.bounds is None else problem.bounds.T
        return cls(lower, upper, (low + high) / 2, (high - low) / 2)

    def quantile(self, p: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
        """Points of the problem's space at points of the unit cube."""
        p = np.clip(p, 1e-15, 1 - 1e-15)
        x = self.centre + self.scale * (2 * p - 1) / np.sqrt(2 * p * (1 - p))
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        if not (below.any() or above.any()):
            return x
        low, high = np.where(below, self.lower, 0.0), np.where(above, self.upper, 0.0)
        x = np.where(below, low + (self.centre - low) * p / (1 - p), x)
        x = np.where(above, high - (high - self.centre) * (1 - p) / p, x)
        return np.where(below & above, low + (high - low) * p, x)

    def log_density(self, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Log density of the image of uniform points."""
        t = (x - self.centre) / self.scale
        out = -1.5 * np.log(2 + t * t) - np.log(self.scale)
        below, above = np.isfinite(self.lower), np.isfinite(self.upper)
        if not (below.any() or above.any()):
            return np.asarray(out.sum(axis=1))
        for side, bound in ((below, self.lower), (above, self.upper)):
            reach = np.where(side, np.abs(self.centre - np.where(side, bound, 0.0)), 1.0)
            distance = np.where(side, np.abs(x - np.where(side, bound, 0.0)), 0.0)
            out = np.where(side, np.log(reach) - 2 * np.log(reach + distance), out)
        both = below & above
        out = np.where(both, -np.log(np.where(both, self.upper - self.lower, 1.0)), out)
        return np.asarray(out.sum(axis=1))
