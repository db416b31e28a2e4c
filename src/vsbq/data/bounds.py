"""Hard or plausible bounds of the parameters, from whatever form the user has them in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import Bounds as ScipyBounds

from vsbq._typing import ArrayLike, Bool, Float, ndarray
from vsbq.errors import EvaluationsError, names_in_words

__all__ = ["Bounds", "BoundsLike", "refuse_vectors"]

#: What else two rows of bounds may be where there are two parameters, and what to do.
VECTORS = (
    "(lower, upper) with one number per parameter in each; for that pass np.transpose([lower, upper]) or "
    "scipy.optimize.Bounds(lower, upper). A dict by name is clearest."
)

BoundsLike: TypeAlias = "Bounds | ScipyBounds | Mapping[str, Any] | Sequence[Any] | ArrayLike | None"


@dataclass(frozen=True, eq=False, repr=False)
class Bounds:
    """Lower and upper bound of every parameter, -inf and +inf where it is open; the arrays are read-only."""

    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]

    def __post_init__(self) -> None:
        lower, upper = (np.array(side, dtype=np.float64, ndmin=1) for side in (self.lower, self.upper))
        if lower.ndim != 1 or lower.shape != upper.shape:
            raise EvaluationsError(
                f"lower and upper must be one-dimensional and of equal length, but have shapes {lower.shape} "
                f"and {upper.shape}. Give one number per parameter in each."
            )
        _check_order(lower, upper, default_names(lower.size), "bounds")
        lower.flags.writeable = upper.flags.writeable = False
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)

    @classmethod
    def parse(
        cls, value: BoundsLike, dimension: int, names: Sequence[str] | None = None, *, label: str = "bounds"
    ) -> Bounds:
        """Read bounds of `dimension` parameters from any of the accepted forms.

        Accepted are None (all open), a (D, 2) array, a list of pairs with None or ±inf where a side is open, a
        `scipy.optimize.Bounds`, a dict by parameter name (names left out are open) and a `Bounds`; for a single
        parameter also one pair of numbers. `label` is what error messages call the argument.
        """
        names = default_names(dimension) if names is None else tuple(names)
        lower, upper = _split(value, names, label)
        _check_order(lower, upper, names, label)
        return cls(lower, upper)

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return self.lower.size

    @property
    def kind(self) -> tuple[str, ...]:
        """For each parameter "open", "lower", "upper" or "both": which of its bounds are finite."""
        words = {(False, False): "open", (True, False): "lower", (False, True): "upper", (True, True): "both"}
        sides = zip(np.isfinite(self.lower).tolist(), np.isfinite(self.upper).tolist(), strict=True)
        return tuple(words[side] for side in sides)

    def pair(self, i: int) -> tuple[float, float]:
        """The bounds of one parameter."""
        return float(self.lower[i]), float(self.upper[i])

    def columns(self, chosen: Sequence[int]) -> Bounds:
        """The bounds of some of the parameters."""
        return Bounds(self.lower[list(chosen)], self.upper[list(chosen)])

    def outside(self, points: Float[ndarray, "n d"]) -> Bool[ndarray, "n d"]:
        """Tell which coordinates lie outside their bounds; a coordinate exactly on a bound is inside."""
        return (points < self.lower) | (points > self.upper)

    def __len__(self) -> int:
        return self.dimension

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bounds):
            return NotImplemented
        return np.array_equal(self.lower, other.lower) and np.array_equal(self.upper, other.upper)

    def __hash__(self) -> int:
        return hash((tuple(self.lower.tolist()), tuple(self.upper.tolist())))

    def __repr__(self) -> str:
        pairs = zip(self.lower.tolist(), self.upper.tolist(), strict=True)
        return f"Bounds({', '.join(f'[{low:g}, {high:g}]' for low, high in pairs)})"


def default_names(dimension: int) -> tuple[str, ...]:
    """x1, x2, ... for parameters that the user has not named."""
    return tuple(f"x{i}" for i in range(1, dimension + 1))


def _split(value: BoundsLike, names: tuple[str, ...], label: str) -> tuple[Float[ndarray, " d"], Float[ndarray, " d"]]:
    """Lower and upper bounds as two arrays, with the right length but not yet checked for order."""
    if value is None:
        value = [None] * len(names)
    if isinstance(value, Bounds):
        _check_length(value.dimension, names, label)
        return value.lower, value.upper
    if isinstance(value, ScipyBounds):
        return _side(value.lb, names, label), _side(value.ub, names, label)
    entries = _by_name(value, names, label) if isinstance(value, Mapping) else _in_order(value, names, label)
    pairs = [_pair(entry, name, label) for entry, name in zip(entries, names, strict=True)]
    lower, upper = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return lower, upper


def _by_name(value: Mapping[str, Any], names: tuple[str, ...], label: str) -> list[Any]:
    unknown = [str(name) for name in value if name not in names]
    if unknown:
        raise EvaluationsError(
            f"{label} names {names_in_words(unknown)}, but the parameters are {names_in_words(names)}. Use these names."
        )
    return [value.get(name) for name in names]


def _in_order(value: Any, names: tuple[str, ...], label: str) -> list[Any]:
    if isinstance(value, str) or _is_number(value) or not isinstance(value, Iterable):
        raise EvaluationsError(f"{label} can't be read from {value!r}. Give one pair (lower, upper) per parameter.")
    entries = list(value)
    if len(names) == 1 and len(entries) == 2 and all(map(_is_number, entries)):
        return [entries]
    if len(entries) == 2 == len(names):
        _refuse_vectors_of_two(value, entries, names, label)
    if len(entries) == 2 != len(names) and all(isinstance(x, Sized) and len(x) == len(names) for x in entries):
        raise EvaluationsError(
            f"{label} looks transposed: it holds 2 rows of {len(names)} numbers. Give one pair (lower, upper) per "
            "parameter, for example np.transpose([lower, upper])."
        )
    _check_length(len(entries), names, label)
    return entries


def refuse_vectors(value: BoundsLike, read: Bounds, points: Float[ndarray, "n d"], names: Sequence[str]) -> None:
    """Refuse bounds of two parameters as pairs that leave points outside, where as (lower, upper) they hold all."""
    if value is None or isinstance(value, Bounds | ScipyBounds | Mapping) or read.dimension != 2:
        return
    low, high = np.array([read.lower, read.upper]).T
    if not ((points < low) | (points > high)).any() and read.outside(points).any():
        raise EvaluationsError(
            f"bounds of two parameters are read as a pair (lower, upper) for each: {_in_words(read, names)}. Then some "
            f"points are outside, but all are inside if bounds is {VECTORS}"
        )


def _refuse_vectors_of_two(value: Any, entries: list[Any], names: tuple[str, ...], label: str) -> None:
    """With two parameters, two pairs and (lower, upper) look the same. What cannot be pairs is refused with a remedy,
    and so is a tuple of two arrays or lists, as SciPy has (lower, upper), if both readings are possible."""
    try:
        rows = [_pair(entry, name, label) for entry, name in zip(entries, names, strict=True)]
    except EvaluationsError:
        return
    square = np.array(rows)
    if not (square[0] < square[1]).all():
        return
    for name, (low, high) in zip(names, rows, strict=True):
        if low >= high:
            raise EvaluationsError(
                f"{label} of '{name}' must have lower < upper, but are ({low:g}, {high:g}). Swap them if they are in "
                "the wrong order; if the parameter is fixed, leave its column out. Two rows of two numbers may also be "
                f"meant as {VECTORS}"
            )
    if isinstance(value, tuple) and not any(isinstance(entry, tuple) for entry in entries):
        raise EvaluationsError(
            f"{label} of two parameters can be read in two ways. As a pair (lower, upper) for each, write a list of "
            f"tuples: {[tuple(row) for row in rows]}. Or as {VECTORS}"
        )


def _in_words(bounds: Bounds, names: Sequence[str]) -> str:
    return ", ".join("'{}' ({:g}, {:g})".format(name, *bounds.pair(i)) for i, name in enumerate(names))


def _is_number(entry: Any) -> bool:
    return entry is None or isinstance(entry, int | float) or getattr(entry, "ndim", 1) == 0


def _side(side: ArrayLike, names: tuple[str, ...], label: str) -> Float[ndarray, " d"]:
    """One side of a SciPy `Bounds`, where a single number stands for all parameters."""
    array = np.asarray(side, dtype=np.float64).ravel()
    if array.size == 1:
        return np.full(len(names), array[0])
    _check_length(array.size, names, label)
    return array


def _pair(entry: Any, name: str, label: str) -> tuple[float, float]:
    """One pair of numbers, with infinity for None."""
    if entry is None:
        return -np.inf, np.inf
    try:
        if isinstance(entry, str):
            raise TypeError
        low, high = entry
        return (-np.inf if low is None else float(low)), (np.inf if high is None else float(high))
    except (TypeError, ValueError):
        raise EvaluationsError(
            f"{label} of '{name}' must be a pair (lower, upper), but is {entry!r}. "
            "Give one pair for every parameter, with None where a side is open."
        ) from None


def _check_length(length: int, names: tuple[str, ...], label: str) -> None:
    if length != len(names):
        raise EvaluationsError(
            f"{label} is for {length} parameters, but there are {len(names)} ({names_in_words(names)}). "
            "Give one pair (lower, upper) for each of them."
        )


def _check_order(lower: Float[ndarray, " d"], upper: Float[ndarray, " d"], names: Sequence[str], label: str) -> None:
    for name, low, high in zip(names, lower.tolist(), upper.tolist(), strict=True):
        if np.isnan(low) or np.isnan(high):
            raise EvaluationsError(
                f"{label} of '{name}' holds NaN ({low:g}, {high:g}). Use None or an infinity where a side is open."
            )
        if low >= high:
            raise EvaluationsError(
                f"{label} of '{name}' must have lower < upper, but are ({low:g}, {high:g}). Swap them if they are "
                "in the wrong order; if the parameter is fixed, leave its column out."
            )
