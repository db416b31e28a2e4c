"""HDF5: plain files, and MAT-files of version 7.3, whose axes are stored in the other order.

Only what is in the file itself is read: no links to other files, and no objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from io import BufferedIOBase
from typing import Any

import numpy as np

from vsbq._typing import ndarray
from vsbq.errors import EvaluationsError
from vsbq.io.readers import limits
from vsbq.io.readers.array_files import NAMES, ArrayNames, Variable, table_of
from vsbq.io.readers.table import LONGEST_NAME, Table
from vsbq.io.readers.traces import needed

__all__ = ["read_hdf5"]

DEEPEST = 12
MANY = 10_000
NUMERIC = ("double", "single", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))


def read_hdf5(stream: BufferedIOBase, size: int, given: ArrayNames, labels: str | None = None) -> Table:
    """The table in an HDF5 file, from datasets named by their paths, or in a MAT-file of version 7.3."""
    h5py = needed("h5py", "hdf5", lambda: __import__("h5py"))
    matlab = stream.read(10) == b"MATLAB 7.3"
    stream.seek(0)
    with h5py.File(stream, "r") as file:
        _refuse_known(file)
        walk = _Walk(file, h5py, size, "." if matlab else "/")
        found = dict(walk.group(file, "", 0))
        return table_of(found, given, labels)


def _refuse_known(file: Any) -> None:
    """Files of libraries that have a reader of their own."""
    if {"chain", "log_prob"} <= _names(file, "mcmc"):
        raise EvaluationsError("it is a backend of emcee. Use Evaluations.from_emcee.")
    if "history" in file and any("trace" in _names(file, f"history/{each}") for each in file["history"]):
        raise EvaluationsError("it holds the histories of pyPESTO. Use Evaluations.from_pypesto.")


def _names(file: Any, group: str) -> set[str]:
    inside = file.get(group)
    return set(inside) if hasattr(inside, "keys") else set()


class _Walk:
    """Finds the datasets of a file; what holds no numbers is listed and not read."""

    def __init__(self, file: Any, h5py: Any, size: int, between: str) -> None:
        self.file, self.h5py, self.size, self.between = file, h5py, size, between
        self.seen = 0

    def group(self, group: Any, start: str, depth: int) -> Iterator[tuple[str, Variable]]:
        """The datasets of a group and of those in it; links that are not to a place in this file are left out."""
        if depth > DEEPEST:
            raise EvaluationsError(f"it has groups more than {DEEPEST} deep. Save the arrays at the top.")
        for name in group:
            hard = isinstance(group.get(name, getlink=True), self.h5py.HardLink)
            if hard and not (self.matlab and name.startswith("#")):
                yield from self.item(group[name], f"{start}{name}", depth)

    def item(self, item: Any, name: str, depth: int) -> Iterator[tuple[str, Variable]]:
        """A dataset, or what is in a group, a struct or a cell array."""
        self.seen += 1
        if self.seen > MANY:
            raise EvaluationsError(f"it holds more than {MANY} datasets. Put the points and the values into one each.")
        if isinstance(item, self.h5py.Dataset):
            if self.h5py.check_ref_dtype(item.dtype) is not None and self.matlab:
                yield from self.cells(item, name, depth)
            else:
                yield name, self.dataset(item, name)
        elif isinstance(item, self.h5py.Group):
            if "MATLAB_sparse" in item.attrs:
                yield name, Variable((), "a sparse matrix")
            else:
                yield from self.group(item, f"{name}{self.between}", depth + 1)

    @property
    def matlab(self) -> bool:
        """Whether MATLAB wrote it."""
        return self.between == "."

    def cells(self, item: Any, name: str, depth: int) -> Iterator[tuple[str, Variable]]:
        """What a cell array, or a field of an array of structs, refers to."""
        limits.check_columns(item.size)
        if depth > DEEPEST:
            raise EvaluationsError(f"it has cells or structs more than {DEEPEST} deep. Save the arrays at the top.")
        there = [self.file[reference] if reference else None for reference in np.ravel(item[()])]
        cell = _word(item.attrs.get("MATLAB_class")) == "cell"
        texts = tuple(self.text(each) for each in there) if cell else ()
        if texts and all(texts):
            yield name, Variable(item.shape[::-1], "texts", texts=texts)
            return
        before, _, field = name.rpartition(".")
        for i, each in enumerate(there):
            inner = f"{name}{{{i + 1}}}" if cell or not before else f"{before}({i + 1}).{field}"
            if each is not None:
                yield from self.item(each, inner, depth + 1)

    def text(self, item: Any) -> str:
        """The text of an array of characters of MATLAB, or nothing."""
        fine = isinstance(item, self.h5py.Dataset) and _word(item.attrs.get("MATLAB_class")) == "char"
        if not fine or item.dtype.kind != "u" or item.size > LONGEST_NAME or "MATLAB_empty" in item.attrs:
            return ""
        return "".join(map(chr, np.ravel(item[()]).tolist())).strip()

    def dataset(self, item: Any, name: str) -> Variable:
        """One dataset, which is read only if it is used."""
        shape = tuple(item.shape[::-1] if self.matlab else item.shape) if item.shape is not None else ()
        of = _word(item.attrs.get("MATLAB_class"))
        if self.matlab and (of not in NUMERIC or "MATLAB_empty" in item.attrs or "MATLAB_object_decode" in item.attrs):
            text = self.text(item)
            return Variable(shape, of or "an object of MATLAB", texts=(text,) if text else ())
        if item.shape is None or item.dtype.kind not in "fiu":
            return Variable(shape, *self.strings(item, name))
        if item.is_virtual or item.external:
            return Variable(shape, "kept in another file")
        limits.check_expansion(item.size * item.dtype.itemsize, self.size)
        return Variable(shape, "numbers", partial(self.read, item))

    def strings(self, item: Any, name: str) -> tuple[str, None, tuple[str, ...]]:
        """Names of parameters, or a word on what else it is."""
        if self.h5py.check_string_dtype(item.dtype) is None:
            return f"values of type {item.dtype!s:.40}", None, ()
        wanted = name.rpartition(self.between)[2].lower() in NAMES and item.size <= limits.MOST_COLUMNS
        texts = [str(text) for text in np.ravel(item.asstr()[()])] if wanted and item.ndim == 1 else []
        return "texts", None, tuple(texts) if all(0 < len(text) <= LONGEST_NAME for text in texts) else ()

    def read(self, item: Any) -> ndarray:
        """The numbers, with their axes as the user wrote them."""
        return np.asarray(item[()]).T if self.matlab else np.asarray(item[()])


def _word(attribute: Any) -> str:
    """An attribute that is a word."""
    return attribute.decode("ascii", "replace") if isinstance(attribute, bytes) else str(attribute or "")
