"""Traces of the cases kept on disk: seeds of a case share one, and later runs find it again."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from vsbq_bench.cases.cases import Case, trace_seed
from vsbq_bench.cases.optimisers import PACKAGES
from vsbq_bench.cases.traces import budget, case_trace
from vsbq_bench.problems import Problem
from vsbq_bench.trace_cache import _arrays, _describe_problem, _file_name, _write
from vsbq_bench.traces import Trace

__all__ = ["stored_trace"]

FORMAT = 1  # raise it whenever the making of the traces changes in a way the description does not show


def stored_trace(folder: Path, case: Case, problem: Problem) -> Trace:
    """Return the trace of a case: from `folder` if it is there, else made and put there.

    The file is found by a hash of the problem, the case, and the versions that decide the trace. A file that cannot be
    read is made anew.
    """
    evaluations = budget(problem.dimension, case.optimiser, case.evaluations_per_dimension)
    about = {"case": case.name, "format": FORMAT, "evaluations": evaluations, "versions": _versions(case.optimiser)}
    description = json.dumps(_describe_problem(problem) | about, sort_keys=True)
    path = folder / _file_name(case.subject.name, case.optimiser, description)
    stored = _arrays(path)
    if str(stored.get("description")) == description:
        sds = stored["log_density_sd"]
        return Trace(stored["points"], stored["log_density"], sds if len(sds) else None, stored["run"])
    trace = case_trace(
        problem,
        np.random.default_rng(trace_seed(case)),
        optimiser=case.optimiser,
        several=case.runs == "several",
        evaluations=evaluations,
        noise=case.noise,
        box=case.box,
    )
    _write(path, trace, description)
    return trace


def _versions(optimiser: str) -> dict[str, str]:
    try:
        return {package: version(package) for package in ("numpy", *PACKAGES.get(optimiser, ("scipy",)))}
    except PackageNotFoundError as error:
        raise ImportError(f"traces of {optimiser} need {error.name}: pip install 'vsbq[all]' ./benchmarks") from error
