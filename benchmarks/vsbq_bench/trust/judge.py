"""The verdict that the present thresholds give on a fit of the study, from the numbers that its line holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vsbq.posterior.diagnosis.finding import LEVELS
from vsbq.posterior.diagnosis.thresholds import THRESHOLDS, Thresholds

__all__ = ["UNSEEN", "judge"]

#: Share of the true mass far from every evaluation from which on nobody could have noticed what is missing.
UNSEEN = 0.05


def judge(line: Mapping[str, Any], thresholds: Thresholds = THRESHOLDS) -> dict[str, Any]:
    """The line with its verdict as of these thresholds; a fit that was refused stays so."""
    if "numbers" not in line:
        return dict(line)
    numbers = {name: number for name, number in line["numbers"].items() if name != "together"}
    levels = [_level(name, number, line["reasons"], thresholds) for name, number in numbers.items()]
    levels.append(thresholds.limit("together").level(sum(thresholds.shares(numbers).values())))
    return {**line, "verdict": max(levels, key=LEVELS.index)}


def _level(name: str, number: float | None, reasons: list[str], thresholds: Thresholds) -> str:
    if name == "refinement":  # there only if there were no refined draws
        return "doubtful" if number is None else "rejected"
    if number is None:  # not measured: whether that is a reason to doubt is no matter of thresholds
        return "doubtful" if name in reasons else "trusted"
    return thresholds.limit(name).level(number)
