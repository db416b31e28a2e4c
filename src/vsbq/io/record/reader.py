"""Opening the file of a recorder for reading: as it is at one moment, while others may go on writing."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

from vsbq.errors import names_in_words
from vsbq.io.record.companions import beside, left_over
from vsbq.io.record.file import check_ours, in_words, is_there, open_for_reading, read_problem
from vsbq.io.record.problem import Problem, RecorderError
from vsbq.io.record.store import LOCK, check_log, release
from vsbq.io.record.verify import Damaged, Verified, read_verified
from vsbq.io.record.wal import damaged_log

__all__ = ["Read", "describe", "read_all"]


class Read(NamedTuple):
    """What a file is about and what it holds."""

    problem: Problem
    verified: Verified


def describe(path: Path, damaged: Damaged = "raise") -> Problem:
    """What a file is about."""
    with _reading(path, damaged) as (connection, _):
        return read_problem(connection, path)


def read_all(path: Path, damaged: Damaged = "raise") -> Read:
    """What a file is about, and all its evaluations that are as they were recorded."""
    with _reading(path, damaged) as (connection, notes):
        problem, (contents, more) = read_problem(connection, path), read_verified(connection, path, damaged)
    return Read(problem, Verified(contents, notes + more))


@contextlib.contextmanager
def _reading(path: Path, damaged: Damaged) -> Iterator[tuple[sqlite3.Connection, list[str]]]:
    """A connection that can't write, and notes on what it does not see."""
    with LOCK, in_words(path), contextlib.ExitStack() as stack:
        if not is_there(path):
            raise RecorderError(f"There is no file '{path}'. {_remedy(path)}")
        check_ours(path)
        check_policy(damaged)
        notes, fault = [], damaged_log(beside(path, "-wal"))
        if fault is not None:
            if damaged == "raise":
                check_log(path)
            notes = [f"The file is damaged, so evaluations may be missing (in its -wal {fault})."]
            path = _copied(path, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        connection = stack.enter_context(contextlib.closing(open_for_reading(path)))
        connection.text_factory = _text  # a text that is none is found by its checksum
        yield connection, notes


def check_policy(damaged: Any) -> None:
    """Refuse a policy that is not known."""
    if damaged not in get_args(Damaged):
        raise RecorderError(f"damaged={damaged!r} is not known. Use one of {names_in_words(get_args(Damaged))}.")


def _remedy(path: Path) -> str:
    found = left_over(path)
    if not found:
        return "Record to it first, or correct the path."
    names = names_in_words(place.name for place in found)
    return f"Only {names} is left of it, which may hold evaluations: bring the file back from a copy, and keep both."


def _copied(path: Path, folder: Path) -> Path:
    """A copy to read what a damaged log leaves: SQLite may change a log that it takes for ended."""
    release(path)  # since Python opens and closes the file, which would drop the locks of this process
    for suffix in ("", "-wal"):
        shutil.copyfile(beside(path, suffix), folder / f"{path.name}{suffix}")
    return folder / path.name


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
