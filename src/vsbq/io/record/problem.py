"""What a file of evaluations is about; evaluations of different problems are never mixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vsbq.data import validation as door
from vsbq.data.bounds import Bounds, BoundsLike
from vsbq.errors import EvaluationsError, VsbqError, count_in_words, names_in_words

__all__ = ["FormatError", "Problem", "RecorderError"]


class RecorderError(VsbqError, RuntimeError):
    """An evaluation can't be recorded, or a file of evaluations can't be used; the message says why and what to do."""


class FormatError(RecorderError):
    """The file comes from a later version of vsbq."""


@dataclass(frozen=True)
class Problem:
    """The parameters, their bounds, and the tag by which the user tells one model and data set from another."""

    names: tuple[str, ...]
    bounds: Bounds
    plausible_bounds: Bounds | None
    tag: str

    @classmethod
    def parse(cls, names: Sequence[str], bounds: BoundsLike, plausible_bounds: BoundsLike, tag: str | None) -> Problem:
        """Read what the user hands over; the same forms as in `Evaluations`."""
        if isinstance(names, str):
            raise EvaluationsError(f"names must be a list of strings, but is the string {names!r}. Pass [{names!r}].")
        if len(names) == 0:
            raise EvaluationsError("names is empty. Pass one name for every parameter.")
        if not isinstance(tag, str | None):
            raise EvaluationsError(f"tag must be a string, but is {tag!r}. Pass str(tag).")
        parameters = door.read_names(names, None, len(names))
        hard = Bounds.parse(bounds, len(parameters), parameters)
        return cls(parameters, hard, door.read_plausible(plausible_bounds, hard, parameters), tag or "")

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return len(self.names)

    def joined(self, other: Problem, here: str, there: str) -> Problem:
        """This problem if the other one is the same, else an error that names both.

        Plausible bounds are only a hint: the ones of either side serve both. `here` and `there` begin the sentences,
        as "'fits.db' holds".
        """
        for mine, yours in _differences(self, other):
            raise RecorderError(
                f"{here} {mine}, but {there} {yours}. Evaluations of different problems don't mix: use another file "
                "for another model, data set or set of bounds."
            )
        return self if self.plausible_bounds is not None else replace(self, plausible_bounds=other.plausible_bounds)


def _differences(one: Problem, other: Problem) -> list[tuple[str, str]]:
    """What differs, in words for either side."""
    if one.dimension != other.dimension:
        return [(_count_in_words(one), _count_in_words(other))]
    found = []
    if one.tag != other.tag:
        found.append((_tag_in_words(one.tag), _tag_in_words(other.tag)))
    if one.names != other.names:
        found.append((f"the parameters {names_in_words(one.names)}", f"the parameters {names_in_words(other.names)}"))
    found += _different_bounds("bounds", one.names, one.bounds, other.bounds)
    if one.plausible_bounds is not None and other.plausible_bounds is not None:
        found += _different_bounds("plausible bounds", one.names, one.plausible_bounds, other.plausible_bounds)
    return found


def _count_in_words(problem: Problem) -> str:
    return f"{count_in_words(problem.dimension, 'parameter')} ({names_in_words(problem.names)})"


def _tag_in_words(tag: str) -> str:
    return f"the tag '{tag}'" if tag else "no tag"


def _different_bounds(label: str, names: tuple[str, ...], mine: Bounds, yours: Bounds) -> list[tuple[str, str]]:
    return [
        (f"the {label} {list(mine.pair(i))} of '{name}'", f"the {label} {list(yours.pair(i))} of '{name}'")
        for i, name in enumerate(names)
        if mine.pair(i) != yours.pair(i)
    ]
