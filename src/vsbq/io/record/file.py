"""Making, opening and checking the file of a recorder; its format is described in `vsbq.record.store`."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from vsbq._version import __version__
from vsbq.errors import EvaluationsError, VsbqWarning
from vsbq.io.record.checksum import Unreadable, checksum_of_fields
from vsbq.io.record.companions import alone, beside, left_over, move_left_over
from vsbq.io.record.location import network_drive
from vsbq.io.record.problem import FormatError, Problem, RecorderError

APPLICATION_ID = 0x56534251
VERSION = 2
PATIENCE = 60.0  # seconds to wait for other writers
REOPENING = 2.0  # seconds in which a file that others open and close must become readable

SCHEMA = (
    "CREATE TABLE problem (tag TEXT NOT NULL, created REAL NOT NULL, vsbq_version TEXT NOT NULL, file TEXT NOT NULL,"
    " checksum BLOB NOT NULL)",
    "CREATE TABLE parameter (position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, lower REAL NOT NULL,"
    " upper REAL NOT NULL, plausible_lower REAL, plausible_upper REAL)",
    "CREATE TABLE writer (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, run TEXT NOT NULL, started REAL NOT NULL,"
    " checksum BLOB NOT NULL)",
    "CREATE TABLE evaluation (writer INTEGER NOT NULL REFERENCES writer (id), number INTEGER NOT NULL,"
    " point BLOB NOT NULL, log_density REAL, log_density_sd REAL, log_prior REAL, started REAL NOT NULL, seconds REAL,"
    " failure TEXT, checksum BLOB NOT NULL, PRIMARY KEY (writer, number)) WITHOUT ROWID",
)


class Format(NamedTuple):
    """The version of a file, and the id by which its rows know that they belong to it (none in version 1)."""

    version: int
    file: str


# Opening: a file appears under its name complete or not at all, and one that is not ours is never touched.


def full_path(path: str | os.PathLike[str]) -> Path:
    """An absolute path, which stays right when the working directory changes or in another process."""
    name = os.fsdecode(path)
    if "\0" in name:
        raise RecorderError(f"{name!r} is no file name. Give one without a null character.")
    return Path(os.path.abspath(name))


def is_there(path: Path) -> bool:
    """Whether there is a file, or a link to where none is."""
    return os.path.lexists(path)


def open_file(path: Path, mode: str) -> sqlite3.Connection:
    """A connection in one of SQLite's modes ("ro", "rw", "rwc"), for every thread, each statement committed."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """A connection that sees the file as it is now, and can't write."""
    end = time.monotonic() + REOPENING
    while True:
        try:
            return _open_snapshot(path)
        except sqlite3.OperationalError as error:
            name = getattr(error, "sqlite_errorname", "")
            if name == "SQLITE_READONLY_ROLLBACK":  # killed while it wrote, with an ordinary journal: to be undone
                return _open_after_rollback(path)
            if not name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY")):
                raise
            if not os.access(beside(path, "").parent, os.W_OK):
                return _open_where_nothing_can_be_written(path)
            if time.monotonic() > end:
                raise
            time.sleep(0.01)  # others are just closing it, and their shared memory with it


def _open_snapshot(path: Path) -> sqlite3.Connection:
    connection = open_file(path, "ro")
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT tag FROM problem").fetchone()
        _check_whole(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_after_rollback(path: Path) -> sqlite3.Connection:
    connection = open_file(path, "rw")
    connection.execute("PRAGMA query_only = ON")
    return connection


def _check_whole(path: Path, connection: sqlite3.Connection) -> None:
    """Refuse a file that is shorter than its header says: SQLite would fill up its last page and miss evaluations."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page,) = connection.execute("PRAGMA page_size").fetchone()
    if left_over(path):
        return  # what is to be written into it makes it whole
    if path.stat().st_size < pages * page:
        raise RecorderError(f"'{path}' is cut short: evaluations are missing. Take another copy of it.")


def _open_where_nothing_can_be_written(path: Path) -> sqlite3.Connection:
    """In a folder that can't be written WAL's shared memory can't be made; without a -wal file none is needed."""
    if left_over(path):
        wal = left_over(path)[0]
        raise RecorderError(
            f"'{path}' can't be read where it is: the evaluations in '{wal.name}' need a folder that can be written. "
            "Copy both files to such a folder."
        )
    return open_file(path, "ro&immutable=1")


