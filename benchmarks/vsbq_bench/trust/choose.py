"""Choose the thresholds of the verdict from the development half of the study, by a rule and not by hand.

Doubt: starting without any threshold, the one is set, again and again, that names most unusable fits for each usable
one that it names as well, until the share of usable fits that may be doubted is used up. Rejection: a number that
hardly any usable fit of the development half has, with a margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.posterior.diagnosis.thresholds import THRESHOLDS, Thresholds

__all__ = ["Choice", "choose", "table_of"]

#: Shares of the usable fits that may be called doubtful and rejected; less than what is promised, as chance is allowed.
MOST_DOUBTED = 0.10
MOST_REJECTED = 0.02

#: A threshold of rejection lies beyond all but those by this factor, and beyond that of doubt by at least that one.
MARGIN = 1.25
APART = 3.0

#: Findings whose thresholds mean something by themselves and are left alone.
FIXED = frozenset({"input", "noise", "k_hat", "refits", "refit_evidence"})

#: Findings of which small numbers are bad.
SMALL_IS_BAD = frozenset({"mixture"})

#: Thresholds that are tried for each finding.
TRIED = 60


class Choice(NamedTuple):
    """The thresholds, and what they do on the lines that they were chosen from."""

    thresholds: dict[str, tuple[float, float]]
    caught: float
    doubted: float
    rejected: float


def table_of(lines: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Float[ndarray, " n"]], Bool[ndarray, " n"]]:
    """Numbers by finding, larger ones worse, and which fits are usable. Fits that were refused, or that the audit names
    whatever the thresholds, are left out."""
    lines = [line for line in lines if not line.get("numbers", {}).get("input")]
    fitted = [line for line in lines if line.get("usable") is not None]
    names = [name for name in vars(THRESHOLDS) if name not in FIXED]
    columns = {}
    for name in names:
        raw = [line["numbers"].get(name.replace("_", " ")) for line in fitted]
        sign = -1.0 if name in SMALL_IS_BAD else 1.0
        columns[name] = np.array([-np.inf if number is None else sign * number for number in raw])
    return columns, np.array([bool(line["usable"]) for line in fitted], dtype=bool)


def choose(lines: Sequence[Mapping[str, Any]]) -> Choice:
    """Thresholds from lines of the development half."""
    assert all(line["half"] == "development" for line in lines), "thresholds are chosen from the development half only"
    columns, usable = table_of(lines)
    doubt = _doubt(columns, usable)
    named = np.any([columns[name] >= limit for name, limit in doubt.items()], axis=0)
    reject = {name: _reject(columns[name], usable, doubt[name]) for name in doubt}
    refused = np.any([columns[name] >= limit for name, limit in reject.items()], axis=0)
    pairs = {name: _pair(name, doubt[name], reject[name]) for name in doubt}
    return Choice(pairs, float(named[~usable].mean()), float(named[usable].mean()), float(refused[usable].mean()))


def _doubt(columns: Mapping[str, Float[ndarray, " n"]], usable: Bool[ndarray, " n"]) -> dict[str, float]:
    chosen = dict.fromkeys(columns, np.inf)
    named = np.zeros(len(usable), dtype=bool)
    while True:
        best: tuple[float, str, float] | None = None
        for name, column in columns.items():
            for limit in _candidates(column, chosen[name]):
                new = (column >= limit) & ~named
                caught, alarms = int(new[~usable].sum()), int(new[usable].sum())
                fits = (named | new)[usable].mean() <= MOST_DOUBTED
                gain = caught / (alarms + 0.5)
                if caught and fits and (best is None or gain > best[0]):
                    best = gain, name, limit
        if best is None:
            return {name: limit if np.isfinite(limit) else _beyond(columns[name]) for name, limit in chosen.items()}
        _, name, limit = best
        chosen[name] = limit
        named |= columns[name] >= limit


def _candidates(column: Float[ndarray, " n"], below: float) -> Float[ndarray, " k"]:
    known = np.unique(column[np.isfinite(column)])
    between = np.sort(np.concatenate([known[1:] / 2 + known[:-1] / 2, known]))
    between = between[(between != 0) & (between < below)]
    return between[np.linspace(0, len(between) - 1, min(TRIED, len(between))).astype(int)] if len(between) else between


def _beyond(column: Float[ndarray, " n"]) -> float:
    """For a finding that decides nothing: beyond all that was seen."""
    known = column[np.isfinite(column)]
    worst = float(known.max()) if len(known) else 1.0
    return MARGIN * worst if worst > 0 else worst / MARGIN if worst < 0 else 1.0


def _reject(column: Float[ndarray, " n"], usable: Bool[ndarray, " n"], doubt: float) -> float:
    known = column[usable & np.isfinite(column)]
    highest = float(np.quantile(known, 1 - MOST_REJECTED / 2)) if len(known) else doubt
    apart = doubt * APART if doubt > 0 else doubt / APART
    return max(highest * MARGIN if highest > 0 else highest / MARGIN, apart)


def _pair(name: str, doubt: float, reject: float) -> tuple[float, float]:
    sign = -1.0 if name in SMALL_IS_BAD else 1.0
    return float(f"{sign * doubt:.2g}"), float(f"{sign * reject:.2g}")


def in_words(choice: Choice, current: Thresholds = THRESHOLDS) -> str:
    """Lines for `Thresholds`, with the present ones beside them."""
    rows = [f"    {name}: Pair = {pair}  # now {getattr(current, name)}" for name, pair in choice.thresholds.items()]
    told = f"caught {choice.caught:.1%}, usable ones doubted {choice.doubted:.1%}, rejected {choice.rejected:.1%}"
    return "\n".join([*rows, told])
