"""What every method of the benchmark is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq_bench.problems import Problem
from vsbq_bench.traces import Trace

__all__ = ["Answer", "Stopwatch", "Target", "Task"]


class Target:
    """The log density as a method may call it: with the noise of the task, every evaluation counted."""

    def __init__(self, problem: Problem, noise_sd: float, rng: Generator) -> None:
        self.problem = problem
        self.noise_sd = noise_sd
        self.evaluations = 0
        self._rng = rng

    def __call__(self, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        """Return the log density at each row, -inf outside the bounds."""
        self.evaluations += len(points)
        inside = np.full(len(points), True)
        if self.problem.bounds is not None:
            low, high = self.problem.bounds.T
            inside = np.all((points >= low) & (points <= high), axis=1)
        values = np.full(len(points), -np.inf)
        if np.any(inside):
            values[inside] = self.problem.log_density(points[inside])
        return values + self.noise_sd * self._rng.standard_normal(len(points)) if self.noise_sd > 0 else values


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """One problem at one level of noise, with the trace an optimiser left on it.

    Methods that recycle evaluations use `trace` and leave `target` alone; the others call `target`, whose noise is
    that of the trace. `draws` is how many posterior draws are wanted.
    """

    problem: Problem
    trace: Trace
    noise_sd: float
    target: Target
    rng: Generator
    draws: int

    @property
    def budget(self) -> int:
        """The length of the trace: what a method may evaluate unless its own habit says otherwise."""
        return len(self.trace.points)


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """The posterior as a method sees it.

    `draws` are in the problem's own space. `log_evidence` is None where the method has none to offer.
    `seconds` has the time of each stage. `settings` and `details` hold whatever else is worth keeping in the line of
    the run: plain numbers, strings, and lists and dicts of them.
    """

    draws: Float[ndarray, "n d"]
    log_evidence: float | None
    log_evidence_sd: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)


class Stopwatch:
    """Seconds by stage: `with watch.stage("hessian"): ...`, then `watch.seconds`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent in the block to the stage of that name."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start
