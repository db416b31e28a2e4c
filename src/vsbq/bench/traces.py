"""Traces of MAP optimisation: what a user of an optimiser is left with, made as in the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, Int, ndarray
from vsbq.bench.problems import Problem

__all__ = ["Trace", "cma_trace"]

BUDGET_PER_DIMENSION = 3000
CANDIDATES_PER_DIMENSION = 20
INITIAL_STEP = 0.25  # of the plausible width, as pycma's own documentation advises
WORST_COST = 1e30  # what the optimiser sees where the density is zero: it cannot rank infinities


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
    tolerance: float | None = 0.1,
) -> Trace:
    """Maximise `problem.log_density` by CMA-ES from several starts and return all evaluations.

    Each run evaluates 20 D points drawn uniformly in the plausible box, and 20 D from the prior if the problem has
    one; it starts at the best of them and goes on until CMA-ES stops. Runs follow one another until the budget
    (3000 D unless `evaluations` says otherwise) is used up; the last one is cut to end the trace at that length.
    Each evaluation carries independent Gaussian noise with standard deviation `noise_sd`.

    A run stops once the log density varies by less than `tolerance` over recent generations, as in the experiments
    behind the paper. None leaves it to pycma, whose 1e-11 spends most of the budget on top of the mode.
    """
    budget = BUDGET_PER_DIMENSION * problem.dimension if evaluations is None else evaluations
    if budget < 1 or noise_sd < 0:
        raise ValueError(f"evaluations must be positive and noise_sd not negative, got {budget} and {noise_sd}")
    batches = list(_until(budget, _batches(problem, noise_sd, tolerance, rng)))
    run = np.repeat([batch.run for batch in batches], [len(batch.points) for batch in batches])
    return Trace(
        points=np.concatenate([batch.points for batch in batches])[:budget],
        log_density=np.concatenate([batch.log_density for batch in batches])[:budget],
        log_density_sd=np.full(budget, noise_sd) if noise_sd > 0 else None,
        run=run[:budget],
    )


class _Batch(NamedTuple):
    run: int
    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]


def _until(budget: int, batches: Iterator[_Batch]) -> Iterator[_Batch]:
    """Pass batches on until they hold at least `budget` evaluations."""
    used = 0
    for batch in batches:
        yield batch
        used += len(batch.points)
        if used >= budget:
            return


def _batches(problem: Problem, noise_sd: float, tolerance: float | None, rng: Generator) -> Iterator[_Batch]:
    """Evaluate without end: the candidates of a run, its generations, then the next run."""

    def evaluate(points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        noise = noise_sd * rng.standard_normal(len(points)) if noise_sd > 0 else 0.0
        return problem.log_density(points) + noise

    for run in count():
        points = _candidates(problem, rng)
        log_density = evaluate(points)
        yield _Batch(run, points, log_density)
        strategy = _strategy(problem, points[np.argmax(log_density)], tolerance, rng)
        for generation in _generations(strategy, evaluate):
            yield _Batch(run, *generation)


def _candidates(problem: Problem, rng: Generator) -> Float[ndarray, "n d"]:
    n = CANDIDATES_PER_DIMENSION * problem.dimension
    low, high = problem.plausible_bounds.T
    plausible = rng.uniform(low, high, (n, problem.dimension))
    return plausible if problem.draw_prior is None else np.concatenate([plausible, problem.draw_prior(n, rng)])


def _generations(
    strategy: Any, evaluate: Callable[[ndarray], ndarray]
) -> Iterator[tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]]:
    while not strategy.stop():
        asked = strategy.ask()
        points = np.array(asked)
        log_density = evaluate(points)
        yield points, log_density
        strategy.tell(asked, list(np.minimum(-log_density, WORST_COST)))


def _strategy(problem: Problem, start: Float[ndarray, " d"], tolerance: float | None, rng: Generator) -> Any:
    """Set up CMA-ES in the problem's own space; its normal numbers come from `rng` and from nowhere else."""
    try:
        import cma
    except ImportError as error:
        raise ImportError("optimiser traces need pycma: pip install 'vsbq[bench]'") from error
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
