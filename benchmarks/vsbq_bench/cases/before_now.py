"""The default's first version beside the one of now, on the cases of the zoo: by kind, and in one table.

Only runs count that both versions have. A run that failed counts as infinitely bad in medians and as unusable; it has
no part in how often the stated error holds, because it states none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from vsbq_bench.figures import THRESHOLDS
from vsbq_bench.lines import Line
from vsbq_bench.published import NOTHING, number
from vsbq_bench.stored import FIRST, NOW
from vsbq_bench.tables import NOT_RUN

__all__ = [
    "WITHIN",
    "Runs",
    "both_versions",
    "by_kind",
    "floor_ratio",
    "has_plenty",
    "is_noisy",
    "is_unusable",
    "markdown",
    "percent",
    "share_within",
    "summary",
]

PLENTY = 300  # evaluations per dimension
WITHIN = 2.0  # stated standard deviations
FAR_BEYOND = 5.0  # stated standard deviations
LITTLE = 0.01  # GsKL that nobody would see
ARROW = " → "


class Runs(NamedTuple):
    """The same runs of both versions, in the same order."""

    before: list[Line]
    now: list[Line]

    def where(self, wanted: Callable[[Line], bool]) -> Runs:
        """Keep some of the cases."""
        return Runs(*([line for line in side if wanted(line)] for side in self))


def both_versions(lines: Iterable[Line], half: str) -> Runs:
    """Return the runs of a half that both versions have; of several lines of a run the last counts."""
    sides: dict[str, dict[tuple[str, int], Line]] = {FIRST: {}, NOW: {}}
    for line in lines:
        if line.method in sides and line.case.get("half") == half:
            sides[line.method][line.problem, line.seed] = line
    shared = sorted(sides[FIRST].keys() & sides[NOW].keys())
    return Runs([sides[FIRST][run] for run in shared], [sides[NOW][run] for run in shared])


# Tables


def by_kind(lines: Sequence[Line], half: str) -> str:
    """A row for each kind of a half, and one for all."""
    runs = both_versions(lines, half)
    if not runs.now:
        return NOT_RUN
    rows = []
    for kind in sorted({str(line.case["kind"]) for line in runs.now}):
        own = Runs(*([line for line in side if line.case["kind"] == kind] for side in runs))
        rows.append(_kind_row(kind.replace("_", " "), own))
    head = ["kind", "cases", "runs", "failed", "MMTV / floor", "GsKL", "within 2 sd", "unusable"]
    return markdown(head, [*rows, _kind_row("**all**", runs)])


def _kind_row(kind: str, runs: Runs) -> list[str]:
    return [
        kind,
        str(len({line.problem for line in runs.now})),
        str(len(runs.now)),
        _counts(runs, lambda line: line.error is not None),
        _medians(runs, floor_ratio),
        _medians(runs, _gskl),
        _within(runs, WITHIN),
        _counts(runs, is_unusable),
    ]


def summary(lines: Sequence[Line], half: str = "validation") -> str:
    """A half in six rows: by noise, by how many evaluations there are, and by whether the case is a hard one."""
    runs = both_versions(lines, half)
    if not runs.now:
        return NOT_RUN
    plenty = runs.where(lambda line: not is_noisy(line) and has_plenty(line))
    groups = {
        "noise-free, 300·D evaluations or more": plenty,
        "of these ordinary": plenty.where(lambda line: not line.case["hard"]),
        "of these hard": plenty.where(lambda line: bool(line.case["hard"])),
        "noise-free, fewer evaluations": runs.where(lambda line: not is_noisy(line) and not has_plenty(line)),
        "noisy": runs.where(is_noisy),
        "**all**": runs,
    }
    head = ["cases", "runs", "MMTV / floor", "≤ 2 floors", "≤ 3 floors", f"GsKL ≤ {LITTLE:g}", "within 2 sd"]
    head += [f"beyond {FAR_BEYOND:g} sd", "\\|error\\|", "stated sd", "unusable"]
    return markdown(head, [_summary_row(name, group) for name, group in groups.items()])


def is_noisy(line: Line) -> bool:
    """Whether the evaluations carry noise."""
    return line.case["noise"] != 0


def has_plenty(line: Line) -> bool:
    """Whether there are as many evaluations as a surrogate of an ordinary posterior takes."""
    return int(line.case["evaluations_per_dimension"]) >= PLENTY


def _summary_row(name: str, runs: Runs) -> list[str]:
    return [
        name,
        str(len(runs.now)),
        _medians(runs, floor_ratio),
        _shares(runs, lambda line: floor_ratio(line) <= 2),
        _shares(runs, lambda line: floor_ratio(line) <= 3),
        _shares(runs, lambda line: _gskl(line) <= LITTLE),
        _within(runs, WITHIN),
        _within(runs, FAR_BEYOND, beyond=True),
        _medians(runs, lambda line: _or_infinite(line.delta_lml)),
        _medians(runs, lambda line: _or_infinite(line.log_evidence_sd)),
        _counts(runs, is_unusable),
    ]


# What is counted


def floor_ratio(line: Line) -> float:
    """MMTV over that of exact draws; infinite for a run that failed."""
    return line.mmtv / line.floor_mmtv if line.mmtv is not None and line.floor_mmtv else inf


def is_unusable(line: Line) -> bool:
    """Whether a score reaches the paper's threshold for a posterior that is of no use, or there is none."""
    return any(_or_infinite(getattr(line, score)) >= threshold for score, _, threshold in THRESHOLDS)


def share_within(lines: Iterable[Line], sds: float = WITHIN) -> float | None:
    """Share of stated errors of the log evidence that hold up to so many standard deviations; None if none is."""
    z = [abs(line.z) for line in lines if line.z is not None]
    return float(np.mean(np.array(z) <= sds)) if z else None


def _gskl(line: Line) -> float:
    return _or_infinite(line.gskl)


def _or_infinite(value: float | None) -> float:
    return inf if value is None else value


# How it is written


def _counts(runs: Runs, of: Callable[[Line], bool]) -> str:
    return ARROW.join(str(sum(of(line) for line in side)) for side in runs)


def _shares(runs: Runs, of: Callable[[Line], bool]) -> str:
    return _percents([float(np.mean([of(line) for line in side])) if side else None for side in runs])


def _within(runs: Runs, sds: float, *, beyond: bool = False) -> str:
    shares = [share_within(side, sds) for side in runs]
    return _percents([None if share is None else 1 - share if beyond else share for share in shares])


def _percents(shares: Iterable[float | None]) -> str:
    return ARROW.join(percent(share) for share in shares)


def percent(share: float | None) -> str:
    """A share for people."""
    return NOTHING if share is None else f"{100 * share:.0f} %"


def _medians(runs: Runs, of: Callable[[Line], float]) -> str:
    return ARROW.join(number(float(np.median([of(line) for line in side]))) if side else NOTHING for side in runs)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))
