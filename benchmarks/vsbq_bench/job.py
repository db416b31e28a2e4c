"""One run of the benchmark in the process that imports this: trace, method, scores, and what it took.

`python -m vsbq_bench.job JOB CACHE` prints the line of one job; the runner starts it so, in a process of its own, so
that the peak memory is that of the run and a crash costs one line.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from vsbq._version import __version__
from vsbq_bench.catalogue import METHODS, PROBLEMS
from vsbq_bench.lines import Line
from vsbq_bench.metrics import DRAWS, floor, gskl, mmtv
from vsbq_bench.problems import Problem
from vsbq_bench.suites import Job
from vsbq_bench.task import Answer, Target, Task
from vsbq_bench.trace_cache import cached_trace

__all__ = ["run_job"]

PACKAGES = ("numpy", "scipy", "cma", "pybads", "emcee", "dynesty", "numdifftools", "jax", "optax")


def run_job(job: Job, cache: Path) -> Line:
    """Run a job and return its line; a method that fails leaves its error there."""
    problem = PROBLEMS[job.problem]()
    try:
        task = _task(job, problem, cache)
        unit = unit_seconds()
        start = perf_counter()
        answer = METHODS[job.method](task)
        total = perf_counter() - start
        unit = (unit + unit_seconds()) / 2
        results = {
            **_scores(problem, answer, job.seed),
            "target_evaluations": int(answer.details.get("evaluations", task.target.evaluations)),  # type: ignore[call-overload]
            "seconds": {**answer.seconds, "total": total},
            "units": total / unit,
            "settings": answer.settings,
        }
        results["details"] = {**answer.details, **_infinite(results)}
    except Exception as error:  # whatever a method raises is a result of the benchmark
        results = {"error": f"{type(error).__name__}: {error}"}
    return Line(**_identity(job, problem), **results, **_environment())


def _task(job: Job, problem: Problem, cache: Path) -> Task:
    trace = cached_trace(
        cache,
        problem,
        job.optimiser,
        noise_sd=job.noise_sd,
        evaluations=job.evaluations_per_dimension * problem.dimension,
        seed=job.seed,
    )
    rng = np.random.default_rng([job.seed, 3])
    target = Target(problem, job.noise_sd, rng.spawn(1)[0])
    return Task(problem=problem, trace=trace, noise_sd=job.noise_sd, target=target, rng=rng, draws=DRAWS)


def _scores(problem: Problem, answer: Answer, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 2])
    truth, least = problem.draw(DRAWS, rng), floor(problem, DRAWS, rng)
    evidence = answer.log_evidence
    return {
        "delta_lml": None if evidence is None else abs(evidence - problem.log_evidence),
        "mmtv": mmtv(answer.draws, truth),
        "gskl": gskl(answer.draws, truth),
        "log_evidence": evidence,
        "log_evidence_sd": answer.log_evidence_sd,
        "floor_mmtv": least.mmtv,
        "floor_gskl": least.gskl,
        "draws": len(answer.draws),
    }


def _infinite(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Name the scores that are infinite, which a line cannot hold."""
    names = [
        name for name in ("delta_lml", "mmtv", "gskl") if results[name] is not None and not isfinite(results[name])
    ]
    return {"infinite": names} if names else {}


def _identity(job: Job, problem: Problem) -> Mapping[str, Any]:
    return {
        "problem": problem.name,
        "noise_sd": job.noise_sd,
        "optimiser": job.optimiser,
        "evaluations": job.evaluations_per_dimension * problem.dimension,
        "method": job.method,
        "seed": job.seed,
        "true_log_evidence": problem.log_evidence,
    }


def _environment() -> Mapping[str, Any]:
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    return {
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "threads": int(threads) if threads else os.cpu_count(),
        "versions": {"vsbq": __version__, "python": platform.python_version(), **_versions()},
        "commit": _commit(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    here = Path(__file__).parent
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=here, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None


def unit_seconds(repeats: int = 4) -> float:
    """Return the median time of one 2000×2000 product, the first one left out."""
    factor = np.random.default_rng(0).standard_normal((2000, 2000))
    times = []
    for _ in range(repeats):
        start = perf_counter()
        factor @ factor
        times.append(perf_counter() - start)
    return float(np.median(times[1:]))


def main() -> None:
    """Run the job given as JSON and print its line."""
    warnings.simplefilter("ignore")  # what other libraries have to say would drown in a log of hundreds of runs
    job, cache = Job(*json.loads(sys.argv[1])), Path(sys.argv[2])
    print(run_job(job, cache).to_json())


if __name__ == "__main__":
    main()
