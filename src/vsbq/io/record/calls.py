"""Reading the calls of an objective: the points it was asked for, and the values and noise it gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.errors import count_in_words, names_in_words
from vsbq.io.record.problem import RecorderError

__all__ = [
    "Batch",
    "Outcome",
    "Points",
    "Returns",
    "read_call",
    "read_noise",
    "read_numbers",
    "read_outcome",
    "read_points",
]

Returns = Literal["value", "value_and_sd", "value_and_gradient"]
Batch = Literal["rows", "columns"]


class Points(NamedTuple):
    """The points of one call, copied; `single` if it was one point rather than a batch."""

    rows: Float[ndarray, "n d"]
    single: bool


class Outcome(NamedTuple):
    """What an objective returned, still with its own sign; `value` is that part of it as it came."""

    value: Any
    values: Float[ndarray, " n"]
    sd: Float[ndarray, " n"] | None


# The points


def read_call(args: Sequence[Any], kwargs: Mapping[str, Any], names: tuple[str, ...], batch: Batch) -> Points | None:
    """The points of a call f(x, ...), f(a, b, ...), f({"a": ..., "b": ...}) or f(a=..., b=...).

    None if the point is complex: that is a numerical derivative by a complex step, and no evaluation.
    """
    if not args:
        return _by_name(kwargs, names)
    spread = len(args) >= len(names) > 1 and all(_is_number(arg) for arg in args[: len(names)])
    x = args[: len(names)] if spread else args[0]
    if getattr(getattr(x, "dtype", None), "kind", "") == "c":
        return None
    return read_points(x, names, batch)


def read_points(x: Any, names: tuple[str, ...], batch: Batch = "rows") -> Points:
    """One point or a batch, from an array, a list, a number (for one parameter) or a dict by name."""
    if isinstance(x, Mapping):
        return _by_name(x, names)
    array, dimension = _as_array(x), len(names)
    if array.shape == (dimension,) or (dimension == 1 and array.ndim == 0):
        return Points(array.reshape(1, dimension), True)
    if dimension == 1 and array.ndim == 1:
        return Points(array[:, None], False)
    turned = array.T if batch == "columns" else array
    if array.ndim == 2 and turned.shape[1] == dimension:
        return Points(np.ascontiguousarray(turned), False)
    expected = f"({dimension},) for one point or " + (
        f"({dimension}, n)" if batch == "columns" else f"(n, {dimension})"
    )
    columns = array.ndim == 2 and array.shape[0] == dimension and batch == "rows"
    remedy = "Pass batch='columns' if every column is a point." if columns else "Check the names of the recorder."
    raise RecorderError(
        f"The objective was called with an array of shape {array.shape}, but the parameters {names_in_words(names)} "
        f"need {expected}. {remedy}"
    )


def _by_name(given: Mapping[str, Any], names: tuple[str, ...]) -> Points:
    missing = [name for name in names if name not in given]
    if missing:
        raise RecorderError(
            f"The objective was called without {names_in_words(missing)}; it was given "
            f"{names_in_words(str(name) for name in given) or 'nothing'}. Pass the point as the first argument, or "
            "every parameter by its name."
        )
    array = _as_array([given[name] for name in names])
    return Points(array.reshape(1, -1), True) if array.ndim == 1 else read_points(array, names, "columns")


def _as_array(x: Any) -> Float[ndarray, ...]:
    """A float64 copy: optimisers use one buffer over and over."""
    try:
        with np.errstate(over="raise"):
            return np.array(x, dtype=np.float64, order="C")
    except (ArithmeticError, TypeError, ValueError) as error:
        raise RecorderError(
            f"The objective was called with {_brief(x)}, which can't be read as a point ({error}). Wrap the function "
            "that gets plain numbers."
        ) from error


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float | np.number)


def _brief(x: Any) -> str:
    try:
        words = repr(x)
    except Exception:  # as of an integer of more than 4300 digits
        words = f"a {type(x).__name__}"
    return words if len(words) <= 80 else f"{words[:77]}..."


# The values


def read_outcome(result: Any, points: Points, returns: Returns | None) -> Outcome:
    """Value and noise from what an objective returned; see `Recorder.minimise` for the forms."""
    value, sd = _split(result, points, returns)
    n = len(points.rows)
    values = read_numbers(value, n, "The value of the objective")
    return Outcome(value, values, None if sd is None else read_noise(sd, n, "The noise sd of the objective"))


def read_noise(sd: Any, n: int, label: str) -> Float[ndarray, " n"]:
    """Standard deviations, one for each point or one for all."""
    noise = read_numbers(sd, n if _shape(sd) != () else 1, label)
    if (noise < 0).any():
        raise RecorderError(
            f"{label} is negative ({noise.min():g}), so it is no standard deviation. Pass "
            "returns='value_and_gradient' to the recorder if it is a gradient."
        )
    return np.full(n, noise[0]) if len(noise) != n else noise


def read_numbers(value: Any, n: int, label: str) -> Float[ndarray, " n"]:
    """As many real numbers as there are points; masked ones are NaN, and those beyond float64 infinite."""
    array = None
    with suppress(ArithmeticError, TypeError, ValueError, RuntimeError):
        array = np.asarray(value.filled(np.nan) if isinstance(value, np.ma.MaskedArray) else _plain(value))
        if array.dtype.kind == "O":
            array = np.array([_as_float(x) for x in array.flat], dtype=np.float64)
    if array is None or array.dtype.kind not in "fiu":
        raise RecorderError(
            f"{label} is {_brief(value)}, which can't be read as real numbers. Give a float, or one for each point; "
            "rec.record(x, log_density) takes what no optimiser calls."
        )
    if array.size != n:
        raise RecorderError(
            f"{label} has {array.size} numbers for {count_in_words(n, 'point')}. Give one for each, or say with "
            "returns= what the objective returns."
        )
    with np.errstate(over="ignore"):
        return array.astype(np.float64).reshape(n)


def _as_float(x: Any) -> float:
    """A number of another kind (Decimal, Fraction, a large integer) as a float, infinite if it is too large for one."""
    if isinstance(x, str | bytes | bool | np.bool_):
        raise TypeError(f"{x!r} is no number")
    try:
        return float(x)
    except OverflowError:
        return float("inf") if x > 0 else float("-inf")


def _plain(value: Any) -> Any:
    """Tensors that carry a gradient can't be read as arrays, but without it they can."""
    return value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value


