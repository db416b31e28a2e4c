"""`vsbq fit-many`: many fits, from files or from the groups of a table, into a folder of posteriors."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from vsbq.cli.input import read_files, read_groups
from vsbq.cli.options import add_problem_options, problem_of
from vsbq.cli.problem import Problem
from vsbq.cli.terminal import Count, FileError, Terminal, UsageError, add_output_options, add_seed, escaped, in_options
from vsbq.data.evaluations import Evaluations
from vsbq.many.result import ManyFits
from vsbq.many.run import fit_many

__all__ = ["DESCRIPTION", "EPILOG", "HELP", "SOME_FAILED", "add", "run"]

#: The exit code if some fits gave no posterior.
SOME_FAILED = 3
MOST_WORKERS = 1024

HELP = "many fits, such as one for each participant; goes on where it was stopped"
DESCRIPTION = """\
Fit many tables, each on its own: one for each FILE, or with --by one for each value of a column. Every posterior is
saved as soon as it is there. The same command again goes on where an earlier one was stopped.
"""
EPILOG = """\
examples:
  vsbq fit-many data/*.csv -o fits --seed 1                    fits/anna.npz from data/anna.csv, and so on
  vsbq fit-many all.csv --by participant -o fits --workers 4   one fit for each participant, four at a time
  vsbq fit-many data/*.csv -o fits --dask scheduler.json       on a Dask cluster; an address is fine too
  vsbq fit-many anna=run7.csv ben=run9.csv -o fits             with names

One folder for each model suits the comparison of models over participants:
  vsbq fit-many full/*.csv -o fits/full
  vsbq fit-many reduced/*.csv -o fits/reduced
  vsbq compare --group fits/full fits/reduced

A fit that fails, or whose file can't be read, stops no other. A posterior in the folder that was made from the same
evaluations with the same seed is kept (with any seed if --seed is left out). Any other file under its name fails the
fit and stays as it is, unless --overwrite is given. Options say what the files hold, the same for all.
Exit codes: 0 all fitted, 3 some or all of the fits failed (the table says why), 1 nothing was tried (why is on stderr),
2 wrong usage, 130 interrupted.
"""


def add(parser: ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="tables of evaluations, as PATH or NAME=PATH")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the posteriors")
    parser.add_argument("--by", metavar="COLUMN", help="one fit for each value in this column of the files together")
    where = parser.add_argument_group("where the fits are done")
    where.add_argument("-j", "--workers", type=Count(MOST_WORKERS), metavar="N", help="processes here (default: 1)")
    where.add_argument("--dask", metavar="ADDRESS", help="address or scheduler file of a Dask cluster")
    add_seed(where)
    where.add_argument("--overwrite", action="store_true", help="replace files of the folder that hold something else")
    add_problem_options(parser)
    add_output_options(parser, progress=True)
    stopped = "interrupted; what was finished is in the folder, and the same command goes on from there"
    parser.set_defaults(run=run, interrupted=stopped)


def run(options: Namespace) -> int:
    """Find out what there is to fit, fit, print the table."""
    terminal = Terminal.of(options)
    if options.dask is not None and options.workers is not None:
        raise UsageError("--workers and --dask both say where the fits are done. Give one of them.")
    with terminal.listening():
        given = _given(options, problem_of(options))
        _check_output(options.output)
        terminal.title(f"{len(given)} fits, into {escaped(str(options.output))}")
        with _client(options.dask) as client:
            fits = fit_many(
                given,
                rng=options.seed,
                workers=options.workers or 1,
                client=client,
                folder=options.output,
                overwrite=options.overwrite,
                progress=terminal.progress,
            )
        _show(fits, options.output, terminal)
    return SOME_FAILED if fits.failures else 0


def _given(options: Namespace, problem: Problem) -> dict[str, Callable[[], Evaluations]]:
    """What is to be fitted by name, to be read when its turn has come."""
    if options.by is not None:
        paths = [Path(text) for text in options.files]
        if len(set(paths)) < len(paths):
            raise UsageError("A file is given twice. Give every file once.")
        return read_groups(paths, problem, options.by)
    found: dict[str, Callable[[], Evaluations]] = {}
    for text in options.files:
        name, path = _named(text)
        if name in found:
            raise UsageError(
                f"Two fits would be called {name!r:.80}. Use a folder for each model, or name them: NAME={str(path)!r}"
            )
        found[name] = partial(_read, path, problem)
    return found


def _named(text: str) -> tuple[str, Path]:
    """The name of a fit, told or from the file, and the file."""
    name, equals, rest = text.partition("=")
    if name and equals and rest and not os.path.lexists(text):
        return name, Path(rest)
    path = Path(text)
    stem = path.stem if path.suffix.lower() == ".gz" else path.name
    return Path(stem).stem or text, path


def _read(path: Path, problem: Problem) -> Evaluations:
    return read_files([path], problem).evaluations


def _check_output(path: Path) -> None:
    if os.path.lexists(path) and not path.is_dir():
        raise FileError(f"{str(path)!r} is a file. Give the name of a folder for the posteriors.")


@contextmanager
def _client(address: str | None) -> Iterator[Any]:
    """A client of the Dask cluster at an address, or of the one that a scheduler file tells of; None without."""
    if address is None:
        yield None
        return
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise ImportError("fits on a cluster need Dask: pip install 'vsbq[dask]'.") from error
    place = {"scheduler_file": address} if os.path.isfile(address) else {"address": address}
    try:
        client = distributed.Client(**place, set_as_default=False)
    except (OSError, ValueError) as error:
        raise FileError(f"The Dask cluster {address!r:.100} can't be reached ({error!s:.200}). Check it.") from error
    with client:
        yield client


def _show(fits: ManyFits, folder: Path, terminal: Terminal) -> None:
    """The table, the failures with the options that they advise, and where the files are."""
    shown = fits.worded(lambda message: escaped(in_options(message)))
    terminal.say(str(shown))
    if fits:
        terminal.say(f"\nThe posteriors are in {escaped(str(folder))}: vsbq report, sample, compare --group, suggest.")
    if terminal.quiet and not terminal.json:
        for name, failure in shown.failures.items():
            terminal.warn(f"{name}: {failure}")
    terminal.result({**shown.to_dict(), "folder": str(folder)})
