"""Tables as binary files: arrays in NumPy's npz and columns in Parquet.

Sizes are checked before anything is read, and only numbers are read: text beside them costs nothing.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from vsbq._typing import ndarray
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.io.readers import limits
from vsbq.io.readers.array_files import POINTS, ArrayNames, Variable, table_of
from vsbq.io.readers.table import LONGEST_NAME, Column, Table, Trouble, check_header, label_of
from vsbq.io.readers.traces import needed

#: What NumPy writes; other methods of compression can grow without bounds before their size is known.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _Unread(NamedTuple):
    """An array that holds no numbers: of which shape and type it is."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Dimensions, as of an array."""
        return len(self.shape)


def read_npz(stream: BufferedIOBase, size: int, given: ArrayNames, labels: str | None = None) -> Table:
    """Columns from arrays of one length, where a matrix of points counts as one column for each parameter."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if any(member.filename.startswith("xl/") for member in members):
            raise EvaluationsError("it is an Excel workbook. Save the sheet as CSV.")
        if not members or not all(member.filename.endswith(".npy") for member in members):
            raise EvaluationsError("it is a zip archive but no npz of NumPy. Write it with np.savez.")
        limits.check_columns(len(members))
        limits.check_expansion(sum(member.file_size for member in members), size)
        if any(member.compress_type not in COMPRESSIONS for member in members):
            raise EvaluationsError("it is compressed in a way that NumPy does not use. Write it with np.savez.")
        arrays = {member.filename.removesuffix(".npy"): _read_npy(archive, member, labels) for member in members}
    if "header" in arrays and "mixture_means" in arrays:
        raise EvaluationsError(
            "it is a saved posterior. Its evaluations are vsbq.load(path).evaluations; vsbq report, sample, compare "
            "and suggest take it as it is."
        )
    if given.points is not None:
        return table_of({name: _variable(array) for name, array in arrays.items()}, given, labels)
    table = _columns(arrays)
    column = arrays.get(labels or "")
    if not isinstance(column, np.ndarray) or labels not in table.columns:
        return table
    return replace(table, labels=tuple(map(label_of, column.ravel().tolist())))


def _read_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, labels: str | None) -> ndarray | _Unread:
    """One array of numbers, or names; what its header claims must fit in the file, and pickled objects are refused."""
    with archive.open(member) as stream:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran, dtype = read_header(stream)
        if dtype.hasobject:
            raise EvaluationsError(
                f"'{member.filename}' holds pickled objects, which are not read. Save plain numbers."
            )
        count = int(np.prod(shape, dtype=object))
        if count * dtype.itemsize > member.file_size:
            raise EvaluationsError(f"'{member.filename}' is shorter than its header says. Take another copy.")
        names = member.filename == "names.npy" and dtype.itemsize <= 4 * LONGEST_NAME and count <= limits.MOST_COLUMNS
        names = names or (
            member.filename == f"{labels}.npy" and dtype.kind == "U" and dtype.itemsize <= 4 * LONGEST_NAME
        )
        if dtype.kind not in "fiu" and not names:
            return _Unread(shape, dtype)
        limits.check_numbers(count, 1)
        flat = np.frombuffer(stream.read(count * dtype.itemsize), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _variable(array: ndarray | _Unread) -> Variable:
    """An array for the reader of files in which the points are named."""
    if not isinstance(array, np.ndarray):
        return Variable(array.shape, f"values of type {array.dtype}")
    if array.dtype.kind == "U":
        return Variable(array.shape, "texts", texts=tuple(map(str, array.ravel().tolist())))
    return Variable(array.shape, "numbers", lambda: array)


def _columns(arrays: dict[str, ndarray | _Unread]) -> Table:
    """Matrices as their columns, vectors as one."""
    matrices = {name: array for name, array in arrays.items() if name.lower() in POINTS and array.ndim == 2}
    if len(matrices) > 1:
        raise EvaluationsError(f"it has several arrays of points: {names_in_words(matrices)}. Keep one of them.")
    found: dict[str, ndarray | _Unread] = {}
    for points in matrices.values():
        names = _names_of(points.shape[1], arrays.get("names"))
        found |= dict(zip(names, points.T if isinstance(points, np.ndarray) else [points] * len(names), strict=True))
    columns = {name: _squeezed(array) for name, array in arrays.items() if name not in (*matrices, "names")}
    found |= {name: array for name, array in columns.items() if array.ndim == 1}
    check_header(list(found))
    if len({array.shape[0] for array in found.values()}) != 1:
        shapes = {name: array.shape for name, array in list(arrays.items())[:20]}
        raise EvaluationsError(
            f"its arrays are not columns of one table: {shapes}. Save points of shape (n, d) and log_density of shape "
            "(n,), or one array of shape (n,) for each column."
        )
    limits.check_numbers(next(iter(found.values())).shape[0], len(found))
    left = [name for name, array in columns.items() if array.ndim != 1]
    notes = (f"Left out {names_in_words(left)}, which is no column.",) if left else ()
    return Table({name: _column(array) for name, array in found.items()}, notes)


def _names_of(count: int, named: ndarray | _Unread | None) -> list[str]:
    """The names of the columns of a matrix, from an array beside it if that fits."""
    limits.check_columns(count)
    known = isinstance(named, np.ndarray) and named.dtype.kind == "U" and named.shape == (count,)
    return [str(name) for name in named] if known else [f"x{i + 1}" for i in range(count)]  # type: ignore[union-attr]


def _squeezed(array: ndarray | _Unread) -> ndarray | _Unread:
    if isinstance(array, np.ndarray):
        return np.squeeze(array)
    return array._replace(shape=tuple(length for length in array.shape if length != 1))


def _column(array: ndarray | _Unread) -> Column:
    """A column of numbers, or one that is marked as text."""
    if isinstance(array, np.ndarray) and array.dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            return Column(np.array(array, dtype=np.float64), None, len(array))
    return _no_numbers(array.shape[0], f"values of type {array.dtype}")


def _no_numbers(rows: int, what: str) -> Column:
    """A column that is not read."""
    return Column(np.full(rows, np.nan), Trouble(count=max(rows, 1), line=1, cell=what), max(rows, 1))


def read_parquet(stream: BufferedIOBase, size: int, labels: str | None = None) -> Table:
    """The columns of a Parquet file; an empty cell is NaN. Checksums of its pages are verified where it has any."""
    parquet = needed("pyarrow", "parquet", lambda: __import__("pyarrow.parquet").parquet)
    about = parquet.ParquetFile(stream)
    rows, schema = about.metadata.num_rows, about.schema_arrow
    if rows == 0:
        raise EvaluationsError("it has no rows. Write the table again.")
    check_header([str(name) for name in schema.names])
    kinds = {str(field.name): field.type for field in schema}
    index = [name for name in kinds if name.startswith("__index_level_")]
    numeric = [name for name, kind in kinds.items() if name not in index and _is_numeric(kind)]
    limits.check_expansion(8 * rows * max(len(numeric), 1), size)
    limits.check_numbers(rows, max(len(numeric), 1))
    stream.seek(0)
    file = parquet.ParquetFile(stream, page_checksum_verification=True)
    try:
        wanted = [*numeric, labels] if labels in kinds and labels not in numeric else numeric
        table = file.read(columns=wanted, use_threads=False)
    except OSError as error:
        if "CRC" not in str(error):
            raise
        raise EvaluationsError(
            "a checksum in it does not match, so bytes were changed. Take another copy, or write it again."
        ) from error
    notes = ("Left out the index.",) if index else ()
    columns = {
        name: _column(_numbers(table.column(name))) if name in numeric else _no_numbers(rows, f"values of type {kind}")
        for name, kind in kinds.items()
        if name not in index
    }
    cells = table.column(labels).to_pylist() if labels in columns else ()
    return Table(columns, notes, tuple(map(label_of, cells)))


def _is_numeric(kind: Any) -> bool:
    types = __import__("pyarrow.types").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _numbers(column: Any) -> ndarray:
    """A column of Arrow as an array."""
    types = __import__("pyarrow.types").types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return np.asarray((column.cast("float64") if types.is_decimal(column.type) else column).to_numpy())
