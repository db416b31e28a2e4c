"""The default beside what noise allows (the oracle), on the same traces with the same seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from vsbq_bench.cases.before_now import WITHIN, floor_ratio, is_noisy, markdown, percent, share_within
from vsbq_bench.cases.split import HALVES
from vsbq_bench.lines import Line
from vsbq_bench.published import NOTHING, number, optimiser_name, problem_name
from vsbq_bench.stored import NOW
from vsbq_bench.tables import NOT_RUN, distinct

__all__ = ["CLOSE", "ORACLE", "Pair", "gap", "noisy_cases", "paired", "problems_by_noise"]

ORACLE = "oracle"
CLOSE = 1.5  # MMTV of the default over that of the oracle, up to which nothing but noise is in the way

Of = Callable[[Line], float | None]


class Pair(NamedTuple):
    """The same run of the default and of the oracle."""

    default: Line
    oracle: Line


def paired(lines: Iterable[Line]) -> list[Pair]:
    """Return the runs that both have, by problem, noise, trace and seed."""
    runs = {(line.cell, line.seed): line for line in distinct(lines)}
    pairs = []
    for (cell, seed), line in runs.items():
        default = runs.get((cell._replace(method=NOW), seed))
        if cell.method == ORACLE and default is not None:
            pairs.append(Pair(default, line))
    return pairs


def gap(pairs: Sequence[Pair]) -> float:
    """Median MMTV of the default over that of the oracle; infinite where the default failed, zero where only the oracle
    did."""
    default, oracle = (_median(side, lambda line: line.mmtv) for side in zip(*pairs, strict=True))
    if isfinite(oracle):
        return default / oracle
    return 0.0 if isfinite(default) else inf


# The problems of the paper


def problems_by_noise(lines: Sequence[Line]) -> str:
    """A row for each problem and level of noise: medians of both, the gap, and the mean error of the evidence."""
    pairs = paired(lines)
    head = ["problem", "σ", *_both("ΔLML"), *_both("mean error"), *_both("MMTV"), "gap", *_both("GsKL"), "runs"]
    rows = []
    for (problem, noise, optimiser, _), group in groupby(pairs, key=lambda pair: pair.default.cell[:4]):
        own = list(group)
        scores = [_medians(own, of) for of in (lambda line: line.delta_lml, lambda line: line.mmtv, _gskl)]
        (delta, mmtv, gskl), errors = scores, [_mean_error(side) for side in zip(*own, strict=True)]
        name = problem_name(problem) + ("" if optimiser == "cma" else f", {optimiser_name(optimiser)}")
        rows.append([name, f"{noise:g}", *delta, *errors, *mmtv, number(gap(own)), *gskl, str(len(own))])
    return markdown(head, rows) if rows else NOT_RUN


def _mean_error(lines: Iterable[Line]) -> str:
    """Mean error of the log evidence with its sign and its standard error."""
    errors = np.array([line.signed_error for line in lines if line.signed_error is not None])
    if not len(errors):
        return NOTHING
    spread = f" ± {errors.std(ddof=1) / np.sqrt(len(errors)):.2f}" if len(errors) > 1 else ""
    return f"{errors.mean():+.2f}{spread}"


# The noisy cases of the zoo


def noisy_cases(lines: Sequence[Line]) -> str:
    """A row for each half: how far the default is from the oracle, and in how many cases it is close to it."""
    pairs = [pair for pair in paired(lines) if is_noisy(pair.default)]
    head = ["noisy cases of", "cases", "runs", *_both("MMTV / floor"), "gap", f"within {CLOSE:g} × the oracle"]
    head += [*_both("GsKL"), *_both("mean error"), *_both("within 2 sd")]
    rows = [_half_row(half, [pair for pair in pairs if pair.default.case["half"] == half]) for half in HALVES]
    return markdown(head, filter(None, rows)) if pairs else NOT_RUN


def _half_row(half: str, pairs: Sequence[Pair]) -> list[str]:
    cases = [list(group) for _, group in groupby(pairs, key=lambda pair: pair.default.problem)]
    if not cases:
        return []
    gaps = np.array([gap(case) for case in cases])
    within = [percent(share_within(side, WITHIN)) for side in zip(*pairs, strict=True)]
    return [
        f"the {half} half",
        str(len(cases)),
        str(len(pairs)),
        *_medians(pairs, floor_ratio),
        number(float(np.median(gaps))),
        percent(float(np.mean(gaps <= CLOSE))),
        *_medians(pairs, _gskl),
        *(_mean_error(side) for side in zip(*pairs, strict=True)),
        *within,
    ]


# How it is written


def _both(name: str) -> list[str]:
    return [name, f"{name}, oracle"]


def _medians(pairs: Sequence[Pair], of: Of) -> list[str]:
    return [number(_median(side, of)) for side in zip(*pairs, strict=True)]


def _median(lines: Iterable[Line], of: Of) -> float:
    """Return the median, in which a run that failed counts as infinitely bad."""
    values = [of(line) for line in lines]
    return float(np.median([inf if value is None else value for value in values]))


def _gskl(line: Line) -> float | None:
    return line.gskl
