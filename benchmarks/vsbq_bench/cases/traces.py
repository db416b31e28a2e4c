"""What scientists' optimisers leave behind: eight of them, one run or several, good and bad start boxes, noise.

A trace holds every evaluation, also those of finite differences, within the bounds, -inf where the density is zero.
Everything follows from the generator.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq_bench.cases.optimisers import OPTIMISERS
from vsbq_bench.problems import Problem
from vsbq_bench.traces import Trace, _BudgetUsedError, _Recorder

__all__ = ["BOXES", "BY_POINT", "MOST_EVALUATIONS", "Box", "Noise", "budget", "case_trace", "start_box"]

Box = Literal["plausible", "narrow", "wide"]
Noise = float | Literal["by_point"]

BOXES: tuple[Box, ...] = ("plausible", "narrow", "wide")
BY_POINT: Literal["by_point"] = "by_point"
LOG_SD_SPREAD = 0.5  # of noise by point: standard deviations are log-normal around 1
NARROW = 0.1
WIDE = 3.0
GUESSES = 1000  # places of a narrow box that are tried for one with density
CANDIDATES, CANDIDATES_OF_ONE = 5, 20  # per dimension, before each of several runs and before a single one
MOST_EVALUATIONS = 12_000
MOST_OF_SLOW = {"bads": 600, "tpe": 600}  # optimisers that take longer to think than most models to compute


def budget(dimension: int, optimiser: str, evaluations_per_dimension: int) -> int:
    """Return how many evaluations a trace may have."""
    return min(evaluations_per_dimension * dimension, MOST_OF_SLOW.get(optimiser, MOST_EVALUATIONS))


def case_trace(
    problem: Problem, rng: Generator, *, optimiser: str, several: bool, evaluations: int, noise: Noise, box: Box
) -> Trace:
    """Maximise the log density and return all evaluations.

    A run evaluates 5 D points drawn uniformly in the start box (20 D if it is the only one), more where none has any
    density, and goes on from the best until the optimiser stops. `several` runs follow one another until `evaluations`
    are used up; a single one may end before. Noise is Gaussian with the standard deviation `noise`, or with one of its
    own for each point.
    """
    if optimiser not in OPTIMISERS:
        raise ValueError(f"optimiser must be one of {', '.join(OPTIMISERS)}, got {optimiser!r}")
    if evaluations < 1 or (noise != BY_POINT and noise < 0):
        raise ValueError(f"evaluations must be positive and noise not negative, got {evaluations} and {noise}")
    started = replace(problem, plausible_bounds=start_box(problem, box, rng), draw_prior=None)
    record = _CaseRecorder(started, noise, evaluations, rng)
    with suppress(_BudgetUsedError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # optimisers complain of noise and cliffs
        while True:
            record.begin_run()
            OPTIMISERS[optimiser](record, *_candidates(record, CANDIDATES if several else CANDIDATES_OF_ONE))
            if not several:
                break
    return record.trace()


def start_box(problem: Problem, box: Box, rng: Generator) -> Float[ndarray, "d 2"]:
    """Return the box of the starts.

    It is the plausible box; or, `narrow`, a tenth of it in each direction, somewhere within, its centre where the
    density is not zero; or, `wide`, three times as much around the same centre, cut at the bounds.
    """
    low, high = problem.plausible_bounds.T
    if box == "plausible":
        return np.column_stack([low, high])
    if box == "narrow":
        half = NARROW * (high - low) / 2
        centre = _with_density(problem, rng.uniform(low + half, high - half, (GUESSES, len(low))))
        return np.column_stack([centre - half, centre + half])
    centre, half = (low + high) / 2, WIDE * (high - low) / 2
    wide = np.column_stack([centre - half, centre + half])
    return wide if problem.bounds is None else np.clip(wide, problem.bounds[:, :1], problem.bounds[:, 1:])


def _with_density(problem: Problem, points: Float[ndarray, "n d"]) -> Float[ndarray, " d"]:
    """Return the first of the points where the density is not zero."""
    values = problem.log_density(points)
    return points[np.argmax(values > -np.inf)]


def _candidates(record: _Recorder, per_dimension: int) -> tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]:
    """Evaluate points of the start box until one of them has density."""
    low, high = record.problem.plausible_bounds.T
    while True:
        points = record.rng.uniform(low, high, (per_dimension * len(low), len(low)))
        values = record(points)
        if np.any(values > -np.inf):
            return points, values


class _CaseRecorder(_Recorder):
    """The log density as an optimiser calls it, with noise of any kind; `noise_sd` is that of the last evaluation."""

    def __init__(self, problem: Problem, noise: Noise, budget: int, rng: Generator) -> None:
        super().__init__(problem, 1.0 if noise == BY_POINT else float(noise), budget, rng)
        self._by_point = noise == BY_POINT
        self._sds: list[Float[ndarray, " n"]] = []

    def __call__(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Evaluate within the bounds, where rounding has left them too, and never more than the budget."""
        if self.problem.bounds is not None:
            points = np.clip(points, *self.problem.bounds.T)
        values = self.problem.log_density(points)
        sds = self._noise_sds(len(points))
        if self.noise_sd > 0:
            values = values + sds * self.rng.standard_normal(len(points))
        self._keep(points, values, sds)
        return values

    def _noise_sds(self, n: int) -> Float[ndarray, " n"]:
        if not self._by_point:
            return np.full(n, self.noise_sd)
        sds = np.exp(LOG_SD_SPREAD * self.rng.standard_normal(n))
        self.noise_sd = float(sds[-1])
        return sds

    def _keep(self, points: Float[ndarray, "n d"], values: Float[ndarray, " n"], sds: Float[ndarray, " n"]) -> None:
        self._points.append(np.array(points))
        self._values.append(values)
        self._sds.append(sds)
        self._run.append(np.full(len(points), self._runs - 1))
        self._used += len(points)
        self.lowest = float(np.min(values, where=np.isfinite(values), initial=self.lowest))
        if self._used >= self._budget:
            raise _BudgetUsedError

    def trace(self) -> Trace:
        """Return what was evaluated."""
        noisy = self.noise_sd > 0
        return Trace(
            points=np.concatenate(self._points)[: self._budget],
            log_density=np.concatenate(self._values)[: self._budget],
            log_density_sd=np.concatenate(self._sds)[: self._budget] if noisy else None,
            run=np.concatenate(self._run)[: self._budget],
        )