def check_ours(path: Path) -> None:
    """Refuse files that are not ours or are too new, by their first page alone and without a lock or a new file."""
    if path.is_dir():
        raise RecorderError(f"'{path}' is a folder. Give the name of a file in it, for example '{path / 'fits.db'}'.")
    marks = _marks(path)
    if marks[0] != APPLICATION_ID or marks[1] < 1:
        raise RecorderError(
            f"'{path}' is not a file of a recorder, or its first page is damaged; it is left as it is. Give another "
            "name, or take another copy of it if it is one."
        )
    if marks[1] > VERSION:
        raise FormatError(
            f"'{path}' has format version {marks[1]}, but vsbq {__version__} knows versions up to {VERSION}. "
            "Upgrade vsbq to use it."
        )


def _marks(path: Path) -> tuple[int, int]:
    """Application and version of a database, zeros if the file is none.

    The file is opened by SQLite alone: if Python opened and closed it, all locks that this process holds on it were
    gone, and another process could take away evaluations that are being written. Both numbers are in the first page
    from the beginning, whatever waits in the write-ahead log. While the log is copied into the file, the first page
    may name more pages than are there yet; this is no damage, and `writable_schema` lets SQLite pass over it.
    """
    try:
        with contextlib.closing(open_file(path, "ro&immutable=1")) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            return application, version
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return 0, 0


def create_if_missing(path: Path, problem: Problem) -> None:
    """Make a file without evaluations, unless there is one."""
    if is_there(path):
        return
    if not path.parent.is_dir():
        raise RecorderError(f"There is no folder '{path.parent}' for '{path.name}'. Create it first.")
    draft = path.with_name(f".{uuid4().hex}.new")
    try:
        _write_empty(draft, problem)
        with alone(path):
            if not is_there(path):
                move_left_over(path)
                _give_name(draft, path)
    except OSError as error:
        raise RecorderError(f"'{path}' can't be created: {error}. Choose a folder that can be written.") from error
    finally:
        draft.unlink(missing_ok=True)


def _give_name(draft: Path, path: Path) -> None:
    """Make the file visible under its name, whole."""
    try:
        os.link(draft, path)
    except FileExistsError:  # someone has just put a file there
        return
    except OSError:  # a file system without links
        os.rename(draft, path)


def _write_empty(path: Path, problem: Problem) -> None:
    connection = open_file(path, "rwc")
    try:
        with transaction(connection):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
            for table in SCHEMA:
                connection.execute(table)
            row = (problem.tag, time.time(), __version__, uuid4().hex, b"")
            connection.execute("INSERT INTO problem VALUES (?, ?, ?, ?, ?)", row)
            sides = (problem.bounds.lower.tolist(), problem.bounds.upper.tolist())
            rows = zip(range(problem.dimension), problem.names, *sides, strict=True)
            connection.executemany("INSERT INTO parameter VALUES (?, ?, ?, ?, NULL, NULL)", rows)
            write_plausible(connection, problem)
        _choose_journal(connection, path)
    finally:
        connection.close()


def _choose_journal(connection: sqlite3.Connection, path: Path) -> None:
    """WAL, which is fast; an ordinary journal where WAL can't work."""
    drive = network_drive(path)
    mode = "delete" if drive else connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        warnings.warn(
            f"'{path.parent}' is on {drive or 'a drive'} without shared memory, so each evaluation will take some "
            "milliseconds to record. Choose a local folder to be faster; for several machines use a file each, and "
            "join the files with vsbq.record.merge.",
            VsbqWarning,
            stacklevel=2,
        )


def write_plausible(connection: sqlite3.Connection, problem: Problem) -> None:
    """Add plausible bounds to a file that has none, within a transaction."""
    plausible = problem.plausible_bounds
    pairs = [] if plausible is None else [plausible.pair(i) for i in range(problem.dimension)]
    connection.executemany(
        "UPDATE parameter SET plausible_lower = ?, plausible_upper = ? WHERE position = ?",
        [(*pair, i) for i, pair in enumerate(pairs)],
    )
    if read_version(connection) > 1:
        connection.execute("UPDATE problem SET checksum = ?", (_checksum_of_problem(connection),))


