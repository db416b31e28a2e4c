"""pyPESTO: the histories of an optimisation, from its result, or from the HDF5 file that they were written to."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.validation import refuse_result
from vsbq.errors import EvaluationsError, count_in_words, names_in_words
from vsbq.io.readers import limits
from vsbq.io.readers.traces import Pairs, Trace, column, make_evaluations, matrix, needed, pairs_of, prior_of

__all__ = ["read_pypesto"]

RECIPE = (
    "Pass history_options=pypesto.HistoryOptions(trace_record=True) to pypesto.optimize.minimize, and then the result "
    "that it returns."
)
LINEAR = "lin"


class _History(NamedTuple):
    points: Sequence[Any]
    values: Sequence[Any]


class _Problem(NamedTuple):
    """Names and bounds of the free parameters, and a note on those that have another scale."""

    names: tuple[str, ...] | None = None
    bounds: Pairs | None = None
    notes: tuple[str, ...] = ()


def read_pypesto(source: Any, likelihood: bool, log_prior: Any, options: Mapping[str, Any]) -> Evaluations:
    """All evaluations of all starts; `likelihood` says that the objective has no prior in it."""
    refuse_result(source)
    if isinstance(source, str | os.PathLike):
        histories, problem = _from_file(source), _Problem()
    else:
        histories, problem = [_traced(each) for each in _histories(source)], _problem(getattr(source, "problem", None))
    points = matrix([list(map(float, np.ravel(x))) for each in histories for x in each.points])
    values = column([value for each in histories for value in each.values], "the history of pyPESTO")
    if likelihood and log_prior is None:
        raise EvaluationsError(
            "The objective is a likelihood, which is no posterior. Pass log_prior=: a function of one point, one "
            "number for a flat prior between the bounds (minus the log of their volume), or one value for each."
        )
    prior = None if log_prior is None else prior_of(log_prior, points)
    names, bounds = (None if part and len(part) != points.shape[1] else part for part in problem[:2])
    trace = Trace(
        points=points,
        values=-values if likelihood else values,
        meaning="log_likelihood" if likelihood else "neg_log_density",
        names=names,  # type: ignore[arg-type]
        bounds=bounds,  # type: ignore[arg-type]
        log_prior=prior,
        notes=problem.notes,
    )
    return make_evaluations(_with_values(trace), options)


def _with_values(trace: Trace) -> Trace:
    """Without calls that asked for a gradient alone, which have no value."""
    there = ~np.isnan(trace.values)
    gone = int((~there).sum())
    if gone == len(there):
        return trace
    words = f"Left out {count_in_words(gone, 'call')} without a value: a gradient alone, or a failure."
    return trace.take(there, words) if gone else trace


def _histories(source: Any) -> list[Any]:
    """The history of every start."""
    starts = getattr(getattr(source, "optimize_result", None), "list", None)
    if starts is not None:
        found = [getattr(each, "history", None) for each in starts]
    else:
        found = list(source) if isinstance(source, list | tuple) else [source]
    if not found or not all(hasattr(each, "get_fval_trace") for each in found):
        raise EvaluationsError(
            f"There are no histories of pyPESTO in a {type(source).__name__}. Pass the result of "
            "pypesto.optimize.minimize, a history, a list of them, or the HDF5 file that they were written to."
        )
    return found


def _traced(history: Any) -> _History:
    try:
        points, values = history.get_x_trace(), history.get_fval_trace()
    except NotImplementedError as error:
        raise EvaluationsError(f"pyPESTO kept no trace in this {type(history).__name__}. {RECIPE}") from error
    except (OSError, KeyError) as error:
        raise EvaluationsError(
            f"The file of this history can't be read ({type(error).__name__}: {error!s:.200}). Is it still there?"
        ) from error
    return _History(points, values)


def _problem(problem: Any) -> _Problem:
    if problem is None:
        return _Problem()
    free = [int(i) for i in problem.x_free_indices]
    names = tuple(str(problem.x_names[i]) for i in free)
    scales = {name: str(problem.x_scales[i]) for name, i in zip(names, free, strict=True)}
    turned = [name for name, scale in scales.items() if scale != LINEAR]
    what = "is" if len(turned) == 1 else "are"
    note = f"{names_in_words(turned)} {what} as pyPESTO varies them: {', '.join(scales[name] for name in turned)}."
    low, high = (np.asarray(side, dtype=np.float64)[free] for side in (problem.lb_full, problem.ub_full))
    return _Problem(names, pairs_of(low, high, len(free)), (note,) if turned else ())


def _from_file(path: str | os.PathLike[str]) -> list[_History]:
    """The histories in a file, as `HistoryOptions(storage_file=...)` writes them; names and bounds are not there."""
    if not Path(path).is_file():
        raise EvaluationsError(f"There is no file {str(path)!r}. Pass the storage_file of the histories.")
    h5py = needed("h5py", "hdf5", lambda: __import__("h5py"))
    try:
        with h5py.File(os.fspath(path), "r") as file:
            traces = [file[f"history/{name}/trace"] for name in file.get("history", ())]
            found = [_stored(trace) for trace in traces]
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise EvaluationsError(
            f"{str(path)!r} holds no histories that can be read ({type(error).__name__}: {error!s:.200}). Pass the "
            "storage_file of pypesto.HistoryOptions."
        ) from error
    if not any(len(each.values) for each in found):
        raise EvaluationsError(f"{str(path)!r} holds no trace of pyPESTO. {RECIPE}")
    return found


def _stored(trace: Any) -> _History:
    steps = sorted((name for name in trace if name.isdigit()), key=int)
    kept = [trace[name] for name in steps if "x" in trace[name]]
    for step in kept:
        limits.check_columns(step["x"].size)
    points: list[Float[ndarray, " d"]] = [np.asarray(step["x"][()], dtype=np.float64) for step in kept]
    return _History(points, [float(step["fval"][()]) if "fval" in step else None for step in kept])
