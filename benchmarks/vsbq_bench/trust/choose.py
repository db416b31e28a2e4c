"""Choose the thresholds of the verdict from the development half of the study, by a rule and not by hand.

Each finding counts by the logarithm of its number over what usable fits usually have, and by nothing below that. A
logistic regression with weights that cannot be negative tells usable fits from others by their sum; its penalty is the
one under which fits of other cases are told best.

Two shares were promised: of the unusable fits that are missed, and of the usable ones that are doubted. The sum from
which on a fit is doubted is where the share that breaks its promise by more is smallest; that of rejection is the
smallest that few usable fits reach. Both are read off sums of fits whose case took no part in the regression. A
finding's own threshold is where it alone makes that sum; or, if that is less, where it says by its meaning that the fit
fails and is beyond all that usable fits have.

Fits of which part was never evaluated say nothing of thresholds and are left out. Those that are doubted whatever the
thresholds are, as the audit names them or something could not be measured, count among the doubted ones only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.posterior.diagnosis.thresholds import ALONE, THRESHOLDS, Thresholds
from vsbq_bench.trust.judge import UNSEEN, judge

__all__ = ["Choice", "Table", "choose", "in_words", "table_of"]

#: What is promised: shares of the unusable fits that are missed and of the usable ones that are doubted, at most. Of
#: the usable ones that are rejected it is 3 %; less is chosen, as chance is allowed.
MOST_MISSED = 0.05
MOST_DOUBTED = 0.12
MOST_REJECTED = 0.02

#: A finding makes a doubt by itself beyond all that usable fits have by this factor.
MARGIN = 1.25

#: Where a number says by its meaning that a fit fails: half of the mass; an error that is stated so large that the fit
#: is as likely unusable as not, 1 / 0.67 of the limit; three nats between numbers that should agree; as many
#: coefficients as evaluations; ten times what was stated. A share that can be one without harm has none.
FAILS = {
    "open": 1.5,
    "cut_off": 0.5,
    "beyond": 0.7,
    "support": 0.7,
    "around": 1.0,
    "unsure": 2.0,
    "surrogate": 10.0,
    "held_out": 0.5,
    "sisters": 0.5,
    "mixture": 100.0,
    "bound": 3.0,
    "evidence": 1.5,
    "ignored": 3.0,
    "modes": 1.0,
    "too_few": 1.0,
    "noise": 10.0,
}

#: What is said whatever usable fits have: that a posterior is cut, or goes on beyond its evaluations, by a tenth; and
#: that two thirds of it are known to no better than half a nat. Such a posterior may pass for usable and miss a third.
SAID = {"cut_off": 0.1, "beyond": 0.1, "unsure": 0.65}

#: What is usual is no smaller than this: a hundredth of the mass, or of a nat, makes no fit unusable.
LEAST = 1e-2

#: Penalties that are tried, and the parts that cases are dealt into, so many times.
PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3)
PARTS = 10
DEALS = 5

#: A number that no finding has: one that counts only beyond it does not count.
NEVER = 1e6

#: Findings of which small numbers are bad, and the number of those that are there only where something is wrong.
SMALL_IS_BAD = frozenset({"mixture"})
ABSENT = {"noise": 1.0}


class Table(NamedTuple):
    """Numbers by fit and finding, larger ones worse and NaN where there is none; which fits are usable, and which are
    doubted whatever the thresholds are; their cases."""

    names: tuple[str, ...]
    numbers: Float[ndarray, "n f"]
    usable: Bool[ndarray, " n"]
    anyway: Bool[ndarray, " n"]
    case: Int[ndarray, " n"]

    def take(self, rows: ndarray) -> Table:
        """Some of the fits."""
        return Table(self.names, *(column[rows] for column in self[1:]))


class Choice(NamedTuple):
    """The thresholds, and shares of the fits that the rule names, each judged without its own case: unusable ones
    doubted, usable ones doubted and rejected. `lines` are the same with these thresholds on the lines themselves."""

    thresholds: dict[str, tuple[float, float, float]]
    rejected: float
    caught: float
    doubted: float
    refused: float
    lines: tuple[float, float, float]


class Apart(NamedTuple):
    """How each fit is judged by rules in which its case took no part, means over several ways to deal the cases out:
    the log odds, the sum that they come from, and how often a finding was beyond all that usable fits have."""

    odds: Float[ndarray, " n"]
    sums: Float[ndarray, " n"]
    alone: Float[ndarray, " n"]


def table_of(lines: Sequence[Mapping[str, Any]]) -> Table:
    """What the lines tell of thresholds."""
    fitted = [line for line in lines if line.get("usable") is not None]
    fitted = [line for line in fitted if line["usable"] or line["unseen"] <= UNSEEN]
    names = tuple(name for name in vars(THRESHOLDS) if name not in ALONE | {"rejected"})
    columns = [[_number(line, name) for name in names] for line in fitted]
    _, case = np.unique([line["place"] for line in fitted], return_inverse=True)
    usable = np.array([bool(line["usable"]) for line in fitted], dtype=bool)
    anyway = np.array([_anyway(line) for line in fitted], dtype=bool)
    return Table(names, np.array(columns, dtype=float).reshape(len(fitted), len(names)), usable, anyway, case)


def _anyway(line: Mapping[str, Any]) -> bool:
    numbers = line["numbers"]
    unmeasured = any(numbers.get(name, 0.0) is None for name in line["reasons"])
    return bool(numbers.get("input")) or "refinement" in numbers or unmeasured


def _number(line: Mapping[str, Any], name: str) -> float:
    number = line["numbers"].get(name.replace("_", " "), ABSENT.get(name))
    if number is None:
        return np.nan
    return 1.0 / max(number, LEAST) if name in SMALL_IS_BAD else float(number)


def choose(lines: Sequence[Mapping[str, Any]]) -> Choice:
    """Thresholds from lines of the development half."""
    assert all(line["half"] == "development" for line in lines), "thresholds are chosen from the development half only"
    every = table_of(lines)
    table = every.take(~every.anyway)
    tried = {penalty: _apart(every, penalty) for penalty in PENALTIES}
    penalty = min(tried, key=lambda each: _loss(tried[each].odds[~every.anyway], table.usable))
    apart, usual = tried[penalty], _usual(table)
    # What is named in any case, or by one finding alone, is named whatever the sum.
    sums = np.where(every.anyway | (apart.alone > 0.5), np.inf, apart.sums)
    doubt = _balanced(sums, every.usable)
    reject = max(
        float(np.quantile(apart.sums[every.usable & ~every.anyway], 1 - MOST_REJECTED, method="higher")), doubt
    )
    _, weights = _regression(_beyond(table.numbers, usual), table.usable, penalty)
    spans = {
        name: _span(name, usual[i], weights[i] / doubt, _most(table)[i])
        for i, name in enumerate(table.names)
        if not np.isnan(table.numbers[:, i]).all()
    }
    rejected = float(f"{1.05 * reject / doubt:.2g}")  # rounded up
    told = _shares(sums >= doubt, apart.sums >= rejected * doubt, every.usable)
    chosen: dict[str, Any] = {**spans, "rejected": rejected}
    return Choice(spans, rejected, *told, _on_the_lines(lines, Thresholds(**chosen)))


def _balanced(sums: Float[ndarray, " n"], usable: Bool[ndarray, " n"]) -> float:
    """The sum at which neither promise is broken by more than it has to be; between two fits, in the middle."""
    known = np.unique(sums[np.isfinite(sums)])
    limits = np.concatenate([known[:1], known[1:] / 2 + known[:-1] / 2, known[-1:] + LEAST])
    limits = limits[limits > 0]

    def broken(limit: float) -> float:
        missed, doubted = np.mean(sums[~usable] < limit), np.mean(sums[usable] >= limit)
        return float(max(missed / MOST_MISSED, doubted / MOST_DOUBTED))

    return float(min(limits, key=broken))


def _beyond(numbers: Float[ndarray, "n f"], usual: Float[ndarray, " f"]) -> Float[ndarray, "n f"]:
    """Logarithms of what is beyond the usual; nothing where there is no number."""
    return np.log(np.fmax(numbers, usual) / usual)


def _usual(table: Table) -> Float[ndarray, " f"]:
    """The median of the usable fits."""
    own = table.numbers[table.usable]
    found = [np.median(column[~np.isnan(column)]) if (~np.isnan(column)).any() else LEAST for column in own.T]
    return np.maximum(found, LEAST)


def _most(table: Table) -> Float[ndarray, " f"]:
    """Beyond all that usable fits have, and where the number says by its meaning that a fit fails; or what is said in
    any case."""
    own = np.where(np.isnan(table.numbers), 0.0, table.numbers)[table.usable]
    most = np.maximum(MARGIN * own.max(axis=0, initial=0.0), [FAILS[name] for name in table.names])
    return np.minimum(most, [SAID.get(name, np.inf) for name in table.names])


def _regression(
    beyond: Float[ndarray, "n f"], usable: Bool[ndarray, " n"], penalty: float
) -> tuple[float, Float[ndarray, " f"]]:
    """Level and weights; usable and unusable fits count as much as each other."""
    share = np.where(usable, 0.5 / max(usable.sum(), 1), 0.5 / max((~usable).sum(), 1))
    sign = np.where(usable, 1.0, -1.0)

    def loss(parameters: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        level, weights = parameters[0], parameters[1:]
        wrong = sign * (level + beyond @ weights)
        slope = share * sign / (1 + np.exp(-np.clip(wrong, -500, 500)))
        value = float(share @ np.logaddexp(0, wrong)) + 0.5 * penalty * float(weights @ weights)
        return value, np.concatenate([[slope.sum()], beyond.T @ slope + penalty * weights])

    start = np.concatenate([[0.0], np.full(beyond.shape[1], 0.1)])
    bounds = [(None, None)] + [(0.0, None)] * beyond.shape[1]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return float(found[0]), np.asarray(found[1:])


def _apart(table: Table, penalty: float) -> Apart:
    found = Apart(*np.zeros((3, len(table.usable))))
    for deal in range(DEALS):
        count = int(table.case.max(initial=0)) + 1
        part = (np.random.default_rng(deal).permutation(count) % PARTS)[table.case]
        for k in np.unique(part):
            other, own = table.take((part != k) & ~table.anyway), part == k
            usual = _usual(other)
            level, weights = _regression(_beyond(other.numbers, usual), other.usable, penalty)
            sums = _beyond(table.numbers[own], usual) @ weights
            found.sums[own] += sums / DEALS
            found.odds[own] += (level + sums) / DEALS
            found.alone[own] += (table.numbers[own] >= _most(other)).any(axis=1) / DEALS
    return found


def _loss(odds: Float[ndarray, " n"], usable: Bool[ndarray, " n"]) -> float:
    """Mean log loss; usable and unusable fits count as much as each other."""
    each = np.logaddexp(0, np.where(usable, odds, -odds))
    return float(each[usable].mean() + each[~usable].mean())


def _span(name: str, usual: float, weight: float, most: float) -> tuple[float, float, float]:
    """What is usual, where the number makes a sum of one, and where it is a doubt by itself."""
    with np.errstate(divide="ignore", over="ignore"):
        whole = max(float(usual * np.exp(np.float64(1.0) / weight)), MARGIN * usual)
    numbers = usual, whole if whole < NEVER else np.inf, min(whole, most)
    if name in SMALL_IS_BAD:
        numbers = 1 / numbers[0], 1 / numbers[1], 1 / numbers[2]
    usual, whole, alone = (float(f"{number:.2g}") for number in numbers)
    return usual, whole, alone


def _shares(doubted: ndarray, refused: ndarray, usable: ndarray) -> tuple[float, float, float]:
    return float(doubted[~usable].mean()), float(doubted[usable].mean()), float(refused[usable].mean())


def _on_the_lines(lines: Sequence[Mapping[str, Any]], chosen: Thresholds) -> tuple[float, float, float]:
    fitted = [judge(line, chosen) for line in lines if line.get("usable") is not None]
    verdict = np.array([line["verdict"] for line in fitted])
    usable = np.array([line["usable"] for line in fitted], dtype=bool)
    return _shares(verdict != "trusted", verdict == "rejected", usable)


def in_words(choice: Choice, current: Thresholds = THRESHOLDS) -> str:
    """Lines for `Thresholds`, with the present ones beside them."""
    rows = [f"    {name}: Span = {pair}  # now {getattr(current, name)}" for name, pair in choice.thresholds.items()]
    rows.append(f"    rejected: float = {choice.rejected}  # now {current.rejected}")
    told = "{:.1%} of the unusable fits are doubted, {:.1%} of the usable ones, and {:.1%} rejected"
    rows.append("Each fit judged without its own case: " + told.format(choice.caught, choice.doubted, choice.refused))
    rows.append("With these thresholds on the same lines, all kinds: " + told.format(*choice.lines))
    return "\n".join(rows)