def _split(result: Any, points: Points, returns: Returns | None) -> tuple[Any, Any]:
    """The value, and the noise if there is any."""
    if returns == "value" or (returns is None and not isinstance(result, tuple | list)):
        return result, None
    if returns is None:
        return _guess(result, points)
    if not isinstance(result, tuple | list) or len(result) != 2:
        raise RecorderError(
            f"The objective returned {_brief(result)}, but returns={returns!r} promises two things. Correct returns=."
        )
    return result[0], (result[1] if returns == "value_and_sd" else None)


def _guess(result: Sequence[Any], points: Points) -> tuple[Any, Any]:
    """Without a promise, a second number for each point is its noise, and one for each coordinate a gradient."""
    n, dimension = points.rows.shape
    if len(result) == n and all(_shape(part) == () for part in result):
        return result, None
    if len(result) == 2:
        value, second = result
        gradients = [(n, dimension), *([(dimension,), (dimension, 1)] if n == 1 else [])]
        noises = [] if points.single else [(n,), (n, 1)]
        if second is None or (dimension > 1 and _shape(second) in gradients):
            return value, None
        if _shape(second) == () or (dimension > 1 and _shape(second) in noises):
            return value, second
    raise RecorderError(
        f"The objective returned {_brief(result)} for {count_in_words(n, 'point')} of "
        f"{count_in_words(dimension, 'parameter')}, which can be read in more than one way or not at all. Pass "
        "returns='value', 'value_and_sd' or 'value_and_gradient' to the recorder."
    )


def _shape(part: Any) -> tuple[int, ...] | None:
    """The shape of something as an array, or None if it has none."""
    try:
        return np.shape(_plain(part))
    except ValueError:
        return None
