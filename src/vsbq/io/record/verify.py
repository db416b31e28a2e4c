"""Reading the rows of a file, each checked against its checksum; what is damaged is named, or left out if wished."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vsbq.errors import count_in_words, join_words
from vsbq.io.record.checksum import Unreadable, checksum_of_fields, checksum_of_row, owner_of_rows
from vsbq.io.record.file import Format, read_format
from vsbq.io.record.problem import RecorderError

__all__ = ["COLUMNS", "KEEP", "Contents", "Damaged", "Verified", "Writer", "check_row", "read_verified"]

Damaged = Literal["raise", "drop"]
COLUMNS = "number, point, log_density, log_density_sd, log_prior, started, seconds, failure"
SHOWN = 5  # damaged evaluations that are named
KEEP = (
    "Take another copy of it. To go on with the others, pass damaged='drop'; vsbq.record.merge(path, into=new_path, "
    "damaged='drop') makes a sound file of them."
)


class Writer(NamedTuple):
    """One process that has recorded, as it is stored, without its number in this file."""

    uuid: str
    run: str
    started: float

    def checksum(self, file: str) -> bytes:
        """The checksum of this writer in a file."""
        return checksum_of_fields([file, self.uuid, self.run, self.started])


class Contents(NamedTuple):
    """What one writer has recorded; each row begins with its number."""

    writer: Writer
    rows: list[tuple[Any, ...]]


class Verified(NamedTuple):
    """What could be read and is as it was recorded, and notes on what is left out."""

    contents: list[Contents]
    notes: list[str]


def read_verified(connection: sqlite3.Connection, path: Path, damaged: Damaged) -> Verified:
    """All evaluations of a file that are as they were recorded; an error or a note says what is not."""
    kind = read_format(connection, path)
    structure = _fault_of_structure(connection)
    if structure and damaged == "raise":
        raise RecorderError(f"'{path}' is damaged: evaluations may be missing ({structure}). {KEEP}")
    notes = [f"The file is damaged, so evaluations may be missing ({structure})."] if structure else []
    writers = _read_writers(connection, kind)
    found, bad = _sorted_out(_read_rows(connection, kind, salvage=bool(structure)), writers, kind)
    if bad:
        words = _in_words(bad, writers, sum(len(rows) for rows in found.values()))
        if damaged == "raise":
            raise RecorderError(f"'{path}' is damaged: {words}. {KEEP}")
        notes.append(f"Left out damaged evaluations: {words}.")
    return Verified([Contents(writers[i], rows) for i, rows in found.items()], notes)


def _fault_of_structure(connection: sqlite3.Connection) -> str | None:
    """What SQLite finds wrong with the tables, if anything: a damaged page can hide rows."""
    try:
        (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_IOERR", "SQLITE_NOMEM")):
            raise
        return str(error)
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if said == "ok" else " ".join(str(said).split())


def _read_writers(connection: sqlite3.Connection, kind: Format) -> dict[int, Writer]:
    """The writers by their number, without those that are damaged."""
    extra = ", checksum" if kind.version > 1 else ""
    found = {}
    for number, *rest in connection.execute(f"SELECT id, uuid, run, started{extra} FROM writer"):
        if not all(isinstance(text, str) for text in rest[:2]):
            continue
        writer = Writer(*rest[:3])
        if kind.version == 1 or _is_writer(rest[3], kind, writer):
            found[number] = writer
    return found


def _read_rows(connection: sqlite3.Connection, kind: Format, *, salvage: bool) -> Iterator[tuple[Any, ...]]:
    """All rows: writer, columns, checksum; with `salvage`, those before and behind what can't be read."""
    extra = ", checksum" if kind.version > 1 else ", NULL"
    query = f"SELECT writer, {COLUMNS}{extra} FROM evaluation ORDER BY writer {{0}}, number {{0}}"
    if not salvage:
        yield from connection.execute(query.format("ASC"))
        return
    seen = set()
    for order in ("ASC", "DESC"):
        try:
            for row in connection.execute(query.format(order)):
                if row[:2] not in seen:
                    seen.add(row[:2])
                    yield row
        except sqlite3.DatabaseError:
            continue


Rows = dict[int, list[tuple[Any, ...]]]
Keys = list[tuple[Any, Any]]


def _sorted_out(rows: Iterable[tuple[Any, ...]], writers: dict[int, Writer], kind: Format) -> tuple[Rows, Keys]:
    """The sound rows of each writer, and writer and number of the others."""
    found: Rows = defaultdict(list)
    bad: Keys = []
    owners = {i: owner_of_rows(kind.file, writer.uuid) for i, writer in writers.items()}
    for writer, *row, stored in rows:
        owner = owners.get(writer)
        if owner is not None and _is_row(stored, owner, row, kind):
            found[writer].append(tuple(row))
        else:
            bad.append((writer, row[0]))
    return found, bad


def check_row(kind: Format, path: Path, uuid: Any, row: Sequence[Any], stored: Any) -> None:
    """Refuse a single row that is not what was recorded; it begins with its number."""
    if not isinstance(uuid, str) or not _is_row(stored, owner_of_rows(kind.file, uuid), row, kind):
        raise RecorderError(f"'{path}' is damaged: evaluation {row[0]} of a run is not what was recorded. {KEEP}")


def _is_row(stored: Any, owner: bytes, row: Sequence[Any], kind: Format) -> bool:
    try:
        expected = checksum_of_row(owner, row[0], row[1:])  # in version 1 only the types can be checked
        return kind.version == 1 or bool(stored == expected)
    except Unreadable:
        return False


def _is_writer(stored: Any, kind: Format, writer: Writer) -> bool:
    try:
        return bool(stored == writer.checksum(kind.file))
    except Unreadable:
        return False


def _in_words(bad: Keys, writers: dict[int, Writer], sound: int) -> str:
    """Which evaluations are not what was recorded, by the number of their run's process."""
    names = [
        f"{number} of run '{writers[writer].run}'" if writer in writers else f"{number} of an unknown run"
        for writer, number in bad[:SHOWN]
    ]
    rest = [f"{len(bad) - SHOWN} more"] if len(bad) > SHOWN else []
    verb = "is" if len(bad) == 1 else "are"
    which = f"{count_in_words(len(bad), 'evaluation')} {verb} not what was recorded (number {join_words(names + rest)})"
    return f"{which}, {sound} {'is' if sound == 1 else 'are'} fine"
