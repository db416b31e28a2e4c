"""The objective as the optimiser sees it: the same as before, only that every call leaves a row."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.io.record.calls import Batch, Outcome, Points, Returns, read_call, read_numbers, read_outcome
from vsbq.io.record.problem import RecorderError
from vsbq.io.record.store import Row

__all__ = ["Keeper", "Recorded", "make_rows"]

LONGEST_FAILURE = 1000  # characters of an error that are kept


@runtime_checkable
class Keeper(Protocol):
    """What a recorder is to the functions it wraps."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""

    def add(self, rows: Sequence[Row]) -> None:
        """Add evaluations."""

    def check_open(self) -> None:
        """Refuse to go on after the end."""


class _Moment(NamedTuple):
    """When a call began and how long it took."""

    started: float
    seconds: float


class Recorded:
    """An objective that records itself, made by `Recorder.minimise` and `Recorder.maximise`.

    It can be pickled if the objective can, and has the attributes of the objective.
    """

    def __init__(
        self,
        keeper: Keeper,
        f: Callable[..., Any],
        sign: float,
        *,
        returns: Returns | None,
        log_prior: Callable[..., Any] | None,
        batch: Batch,
    ) -> None:
        functools.update_wrapper(self, f, updated=())
        self._keeper, self._f, self._sign = keeper, f, sign
        self._returns, self._log_prior, self._batch = returns, log_prior, batch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._f, name)

    def __repr__(self) -> str:
        return f"<{'maximised' if self._sign > 0 else 'minimised'} {self._f!r}, recorded by {self._keeper!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the objective, record what it did, and return what it returned."""
        self._keeper.check_open()
        points = read_call(args, kwargs, self._keeper.names, self._batch)
        if points is None:
            return self._call_for_derivative(args, kwargs)
        started, clock = time.time(), time.perf_counter()
        try:
            prior = self._ask_prior(points)
            result = self._f(*args, **kwargs)
        except Exception as error:
            self._record_error(points, error, _Moment(started, time.perf_counter() - clock))
            raise
        moment = _Moment(started, time.perf_counter() - clock)
        if result is None:
            self._record_failure(points, "the objective returned None", moment)
            return None
        return self._record_result(points, prior, result, moment)

    def _call_for_derivative(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A complex step of a numerical derivative: nothing to record."""
        if self._log_prior is not None:
            raise RecorderError("With log_prior, complex steps are not possible. Use another kind of derivative.")
        return self._f(*args, **kwargs)

    def _ask_prior(self, points: Points) -> Float[ndarray, " n"] | None:
        if self._log_prior is None:
            return None
        x = points.rows.copy()
        return read_numbers(self._log_prior(x[0] if points.single else x), len(x), "The log prior")

    def _record_result(self, points: Points, prior: Any, result: Any, moment: _Moment) -> Any:
        outcome = read_outcome(result, points, self._returns)
        values, answer = self._sign * outcome.values, result
        if prior is not None:
            with np.errstate(invalid="ignore"):  # where one is -inf and the other inf
                values = np.where(np.isneginf(prior), -np.inf, values + prior)
            answer = _with_value(result, outcome, self._sign * values)
        self._keeper.add(make_rows(points.rows, values, outcome.sd, prior, moment=moment))
        return answer

    def _record_failure(self, points: Points, words: str, moment: _Moment) -> None:
        nothing = np.full(len(points.rows), np.nan)
        self._keeper.add(make_rows(points.rows, nothing, None, None, moment=moment, failure=words))

    def _record_error(self, points: Points, error: Exception, moment: _Moment) -> None:
        """Record a failure; should even that fail, the error of the objective is still the one to see."""
        if isinstance(error, RecorderError):
            return
        words = type(error).__name__
        with suppress(Exception):
            words += f": {error}"[:LONGEST_FAILURE]
        try:
            self._record_failure(points, words.encode("utf-8", "replace").decode(), moment)
        except RecorderError as second:
            error.add_note(f"This failure could not be recorded: {second}")


def _with_value(result: Any, outcome: Outcome, values: Float[ndarray, " n"]) -> Any:
    """What the objective returned, with another value in it."""
    value = float(values[0]) if np.ndim(outcome.value) == 0 else values.reshape(np.shape(outcome.value))
    if outcome.value is result:
        return value
    if outcome.sd is None and result[1] is not None:
        raise RecorderError(
            "The objective returned a gradient, which lacks the part of log_prior. Leave log_prior out, and wrap the "
            "log posterior with its own gradient."
        )
    return value, result[1]


def make_rows(
    points: Float[ndarray, "n d"],
    log_density: Float[ndarray, " n"],
    sd: Float[ndarray, " n"] | None,
    log_prior: Float[ndarray, " n"] | None,
    *,
    moment: tuple[float, float | None],
    failure: str | None = None,
) -> list[Row]:
    """Evaluations as they are stored; the time that a batch took is shared by its points."""
    n, (started, seconds) = len(points), moment
    share = None if seconds is None else seconds / max(n, 1)
    blobs = [point.tobytes() for point in np.asarray(points, "<f8")]
    columns = (_or_none(log_density, n), _or_none(sd, n), _or_none(log_prior, n))
    failures = [failure] * n if sd is None else [_failure_of(s) for s in sd.tolist()]
    return [
        Row(blob, value, noise, prior, started, share, words)
        for blob, value, noise, prior, words in zip(blobs, *columns, failures, strict=True)
    ]


def _or_none(column: Float[ndarray, " n"] | None, n: int) -> list[float | None]:
    return [None] * n if column is None else [x if x == x else None for x in column.tolist()]


def _failure_of(sd: float) -> str | None:
    return None if np.isfinite(sd) else f"the sd of the noise is {sd}"
