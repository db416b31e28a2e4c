"""What goes wrong, in words: the exceptions and the warning of the package, and how they name rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["EvaluationsError", "FitError", "VsbqError", "VsbqWarning"]


class VsbqError(Exception):
    """Every error that the package raises on purpose."""


class EvaluationsError(VsbqError, ValueError):
    """The input can't be used as it is; the message names the rows or parameters and the remedy."""


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
