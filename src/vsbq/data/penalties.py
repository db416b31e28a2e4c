"""Penalties: values that stand for a density of zero, told by the user or noticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.validation import Rows, read_numbers
from vsbq.errors import EvaluationsError, count_in_words

__all__ = ["apply_zero_below", "between"]


def apply_zero_below(rows: Rows, limit: float | int | None) -> Rows:
    """Count log densities below a limit as −inf, that is as a density of zero."""
    if limit is None:
        return rows
    number = read_numbers(limit, "zero_below")
    if number.ndim != 0 or np.isnan(number):
        raise EvaluationsError(f"zero_below is {limit!r:.60}. Give one number, such as -1e9.")
    finite = rows.log_density[np.isfinite(rows.log_density)]
    if finite.size and number > finite.max():
        raise EvaluationsError(
            f"zero_below={float(number):g} is above every log density; the highest is {finite.max():.6g}. It is "
            "compared with the log density itself, not with its negative: a cost of 1e10 is a log density of -1e10."
        )
    low = np.isfinite(rows.log_density) & (rows.log_density < number)
    if not low.any():
        note = f"No log density is below zero_below={float(number):g}."
    else:
        words = count_in_words(int(low.sum()), "log density")
        note = f"Counted {words} below {float(number):g} as -inf {rows.words(low)}."
    return replace(rows, log_density=np.where(low, -np.inf, rows.log_density), notes=(*rows.notes, note))


def between(penalty: float, values: Float[ndarray, " n"]) -> float:
    """A limit, in few digits, that is above a penalty and below the values that are not."""
    others = values[values > penalty]
    if not others.size:
        return penalty
    middle = 0.5 * (penalty + float(others.min()))
    shorter = (float(f"{middle:.{digits}g}") for digits in range(1, 17))
    return next((each for each in shorter if penalty < each < others.min()), middle)
