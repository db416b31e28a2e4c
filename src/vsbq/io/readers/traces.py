"""What every reader ends in: a trace, on its way to `Evaluations` and through the same door as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.bounds import default_names
from vsbq.data.evaluations import Evaluations
from vsbq.data.signs import duplicate_groups
from vsbq.errors import EvaluationsError, count_in_words, join_words

Pairs = tuple[tuple[float, float], ...]
Meaning = Literal["log_density", "neg_log_density", "log_likelihood"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Evaluations as a library keeps them: values of some meaning at points in the user's units.

    A parameter whose two bounds are equal is fixed and will be left out.
    """

    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    meaning: Meaning
    names: tuple[str, ...] | None = None
    bounds: Pairs | None = None
    plausible: Pairs | None = None
    sd: Float[ndarray, " n"] | None = None
    log_prior: Float[ndarray, " n"] | None = None
    notes: tuple[str, ...] = ()

    def take(self, keep: ndarray, note: str) -> Trace:
        """Some of the rows, with a note on the others."""
        sd, prior = (None if column is None else column[keep] for column in (self.sd, self.log_prior))
        points, values, notes = self.points[keep], self.values[keep], (*self.notes, note)
        return replace(self, points=points, values=values, sd=sd, log_prior=prior, notes=notes)


def make_evaluations(trace: Trace, options: Mapping[str, Any]) -> Evaluations:
    """The evaluations of a trace. Options are those of `Evaluations` and win over what the library says."""
    if not len(trace.values):
        raise EvaluationsError("There are no evaluations yet. Run the optimiser first.")
    given = dict(options)
    prior, names, sd = (given.pop(name, None) for name in ("log_prior", "names", "log_density_sd"))
    if prior is not None:
        trace = replace(trace, log_prior=prior_of(prior, trace.points))
    if names is not None and not isinstance(names, str) and len(names) == trace.points.shape[1]:
        trace, names = replace(trace, names=tuple(names)), None
    trace = _without_fixed(trace)
    names = trace.names if names is None else names
    given["bounds"] = _prefer(given.get("bounds"), trace.bounds, trace.names)
    given["plausible_bounds"] = _prefer(given.get("plausible_bounds"), trace.plausible, trace.names)
    given[trace.meaning] = trace.values
    noise = trace.sd if sd is None else sd
    made = Evaluations(trace.points, names=names, log_density_sd=noise, log_prior=trace.log_prior, **given)
    return made._with_notes([*trace.notes, *made.notes])


def prior_of(log_prior: Any, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """The log prior of every point, from a function of one point, from a number or from one value each."""
    if callable(log_prior):
        return np.array([_number(log_prior(point.copy()), "log_prior(x)") for point in points], dtype=np.float64)
    array = np.asarray(log_prior, dtype=np.float64)
    if array.ndim == 0:
        return np.full(len(points), float(array))
    if array.size != len(points):
        raise EvaluationsError(
            f"log_prior has {array.size} values for {len(points)} evaluations. Pass a function of one point, one "
            "number, or one value for each evaluation."
        )
    return array.reshape(-1)


def _number(value: Any, label: str) -> float:
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "fiu":
        raise EvaluationsError(f"{label} must be one number, but is {value!r:.80}. Return a float.")
    return float(array.reshape(()))


def _without_fixed(trace: Trace) -> Trace:
    """The trace without parameters whose bounds leave no room."""
    count = trace.points.shape[1]
    fixed = [i for i, (low, high) in enumerate(trace.bounds or ()) if low == high]
    if not fixed:
        return trace
    free = [i for i in range(count) if i not in fixed]
    names = trace.names or default_names(count)
    words = join_words([f"'{names[i]}' ({trace.points[0, i]:g})" for i in fixed])
    if (trace.points[:, fixed] != trace.points[0, fixed]).any():
        raise EvaluationsError(f"The bounds fix {words}, but the points vary there. Pass arrays and bounds= instead.")
    return replace(
        trace,
        points=trace.points[:, free],
        names=tuple(names[i] for i in free),
        bounds=_chosen(trace.bounds, free),
        plausible=_chosen(trace.plausible, free),
        notes=(*trace.notes, f"Left out {words}: fixed."),
    )


def _chosen(pairs: Pairs | None, free: Sequence[int]) -> Pairs | None:
    return None if pairs is None else tuple(pairs[i] for i in free)


def _prefer(given: Any, found: Pairs | None, names: Sequence[str] | None) -> Any:
    """The bounds that the user gave; by name, they change only those that they name."""
    if given is None or found is None:
        return found if given is None else given
    if isinstance(given, Mapping) and names is not None:
        return {**dict(zip(names, found, strict=True)), **given}
    return given


def without_repeats(trace: Trace, why: str) -> Trace:
    """Every point once: its first evaluation."""
    keep = duplicate_groups(trace.points) == np.arange(len(trace.points))
    gone = int((~keep).sum())
    return trace.take(keep, f"Left out {count_in_words(gone, 'repeat')} {why}.") if gone else trace


def pairs_of(lower: Any, upper: Any, dimension: int) -> Pairs:
    """Pairs from two sides, each None (open), one number or one for each parameter."""
    sides = [
        np.broadcast_to(np.asarray(open_value if side is None else side, dtype=np.float64).ravel(), (dimension,))
        for side, open_value in ((lower, -np.inf), (upper, np.inf))
    ]
    return tuple(zip(*(side.tolist() for side in sides), strict=True))


def matrix(rows: Sequence[Sequence[float]]) -> Float[ndarray, "n d"]:
    """Points from rows of numbers, of which there may be none yet."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), -1) if rows else np.zeros((0, 1))


def column(values: Any, label: str) -> Float[ndarray, " n"]:
    """One float for each evaluation, whatever kind of number the library holds."""
    try:
        return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EvaluationsError(f"{label} holds something that is not a number ({error}). Leave it out.") from error


def needed(module: str, extra: str, import_it: Callable[[], Any]) -> Any:
    """An optional package, or the line that installs it."""
    try:
        return import_it()
    except ImportError as error:
        raise ImportError(f"This reader needs {module}: pip install 'vsbq[{extra}]'") from error
