"""Traces of MAP optimisation: what a user of an optimiser is left with, made as in the paper."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.borrowed_random import global_state_from
from vsbq_bench.problems import Problem

__all__ = ["Trace", "bads_trace", "cma_trace"]

BUDGET_PER_DIMENSION = 3000
CANDIDATES_PER_DIMENSION = 20
TOLERANCE = 0.1  # in log density, for either optimiser, as in the experiments behind the paper
INITIAL_STEP = 0.25  # of the plausible width, as pycma's own documentation advises
WORST_COST = 1e30  # what CMA-ES sees where the density is zero: it cannot rank infinities


@dataclass(frozen=True, eq=False)
class Trace:
    """Every evaluation of several optimisation runs, in the order in which they were made.

    `log_density_sd` is None where the evaluations are exact. `run` counts the runs from 0.
    """

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    log_density_sd: Float[ndarray, " n"] | None
    run: Int[ndarray, " n"]


def cma_trace(
    problem: Problem,
    rng: Generator,
    *,
    evaluations: int | None = None,
    noise_sd: float = 0.0,
    tolerance: float | None = TOLERANCE,
) -> Trace:
    """Maximise `problem.log_density` by CMA-ES from several starts and return all evaluations.

    Each run evaluates 20 D points drawn uniformly in the plausible box, and 20 D from the prior if the problem has
    one; it starts at the best of them and goes on until CMA-ES stops. Runs follow one another until the budget
    (3000 D unless `evaluations` says otherwise) is used up; the last one is cut to end the trace at that length.
    Each evaluation carries independent Gaussian noise with standard deviation `noise_sd`.

    A run stops once the log density varies by less than `tolerance` over recent generations, as in the experiments
    behind the paper. None leaves it to pycma, whose 1e-11 spends most of the budget on top of the mode.

    Where there is noise, pycma's noise handler evaluates some points of each generation again and widens the search
    where their ranks change: without it the search shrinks onto a point that noise has chosen.
    """
    return _trace(problem, rng, partial(_run_cma, tolerance), evaluations, noise_sd)


def bads_trace(
    problem: Problem,
    rng: Generator,
    *,
    evaluations: int | None = None,
    noise_sd: float = 0.0,
    tolerance: float | None = TOLERANCE,
) -> Trace:
    """Maximise `problem.log_density` by Bayesian adaptive direct search; all else is as in `cma_trace`.

    A run stops once the log density improves by less than `tolerance` over several iterations; None leaves it to
    PyBADS, whose 1e-3 makes the runs longer. PyBADS is told the noise of each evaluation.
    """
    return _trace(problem, rng, partial(_run_bads, tolerance), evaluations, noise_sd)


class _BudgetUsedError(Exception):
    """The trace is complete: whatever optimiser is at work must stop."""


class _Recorder:
    """The log density with its noise, as an optimiser calls it; keeps every evaluation until the budget is used."""

    def __init__(self, problem: Problem, noise_sd: float, budget: int, rng: Generator) -> None:
        self.problem, self.noise_sd, self.rng = problem, noise_sd, rng
        self.lowest = np.inf  # of the finite values
        self._budget = budget
        self._points: list[Float[ndarray, "n d"]] = []
        self._values: list[Float[ndarray, " n"]] = []
        self._run: list[Int[ndarray, " n"]] = []
        self._used, self._runs = 0, 0

    def begin_run(self) -> None:
        self._runs += 1

    def __call__(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        noise = self.noise_sd * self.rng.standard_normal(len(points)) if self.noise_sd > 0 else 0.0
        values = self.problem.log_density(points) + noise
        self._points.append(points)
        self._values.append(values)
        self._run.append(np.full(len(points), self._runs - 1))
        self._used += len(points)
        self.lowest = float(np.min(values, where=np.isfinite(values), initial=self.lowest))
        if self._used >= self._budget:
            raise _BudgetUsedError
        return values

    def trace(self) -> Trace:
        return Trace(
            points=np.concatenate(self._points)[: self._budget],
            log_density=np.concatenate(self._values)[: self._budget],
            log_density_sd=np.full(self._budget, self.noise_sd) if self.noise_sd > 0 else None,
            run=np.concatenate(self._run)[: self._budget],
        )


def _trace(
    problem: Problem,
    rng: Generator,
    optimise: Callable[[_Recorder, ndarray, ndarray], None],
    evaluations: int | None,
    noise_sd: float,
) -> Trace:
    """Hand new candidates to `optimise`, which starts at the best, again and again until the budget is used."""
    budget = BUDGET_PER_DIMENSION * problem.dimension if evaluations is None else evaluations
    if budget < 1 or noise_sd < 0:
        raise ValueError(f"evaluations must be positive and noise_sd not negative, got {budget} and {noise_sd}")
    record = _Recorder(problem, noise_sd, budget, rng)
    with suppress(_BudgetUsedError):
        while True:
            record.begin_run()
            points = _candidates(problem, rng)
            optimise(record, points, record(points))
    return record.trace()


def _candidates(problem: Problem, rng: Generator) -> Float[ndarray, "n d"]:
    n = CANDIDATES_PER_DIMENSION * problem.dimension
    low, high = problem.plausible_bounds.T
    plausible = rng.uniform(low, high, (n, problem.dimension))
    return plausible if problem.draw_prior is None else np.concatenate([plausible, problem.draw_prior(n, rng)])


# CMA-ES


def _run_cma(
    tolerance: float | None, record: _Recorder, candidates: Float[ndarray, "n d"], log_density: Float[ndarray, " n"]
) -> None:
    strategy = _strategy(record.problem, candidates[np.argmax(log_density)], tolerance, record.rng)
    handler = _noise_handler(record.problem.dimension) if record.noise_sd > 0 else None

    def cost(asked: list[ndarray]) -> list[float]:
        return list(np.minimum(-record(np.array(asked)), WORST_COST))

    while not strategy.stop():
        asked = strategy.ask()
        costs = cost(asked)
        strategy.tell(asked, costs)
        if handler is not None:
            with global_state_from(record.rng):
                strategy.sigma *= handler(asked, costs, cost, strategy.ask)
            strategy.countevals += handler.evaluations_just_done


def _strategy(problem: Problem, start: Float[ndarray, " d"], tolerance: float | None, rng: Generator) -> Any:
    """Set up CMA-ES in the problem's own space; its normal numbers come from `rng` and from nowhere else."""
    try:
        import cma
    except ImportError as error:
        raise ImportError("optimiser traces need pycma: pip install ./benchmarks") from error
    options: dict[str, Any] = {
        "randn": lambda *shape: rng.standard_normal(shape),
        "seed": np.nan,  # pycma's word for: leave NumPy's global random state alone
        "CMA_stds": problem.plausible_bounds[:, 1] - problem.plausible_bounds[:, 0],
        "verbose": -10,  # no output, no files, read or written
    }
    if tolerance is not None:
        options["tolfun"] = tolerance
    if problem.bounds is not None:
        options["bounds"] = [_open_ends(side) for side in problem.bounds.T]
    return cma.CMAEvolutionStrategy(start, INITIAL_STEP, options)


