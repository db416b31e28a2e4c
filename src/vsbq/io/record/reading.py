"""From the file of a recorder to arrays, and to evaluations that can be fitted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.data import validation as door
from vsbq.data.bounds import Bounds, BoundsLike
from vsbq.data.evaluations import Evaluations
from vsbq.errors import count_in_words, names_in_words
from vsbq.io.record.file import full_path
from vsbq.io.record.problem import Problem, RecorderError
from vsbq.io.record.reader import read_all
from vsbq.io.record.verify import Damaged, Verified

__all__ = ["StoredEvaluations", "evaluations_from", "read_store"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StoredEvaluations:
    """All that a file of a recorder holds, in the order of time; one entry per evaluation, failed ones included.

    The log density includes the log prior. NaN stands for what is not known: the log density where the evaluation
    failed, the noise, the prior or the duration where none was given. `notes` say what is left out because of damage.
    """

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    log_density_sd: Float[ndarray, " n"] | None
    log_prior: Float[ndarray, " n"] | None
    runs: tuple[str, ...]
    times: Float[ndarray, " n"]
    durations: Float[ndarray, " n"]
    failures: tuple[str | None, ...]
    names: tuple[str, ...]
    bounds: Bounds
    plausible_bounds: Bounds | None
    tag: str
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.log_density)

    def __repr__(self) -> str:
        failed = sum(words is not None for words in self.failures)
        count, runs = count_in_words(len(self), "evaluation"), count_in_words(len(set(self.runs)), "run")
        return f"StoredEvaluations({count} of {runs}, {failed} failed, parameters {names_in_words(self.names)})"


def read_store(path: str | os.PathLike[str], *, damaged: Damaged = "raise") -> StoredEvaluations:
    """Read the file of a recorder as it is now; others may go on writing to it, and nothing in it is changed.

    Every evaluation is checked against what was recorded. With `damaged="drop"`, those that differ are left out, with
    a note, rather than an error.
    """
    place = full_path(path)
    problem, verified = read_all(place, damaged)
    try:
        return _arrange(problem, verified)
    except (TypeError, ValueError) as error:
        raise RecorderError(f"'{place}' is damaged ({error}). Take another copy of it.") from error


def _arrange(problem: Problem, verified: Verified) -> StoredEvaluations:
    rows = [
        (started, i, number, seconds, blob, value, sd, prior, failure, writer.run)
        for i, (writer, mine) in enumerate(verified.contents)
        for number, blob, value, sd, prior, started, seconds, failure in mine
    ]
    rows.sort(key=lambda row: row[:3])
    started, _, _, seconds, blobs, value, sd, prior, failures, runs = zip(*rows, strict=True) if rows else [()] * 10
    if any(len(blob) != 8 * problem.dimension for blob in blobs):
        raise ValueError("a point has the wrong number of coordinates")
    return StoredEvaluations(
        points=np.frombuffer(b"".join(blobs), "<f8").astype(np.float64).reshape(-1, problem.dimension),
        log_density=_floats(value),
        log_density_sd=_floats(sd) if any(x is not None for x in sd) else None,
        log_prior=_floats(prior) if any(x is not None for x in prior) else None,
        runs=tuple(runs),
        times=_floats(started),
        durations=_floats(seconds),
        failures=tuple(failures),
        names=problem.names,
        bounds=problem.bounds,
        plausible_bounds=problem.plausible_bounds,
        tag=problem.tag,
        notes=tuple(verified.notes),
    )


def _floats(column: Sequence[float | None]) -> Float[ndarray, " n"]:
    if not all(isinstance(x, float | int | None) for x in column):
        raise TypeError("a number is none")
    return np.array(column, dtype=np.float64)


def evaluations_from(
    path: str | os.PathLike[str],
    *,
    runs: Sequence[str] | str | None = None,
    bounds: BoundsLike = None,
    plausible_bounds: BoundsLike = None,
    nonfinite: door.Nonfinite | None = None,
    outside: door.Outside = "raise",
    check_sign: bool = True,
    damaged: Damaged = "raise",
    tag: str | None = None,
) -> Evaluations:
    """Read evaluations that can be fitted from the file of a recorder.

    Args:
        path: the file, or the recorder itself.
        runs: names of the runs to use; all by default.
        bounds: other hard bounds than those in the file.
        plausible_bounds: other plausible bounds than those in the file.
        nonfinite: if left out, evaluations that failed or returned NaN are left out, and so are those outside the hard
            bounds that say what the bounds say, namely that the density is zero there; otherwise as in `Evaluations`.
        outside: what to do with other points outside the hard bounds, as in `Evaluations`.
        check_sign: refuse values that look like negative log densities.
        damaged: "raise" to refuse a file in which an evaluation is not what was recorded, or "drop" to leave out such
            evaluations with a note.
        tag: another tag than that in the file.
    """
    stored = read_store(path, damaged=damaged)
    hard = stored.bounds if bounds is None else Bounds.parse(bounds, len(stored.names), stored.names)
    keep, notes = _of_runs(stored, runs)
    if not keep.any():
        raise RecorderError(f"'{full_path(path)}' holds no evaluations yet. Record some first.")
    if nonfinite is None:
        keep, more = _without_failures(stored, keep, hard)
        notes += more
    sd, noise_notes = _noise(stored, keep)
    prior, prior_notes = _prior(stored, keep)
    made = Evaluations(
        stored.points[keep],
        stored.log_density[keep],
        log_density_sd=sd,
        bounds=hard,
        plausible_bounds=stored.plausible_bounds if plausible_bounds is None else plausible_bounds,
        names=stored.names,
        nonfinite=nonfinite or "raise",
        outside=outside,
        check_sign=check_sign,
        log_prior=prior,
        tag=stored.tag if tag is None else tag,
    )
    return made._with_notes([*stored.notes, *notes, *noise_notes, *prior_notes, *made.notes])


def _of_runs(stored: StoredEvaluations, runs: Sequence[str] | str | None) -> tuple[Bool[ndarray, " n"], list[str]]:
    """Which evaluations belong to the chosen runs."""
    if runs is None:
        return np.ones(len(stored), dtype=bool), []
    chosen, known = {runs} if isinstance(runs, str) else set(runs), list(dict.fromkeys(stored.runs))
    unknown = [run for run in chosen if run not in known]
    if unknown:
        raise RecorderError(f"There is no run {names_in_words(unknown)}. Use some of {names_in_words(known)}.")
    keep = np.array([run in chosen for run in stored.runs], dtype=bool)
    note = f"Took {keep.sum()} of {count_in_words(len(stored), 'evaluation')}, of {names_in_words(sorted(chosen))}."
    return keep, [note]


def _without_failures(
    stored: StoredEvaluations, keep: Bool[ndarray, " n"], bounds: Bounds
) -> tuple[Bool[ndarray, " n"], list[str]]:
    """Leave out what failed, and what knows no more than the bounds."""
    failed = keep & (np.isnan(stored.log_density) | np.array([words is not None for words in stored.failures]))
    beyond = keep & ~failed & np.isneginf(stored.log_density) & bounds.outside(stored.points).any(axis=1)
    notes = []
    if failed.any():
        words = next((stored.failures[i] for i in np.flatnonzero(failed) if stored.failures[i]), None)
        first = f" (first: {words})" if words else ""
        notes.append(f"Left out {count_in_words(int(failed.sum()), 'evaluation')} that failed or gave NaN{first}.")
    if beyond.any():
        count = count_in_words(int(beyond.sum()), "evaluation")
        notes.append(f"Left out {count} of zero density outside the hard bounds.")
    return keep & ~failed & ~beyond, notes


def _noise(stored: StoredEvaluations, keep: Bool[ndarray, " n"]) -> tuple[Float[ndarray, " m"] | None, list[str]]:
    """The noise of the chosen evaluations; where only some have one, the others count as exact."""
    if stored.log_density_sd is None or np.isnan(stored.log_density_sd[keep]).all():
        return None, []
    exact = np.isnan(stored.log_density_sd) & np.array([words is None for words in stored.failures])
    sd = np.where(exact, 0.0, stored.log_density_sd)[keep]
    usable = int((exact & keep & ~np.isnan(stored.log_density)).sum())
    note = f"Counted {count_in_words(usable, 'evaluation')} without a noise sd as exact."
    return sd, [note] if usable else []


def _prior(stored: StoredEvaluations, keep: Bool[ndarray, " n"]) -> tuple[Float[ndarray, " m"] | None, list[str]]:
    """The log prior, if every chosen evaluation has one."""
    if stored.log_prior is None or np.isnan(stored.log_prior[keep]).all():
        return None, []
    missing = int(np.isnan(stored.log_prior[keep]).sum())
    if missing:
        return None, [f"Left out the log prior, which {count_in_words(missing, 'evaluation')} don't have."]
    return stored.log_prior[keep], []
