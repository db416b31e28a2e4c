"""Run a suite: jobs that have no line yet, each in a process of its own, several at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from vsbq_bench.cases.cases import case_named
from vsbq_bench.cases.place import find_place
from vsbq_bench.lines import Cell, Line, append_line, read_lines
from vsbq_bench.suites import Job

__all__ = ["Runner", "missing_jobs"]

TAIL = 400  # characters kept of what a crashed process had to say


@dataclass(frozen=True, kw_only=True)
class Runner:
    """How jobs are run: where lines and traces go, how many processes, and the seconds after which one is given up.

    Each process gets its share of the cores for its linear algebra, so that two runs do not fight for them.
    """

    lines: Path
    cache: Path
    processes: int = 1
    timeout: float = 7200.0
    progress: bool = True

    def run(self, jobs: Sequence[Job]) -> Iterator[Line]:
        """Run the jobs and yield their lines as they end, each already written to the file."""
        from tqdm.auto import tqdm

        done = _in_parallel(self, jobs)
        bar = tqdm(done, total=len(jobs), unit="run", smoothing=0.05, disable=None if self.progress else True)
        for line in bar:
            append_line(self.lines, line)
            bar.set_postfix_str(f"{line.problem} {line.method}", refresh=False)
            yield line

    def run_one(self, job: Job) -> Line:
        """Run one job in a process of its own; if that dies, the line says how."""
        command = [sys.executable, "-m", "vsbq_bench.job", json.dumps(job), str(self.cache)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=self.timeout, env=self._environment()
            )
        except subprocess.TimeoutExpired:
            return _failed(job, f"TimeoutExpired: no result after {self.timeout:.0f} s")
        if done.returncode != 0 or not done.stdout.strip():
            said = done.stderr.strip()[-TAIL:]
            return _failed(job, f"the process ended with code {done.returncode}: {said}")
        return replace(Line(**json.loads(done.stdout.strip().splitlines()[-1])), processes=self.processes)

    def _environment(self) -> dict[str, str]:
        threads = str(max(1, (os.cpu_count() or 1) // self.processes))
        pools = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"), threads)
        return {**os.environ, **pools, "TQDM_DISABLE": "1"}  # NPROC is what XLA goes by


def missing_jobs(jobs: Sequence[Job], lines: Path, *, retry_failed: bool = False) -> list[Job]:
    """Return the jobs that have no line yet, in the same order; with `retry_failed`, also those with an error."""
    have = {(line.cell, line.seed) for line in read_lines([lines]) if line.error is None or not retry_failed}
    return [job for job in jobs if (_cell(job), job.seed) not in have]


def _in_parallel(runner: Runner, jobs: Sequence[Job]) -> Iterator[Line]:
    if runner.processes == 1:
        return map(runner.run_one, jobs)
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise ImportError("several runs at a time need joblib: pip install ./benchmarks") from error
    # Threads, because each does nothing but wait for the process of its job.
    pool = Parallel(n_jobs=runner.processes, prefer="threads", return_as="generator_unordered", pre_dispatch="all")
    return iter(pool(delayed(runner.run_one)(job) for job in jobs))


def _failed(job: Job, error: str) -> Line:
    case = case_named(job.problem)
    about = {} if case is None else case.attributes()
    return Line(**_cell(job)._asdict(), seed=job.seed, error=error, case=about)


def _cell(job: Job) -> Cell:
    """Return the cell of a job; the name of a problem may tell whether the data are the published ones."""
    return _cell_of_first(job._replace(seed=0))


@cache
def _cell_of_first(job: Job) -> Cell:
    place = find_place(job.problem)
    return Cell(place.name, job.noise_sd, job.optimiser, place.evaluations(job), job.method)
