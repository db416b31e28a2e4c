"""Nevergrad: an optimizer, a collector registered with it, or the JSON lines of its `ParametersLogger`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.io.readers.json_lines import read_json_lines
from vsbq.io.readers.traces import Pairs, Trace, column, make_evaluations, matrix, pairs_of

__all__ = ["NevergradTrace", "read_nevergrad"]

RECIPE = (
    "Register a collector before the run: trace = vsbq.readers.NevergradTrace(); "
    "optimizer.register_callback('tell', trace); and pass the trace."
)


class NevergradTrace:
    """Collects every evaluation that an optimizer is told: `optimizer.register_callback("tell", NevergradTrace())`."""

    def __init__(self) -> None:
        self.points: list[list[float]] = []
        self.losses: list[float] = []
        self.names: tuple[str, ...] = ()
        self.bounds: Pairs = ()

    def __call__(self, optimizer: Any, candidate: Any, loss: Any) -> None:
        """Note one evaluation; Nevergrad calls this at every tell."""
        if optimizer.num_objectives > 1:
            raise EvaluationsError("A posterior needs one objective, but this optimizer has several.")
        parts = _parts(candidate)
        if not self.names:
            self.names, self.bounds = _names([(name, np.shape(part.value)) for name, part in parts]), _bounds(parts)
        self.points.append(_flat(part.value for _, part in parts))
        self.losses.append(float(loss))

    def __len__(self) -> int:
        return len(self.losses)


def read_nevergrad(source: Any, options: Mapping[str, Any]) -> Evaluations:
    """The evaluations of a collector, of an optimizer that still has them all, or of a `ParametersLogger`."""
    if isinstance(source, str | os.PathLike):
        records, notes = read_json_lines(source, "Nevergrad's ParametersLogger")
        return make_evaluations(_from_records(records, notes), options)
    if hasattr(source, "load_flattened"):
        return make_evaluations(_from_records(source.load(), ()), options)
    if isinstance(source, Sequence):
        return make_evaluations(_from_records(source, ()), options)
    if hasattr(source, "archive") and hasattr(source, "num_tell"):
        source = _from_archive(source)
    if not isinstance(source, NevergradTrace):
        raise EvaluationsError(f"There are no evaluations in a {type(source).__name__}. {RECIPE}")
    trace = Trace(
        points=matrix(source.points),
        values=column(source.losses, "the losses"),
        meaning="neg_log_density",
        names=source.names or None,
        bounds=source.bounds,
    )
    return make_evaluations(trace, options)


def _from_archive(optimizer: Any) -> NevergradTrace:
    """What the optimizer itself remembers, if it has not thinned it out."""
    for callback in getattr(optimizer, "_callbacks", {}).get("tell", []):
        if isinstance(callback, NevergradTrace):
            return callback
    entries = list(optimizer.archive.values())
    if sum(entry.count for entry in entries) < optimizer.num_tell:
        raise EvaluationsError(
            f"This optimizer was told {optimizer.num_tell} evaluations but keeps only {len(entries)} of them. {RECIPE}"
        )
    trace = NevergradTrace()
    for entry in entries:
        trace(optimizer, entry.parameter, entry.mean)
    return trace


def _parts(candidate: Any) -> list[tuple[str, Any]]:
    """The named parts of a candidate; parts that are not continuous are refused."""
    from nevergrad.parametrization import helpers

    parts: list[tuple[str, Any]] = helpers.flatten(candidate, with_containers=False, order=0)
    _refuse([name for name, part in parts if hasattr(part, "choices")], "a choice")
    _refuse([name for name, part in parts if getattr(part, "integer", False)], "an integer")
    return parts


def _refuse(names: Sequence[str], kind: str) -> None:
    if names:
        raise EvaluationsError(
            f"The parameter {names_in_words(names)} is {kind}. A posterior needs continuous parameters: fix it to one "
            "value and run again, or keep only the evaluations of one value and pass them as arrays."
        )


def _bounds(parts: Sequence[tuple[str, Any]]) -> Pairs:
    pairs: list[tuple[float, float]] = []
    for _, part in parts:
        shape = np.shape(part.value)
        lower, upper = (side if np.size(side) == 1 else np.broadcast_to(side, shape) for side in part.bounds)
        pairs += pairs_of(lower, upper, int(np.prod(shape, dtype=int)))
    return tuple(pairs)


def _flat(values: Iterable[Any]) -> list[float]:
    return [float(number) for value in values for number in np.ravel(np.asarray(value, dtype=np.float64))]


def _names(shapes: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[str, ...]:
    """Names of all numbers: those of Nevergrad, which calls what has no name by its place, with indices for arrays."""
    if len(shapes) == 1 and shapes[0][0] in ("", "0"):
        return tuple(f"x{i + 1}" for i in range(int(np.prod(shapes[0][1], dtype=int))))
    found = []
    for name, shape in shapes:
        label = f"x{int(name) + 1}" if name.isdecimal() else name
        places = product(*(range(length) for length in shape))
        found += [f"{label}[{','.join(map(str, place))}]" if shape else label for place in places]
    return tuple(found)


# The lines of a ParametersLogger


def _from_records(records: Sequence[Any], notes: Sequence[str]) -> Trace:
    if not records:
        raise EvaluationsError(
            "The log of Nevergrad is empty. Register the ParametersLogger for 'tell' before the run."
        )
    for number, record in enumerate(records):
        if not isinstance(record, Mapping) or "#loss" not in record:
            raise EvaluationsError(f"Entry {number} is not of Nevergrad's ParametersLogger: it has no '#loss'.")
    if any("#losses#0" in record for record in records):
        raise EvaluationsError("A posterior needs one objective, but this log has several.")
    keys = [key for key in records[0] if "#" not in key]
    _check_keys(records, keys)
    shapes = [np.shape(records[0][key]) for key in keys]
    sessions = len({record.get("#session") for record in records})
    notes = [*notes, *([f"The log holds {sessions} sessions, all of which are used."] if sessions > 1 else [])]
    return Trace(
        points=_points(records, keys, sum(int(np.prod(shape, dtype=int)) for shape in shapes)),
        values=column([record["#loss"] for record in records], "'#loss'"),
        meaning="neg_log_density",
        names=_names(list(zip(keys, shapes, strict=True))),
        notes=tuple(notes),
    )


def _check_keys(records: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> None:
    """All entries must have the same continuous parameters."""
    _refuse([key for key in keys if f"{key}.indices" in keys], "a choice")
    for number, record in enumerate(records):
        if [key for key in record if "#" not in key] != list(keys):
            raise EvaluationsError(
                f"Entry {number} has other parameters than entry 0. Log every problem to a file of its own."
            )
    whole = [key for key in keys if all(_is_whole(record[key]) for record in records)]
    _refuse(whole, "an integer")


def _is_whole(value: Any) -> bool:
    return all(map(_is_whole, value)) if isinstance(value, list) else type(value) is int


def _points(records: Sequence[Mapping[str, Any]], keys: Sequence[str], dimension: int) -> np.ndarray:
    try:
        rows = [_flat(record[key] for key in keys) for record in records]
    except (TypeError, ValueError, OverflowError) as error:
        raise EvaluationsError(
            f"A parameter in the log of Nevergrad is not a number ({error}). A posterior needs continuous parameters."
        ) from error
    odd = [number for number, row in enumerate(rows) if len(row) != dimension]
    if odd:
        raise EvaluationsError(f"Entry {odd[0]} has {len(rows[odd[0]])} numbers where entry 0 has {dimension}.")
    return np.array(rows, dtype=np.float64).reshape(len(rows), dimension)
