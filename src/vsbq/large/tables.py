"""Tables that are read a piece at a time: arrays, NumPy's files mapped into memory, Parquet."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.steps.surrogate.complete import Rows

__all__ = ["ArrayTable", "ParquetTable", "Table", "open_table"]


@runtime_checkable
class Table(Protocol):
    """Evaluations somewhere: pickled, it tells another process where."""

    @property
    def rows(self) -> int:
        """How many there are."""

    def values(self, start: int, stop: int) -> Float[ndarray, " n"]:
        """Log densities of some rows."""

    def read(self, start: int, stop: int) -> Rows:
        """Some rows."""

    def part(self, start: int, stop: int) -> tuple[Table, int]:
        """A table that has these rows and costs little to send, and the number of its row that is the first of them."""


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """Arrays in memory, or paths of .npy files, which are mapped and not read as a whole."""

    points: Any
    log_density: Any
    sd: Any = None  # an array, a path, a number, or None

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(opened(self.log_density))

    def values(self, start: int, stop: int) -> Float[ndarray, " n"]:
        """Log densities of some rows."""
        return np.array(opened(self.log_density)[start:stop], dtype=np.float64)

    def read(self, start: int, stop: int) -> Rows:
        """Some rows."""
        values = self.values(start, stop)
        points = np.array(opened(self.points)[start:stop], dtype=np.float64)
        sd = np.zeros(len(values)) if self.sd is None else opened(self.sd)
        sd = np.full(len(values), float(sd)) if np.ndim(sd) == 0 else np.array(sd[start:stop], dtype=np.float64)
        return Rows(points, values, np.zeros(len(values)) if self.sd is None else sd)

    def part(self, start: int, stop: int) -> tuple[ArrayTable, int]:
        """Files go by their names, arrays as these rows of them."""
        files = isinstance(self.points, str) and isinstance(self.log_density, str)
        if files and (self.sd is None or isinstance(self.sd, str | float)):
            return self, start
        rows = self.read(start, stop)
        return ArrayTable(rows.points, rows.values, None if self.sd is None else rows.sd), 0


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """Columns of a Parquet file, read a row group at a time."""

    path: str
    params: tuple[str, ...]
    log_density: str
    sd: str | None = None

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self._file().metadata.num_rows)

    def values(self, start: int, stop: int) -> Float[ndarray, " n"]:
        """Log densities of some rows."""
        return self._columns((self.log_density,), start, stop)[0]

    def read(self, start: int, stop: int) -> Rows:
        """Some rows."""
        wanted = (*self.params, self.log_density) + ((self.sd,) if self.sd else ())
        columns = self._columns(wanted, start, stop)
        d = len(self.params)
        return Rows(np.stack(columns[:d], axis=1), columns[d], columns[d + 1] if self.sd else np.zeros(len(columns[d])))

    def part(self, start: int, stop: int) -> tuple[ParquetTable, int]:
        """The file goes by its name."""
        return self, start

    def _file(self) -> Any:
        return _parquet().ParquetFile(self.path)

    def _columns(self, names: tuple[str, ...], start: int, stop: int) -> list[Float[ndarray, " n"]]:
        file = self._file()
        pieces: list[list[ndarray]] = [[] for _ in names]
        first = 0
        for group in range(file.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            if last > start and first < stop:
                table = file.read_row_group(group, columns=list(dict.fromkeys(names)), use_threads=False)
                rows = slice(max(start - first, 0), min(stop, last) - first)
                for piece, name in zip(pieces, names, strict=True):
                    piece.append(np.asarray(table.column(name).to_numpy(), dtype=np.float64)[rows])
            first = last
        return [np.concatenate(piece) if piece else np.zeros(0) for piece in pieces]


def _parquet() -> Any:
    try:
        return import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError("Parquet needs pyarrow: pip install 'vsbq[parquet]'") from error


def opened(source: Any) -> Any:
    """An array; a file is mapped into memory."""
    if not isinstance(source, str | os.PathLike):
        return source
    try:
        return np.load(source, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise EvaluationsError(
            f"{str(source)!r} can't be opened as an array of NumPy ({error!s:.200}). Check the path, and write it with "
            "np.save."
        ) from error


class Opened(NamedTuple):
    """A table, the names of its parameters if it has any, and the evaluations if they are in memory anyway."""

    table: Table
    names: tuple[str, ...] = ()
    evaluations: Evaluations | None = None


def open_table(
    source: Any, log_density: Any, sd: Any, params: Sequence[str] | None, known: Mapping[str, Any]
) -> Opened:
    """The table that a user means; `known` is what was said of the parameters."""
    given = {"log_density": log_density, "log_density_sd": sd, "params": params, **known}
    said = {name: value for name, value in given.items() if value is not None}
    if isinstance(source, Evaluations):
        if said:
            raise EvaluationsError(
                f"An Evaluations already holds its values, bounds and names, but {', '.join(said)} was given as well. "
                "Pass them when the Evaluations is made."
            )
        return _in_memory(source)
    suffix = Path(source).suffix.lower() if isinstance(source, str | os.PathLike) else ""
    if suffix in {".parquet", ".pq"}:
        return _parquet_table(os.fspath(source), log_density or "log_density", sd, params)
    if suffix and suffix != ".npy":
        return _in_memory(Evaluations.from_file(source, **said))
    if log_density is None:
        raise EvaluationsError(
            "log_density is missing. Give the log densities of the points, as an array or as the path of another .npy "
            "file."
        )
    table = ArrayTable(*(_plain(each) for each in (source, log_density, sd)))
    points, values = opened(table.points), opened(table.log_density)
    if np.ndim(points) != 2 or np.ndim(values) != 1 or len(points) != len(values):
        raise EvaluationsError(
            f"The points have shape {np.shape(points)} and log_density {np.shape(values)}. Points are a matrix with a "
            "row for each log density."
        )
    return Opened(table)


def _in_memory(given: Evaluations) -> Opened:
    return Opened(ArrayTable(given.points, given.log_density, given.log_density_sd), given.names, given)


def _plain(source: Any) -> Any:
    """Paths as words, numbers as floats, what is like an array as one."""
    if source is None or isinstance(source, np.ndarray):
        return source
    if isinstance(source, str | os.PathLike):
        return os.path.abspath(os.fspath(source))
    return float(source) if np.ndim(source) == 0 else np.asarray(source, dtype=np.float64)


def _parquet_table(path: str, log_density: Any, sd: Any, params: Sequence[str] | None) -> Opened:
    try:
        known = [str(name) for name in _parquet().ParquetFile(path).schema_arrow.names]
    except (OSError, ValueError) as error:
        raise EvaluationsError(
            f"{path!r} can't be read as Parquet ({error!s:.200}). Check the path, or write it again."
        ) from error
    chosen = tuple(params or (name for name in known if name not in {log_density, sd}))
    missing = [name for name in (*chosen, log_density, *([sd] if sd else [])) if name not in known]
    if missing:
        raise EvaluationsError(
            f"{path!r} has no column {missing[0]!r}; it has {', '.join(known[:20])}. Name its columns by params=, "
            "log_density= and log_density_sd=."
        )
    return Opened(ParquetTable(os.path.abspath(path), chosen, str(log_density), sd), chosen)


def spans(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of rows."""
    for first in range(start, stop, size):
        yield first, min(first + size, stop)
