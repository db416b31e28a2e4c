"""Files of evaluations: which kind a file is, told by its first bytes, and from its table to `Evaluations`."""

from __future__ import annotations

import gzip
import os
import sqlite3
import stat
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.errors import Argument, EvaluationsError, VsbqError
from vsbq.io.readers.array_files import ArrayNames, refuse_points
from vsbq.io.readers.binary_tables import read_npz, read_parquet
from vsbq.io.readers.columns import Roles, find_likelihood, find_parameters, find_roles
from vsbq.io.readers.hdf5_files import read_hdf5
from vsbq.io.readers.limits import most_bytes
from vsbq.io.readers.mat_files import read_mat, refuse_old
from vsbq.io.readers.number_format import TextFormat
from vsbq.io.readers.table import Table
from vsbq.io.readers.text_table import read_text_table

__all__ = ["read_file"]

NONE = ArrayNames()

#: First bytes of files that are known and can't be read, with what to do.
REFUSED = (
    (b"\x93NUMPY", "it is a single array without names. Save it with np.savez(path, points=..., log_density=...)."),
    (b"\x80", "it looks like a pickle, and pickles run code when they are read. Save the table as CSV or npz."),
    (b"BZh", "it is compressed by bzip2. Decompress it first."),
    (b"\xfd7zXZ", "it is compressed by xz. Decompress it first."),
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd. Decompress it first."),
    (b"%PDF", "it is a PDF. Save the table as CSV."),
    (b"\xd0\xcf\x11\xe0", "it is an old Excel workbook. Save the sheet as CSV."),
    (b"{", "it looks like JSON. Use Evaluations.from_nevergrad or from_bayes_opt for their logs, or save a CSV."),
    (b"ARROW1", "it is an Arrow (Feather) file. Save the table as Parquet or CSV."),
)


def read_file(
    path: str | os.PathLike[str],
    roles: Roles,
    params: Sequence[str] | None,
    text: TextFormat,
    options: Mapping[str, Any],
    *,
    points: str | None = None,
) -> Evaluations:
    """The evaluations in a table (CSV, TSV, Parquet, npz, MAT, HDF5), or in the database of a recorder."""
    name = _shown(path)
    wanted = [params] if isinstance(params, str) else params or ()
    arrays = ArrayNames(points, tuple(wanted), tuple(roles.named()))
    try:
        # Before Python opens it: closing it again would drop the locks of a recorder that is writing to it.
        if _is_recorded(path):
            return Evaluations.from_recorder(path, **options)
        with open_table(path) as stream:
            database = _head(stream).startswith(b"SQLite format 3\0")
            table = None if database else read_safely(lambda: read_table(stream, Path(path), text, arrays=arrays))
        if table is None:
            read_safely(lambda: _check_database(path))
            return Evaluations.from_recorder(path, **options)
        return evaluations_of(table, roles, params, options)
    except VsbqError as error:
        raise EvaluationsError(f"{name}: ", error) from error


def _is_recorded(path: str | os.PathLike[str]) -> bool:
    if not os.path.isfile(path):
        return False
    from vsbq.io.record import is_store

    return is_store(path)


def read_safely(read: Callable[[], Any]) -> Any:
    """What a file holds, or why it can't be read: zip, deflate, npy, SQLite and Parquet each fail in their own ways."""
    try:
        return read()
    except (EvaluationsError, ImportError):
        raise
    except MemoryError as error:
        raise EvaluationsError("it does not fit in memory. Keep fewer rows or columns.") from error
    except Exception as error:
        raise EvaluationsError(
            f"it can't be read and is probably damaged ({type(error).__name__}: {error!s:.200}). Take another copy, or "
            "write it again."
        ) from error


def _shown(path: Any) -> str:
    """The name of a file for a message: quoted, escaped and not too long."""
    text = repr(os.fspath(path))
    return text if len(text) <= 200 else f"{text[:100]}...{text[-90:]}"


