"""Run the study: a line of JSON for each trial, written when it ends; what has a line is not run again.

A line holds the numbers of all findings, what they were made of, and how far the posterior is from the truth: all that
a choice of thresholds may need.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any
from zlib import crc32

import numpy as np
from scipy.spatial import cKDTree

from vsbq.errors import VsbqError
from vsbq.fit import fit
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis.expected import expected_error
from vsbq.posterior.diagnosis.measures import View
from vsbq_bench.cases.place import find_place
from vsbq_bench.job import _commit
from vsbq_bench.lines import _drop_cut_line
from vsbq_bench.metrics import gskl, mmtv
from vsbq_bench.problems import Problem
from vsbq_bench.suites import Job
from vsbq_bench.traces import Trace
from vsbq_bench.trust.population import PAPER, Trial, half_of, population
from vsbq_bench.trust.sabotage import SABOTAGES

__all__ = ["USABLE", "read_study", "run_study", "run_trial"]

#: A posterior is usable if all three are below these (the paper's thresholds).
USABLE = {"delta_lml": 1.0, "mmtv": 0.2, "gskl": 0.125}
DRAWS = 5000
DIGITS = 4


def run_study(
    path: Path, cache: Path, *, limit: int | None = None, half: str | None = None, processes: int = 1
) -> Iterator[dict[str, Any]]:
    """Run what is missing, at most `limit` trials, so many at a time, and yield the lines as they end."""
    have = {line["trial"] for line in read_study(path)}
    missing = [trial for trial in population() if trial.name not in have and half in (None, half_of(trial))]
    for line in _lines(missing[:limit], cache, processes):
        path.parent.mkdir(parents=True, exist_ok=True)
        _drop_cut_line(path)
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(_short(line), allow_nan=False, ensure_ascii=False) + "\n")
        yield line


def _lines(trials: Sequence[Trial], cache: Path, processes: int) -> Iterator[dict[str, Any]]:
    """One after the other, or several at a time with one thread each."""
    if processes == 1:
        return (run_trial(trial, cache) for trial in trials)
    from joblib import Parallel, delayed, parallel_config

    with parallel_config("loky", n_jobs=processes, inner_max_num_threads=1):
        return iter(Parallel(return_as="generator_unordered")(delayed(run_trial)(trial, cache) for trial in trials))


def read_study(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, none if it is not there; a last line that was cut short is left out."""
    if not path.exists():
        return []
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines(keepends=True) if row.endswith("\n")]


def run_trial(trial: Trial, cache: Path) -> dict[str, Any]:
    """One fit: the verdict with all its numbers, and how far the posterior is from the truth."""
    place = find_place(trial.place)
    about: dict[str, Any] = {
        "trial": trial.name,
        "place": trial.place,
        "sabotage": trial.sabotage,
        "half": half_of(trial),
    }
    about |= {"kind": trial.place if place.case is None else place.case.kind, "dimension": place.problem.dimension}
    rng = np.random.default_rng([crc32(trial.name.encode()), 20])
    trace = SABOTAGES[trial.sabotage].change(place.problem, _trace(trial, cache), rng)
    about["evaluations"] = len(trace.points)
    start = perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            post = _fit(place.problem, trace, rng)
        results = _results(post, place.problem, rng)
    except VsbqError as error:
        results = {"verdict": "refused", "error": f"{type(error).__name__}: {error}"[:300]}
    return about | results | {"seconds": perf_counter() - start, "commit": _commit()}


def _trace(trial: Trial, cache: Path) -> Trace:
    place = find_place(trial.place)
    if place.case is not None:
        case = place.case
        job = Job(case.name, case.noise_sd, case.optimiser, case.evaluations_per_dimension, "vsbq", 0)
        return place.trace(job, cache)
    return place.trace(Job(trial.place, 0.0, "cma", PAPER[trial.place], "vsbq", 0), cache)


def _fit(problem: Problem, trace: Trace, rng: np.random.Generator) -> Posterior:
    return fit(
        trace.points,
        trace.log_density,
        log_density_sd=trace.log_density_sd,
        bounds=problem.bounds,
        rng=rng,
        progress=False,
    )


def _results(post: Posterior, problem: Problem, rng: np.random.Generator) -> dict[str, Any]:
    assert post.diagnosis is not None
    assert post.history is not None
    draws, truth = post.sample(DRAWS, rng), problem.draw(DRAWS, rng)
    scores = {
        "delta_lml": abs(post.log_evidence - problem.log_evidence),
        "mmtv": mmtv(draws, truth),
        "gskl": gskl(draws, truth),
    }
    spent = post.history.seconds
    return {
        "verdict": post.diagnosis.verdict,
        "reasons": [finding.name for finding in post.diagnosis.reasons],
        "numbers": {finding.name: finding.number for finding in post.diagnosis.findings},
        "parts": _parts(post),
        **scores,
        "usable": all(scores[name] < limit for name, limit in USABLE.items()),
        "signed_error": post.log_evidence - problem.log_evidence,
        "log_evidence_sd": post.log_evidence_sd,
        "unseen": unseen_share(truth, finite_points(post)),
        "diagnosis_share": spent.get("diagnosis", 0.0) / max(sum(spent.values()), 1e-9),
    }


def _parts(post: Posterior) -> dict[str, Any]:
    """What some of the numbers were made of."""
    view = View.of(post)
    return {
        "expected": None if view is None else expected_error(view)._asdict(),
        "evidence": None if post.evidence_parts is None else post.evidence_parts._asdict(),
    }


def finite_points(post: Posterior) -> np.ndarray:
    """The finite evaluations of a posterior."""
    assert post.evaluations is not None
    return post.evaluations.points[np.isfinite(post.evaluations.log_density)]


def unseen_share(truth: np.ndarray, points: np.ndarray) -> float:
    """Share of the true mass that is thrice as far from every evaluation as from a twentieth of the true draws: a mode,
    or a side, that nobody has looked at."""
    unit = np.where(truth.std(axis=0) > 0, truth.std(axis=0), 1.0)
    near = np.asarray(cKDTree(truth / unit).query(truth / unit, max(2, len(truth) // 20))[0])[:, -1]
    return float(np.mean(np.asarray(cKDTree(points / unit).query(truth / unit)[0]) > 3.0 * near))


def _short(value: Any) -> Any:
    """Few digits, and null for what JSON does not know."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list | tuple) else value
