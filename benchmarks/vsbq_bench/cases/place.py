"""What a job is run on: a problem of the catalogue with a trace as in the paper, or a case with a trace of its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vsbq_bench.cases.cases import Case, case_named
from vsbq_bench.cases.trace_store import stored_trace
from vsbq_bench.cases.traces import budget
from vsbq_bench.catalogue import PROBLEMS
from vsbq_bench.problems import Problem
from vsbq_bench.suites import Job
from vsbq_bench.trace_cache import cached_trace
from vsbq_bench.traces import Trace

__all__ = ["Place", "find_place"]


class Place(NamedTuple):
    """A problem, and the case that it belongs to if it is of the zoo."""

    name: str
    problem: Problem
    case: Case | None = None

    def evaluations(self, job: Job) -> int:
        """Return the length of the trace, at most."""
        if self.case is not None:
            return budget(self.problem.dimension, job.optimiser, job.evaluations_per_dimension)
        return job.evaluations_per_dimension * self.problem.dimension

    def trace(self, job: Job, cache: Path) -> Trace:
        """Return the trace, from the folder `cache` if it is there. That of a case is the same for all seeds."""
        if self.case is not None:
            return stored_trace(cache, self.case, self.problem)
        evaluations = self.evaluations(job)
        return cached_trace(
            cache, self.problem, job.optimiser, noise_sd=job.noise_sd, evaluations=evaluations, seed=job.seed
        )


def find_place(name: str) -> Place:
    """Return the place of that name; the name of a problem may tell whether its data are the published ones."""
    if name in PROBLEMS:
        problem = PROBLEMS[name]()
        return Place(problem.name, problem)
    case = case_named(name)
    if case is None:
        raise ValueError(
            f"there is no problem and no case {name!r}; `vsbq bench list` and `vsbq bench cases` have them"
        )
    return Place(name, case.subject.make(), case)
