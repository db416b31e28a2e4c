"""What got better and what got worse between two sets of results, beyond the noise of single fits.

Cases are paired. Their seeds tell the noise: the standard deviation within a case, pooled over all cases that have
several seeds in either set. A change counts if noise would make one as large in at most one of a hundred comparisons:
a t test at the level 0.01, divided by the number of cases where single cases are tested and by that of kinds for kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from vsbq_bench.lines import Line

__all__ = ["MEASURES", "Change", "Comparison", "Measure", "Noise", "compare", "of_method"]

LEVEL = 0.01
LEAST_GSKL, MOST_GSKL = 1e-8, 1e3  # an infinite one counts as the largest
LARGEST_Z = 10.0  # beyond it the stated error is wrong, no matter by how much
ALL = "all"
DEFAULT = "vsbq"

Seeds = Mapping[str, Sequence[float]]


class Measure(NamedTuple):
    """A number of a line that should be small; None where the line does not have it."""

    name: str
    of: Callable[[Line], float | None]


class Noise(NamedTuple):
    """How much a measure differs between seeds of one case, and from how many degrees of freedom this is known."""

    sd: float
    freedom: int

    def limit(self, comparisons: int) -> float:
        """Return the change, in standard errors, beyond which it counts."""
        if self.freedom == 0 or comparisons == 0:
            return float("inf")
        return float(student_t.isf(LEVEL / (2 * comparisons), self.freedom))


class Change(NamedTuple):
    """A difference, new minus old, with the standard error that the noise gives it; lower is better."""

    of: str
    measure: str
    cases: int
    old: float
    new: float
    error: float
    limit: float

    @property
    def verdict(self) -> str:
        """`better`, `worse`, or empty where it is within its noise, or where that is unknown (nan)."""
        difference = self.new - self.old
        if not abs(difference) > self.limit * self.error:
            return ""
        return "worse" if difference > 0 else "better"


class Comparison(NamedTuple):
    """Changes by kind (the first of them over all cases) and by case; what fails now and what no longer does."""

    paired: int
    noise: Mapping[str, Noise]
    by_kind: tuple[Change, ...]
    by_case: tuple[Change, ...]
    new_failures: tuple[str, ...]
    mended: tuple[str, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]


def _log_mmtv(line: Line) -> float | None:
    if not line.mmtv or not line.floor_mmtv:
        return None
    return log(line.mmtv / line.floor_mmtv)


def _log_gskl(line: Line) -> float | None:
    gskl = line.gskl
    if gskl is None:
        gskl = MOST_GSKL if "gskl" in line.details.get("infinite", ()) else None
    return None if gskl is None else log(min(max(gskl, LEAST_GSKL), MOST_GSKL))


def _size_of_z(line: Line) -> float | None:
    return None if line.z is None else min(abs(line.z), LARGEST_Z)


MEASURES = (Measure("log MMTV/floor", _log_mmtv), Measure("log GsKL", _log_gskl), Measure("|z|", _size_of_z))


def compare(old: Iterable[Line], new: Iterable[Line]) -> Comparison:
    """Compare two sets of lines; of several lines of a case, a method and a seed the last counts."""
    before, after = _by_case(old), _by_case(new)
    both = sorted(before.keys() & after.keys())
    noise, by_kind, by_case = {}, [], []
    for measure in MEASURES:
        a, b = _values(before, both, measure), _values(after, both, measure)
        found = _noise([*_values(before, before, measure).values(), *_values(after, after, measure).values()])
        shared = [name for name in both if name in a and name in b]
        single = [_change([name], name, measure.name, a, b, found, len(shared)) for name in shared]
        groups = _groups(shared, after)
        by_kind += [
            _change(names, group, measure.name, a, b, found, 1 if group == ALL else len(groups) - 1)
            for group, names in groups.items()
        ]
        by_case += [change for change in single if change.verdict]
        noise[measure.name] = found
    failed_before, failed_after = _failed(before), _failed(after)
    return Comparison(
        paired=len(both),
        noise=noise,
        by_kind=tuple(by_kind),
        by_case=tuple(sorted(by_case, key=lambda change: change.old - change.new)),
        new_failures=tuple(name for name in both if name in failed_after - failed_before),
        mended=tuple(name for name in both if name in failed_before - failed_after),
        only_old=tuple(sorted(before.keys() - after.keys())),
        only_new=tuple(sorted(after.keys() - before.keys())),
    )


def of_method(lines: Iterable[Line], method: str) -> list[Line]:
    """Return the lines of a method as if they were the default's, so that they are paired with its lines by case."""
    return [replace(line, method=DEFAULT) for line in lines if line.method == method]


def _by_case(lines: Iterable[Line]) -> dict[str, list[Line]]:
    last = {(line.cell, line.seed): line for line in lines}
    found: dict[str, list[Line]] = {}
    for line in last.values():
        name = line.problem if line.method == DEFAULT else f"{line.problem} {line.method}"
        found.setdefault(name, []).append(line)
    return found


def _values(lines: Mapping[str, list[Line]], names: Iterable[str], measure: Measure) -> dict[str, list[float]]:
    """Return the measure of each seed by case, without cases that do not have it."""
    every = {name: [measure.of(line) for line in lines[name] if line.error is None] for name in names}
    kept = {name: [value for value in values if value is not None] for name, values in every.items()}
    return {name: values for name, values in kept.items() if values}


def _noise(groups: Iterable[Sequence[float]]) -> Noise:
    """Pool the variance within groups of several seeds."""
    several = [np.asarray(group) for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in several)
    squares = sum(float(((group - group.mean()) ** 2).sum()) for group in several)
    return Noise(sqrt(squares / freedom) if freedom else float("nan"), freedom)


def _groups(names: Sequence[str], lines: Mapping[str, list[Line]]) -> dict[str, list[str]]:
    kinds = {name: str(lines[name][0].case.get("kind", "other")) for name in names}
    return {ALL: list(names)} | {
        kind: [name for name in names if kinds[name] == kind] for kind in sorted(set(kinds.values()))
    }


def _change(names: Sequence[str], of: str, measure: str, a: Seeds, b: Seeds, noise: Noise, comparisons: int) -> Change:
    """Average over cases, each with the same weight; the standard error is that of the seeds' noise."""
    if not names:
        return Change(of, measure, 0, float("nan"), float("nan"), float("nan"), float("inf"))
    old, new = (float(np.mean([np.mean(values[name]) for name in names])) for values in (a, b))
    variance = sum(1 / len(a[name]) + 1 / len(b[name]) for name in names) * noise.sd**2
    return Change(of, measure, len(names), old, new, sqrt(variance) / len(names), noise.limit(comparisons))


def _failed(lines: Mapping[str, list[Line]]) -> set[str]:
    """Return the cases of which a seed ended with an error."""
    return {name for name, runs in lines.items() if any(line.error is not None for line in runs)}
