"""`vsbq.fit_many`: look what is done already, do the rest somewhere, save each posterior at once, and tell."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning, count_in_words, names_in_words
from vsbq.io.files.posterior_header import Origin
from vsbq.many.digest import digest_of_settings
from vsbq.many.folder import Folder, Found
from vsbq.many.job import Job, Outcome, failed, row_of
from vsbq.many.names import Given, read_names
from vsbq.many.pools import Ended, in_processes, in_turn, on_dask
from vsbq.many.result import Failure, ManyFits, Row, Shelf
from vsbq.posterior import Posterior
from vsbq.progress import CountedProgress
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.settings import Settings, Steps

__all__ = ["fit_many"]


def fit_many(
    evaluations: Mapping[str, Given] | Sequence[Given],
    *,
    settings: Settings | Steps | None = None,
    rng: RandomState = None,
    seed: Seed = None,
    workers: int = 1,
    client: Any = None,
    folder: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> ManyFits:
    """Posteriors of many sets of evaluations, such as participants times models; a fit that fails stops no other.

    Every fit draws its random numbers from a stream of its own, made from the seed and the name of the fit
    (`vsbq.many.stream`). So its posterior is the same whatever the number of workers, the order, and the other fits;
    and a fit under another name differs. All fits use one BLAS thread. Machines with another processor or BLAS may
    round otherwise.

    Args:
        evaluations: a dict from names to `Evaluations`, or a list, whose members are named "0", "1", ... In place of
            an `Evaluations` there may be a function without arguments that returns it; it is called in this process
            when the fit is about to start, so that not all need to be in memory.
        settings: choices of the algorithm, the same for all.
        rng: an integer is the seed; from a NumPy Generator one number is drawn as the seed; None draws a seed from the
            operating system.
        seed: another word for an integer as `rng`.
        workers: processes of this machine; more than one need joblib (`vsbq[many]`).
        client: a `distributed.Client` of Dask (`vsbq[dask]`): the fits are done by its workers, in place of `workers`.
        folder: where each posterior is saved as soon as it is there, as NAME.npz; a "/" in a name makes folders. A fit
            whose file is there, from the same evaluations, settings and seed (any seed if rng is None), is read and
            not repeated. A file that holds something else fails the fit, and stays as it is.
        overwrite: replace files of the folder that hold something else.
        progress: None shows a bar in a terminal and in a notebook, and elsewhere prints a line to stderr now and then;
            True shows a bar anywhere, False prints nothing.
    """
    given = read_names(evaluations)
    random = one_of(rng, seed)
    number = _seed(random)
    if type(workers) is not int or workers < 1:
        raise VsbqError(f"workers is {workers!r:.60}. Give the number of processes, 1 or more.")
    if client is not None and workers != 1:
        raise VsbqError("Both workers and client are given. Pass client alone: its cluster knows its workers.")
    shelf = None if folder is None else Folder.opened(folder, list(given), overwrite)
    ledger = _Ledger(shelf, CountedProgress(len(given), progress))
    template = None if shelf is None else Origin("", digest_of_settings(settings), number)
    jobs = _jobs(given, settings, number, template, ledger, any_seed=random is None)
    try:
        with closing(_pool(jobs, workers, client)) as ended:
            for job, outcome in ended:
                ledger.settle(job, outcome)
    finally:
        ledger.progress.close()
    return ledger.result(list(given))


def _seed(rng: RandomState) -> int:
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        if rng < 0:
            raise VsbqError(f"rng is {rng}. Give a seed that is not negative, a NumPy Generator, or None.")
        return int(rng)
    return int(np.random.default_rng(rng).integers(2**63))


def _pool(jobs: Iterator[Job], workers: int, client: Any) -> Ended:
    if client is not None:
        return on_dask(jobs, client)
    return in_turn(jobs) if workers == 1 else in_processes(jobs, workers)


def _jobs(
    given: Mapping[str, Given],
    settings: Settings | Steps | None,
    seed: int,
    template: Origin | None,
    ledger: _Ledger,
    *,
    any_seed: bool,
) -> Iterator[Job]:
    """The fits that are to be done; what is in the folder, or can't be read, is settled on the way."""
    for name, source in given.items():
        origin = None if template is None else template._replace(name=name)
        try:
            data = _evaluations(source)
            found = None
            if ledger.folder is not None and origin is not None:
                found = ledger.folder.find(data, origin, any_seed=any_seed)
        except Exception as error:
            ledger.fail(name, failed(error))
            continue
        if found is None:
            yield Job(name=name, evaluations=data, settings=settings, seed=seed, origin=origin)
        else:
            ledger.take(found)


def _evaluations(source: Given) -> Evaluations:
    data = source if isinstance(source, Evaluations) else source()
    if not isinstance(data, Evaluations):
        raise EvaluationsError(f"The function returned a {type(data).__name__}. It must return a vsbq.Evaluations.")
    return data


@dataclass(frozen=True, eq=False)
class _Ledger:
    """What is known of the fits so far."""

    folder: Folder | None
    progress: CountedProgress
    rows: dict[str, Row] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    places: dict[str, Posterior | Path] = field(default_factory=dict)
    old: list[str] = field(default_factory=list)  # read, and made by another version

    def take(self, found: Found) -> None:
        """Note a posterior that was in the folder."""
        name, origin = found.origin.name, found.origin
        self.places[name] = found.path
        self.rows[name] = replace(row_of(name, found.posterior, origin.seed, origin.warnings), read=True)
        self.old.extend([name] if found.other_version else [])
        self.progress.count(f"{name}: read from its file")

    def settle(self, job: Job, outcome: Outcome) -> None:
        """Keep what a fit gave, in its file if there is a folder."""
        name = job.name
        if outcome.failure is None and self.folder is not None and outcome.file is not None:
            try:
                self.places[name] = self.folder.keep(name, outcome.file)
            except (VsbqError, OSError) as error:
                outcome = failed(error)
        elif outcome.posterior is not None:
            self.places[name] = outcome.posterior
        if outcome.row is None:
            self.fail(name, outcome)
        else:
            self.rows[name] = outcome.row
            self.progress.count(f"{name}: {outcome.row.seconds:.2f} s")

    def fail(self, name: str, outcome: Outcome) -> None:
        """Note a failure."""
        if outcome.failure is not None:
            self.failures[name] = outcome.failure
            self.progress.count(f"{name}: {outcome.failure}")

    def result(self, names: list[str]) -> ManyFits:
        """All of it in the order of the names, with a warning of what needs a look."""
        failures = {name: self.failures[name] for name in names if name in self.failures}
        rows = tuple(self.rows[name] for name in names if name in self.rows)
        self._warn(rows, failures)
        return ManyFits(rows, failures, Shelf({row.name: self.places[row.name] for row in rows}))

    def _warn(self, rows: Sequence[Row], failures: Mapping[str, Failure]) -> None:
        warned = [row.name for row in rows if row.warnings]
        words = []
        if failures:
            words.append(f"{count_in_words(len(failures), 'fit')} failed: {names_in_words(failures)}; see failures.")
        if warned:
            words.append(f"{count_in_words(len(warned), 'fit')} gave warnings: {names_in_words(warned)}; see rows.")
        if self.old:
            words.append(f"Another version of vsbq made the files of {names_in_words(self.old)}.")
        if words:
            warnings.warn(" ".join(words), VsbqWarning, stacklevel=4)
