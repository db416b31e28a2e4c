"""The file of a recorder: a SQLite database that survives a killed process and takes many writers at once.

`application_id` is 0x56534251 ("VSBQ") and `user_version` the version of the format, now 1. The tables are:

    problem     one row: tag, created (seconds since 1970), vsbq_version
    parameter   position (from 0), name, lower, upper (±Inf where open), plausible_lower, plausible_upper (or NULL)
    writer      id, uuid, run, started: every process that has recorded, and the name of the run it belonged to
    evaluation  writer (an id), number (counted by the writer), point (the coordinates as little-endian float64),
                log_density, log_density_sd, log_prior, started, seconds, failure

`log_density` has the sign of a log density whatever the optimiser saw, and includes `log_prior` where that is given
apart. NULL is NaN in `log_density`; elsewhere it means that there is none. `failure` is the error in words, or NULL.
The uuid of the writer and the number make a row unique in the world, so files can be merged twice without harm.
With Python alone:

    rows = sqlite3.connect("fits.db").execute("SELECT point, log_density FROM evaluation")
    points, values = zip(*((np.frombuffer(point, "<f8"), value) for point, value in rows))

An evaluation is committed when the wrapped call returns. From then on it survives the end of the process, `kill -9`
included. A power cut or a crash of the operating system may take the last few with it (WAL with `synchronous=NORMAL`
does not wait for the disk), but leaves the file sound. While it is open, the file has two companions, `-wal` and
`-shm`; evaluations may be in `-wal` only, so copy a file after closing it, or copy all three.

WAL needs memory shared between the processes, which network drives don't have. There the file is made with an ordinary
journal: just as safe, but an evaluation then takes milliseconds. For several machines use one file each, then `merge`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from vsbq.record.file import (
    check_ours,
    create_if_missing,
    full_path,
    in_words,
    is_there,
    open_file,
    open_for_reading,
    read_problem,
    transaction,
    write_plausible,
)
from vsbq.record.problem import FormatError, Problem, RecorderError

__all__ = ["Contents", "Row", "Store", "Writer", "describe", "is_store", "read_contents", "reading"]

COLUMNS = "number, point, log_density, log_density_sd, log_prior, started, seconds, failure"
INSERT = f"INSERT INTO evaluation (writer, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Row(NamedTuple):
    """One evaluation as it is stored, without the number."""

    point: bytes
    log_density: float | None
    log_density_sd: float | None
    log_prior: float | None
    started: float
    seconds: float | None
    failure: str | None


class Writer(NamedTuple):
    """One process that has recorded, as it is stored, without its number in this file."""

    uuid: str
    run: str
    started: float


class Contents(NamedTuple):
    """What one writer has recorded; each row begins with its number."""

    writer: Writer
    rows: list[tuple[Any, ...]]


# One lock for all SQLite calls of a process. A connection must not be carried through a fork (its locks stay behind,
# and even a new connection of the child would rely on them), so before a fork all connections are closed, with none in
# use; parent and child open them again when they next need one.

LOCK = threading.RLock()
STORES: weakref.WeakSet[Store] = weakref.WeakSet()


def _close_all() -> None:
    for store in list(STORES):
        with contextlib.suppress(Exception):
            store.close()


def _before_fork() -> None:
    LOCK.acquire()
    _close_all()


def _after_fork_in_child() -> None:
    for store in list(STORES):
        store.become_another_writer()
    LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=LOCK.release, after_in_child=_after_fork_in_child)
atexit.register(_close_all)


class Store:
    """A file of evaluations that this process adds to; the connection is opened when it is needed."""

    def __init__(self, path: Path, problem: Problem, run: str) -> None:
        self.path = path
        self.run = run
        self.problem = problem
        self._connection: sqlite3.Connection | None = None
        self.become_another_writer()
        with LOCK:
            STORES.add(self)

    def become_another_writer(self) -> None:
        """Number the evaluations from 0 under a new uuid, in this process or as a child of the last one."""
        self._writer = Writer(uuid4().hex, self.run, time.time())
        self._writer_id: int | None = None
        self._count = 0

    def open(self) -> None:
        """Make the file, or see whether it can be continued; not needed before the other methods."""
        with LOCK, in_words(self.path):
            self.connect()

    def add(self, rows: Sequence[Row]) -> None:
        """Add evaluations; they are committed when this returns."""
        with LOCK, in_words(self.path):
            connection = self.connect()
            if self._writer_id is None:
                self._writer_id = _enrol(connection, self._writer)
            first, writer = self._count, self._writer_id
            self._count += len(rows)  # before writing: an interrupt leaves a gap rather than a number used twice
            if len(rows) == 1:
                connection.execute(INSERT, (writer, first, *rows[0]))
            elif rows:
                with transaction(connection):
                    connection.executemany(INSERT, ((writer, first + i, *row) for i, row in enumerate(rows)))

    def take_in(self, contents: Sequence[Contents]) -> int:
        """Add the evaluations of another file that are not here yet, all or none; returns how many."""
        added = 0
        with LOCK, in_words(self.path), transaction(self.connect()) as connection:
            for writer, rows in contents:
                here, before = _enrol(connection, writer), connection.total_changes
                connection.executemany(INSERT.replace("INSERT", "INSERT OR IGNORE"), ((here, *row) for row in rows))
                added += connection.total_changes - before
        return added

    def ask(self, question: str) -> tuple[Any, ...] | None:
        """The first row of the answer to a query."""
        with LOCK, in_words(self.path):
            answer: tuple[Any, ...] | None = self.connect().execute(question).fetchone()
            return answer

    def connect(self) -> sqlite3.Connection:
        """The connection of this process, after making sure that the file is there and is about the same problem."""
        if self._connection is None:
            create_if_missing(self.path, self.problem)
            check_ours(self.path)
            self._connection = open_file(self.path, "rw")
            try:
                self._prepare(self._connection)
            except BaseException:
                self.close()
                raise
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
        there = read_problem(connection, self.path)
        self.problem = self.problem.joined(there, "This recorder has", f"'{self.path}' holds")
        with transaction(connection):  # fails now, not after the first evaluation, where the file can't be written
            if there.plausible_bounds is None and self.problem.plausible_bounds is not None:
                write_plausible(connection, self.problem)
        self._writer_id = None

    def close(self) -> None:
        """Close the connection; it is opened again if it is needed again."""
        with LOCK:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _enrol(connection: sqlite3.Connection, writer: Writer) -> int:
    """The number of a writer in this file, which is new or was here before."""
    connection.execute("INSERT OR IGNORE INTO writer (uuid, run, started) VALUES (?, ?, ?)", writer)
    found = connection.execute("SELECT id FROM writer WHERE uuid = ?", writer[:1]).fetchone()
    return int(found[0])


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A file of evaluations as it is at one moment, for reading only; others may go on writing."""
    with LOCK, in_words(path):
        if not is_there(path):
            raise RecorderError(f"There is no file '{path}'. Record to it first, or correct the path.")
        check_ours(path)
        connection = open_for_reading(path)
        try:
            yield connection
        finally:
            connection.close()


def read_contents(connection: sqlite3.Connection) -> list[Contents]:
    """All evaluations of a file, by writer."""
    writers = connection.execute("SELECT id, uuid, run, started FROM writer").fetchall()
    query = f"SELECT {COLUMNS} FROM evaluation WHERE writer = ?"
    return [Contents(Writer(*who), connection.execute(query, (number,)).fetchall()) for number, *who in writers]


def is_store(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file was made by a recorder, of whatever version; safe while recorders are open on it."""
    place = full_path(path)
    with LOCK:
        try:
            check_ours(place)
        except FormatError:
            return True
        except (RecorderError, sqlite3.Error):
            return False
    return True


def describe(path: Path) -> Problem:
    """What a file is about."""
    with reading(path) as connection:
        return read_problem(connection, path)