def open_table(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a plain file; folders, pipes and devices are refused."""
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise EvaluationsError("it is a folder. Pass one file; pycma's log folders hold too little (see from_cma).")
        if not stat.S_ISREG(mode):
            raise EvaluationsError("it is a pipe or a device. Pass a file.")
        return open(path, "rb")
    except FileNotFoundError as error:
        raise EvaluationsError("there is no such file. Check the path.") from error
    except EvaluationsError:
        raise
    except (OSError, ValueError) as error:
        raise EvaluationsError(f"it can't be opened ({error!s:.200}). Check the path.") from error


def _head(stream: BufferedIOBase) -> bytes:
    start = stream.read(16)
    stream.seek(0)
    return start


def read_table(
    stream: BufferedReader,
    path: Path,
    text: TextFormat,
    labels: str | None = None,
    arrays: ArrayNames = NONE,
) -> Table:
    """A table of any kind; the first bytes tell which. `labels` is a column whose cells are kept as texts."""
    size, head, suffix = os.fstat(stream.fileno()).st_size, _head(stream), path.suffix.lower()
    if not head:
        raise EvaluationsError("it is empty. Write the table again.")
    if head.startswith(b"PK"):
        return read_npz(stream, size, arrays, labels)
    if head.startswith((b"\x89HDF", b"MATLAB 7.3")):
        return read_hdf5(stream, size, arrays, labels)
    if head.startswith(b"MATLAB 5"):
        return read_mat(stream, size, arrays, labels)
    refuse_points(arrays)
    if head.startswith(b"PAR1"):
        return read_parquet(stream, size, labels)
    most: float = float("inf")
    if head.startswith(b"\x1f\x8b"):
        with gzip.GzipFile(fileobj=stream) as packed:
            try:
                suffix, most = Path(path.stem).suffix.lower(), most_bytes(size)
                return read_text_table(packed, suffix, text, most, labels)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                raise EvaluationsError(f"its compression is damaged ({error}). Take another copy.") from error
    for start, remedy in REFUSED:
        if head.startswith(start):
            raise EvaluationsError(remedy)
    refuse_old(suffix)
    if suffix in {".npz", ".parquet", ".db", ".sqlite", ".h5", ".hdf5"}:
        raise EvaluationsError(f"it does not start like a {suffix} file. Take another copy, or write it again.")
    return read_text_table(stream, suffix, text, most, labels)


def _check_database(path: str | os.PathLike[str]) -> None:
    """Refuse a database that is not of a recorder, without writing to it."""
    with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as database:
        tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    if {"studies", "trials"} <= tables:
        raise EvaluationsError("it is a storage of Optuna. Use Evaluations.from_optuna.")


def evaluations_of(table: Table, given: Roles, params: Any, options: Mapping[str, Any]) -> Evaluations:
    roles = find_roles(table, given)
    wanted = [params] if isinstance(params, str) else None if params is None else list(params)
    names, notes = find_parameters(table, roles, wanted)
    table.check_numbers([*names, *roles.named()])
    _check_sum(table, roles)
    try:
        made = Evaluations.from_dataframe(
            table,
            log_density=roles.log_density,
            neg_log_density=roles.neg_log_density,
            log_likelihood=roles.log_likelihood,
            log_prior=roles.log_prior,
            log_density_sd=roles.log_density_sd,
            params=names,
            **options,
        )
    except EvaluationsError as error:
        counted = " Rows count from 0 below the names." if "(row" in str(error) else ""
        raise EvaluationsError(error, counted) from error
    return made._with_notes([*table.notes, *notes, *made.notes])


def _check_sum(table: Table, roles: Roles) -> None:
    """Where a table has posterior, likelihood and prior, they must add up: else one of them means something else."""
    likelihood = find_likelihood(table)
    if roles.log_density is None or not isinstance(roles.log_prior, str) or likelihood is None:
        return
    total, prior = table[roles.log_density].values, table[roles.log_prior].values
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.abs(total - prior - table[likelihood].values)
        wrong = np.isfinite(gap) & (gap > 1e-6 * (1 + np.abs(total)) + 1e-4)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise EvaluationsError(
            f"'{roles.log_density}' is not the sum of the log likelihood and '{roles.log_prior}': they differ by "
            f"{gap[row]:.4g} in row {row}. Name the columns to be used with ",
            Argument("log_likelihood", "NAME"),
            " and ",
            Argument("log_prior", "NAME"),
            ".",
        )
