"""The file of a recorder: a SQLite database that survives a killed process and takes many writers at once.

`application_id` is 0x56534251 ("VSBQ") and `user_version` the version of the format, now 2. The tables are:

    problem     one row: tag, created (seconds since 1970), vsbq_version, file (an id of this file), checksum
    parameter   position (from 0), name, lower, upper (±Inf where open), plausible_lower, plausible_upper (or NULL)
    writer      id, uuid, run, started, checksum: every process that has recorded, and the run it belonged to
    evaluation  writer (an id), number (counted by the writer), point (the coordinates as little-endian float64),
                log_density, log_density_sd, log_prior, started, seconds, failure, checksum

`log_density` has the sign of a log density whatever the optimiser saw, and includes `log_prior` where that is given
apart. NULL is NaN in `log_density`; elsewhere it means that there is none. `failure` is the error in words, or NULL.
The uuid of the writer and the number make a row unique in the world, so files can be merged twice without harm.
With Python alone:

    rows = sqlite3.connect("fits.db").execute("SELECT point, log_density FROM evaluation")
    points, values = zip(*((np.frombuffer(point, "<f8"), value) for point, value in rows))

The checksums (see `vsbq.record.checksum`) cover every field of a row, its writer and the file it is in, and are checked
whenever a file is read or merged. Version 1 had neither checksums nor `file`. Such files are read and continued as they
are; merging one into a new file makes a file of version 2.

An evaluation is committed when the wrapped call returns. From then on it survives the end of the process, `kill -9`
included. A power cut or a crash of the operating system may take the last few with it (WAL with `synchronous=NORMAL`
does not wait for the disk), but leaves the file sound; should it leave a hole in `-wal`, opening says so. While it is
open, the file has two companions, `-wal` and `-shm`; evaluations may be in `-wal` only, so copy a file after closing
it, or copy all three. If it is deleted without them, a new file of the same name does not take them over: they are
moved aside.

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
import warnings
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from vsbq.errors import VsbqWarning, count_in_words
from vsbq.io.record.checksum import checksum_of_row, owner_of_rows
from vsbq.io.record.companions import beside
from vsbq.io.record.file import (
    Format,
    check_ours,
    create_if_missing,
    full_path,
    in_words,
    is_there,
    open_file,
    read_format,
    read_problem,
    transaction,
    write_plausible,
)
from vsbq.io.record.place import Place, place_of, why_gone
from vsbq.io.record.problem import FormatError, Problem, RecorderError
from vsbq.io.record.rescue import name_for_rescue, save_copy
from vsbq.io.record.verify import COLUMNS, KEEP, Contents, Writer, check_row
from vsbq.io.record.wal import damaged_log

__all__ = ["LOCK", "Row", "Store", "check_log", "is_store", "release"]

ROW_1 = f"INSERT INTO evaluation (writer, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
ROW = f"INSERT INTO evaluation (writer, {COLUMNS}, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
WRITER_1 = "INSERT INTO writer (uuid, run, started) VALUES (?, ?, ?) ON CONFLICT (uuid) DO NOTHING"
WRITER = "INSERT INTO writer (uuid, run, started, checksum) VALUES (?, ?, ?, ?) ON CONFLICT (uuid) DO NOTHING"
BEST = (
    f"SELECT (SELECT uuid FROM writer WHERE id = evaluation.writer), {COLUMNS}, {{}} FROM evaluation"
    " WHERE failure IS NULL AND abs(log_density) < 9e999 ORDER BY log_density DESC LIMIT 1"
)
UNLESS_THERE = " ON CONFLICT (writer, number) DO NOTHING"


class Row(NamedTuple):
    """One evaluation as it is stored, without the number."""

    point: bytes
    log_density: float | None
    log_density_sd: float | None
    log_prior: float | None
    started: float
    seconds: float | None
    failure: str | None


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


@atexit.register
def _at_exit() -> None:
    for store in list(STORES):
        try:
            store.close()
        except RecorderError as error:  # nobody is left to catch it
            warnings.warn(str(error), VsbqWarning, stacklevel=2)


def release(path: Path) -> None:
    """Close what this process has open on a file; it is opened again when it is needed."""
    for store in list(STORES):
        if store.path == path or os.path.realpath(store.path) == os.path.realpath(path):
            store.close()


class _Gone(Exception):
    """The file is no longer the one that was opened; the message says what has become of it."""


class Store:
    """A file of evaluations that this process adds to; the connection is opened when it is needed.

    `origin` is the id of the file that must be there, for one who goes on with the work of another process.
    """

    def __init__(self, path: Path, problem: Problem, run: str, origin: str = "") -> None:
        self.path = path
        self.run = run
        self.problem = problem
        self.origin = origin
        self._connection: sqlite3.Connection | None = None
        self._place: Place | None = None
        self._format = Format(0, "")
        self._gone: str | None = None
        self._rescue: Store | None = None
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
        with self._using():
            pass

    def check_in_place(self) -> None:
        """Refuse to go on if the file is gone, before an evaluation that could not be recorded."""
        try:
            self._look()
        except _Gone as gone:
            raise self._set_aside(str(gone), ()) from None

    def add(self, rows: Sequence[Row]) -> None:
        """Add evaluations; they are committed when this returns."""
        with self._using(rows) as connection:
            kind = self._format
            if self._writer_id is None:
                self._writer_id = _enrol(connection, self._writer, kind)
            numbered = [(self._count + i, *row) for i, row in enumerate(rows)]
            self._count += len(rows)  # before writing: an interrupt leaves a gap rather than a number used twice
            prepared = _prepared(self._writer_id, self._writer.uuid, numbered, kind)
            if len(rows) == 1:
                connection.execute(ROW_1 if kind.version == 1 else ROW, prepared[0])
            elif rows:
                with transaction(connection):
                    connection.executemany(ROW_1 if kind.version == 1 else ROW, prepared)

    def take_in(self, contents: Sequence[Contents]) -> int:
        """Add the evaluations of another file that are not here yet, all or none; returns how many."""
        added = 0
        with self._using() as opened, transaction(opened) as connection:
            insert = (ROW_1 if self._format.version == 1 else ROW) + UNLESS_THERE
            for writer, rows in contents:
                here, before = _enrol(connection, writer, self._format), connection.total_changes
                connection.executemany(insert, _prepared(here, writer.uuid, rows, self._format))
                added += connection.total_changes - before
        return added

    def ask(self, question: str) -> tuple[Any, ...] | None:
        """The first row of the answer to a query."""
        with self._using() as connection:
            answer: tuple[Any, ...] | None = connection.execute(question).fetchone()
            return answer

    def best(self) -> tuple[bytes, float] | None:
        """Point and value of the best evaluation."""
        with self._using() as connection:
            extra = "NULL" if self._format.version == 1 else "checksum"
            found = connection.execute(BEST.format(extra)).fetchone()
            if found is None:
                return None
            uuid, *row, stored = found
            check_row(self._format, self.path, uuid, row, stored)
            return row[1], float(row[2])

    @contextlib.contextmanager
    def _using(self, rows: Sequence[Row] = ()) -> Iterator[sqlite3.Connection]:
        """The connection of this process; if the file is gone, all that is left is saved, with these rows."""
        with LOCK, in_words(self.path):
            try:
                self._look()
                yield self.connect()
            except _Gone as gone:
                raise self._set_aside(str(gone), rows) from None
            except sqlite3.Error:
                why = None if self._place is None else why_gone(self.path, self._place)
                if why is None:
                    raise
                raise self._set_aside(why, rows) from None

    def _look(self) -> None:
        """See whether the file is still the one that was opened."""
        why = self._gone
        if why is None and self._place is not None:
            why = why_gone(self.path, self._place)
        elif why is None and self.origin and not is_there(self.path):
            why = "was deleted or moved"
        if why is not None:
            raise _Gone(why)

    def connect(self) -> sqlite3.Connection:
        """The connection of this process, after making sure that the file is there and is about the same problem."""
        if self._connection is None:
            create_if_missing(self.path, self.problem)
            check_ours(self.path)
            if self._place is None:
                check_log(self.path)
            self._connection = open_file(self.path, "rw")
            try:
                self._prepare(self._connection)
            except BaseException:
                self._disconnect()
                raise
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
        connection.execute("PRAGMA journal_size_limit = 0")  # no old frames behind the end of the log
        there, self._format = read_problem(connection, self.path), read_format(connection, self.path)
        if self.origin and self._format.file != self.origin:
            raise _Gone("was replaced by another file")
        self.problem = self.problem.joined(there, "This recorder has", f"'{self.path}' holds")
        with transaction(connection):
            if there.plausible_bounds is None and self.problem.plausible_bounds is not None:
                write_plausible(connection, self.problem)
            # A write that changes nothing: it fails now, not after the first evaluation, where nothing can be written.
            connection.execute(f"PRAGMA user_version = {self._format.version}")
        self.origin, self._place, self._writer_id = self._format.file, place_of(self.path), None

    def _set_aside(self, why: str, rows: Sequence[Row]) -> RecorderError:
        """Save what the connection still sees, and these rows, to another file; the error says where they are."""
        with LOCK:
            if self._rescue is None:
                self._gone, place = why, name_for_rescue(self.path)
                if self._connection is not None:
                    save_copy(self._connection, place)
                self._disconnect()
                self._rescue = Store(place, self.problem, self.run)
            said = f"'{self.path}' {why} while it was recorded to; this recorder does not go on."
            try:
                count = _saved(self._rescue, rows)
            except RecorderError as error:
                return RecorderError(f"{said} The evaluations at hand could not be saved elsewhere: {error}")
            if count == 0:
                return RecorderError(f"{said} There was nothing left to save. Make a new recorder to go on.")
            saved = f"{count_in_words(count, 'evaluation')} {'is' if count == 1 else 'are'} saved"
            return RecorderError(
                f"{said} {saved} in '{self._rescue.path}'. Make a new recorder to go on, and join the files with "
                "vsbq.io.record.merge."
            )

    def close(self) -> None:
        """Close the connection; it is opened again if it is needed again."""
        with LOCK:
            if self._connection is not None and self._place is not None:
                self.check_in_place()
            self._disconnect()
            if self._rescue is not None:
                self._rescue.close()

    def _disconnect(self) -> None:
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


def _saved(rescue: Store, rows: Sequence[Row]) -> int:
    """Add rows to what was saved; how many evaluations that makes, none if there was nothing to save."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VsbqWarning)  # of a slow drive: there is no choice now
        if rows:
            rescue.add(rows)
        found = rescue.ask("SELECT count(*) FROM evaluation") if is_there(rescue.path) else None
    return int((found or (0,))[0])


def check_log(path: Path) -> None:
    """Refuse to write behind a damaged log: SQLite would write over what comes after the damage."""
    log = beside(path, "-wal")
    fault = damaged_log(log)
    if fault is not None:
        raise RecorderError(f"'{log}' is damaged: evaluations may be missing ({fault}). {KEEP}")


def _enrol(connection: sqlite3.Connection, writer: Writer, kind: Format) -> int:
    """The number of a writer in this file, which is new or was here before."""
    if kind.version == 1:
        connection.execute(WRITER_1, writer)
    else:
        connection.execute(WRITER, (*writer, writer.checksum(kind.file)))
    found = connection.execute("SELECT id FROM writer WHERE uuid = ?", writer[:1]).fetchone()
    return int(found[0])


def _prepared(writer: int, uuid: str, rows: Sequence[tuple[Any, ...]], kind: Format) -> list[tuple[Any, ...]]:
    """Rows, each with its number first, as they go into a file."""
    if kind.version == 1:
        return [(writer, *row) for row in rows]
    owner = owner_of_rows(kind.file, uuid)
    return [(writer, *row, checksum_of_row(owner, row[0], row[1:])) for row in rows]


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
