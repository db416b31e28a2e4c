"""Tables as binary files: arrays in NumPy's npz and columns in Parquet; sizes are checked before anything is read."""

from __future__ import annotations

import zipfile
from io import BufferedIOBase
from typing import Any

import numpy as np
from numpy.lib import format as npy

from vsbq._typing import ndarray
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.readers.table import Column, Table, Trouble, check_header
from vsbq.readers.traces import needed

#: An honest file does not grow by more than this factor when it is read, unless it is small.
EXPANSION_LIMIT = 100
SMALL = 2**28
POINTS = ("points", "x", "theta", "samples", "params", "parameters")


def most_bytes(size: int) -> int:
    """What a compressed file of this size may grow to."""
    return max(SMALL, EXPANSION_LIMIT * size)


def read_npz(stream: BufferedIOBase, size: int) -> Table:
    """Columns from arrays of one length, where a matrix of points counts as one column for each parameter."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if any(member.filename.startswith("xl/") for member in members):
            raise EvaluationsError("it is an Excel workbook. Save the sheet as CSV.")
        if not members or not all(member.filename.endswith(".npy") for member in members):
            raise EvaluationsError("it is a zip archive but no npz of NumPy. Write it with np.savez.")
        if sum(member.file_size for member in members) > most_bytes(size):
            raise EvaluationsError("it claims to hold far more than its size allows. Don't trust it.")
        arrays = {member.filename.removesuffix(".npy"): _read_npy(archive, member) for member in members}
    if "header" in arrays and "mixture_means" in arrays:
        raise EvaluationsError("it is a saved posterior. Use vsbq.load(path).evaluations.")
    return _columns(arrays)


def _read_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> ndarray:
    """One array; what its header claims must fit in the file, and pickled objects are refused."""
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
        flat = np.frombuffer(stream.read(count * dtype.itemsize), dtype=dtype)
    return flat.reshape(shape, order="F" if fortran else "C")


def _columns(arrays: dict[str, ndarray]) -> Table:
    """Matrices as their columns, vectors as one."""
    matrices = [name for name, array in arrays.items() if name.lower() in POINTS and array.ndim == 2]
    if len(matrices) > 1:
        raise EvaluationsError(f"it has several arrays of points: {names_in_words(matrices)}. Keep one of them.")
    named = arrays.get("names")
    found: dict[str, ndarray] = {}
    for matrix in matrices:
        points = arrays[matrix]
        known = named is not None and named.dtype.kind == "U" and named.shape == (points.shape[1],)
        names = [str(name) for name in named] if known else [f"x{i + 1}" for i in range(points.shape[1])]  # type: ignore[union-attr]
        found |= dict(zip(names, points.T, strict=True))
    columns = {name: np.squeeze(array) for name, array in arrays.items() if name not in (*matrices, "names")}
    found |= {name: array for name, array in columns.items() if array.ndim == 1}
    check_header(list(found))
    lengths = {name: len(array) for name, array in found.items()}
    if len(set(lengths.values())) != 1:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise EvaluationsError(
            f"its arrays are not columns of one table: {shapes}. Save points of shape (n, d) and log_density of shape "
            "(n,), or one array of shape (n,) for each column."
        )
    left = [name for name, array in columns.items() if array.ndim != 1]
    notes = (f"Left out {names_in_words(left)}, which is no column.",) if left else ()
    return Table({name: _column(array) for name, array in found.items()}, notes)


def _column(array: ndarray) -> Column:
    """A column of numbers, or one that is marked as text."""
    n = len(array)
    if array.dtype.kind in "fiu":
        with np.errstate(over="ignore"):
            return Column(np.array(array, dtype=np.float64), None, n)
    first = str(array[0]) if n else ""
    return Column(np.full(n, np.nan), Trouble(count=max(n, 1), line=1, cell=first), max(n, 1))


def read_parquet(stream: BufferedIOBase, size: int) -> Table:
    """The columns of a Parquet file; an empty cell is NaN."""
    parquet = needed("pyarrow", "parquet", lambda: __import__("pyarrow.parquet").parquet)
    file = parquet.ParquetFile(stream, page_checksum_verification=False)
    about = file.metadata
    if about.num_rows * max(about.num_columns, 1) * 8 > most_bytes(size):
        raise EvaluationsError("it claims to hold far more than its size allows. Don't trust it.")
    if about.num_rows == 0:
        raise EvaluationsError("it has no rows. Write the table again.")
    names = [str(name) for name in file.schema_arrow.names]
    check_header(names)
    table = file.read(use_threads=False)
    index = [name for name in names if name.startswith("__index_level_")]
    notes = ("Left out the index.",) if index else ()
    return Table({name: _arrow_column(table.column(name)) for name in names if name not in index}, notes)


def _arrow_column(column: Any) -> Column:
    kind = str(column.type)
    if kind.startswith("decimal"):
        column = column.cast("float64")
    return _column(np.asarray(column.to_numpy()))