def _open_ends(side: Float[ndarray, " d"]) -> list[float | None]:
    return [float(bound) if np.isfinite(bound) else None for bound in side]


def _noise_handler(dimension: int) -> Any:
    import cma

    return cma.NoiseHandler(dimension, parallel=True)  # parallel: it asks for the values of a list of points


# BADS


def _run_bads(
    tolerance: float | None, record: _Recorder, candidates: Float[ndarray, "n d"], log_density: Float[ndarray, " n"]
) -> None:
    if not np.any(log_density > -np.inf):
        return  # BADS has nothing to go by: better candidates must come first

    def cost(point: Float[ndarray, " d"]) -> float | tuple[float, float]:
        value = float(record(np.array(point, ndmin=2))[0])
        # BADS models the values themselves, so that zero density must look bad without being out of all proportion
        seen = -value if value > -np.inf else -record.lowest
        return (seen, record.noise_sd) if record.noise_sd > 0 else seen

    options: dict[str, Any] = {
        "display": "off",
        "show_tips": False,
        "random_seed": record.rng,
        "uncertainty_handling": record.noise_sd > 0,
        "specify_target_noise": record.noise_sd > 0,
    }
    if tolerance is not None:
        options["tol_fun"] = tolerance
    start = candidates[np.argmax(log_density)]
    hard = (None, None) if record.problem.bounds is None else record.problem.bounds.T
    with _silence():
        _bads()(cost, start, *hard, *record.problem.plausible_bounds.T, options=options).optimize()


def _bads() -> Any:
    try:
        from pybads import BADS
    except ImportError as error:
        raise ImportError("BADS traces need PyBADS: pip install ./benchmarks") from error
    return BADS


@contextmanager
def _silence() -> Iterator[None]:
    """Keep PyBADS from writing, and undo what it does to the root logger."""
    root, logger = logging.getLogger(), logging.getLogger("BADS")
    handlers, disabled = root.handlers[:], logger.disabled
    logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.handlers[:] = handlers
        logger.disabled = disabled
