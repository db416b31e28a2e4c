"""Parameters of which only whole numbers were evaluated: what a posterior over them means."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.errors import join_words, names_in_words

__all__ = ["few_levels", "whole_columns", "words_on_whole_numbers"]

#: Rows that it takes to tell, and whole numbers among the better evaluations below which their steps are coarse.
LEAST_ROWS = 20
LEAST_LEVELS = 8


def whole_columns(points: Float[ndarray, "n d"]) -> list[int]:
    """The parameters whose values are all whole numbers."""
    if len(points) < LEAST_ROWS:
        return []
    return [i for i, column in enumerate(points.T) if bool(np.all(column == np.round(column)))]


def few_levels(points: Float[ndarray, "n d"], top: Bool[ndarray, " n"], columns: Sequence[int]) -> dict[int, int]:
    """Of these parameters those with few different values among the better evaluations, and how many there are."""
    counts = {i: len(np.unique(points[top, i])) for i in columns}
    return {i: count for i, count in counts.items() if count < LEAST_LEVELS}


def words_on_whole_numbers(names: Sequence[str], coarse: dict[str, int]) -> Iterator[str]:
    """Sentences: what was seen, and what the posterior then means."""
    one = len(names) == 1
    yield (
        f"All evaluated values of {names_in_words(names)} are whole numbers. The posterior treats "
        f"{'it' if one else 'them'} as continuous, and its density between whole numbers is interpolated."
    )
    yield (
        "If only whole numbers are possible, the probability of k is that of the interval from k - 0.5 to k + 0.5: "
        f"m = post.marginal({names[0]!r}); m.cdf(k + 0.5) - m.cdf(k - 0.5). The log evidence is then an integral in "
        "place of a sum, which is close where several whole numbers are probable."
    )
    if coarse:
        counts = join_words([f"{count} of '{name}'" for name, count in coarse.items()])
        yield (
            f"Among the better evaluations there are only {counts}: so few steps are no smooth function. Fit each "
            "value by itself and compare the evidences, or evaluate values in between if they make sense."
        )
