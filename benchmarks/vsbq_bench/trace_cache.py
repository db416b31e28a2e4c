"""Traces kept on disk, so that every method of the benchmark gets the same one and none is made twice."""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import MappingProxyType
from zipfile import BadZipFile

import numpy as np

from vsbq._typing import ndarray
from vsbq_bench import traces
from vsbq_bench.problems import Problem
from vsbq_bench.traces import Trace, bads_trace, cma_trace

__all__ = ["OPTIMISERS", "cached_trace"]

FORMAT = 1  # raise it whenever the files or the making of the traces change in a way the description does not show
PROBES = 8

OPTIMISERS: Mapping[str, Callable[..., Trace]] = MappingProxyType({"cma": cma_trace, "bads": bads_trace})
PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"cma": ("cma", "numpy"), "bads": ("pybads", "gpyreg", "numpy", "scipy")}
)


def cached_trace(
    folder: str | os.PathLike[str],
    problem: Problem,
    optimiser: str,
    *,
    seed: int,
    noise_sd: float = 0.0,
    evaluations: int | None = None,
) -> Trace:
    """Return the trace of this optimiser on this problem: from `folder` if it is there, else made and put there.

    The file is found by a hash of all that decides the trace, so that a change of the problem, of a setting or of
    the optimiser's version makes a new one. Several processes may share a folder. A file that cannot be read is
    made anew.
    """
    if optimiser not in OPTIMISERS:
        raise ValueError(f"optimiser must be one of {', '.join(OPTIMISERS)}, got {optimiser!r}")
    budget = traces.BUDGET_PER_DIMENSION * problem.dimension if evaluations is None else evaluations
    description = json.dumps(
        _describe_problem(problem)
        | _describe_optimiser(optimiser)
        | {"format": FORMAT, "evaluations": budget, "noise_sd": float(noise_sd), "seed": seed},
        sort_keys=True,
    )
    path = Path(folder) / _file_name(problem.name, optimiser, description)
    trace = _read(path, description, (budget, problem.dimension), noisy=noise_sd > 0)
    if trace is None:
        rng = np.random.default_rng([seed, 1])
        trace = OPTIMISERS[optimiser](problem, rng, evaluations=budget, noise_sd=noise_sd)
        _write(path, trace, description)
    return trace


def _describe_problem(problem: Problem) -> dict[str, object]:
    """Say all that an optimiser can notice of a problem; its functions by what they return in a few cases."""
    rng = np.random.default_rng(0)
    low, high = problem.plausible_bounds.T
    probes = rng.uniform(low, high, (PROBES, problem.dimension))
    prior = None if problem.draw_prior is None else problem.draw_prior(PROBES, rng)
    return {
        "problem": problem.name,
        "dimension": problem.dimension,
        "bounds": _digits(problem.bounds),
        "plausible_bounds": _digits(problem.plausible_bounds),
        "log_density": _digits(problem.log_density(probes)),
        "prior": _digits(prior),
    }


def _digits(values: ndarray | None) -> list[str] | None:
    """Write numbers to ten digits: the last ones may differ between machines."""
    return None if values is None else [f"{value:.10g}" for value in values.ravel()]


def _describe_optimiser(optimiser: str) -> dict[str, object]:
    try:
        versions = {package: version(package) for package in PACKAGES[optimiser]}
    except PackageNotFoundError as error:
        raise ImportError(f"traces of {optimiser} need {error.name}: pip install ./benchmarks") from error
    return {
        "optimiser": optimiser,
        "versions": versions,
        "candidates": traces.CANDIDATES_PER_DIMENSION,
        "tolerance": traces.TOLERANCE,
        "initial_step": traces.INITIAL_STEP,
        "worst_cost": traces.WORST_COST,
    }


def _file_name(problem: str, optimiser: str, description: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", problem)[:60]
    return f"{readable}-{optimiser}-{sha256(description.encode()).hexdigest()[:32]}.npz"


def _write(path: Path, trace: Trace, description: str) -> None:
    """Write under another name first: whoever reads finds a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            np.savez(
                file,
                description=np.array(description),
                points=trace.points,
                log_density=trace.log_density,
                log_density_sd=np.zeros(0) if trace.log_density_sd is None else trace.log_density_sd,
                run=trace.run.astype(np.int64),
            )
            file.close()
            os.replace(file.name, path)
        except BaseException:
            file.close()
            Path(file.name).unlink(missing_ok=True)
            raise


def _read(path: Path, description: str, shape: tuple[int, int], *, noisy: bool) -> Trace | None:
    """Return the trace in the file, or None if there is none or it is not what its name promises."""
    promised = {
        "points": (shape, np.dtype(np.float64)),
        "log_density": (shape[:1], np.dtype(np.float64)),
        "log_density_sd": (shape[:1] if noisy else (0,), np.dtype(np.float64)),
        "run": (shape[:1], np.dtype(np.int64)),
    }
    stored = _arrays(path)
    if str(stored.get("description")) != description:
        return None
    if any(name not in stored or (stored[name].shape, stored[name].dtype) != promised[name] for name in promised):
        return None
    return Trace(
        points=stored["points"],
        log_density=stored["log_density"],
        log_density_sd=stored["log_density_sd"] if noisy else None,
        run=stored["run"],
    )


def _arrays(path: Path) -> Mapping[str, ndarray]:
    """Return the arrays in the file; none where it is missing or damaged (a zip archive has check sums)."""
    try:
        with path.open("rb") as handle:
            file = np.load(handle, allow_pickle=False)
            return {name: file[name] for name in file.files} if isinstance(file, np.lib.npyio.NpzFile) else {}
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error):
        return {}
