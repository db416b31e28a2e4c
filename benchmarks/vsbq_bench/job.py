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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from math import hypot, isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from vsbq._version import __version__
from vsbq.errors import VsbqWarning
from vsbq_bench.cases.place import Place, find_place
from vsbq_bench.catalogue import METHODS
from vsbq_bench.lines import Line
from vsbq_bench.metrics import CASE_DRAWS, DRAWS, floor, gskl, mmtv
from vsbq_bench.problems import Problem
from vsbq_bench.suites import Job
from vsbq_bench.task import Answer, Target, Task

__all__ = ["run_job"]

PACKAGES = ("numpy", "scipy", "cma", "pybads", "emcee", "dynesty", "numdifftools", "jax", "optax")


def run_job(job: Job, cache: Path) -> Line:
    """Run a job and return its line; a method that fails leaves its error there."""
    place = find_place(job.problem)
    said: dict[str, int] = {}
    try:
        task = _task(job, place, cache)
        unit = unit_seconds()
        start = perf_counter()
        with _listening(said):
            answer = METHODS[job.method](task)
        total = perf_counter() - start
        unit = (unit + unit_seconds()) / 2
        results = {
            **_scores(place.problem, answer, _draws(place), job.seed),
            "share_outside": _share_outside(answer),
            "target_evaluations": int(answer.details.get("evaluations", task.target.evaluations)),  # type: ignore[call-overload]
            "seconds": {**answer.seconds, "total": total},
            "units": total / unit,
            "settings": answer.settings,
        }
        results["details"] = {**answer.details, **_infinite(results)}
    except Exception as error:  # whatever a method raises is a result of the benchmark
        results = {"error": f"{type(error).__name__}: {error}"}
    return Line(**_identity(job, place), **results, **_environment(), warnings=said)


@contextmanager
def _listening(said: dict[str, int]) -> Iterator[None]:
    """Count the warnings of the library by their texts, also those that come before a failure."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", VsbqWarning)
        try:
            yield
        finally:
            for warning in caught:
                said[str(warning.message)] = said.get(str(warning.message), 0) + 1


def _task(job: Job, place: Place, cache: Path) -> Task:
    rng = np.random.default_rng([job.seed, 3])
    target = Target(place.problem, job.noise_sd, rng.spawn(1)[0])
    trace = place.trace(job, cache)
    return Task(problem=place.problem, trace=trace, noise_sd=job.noise_sd, target=target, rng=rng, draws=_draws(place))


def _draws(place: Place) -> int:
    return DRAWS if place.case is None else CASE_DRAWS


def _share_outside(answer: Answer) -> float | None:
    refinement = answer.details.get("refinement")
    return refinement.get("share_outside") if isinstance(refinement, Mapping) else None


def _scores(problem: Problem, answer: Answer, draws: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, 2])
    truth, least = problem.draw(draws, rng), floor(problem, draws, rng)
    evidence = answer.log_evidence
    return {
        "delta_lml": None if evidence is None else abs(evidence - problem.log_evidence),
        "signed_error": None if evidence is None else evidence - problem.log_evidence,
        "z": _z(problem, answer),
        "mmtv": mmtv(answer.draws, truth),
        "gskl": gskl(answer.draws, truth),
        "log_evidence": evidence,
        "log_evidence_sd": answer.log_evidence_sd,
        "floor_mmtv": least.mmtv,
        "floor_gskl": least.gskl,
        "draws": len(answer.draws),
    }


def _z(problem: Problem, answer: Answer) -> float | None:
    """Return the error of the log evidence in standard deviations, None where there is no standard deviation."""
    if answer.log_evidence is None or answer.log_evidence_sd is None:
        return None
    sd = hypot(answer.log_evidence_sd, problem.log_evidence_sd)
    return (answer.log_evidence - problem.log_evidence) / sd if sd > 0 else None


def _infinite(results: Mapping[str, Any]) -> dict[str, list[str]]:
    """Name the scores that are infinite, which a line cannot hold."""
    names = [
        name for name in ("delta_lml", "mmtv", "gskl") if results[name] is not None and not isfinite(results[name])
    ]
    return {"infinite": names} if names else {}


def _identity(job: Job, place: Place) -> Mapping[str, Any]:
    return {
        "problem": place.name,
        "noise_sd": job.noise_sd,
        "optimiser": job.optimiser,
        "evaluations": place.evaluations(job),
        "method": job.method,
        "seed": job.seed,
        "true_log_evidence": place.problem.log_evidence,
        "case": {} if place.case is None else {**place.case.attributes(), "dimension": place.problem.dimension},
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
