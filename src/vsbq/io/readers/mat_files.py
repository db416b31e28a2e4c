"""MAT-files of MATLAB and Octave: version 5 to 7 by SciPy, version 7.3, which is HDF5, elsewhere.

Fields of structs and contents of cells count as variables, under the names that MATLAB has for them: `trace.X`,
`runs(3).X`, `runs{3}`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from io import BufferedIOBase
from typing import Any

import numpy as np
from scipy.io import loadmat, whosmat
from scipy.io.matlab import MatlabFunction, MatlabOpaque, mat_struct

from vsbq._typing import ndarray
from vsbq.errors import EvaluationsError
from vsbq.io.readers import limits
from vsbq.io.readers.array_files import ArrayNames, Variable, table_of
from vsbq.io.readers.mat_claims import check_claims
from vsbq.io.readers.table import LONGEST_NAME, Table

__all__ = ["read_mat"]


def read_mat(stream: BufferedIOBase, size: int, given: ArrayNames, labels: str | None = None) -> Table:
    """The table in a MAT-file of version 5, 6 or 7."""
    check_claims(stream, size)
    opened: Any = stream
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a variable that is there twice, or can't be read
        logical = {name for name, _, kind in whosmat(opened) if kind == "logical"}
        told = loadmat(opened, struct_as_record=False)
    found: dict[str, Variable] = {}
    for name, value in told.items():
        if not name.startswith("__"):
            within = [(name, Variable(np.shape(value), "logical"))] if name in logical else _within(name, value)
            for inner, each in within:
                found[inner] = each
                limits.check_columns(len(found))
    return table_of(found, given, labels)


def _within(name: str, value: Any) -> Iterator[tuple[str, Variable]]:
    """A variable, or what is in it if it is a struct or a cell array."""
    if isinstance(value, MatlabOpaque | MatlabFunction):
        yield name, Variable(np.shape(value), "an object of MATLAB")
    elif not isinstance(value, np.ndarray):
        yield name, Variable(np.shape(value), "a sparse matrix" if hasattr(value, "nnz") else "no array")
    elif value.dtype.kind != "O":
        yield name, _numbers(value)
    elif value.size and all(isinstance(each, mat_struct) for each in value.flat):
        structs = list(value.ravel(order="F"))
        for i, each in enumerate(structs):
            start = name if len(structs) == 1 else f"{name}({i + 1})"
            for field in each._fieldnames:
                yield from _within(f"{start}.{field}", getattr(each, field))
    elif texts := _texts(value):
        yield name, Variable(value.shape, "texts", texts=texts)
    elif not value.size:
        yield name, Variable(value.shape, "an empty cell or struct")
    else:
        for i, each in enumerate(value.ravel(order="F")):
            yield from _within(f"{name}{{{i + 1}}}", each)


def _numbers(value: ndarray) -> Variable:
    kinds = {"U": "text", "b": "logical", "c": "complex numbers"}
    if value.dtype.kind in kinds:
        texts = (str(value.flat[0]),) if value.dtype.kind == "U" and value.size == 1 else ()
        return Variable(value.shape, kinds[value.dtype.kind], texts=texts)
    if value.dtype.kind not in "fiu":
        return Variable(value.shape, f"values of type {value.dtype}")
    return Variable(value.shape, "numbers", lambda: value)


def _texts(value: ndarray) -> tuple[str, ...]:
    """The texts of a cell array that holds nothing else."""
    cells = list(value.ravel(order="F"))
    fine = all(isinstance(each, np.ndarray) and each.dtype.kind == "U" and each.size == 1 for each in cells)
    texts = tuple(str(each.flat[0]).strip() for each in cells) if fine else ()
    return texts if all(0 < len(text) <= LONGEST_NAME for text in texts) else ()


def refuse_old(suffix: str) -> None:
    """Refuse what is called a MAT-file and does not start like one."""
    if suffix == ".mat":
        raise EvaluationsError(
            "it does not start like a MAT-file of version 5 or later. Save it in MATLAB with "
            "save('trace.mat', 'X', 'fval', '-v7'), in Octave with save -v7."
        )