def _checksum_of_problem(connection: sqlite3.Connection) -> bytes:
    """Of what the file is about: the row of the problem and those of the parameters."""
    fields = list(connection.execute("SELECT tag, created, vsbq_version, file FROM problem").fetchone() or ())
    parameters = "SELECT position, name, lower, upper, plausible_lower, plausible_upper FROM parameter"
    for row in connection.execute(f"{parameters} ORDER BY position"):
        fields += row
    return checksum_of_fields(fields)


def read_version(connection: sqlite3.Connection) -> int:
    """The version of the format of a file that is ours."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def read_format(connection: sqlite3.Connection, path: Path) -> Format:
    """Version and id of a file, after checking that what it is about is as it was written."""
    version = read_version(connection)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(problem)")}
    if version == 1 and "checksum" not in columns:
        return Format(1, "")
    try:
        (file, stored) = connection.execute("SELECT file, checksum FROM problem").fetchone() or ("", b"")
        if version == 1 or stored != _checksum_of_problem(connection) or not isinstance(file, str):
            raise Unreadable("the checksum is wrong")
    except Unreadable as error:
        raise RecorderError(
            f"'{path}' is damaged: its tag, parameters or bounds are not those that were written ({error}). "
            "Take another copy of it."
        ) from error
    return Format(version, file)


def read_problem(connection: sqlite3.Connection, path: Path) -> Problem:
    """What a file is about, checked as if the user had given it."""
    read_format(connection, path)
    (tag,) = connection.execute("SELECT tag FROM problem").fetchone() or (None,)
    rows = connection.execute(
        "SELECT name, lower, upper, plausible_lower, plausible_upper FROM parameter ORDER BY position"
    ).fetchall()
    try:
        if not all(isinstance(text, str) for text in (tag, *(row[0] for row in rows))):
            raise EvaluationsError("a text is none.")
        plausible = [row[3:] for row in rows] if any(row[3] is not None for row in rows) else None
        return Problem.parse([row[0] for row in rows], [row[1:3] for row in rows], plausible, tag)
    except EvaluationsError as error:
        raise RecorderError(f"'{path}' is damaged: {error} Take another copy of it.") from error


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """All or nothing; waits for other writers at the beginning."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back where the disk is full
            connection.execute("ROLLBACK")
        raise


# SQLite's errors in the words of a user.

REMEDIES = (
    ("SQLITE_BUSY", f"is locked by another process for more than {PATIENCE:g} s. End that process, or wait for it."),
    ("SQLITE_FULL", "can't grow: the disk is full. Make room and go on; what is recorded so far is safe."),
    ("SQLITE_READONLY", "can't be written. Check the permissions of the file and of its folder."),
    ("SQLITE_CANTOPEN", "can't be opened. Check the path, and the permissions of the file and of its folder."),
    ("SQLITE_PROTOCOL", "is locked in a way that its drive does not support. Move it to a local folder."),
    ("SQLITE_IOERR", "can't be read or written: the drive reports an error. Move it to another drive."),
    ("SQLITE_NOTADB", "is not a file of a recorder, or is damaged. Take another copy of it."),
    (
        "SQLITE_CORRUPT",
        "is damaged. Take another copy of it; or save what can be read with vsbq.record.merge(..., damaged='drop').",
    ),
)


class in_words(contextlib.AbstractContextManager[None]):
    """Errors of SQLite and of the system become a `RecorderError` that names the file and the remedy."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, UnicodeError):
            raise RecorderError(f"'{self.path}' can't take or give a text that is not Unicode: {error}.") from error
        if isinstance(error, OSError):
            said = error.strerror or str(error)
            raise RecorderError(f"'{self.path}' can't be used: {said}. Check the path and the permissions.") from error
        if isinstance(error, sqlite3.Error):
            name = getattr(error, "sqlite_errorname", "")
            words = [remedy for code, remedy in REMEDIES if name.startswith(code)]
            said = words[0] if words else "can't be used. Take another copy of it if it is damaged."
            raise RecorderError(f"'{self.path}' {said} (SQLite: {error})") from error
