"""Files of arrays under names, as MAT-files and HDF5: which array is the points, and the table that they make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.errors import Argument, EvaluationsError, join_words, names_in_words
from vsbq.io.readers import limits
from vsbq.io.readers.table import Column, Table, check_header, label_of

__all__ = ["NAMES", "POINTS", "ArrayNames", "Variable", "listing", "refuse_points", "table_of"]

POINTS = ("points", "x", "theta", "samples", "params", "parameters")
NAMES = ("names", "param_names", "params_names", "parameter_names")
SHOWN = 30


class ArrayNames(NamedTuple):
    """What the user says of the arrays in a file: the points, the parameters, and those that have another meaning."""

    points: str | None = None
    params: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


class Variable(NamedTuple):
    """One array of a file; `read` is None where it holds no real numbers, and `kind` says what it is."""

    shape: tuple[int, ...]
    kind: str
    read: Callable[[], ndarray] | None = None
    texts: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def is_vector(self) -> bool:
        """Whether it is a list of real numbers, lying or standing."""
        return self.read is not None and sum(length != 1 for length in self.shape) == 1

    @property
    def is_matrix(self) -> bool:
        """Whether it has rows and columns of real numbers."""
        return self.read is not None and len(self.shape) == 2 and min(self.shape) > 1

    def __str__(self) -> str:
        size = " x ".join(map(str, self.shape)) if self.shape else "one number"
        return size if self.read is not None else f"{self.kind}, {size}"


Variables = Mapping[str, Variable]


def refuse_points(arrays: ArrayNames) -> None:
    """Refuse a name for the points where a file has columns only."""
    if arrays.points is not None:
        raise EvaluationsError(
            f"it is a table of columns, which holds no array '{arrays.points}'. Leave out ",
            Argument("points"),
            ", and name the columns of the parameters with ",
            Argument("params"),
            ".",
        )


def listing(found: Variables) -> str:
    """All arrays of a file with their shapes, for a message."""
    words = [f"'{name:.60}' ({each})" for name, each in list(found.items())[:SHOWN]]
    rest = [f"{len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return f"The variables are {join_words(words + rest)}."


def table_of(found: Variables, given: ArrayNames, labels: str | None = None) -> Table:
    """The columns of the points, and beside them every array with one number for each point."""
    if not any(each.is_vector or each.is_matrix for each in found.values()):
        raise EvaluationsError(f"it holds no arrays of numbers. {listing(found) if found else 'It is empty.'}")
    arrays = _Arrays(found)
    points = _points(arrays, given)
    count = _count(arrays, points, given)
    columns, parameters, notes = _columns_of_points(arrays, points, count, given) if points else ({}, [], [])
    for name in given.columns:
        columns[name] = arrays.vector(name, count)
    used = {points, *map(arrays.full, given.columns)} - {None}
    others = {name: each for name, each in found.items() if name not in used and each.is_vector and each.size == count}
    columns |= {arrays.short(name): np.ravel(_read(each)) for name, each in others.items()}
    check_header(list(columns))
    limits.check_numbers(count, len(columns))
    if points and len(columns) == len(parameters):
        raise EvaluationsError(
            f"'{points}' is {found[points]}, and no other variable has {count} numbers, one for each of its points. "
            f"{listing(found)}"
        )
    made = Table({name: _column(values) for name, values in columns.items()}, tuple(notes), (), tuple(parameters))
    return made if labels is None else replace(made, labels=_labels(arrays, labels, count))


class _Arrays:
    """The arrays of a file by their full names, or by the last part of these where that leaves no doubt."""

    def __init__(self, found: Variables) -> None:
        self.found = found
        ends = Counter(map(_end, found))
        self.by_end = {_end(name): name for name in found if ends[_end(name)] == 1}

    def full(self, name: str) -> str:
        """The full name; an error lists what there is."""
        if name in self.found:
            return name
        if name not in self.by_end:
            several = [each for each in self.found if _end(each) == name]
            why = f"there are several variables {names_in_words(several)}" if several else f"there is no '{name:.60}'"
            remedy = "Write the whole name." if several else "Names are case-sensitive."
            raise EvaluationsError(f"{why}. {remedy} {listing(self.found)}")
        return self.by_end[name]

    def short(self, name: str) -> str:
        """The name of a column."""
        return _end(name) if _end(name) in self.by_end else name

    def vector(self, name: str, count: int) -> Float[ndarray, " n"]:
        """The numbers of an array that has one for each point."""
        each = self.found[self.full(name)]
        if each.read is None or each.size != count or not (each.is_vector or count == 1):
            raise EvaluationsError(
                f"'{name}' is {each}, but one number for each of {count} points is needed. {listing(self.found)}"
            )
        return np.ravel(_read(each))


def _end(name: str) -> str:
    """The last part of the name of a field or of a dataset in a group."""
    return name.replace("/", ".").rpartition(".")[2]


def _points(arrays: _Arrays, given: ArrayNames) -> str | None:
    """The array of the points: named, or found by its name; None where every parameter has an array of its own."""
    found = arrays.found
    if given.points is not None:
        name = arrays.full(given.points)
        if not (found[name].is_matrix or found[name].is_vector):
            raise EvaluationsError(
                f"'{given.points}' is {found[name]}, and no matrix of numbers with one row for each evaluation. "
                f"{listing(found)}"
            )
        return name
    likely = [name for name, each in found.items() if _end(name).lower() in POINTS and each.is_matrix]
    if len(likely) == 1:
        return likely[0]
    matrices = [name for name, each in found.items() if each.is_matrix]
    own = bool(given.params) and all(name in found or name in arrays.by_end for name in given.params)
    if own or not (likely or matrices):
        return None
    which = names_in_words(likely) + " could all be the points" if likely else "no variable is clearly the points"
    perhaps = f" Perhaps: {matrices[0]}." if len(matrices) == 1 else ""
    raise EvaluationsError(f"{which}. Name it with ", Argument("points", "NAME"), f".{perhaps} {listing(found)}")


def _count(arrays: _Arrays, points: str | None, given: ArrayNames) -> int:
    """How many evaluations there are: the longer side of the points, since there are more of them than parameters."""
    if points is not None:
        return max(arrays.found[points].shape)
    for name in given.columns:
        each = arrays.found[arrays.full(name)]
        if not each.is_vector:
            raise EvaluationsError(
                f"'{name}' is {each}, and no list with one number for each evaluation. {listing(arrays.found)}"
            )
        return each.size
    return Counter(each.size for each in arrays.found.values() if each.is_vector).most_common(1)[0][0]


def _columns_of_points(
    arrays: _Arrays, points: str, count: int, given: ArrayNames
) -> tuple[dict[str, ndarray], list[str], list[str]]:
    """The matrix of the points as columns; one with an evaluation in each column is turned."""
    each = arrays.found[points]
    limits.check_columns(each.size // count)
    matrix, notes = _read(each), []
    if each.is_vector:
        matrix = matrix.reshape(-1, 1)
    elif matrix.shape[0] != count:
        matrix, notes = matrix.T, [f"Turned '{points}': it is {each}, with one column for each evaluation."]
    names = _names(arrays, points, matrix.shape[1], given)
    return dict(zip(names, matrix.T, strict=True)), names, notes


def _names(arrays: _Arrays, points: str, dimension: int, given: ArrayNames) -> list[str]:
    """The names of the parameters: those of an array of texts, else as told, else x1, x2, ..."""
    beside = [name for name in arrays.found if points.startswith(name.removesuffix(_end(name)))]
    found = [arrays.found[name].texts for name in beside if _end(name).lower() in NAMES]
    fitting = [texts for texts in found if len(texts) == dimension]
    names = list(fitting[0]) if len(fitting) == 1 else [f"x{i + 1}" for i in range(dimension)]
    if set(given.params) <= set(names):
        return names
    if len(given.params) != dimension:
        raise EvaluationsError(
            f"'{points}' has {dimension} columns, but {len(given.params)} parameters are named, which are not among "
            f"{names_in_words(names)}. Give one name for each column, in their order."
        )
    return list(given.params)


def _labels(arrays: _Arrays, name: str, count: int) -> tuple[str, ...]:
    """The label of each point, from numbers or texts."""
    each = arrays.found[arrays.full(name)]
    if each.texts and len(each.texts) == count:
        return each.texts
    return tuple(map(label_of, arrays.vector(name, count).tolist()))


def _read(each: Variable) -> ndarray:
    limits.check_numbers(each.size, 1)
    assert each.read is not None
    with np.errstate(over="ignore"):
        return np.array(each.read(), dtype=np.float64)


def _column(values: ndarray) -> Column:
    return Column(np.array(values, dtype=np.float64), None, len(values))
