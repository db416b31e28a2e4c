"""What goes wrong, in words: the exceptions and the warning of the package, and how they name rows and remedies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, NamedTuple, ParamSpec, TypeVar

__all__ = ["ArgumentError", "EvaluationsError", "FitError", "VsbqError", "VsbqWarning"]

P = ParamSpec("P")
R = TypeVar("R")
NO_HINTS: Mapping[str, str] = {}


class Argument(NamedTuple):
    """An argument that a message advises, apart from its words: on the command line it is an option."""

    name: str
    value: Any = None  # None: whatever the user has
    said: str | None = None  # what the library says, if not the name and the value

    def __str__(self) -> str:
        value = "" if self.value is None else repr(self.value)
        return f"{self.name}={value}" if self.said is None else self.said


class Message(str):
    """Words for a user, in which the arguments that they advise can still be told from the rest."""

    __slots__ = ("parts",)
    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument | BaseException) -> Message:
        """Join parts; a message or an error among them keeps its arguments."""
        flat = tuple(piece for part in parts for piece in _pieces(part))
        message = super().__new__(cls, "".join(map(str, flat)))
        message.parts = flat
        return message

    def worded(self, say: Callable[[Argument], str]) -> str:
        """The same message with other words for the arguments."""
        return "".join(say(part) if isinstance(part, Argument) else part for part in self.parts)


def _pieces(part: str | Argument | BaseException) -> tuple[str | Argument, ...]:
    if isinstance(part, VsbqError):
        return part.message.parts
    if isinstance(part, Message):
        return part.parts
    return (part if isinstance(part, str | Argument) else str(part),)


class VsbqError(Exception):
    """Every error that the package raises on purpose; its message may come in parts."""

    def __init__(self, *parts: str | Argument | BaseException) -> None:
        super().__init__(Message(*parts))

    @property
    def message(self) -> Message:
        """What `str` gives, with the arguments that it advises."""
        return self.args[0]


class EvaluationsError(VsbqError, ValueError):
    """The input can't be used as it is; the message names the rows or parameters and the remedy."""


class ArgumentError(VsbqError, ValueError):
    """What a method was given can't be used; the message says what can."""


class FitError(VsbqError, RuntimeError):
    """The evaluations are fine, yet no posterior could be fitted to them."""


class VsbqWarning(UserWarning):
    """Something that does not stop the work, but that the user should know."""


def rows_in_words(rows: Sequence[int], shown: int = 5) -> str:
    """Row numbers, counted from 0, as "(row 3)" or "(rows 3, 17, 20 and 12 more)"."""
    first = [str(int(row)) for row in rows[:shown]]
    rest = [f"{len(rows) - shown} more"] if len(rows) > shown else []
    return f"({'row' if len(rows) == 1 else 'rows'} {join_words(first + rest)})"


def names_in_words(names: Iterable[str], shown: int = 8) -> str:
    """Parameter names in quotes, as "'a', 'b' and 'c'"."""
    quoted = [f"'{name}'" for name in names]
    rest = [f"{len(quoted) - shown} more"] if len(quoted) > shown else []
    return join_words(quoted[:shown] + rest)


def join_words(words: Sequence[str]) -> str:
    """Join words with commas and a final "and"."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def count_in_words(count: int, noun: str) -> str:
    """A count with its noun in the right number, as "1 log density" or "3 log densities"."""
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{count} {noun if count == 1 else plural}"


def as_count(value: Any, what: str, least: int) -> int:
    """A number of things; a float without a fraction will do."""
    try:
        count = int(value)
        fine = not isinstance(value, str | bytes | bool) and bool(count == value) and count >= least
    except (TypeError, ValueError, OverflowError):
        fine = False
    if not fine:
        raise ArgumentError(f"{what} is a whole number of at least {least}, not {value!r:.40}.")
    return count


def nearest(word: str, known: Sequence[str]) -> str:
    """A remedy for a word that is not known: the nearest one, or all there are."""
    found = get_close_matches(word, known, n=1, cutoff=0.6)
    return f"Did you mean '{found[0]}'?" if found else f"There are {names_in_words(known, 20)}."


def _meant(name: str, options: Sequence[str]) -> str:
    close = get_close_matches(name, options, n=1, cutoff=0.5)
    return f"Did you mean '{close[0]}'? " if close else ""


def lists_options(called: str, hints: Mapping[str, str] = NO_HINTS) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: an option that the function does not know is refused with a list of those that it does.

    `hints` are remedies for options that people may expect.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = signature(function).parameters.values()
        options = [each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
        known = {each.name for each in parameters}

        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            for name in kwargs:
                if name not in known:
                    words = names_in_words(options, len(options))
                    meant = hints.get(name) or _meant(name, options)
                    raise TypeError(f"{called} has no option '{name}'. {meant}The options are {words}.")
            return function(*args, **kwargs)

        return checked

    return decorate
