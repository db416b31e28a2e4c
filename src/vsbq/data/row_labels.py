"""Row labels of data frames and series: where they disagree, rows would be paired by their position unnoticed.

The index of pandas is recognised by what it can do, so that pandas need not be installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vsbq.errors import EvaluationsError, count_in_words, join_words

__all__ = ["check_same_labels", "labels_of", "refuse_bare_table"]

SHOWN = 3  # rows of a message


def labels_of(value: Any) -> Any:
    """The index of a data frame or series; None for everything else, whose `index` is no index."""
    index = getattr(value, "index", None)
    known = callable(getattr(index, "equals", None)) and callable(getattr(index, "tolist", None))
    return index if known else None


def refuse_bare_table(points: Any, *values: Any) -> None:
    """Refuse a table that is passed without values: one of its columns is the log density."""
    if labels_of(points) is not None and all(value is None for value in values):
        raise EvaluationsError(
            "points is a table, and no log density is given. Say which column it is: "
            "vsbq.Evaluations.from_dataframe(table, log_density='NAME'), or neg_log_density='NAME' if it was minimised."
        )


def check_same_labels(given: Mapping[str, Any]) -> None:
    """Refuse arguments, by name, whose row labels differ from those of the first one that has any."""
    indexed = {name: index for name, value in given.items() if (index := labels_of(value)) is not None}
    for other in list(indexed)[1:]:
        first = next(iter(indexed))
        one, two = indexed[first], indexed[other]
        # Other lengths are told of where shapes are checked.
        if len(one) == len(two) and not one.equals(two):
            raise EvaluationsError(_words(first, one.tolist(), other, two.tolist()))


def _words(first: str, one: Sequence[Any], other: str, two: Sequence[Any]) -> str:
    rows = [i for i, (a, b) in enumerate(zip(one, two, strict=True)) if a != b]
    shown = join_words([f"row {i} is {one[i]!r:.40} and {two[i]!r:.40}" for i in rows[:SHOWN]])
    where = f"in {count_in_words(len(rows), 'row')}: {shown}" if rows else "in their types"
    if set(one) == set(two):
        return (
            f"{first} and {other} have the same row labels in another order ({where}). Pass {other}.loc[{first}.index] "
            f"to pair them by label, or {other}.to_numpy() to pair them by position."
        )
    return (
        f"{first} and {other} have different row labels ({where}). Take both from the same rows of one table, or pass "
        f"{other}.to_numpy() if the order of the rows is right."
    )
