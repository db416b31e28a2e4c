"""Small tables for a first look, made from the lines like the large ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from vsbq_bench.lines import Line
from vsbq_bench.metrics import MedianInterval
from vsbq_bench.published import number, problem_name
from vsbq_bench.tables import NOT_RUN, Summary, summarise, usual

__all__ = ["HEADLINE", "OVERVIEWS", "SCORES", "label_of", "runs_of", "scores_of"]

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "correlated_gaussian": "normal, D=8, axes 100:1, rotated",
        "wide_gaussian": "normal, D=15, axes 10:1, rotated",
        "student": "Student t, D=4, 4 degrees of freedom",
        "three_modes": "three modes of mass 0.6, 0.3, 0.1, D=3",
        "bounded": "bounded, D=4, some mass at the bounds",
        "half_bounded": "half-bounded, D=3, skewed",
        "single": "one parameter, two modes",
    }
)
#: The rows of the README: each problem once, with the noise that the paper's own table has.
HEADLINE = (
    ("two_moons", 0.0),
    ("rosenbrock_gaussian", 0.0),
    ("timing", 3.0),
    ("multisensory", 0.0),
    ("lumpy", 0.0),
    ("lotka_volterra", 0.0),
)
SCORES = ("ΔLML", "MMTV (floor)", "GsKL (floor)")


def headline(lines: Sequence[Line]) -> str:
    """Six rows: the default beside the algorithm as published."""
    found = {(s.cell.problem, s.cell.noise_sd, s.cell.method): s for s in usual(summarise(lines))}
    rows = []
    for problem, noise in HEADLINE:
        pair = [found.get((problem, noise, method)) for method in ("vsbq", "vsbq_paper")]
        if pair[0] is not None:
            rows.append(
                [label_of(problem, noise), *scores_of(pair[0]), *scores_of(pair[1]), _runs_of_both(pair[0], pair[1])]
            )
    header = ["problem", *SCORES, *(f"as published: {score}" for score in SCORES), "runs"]
    return _markdown(header, rows)


def zoo(lines: Sequence[Line]) -> str:
    """Other kinds of targets, without noise and with it."""
    found = {(s.cell.problem, s.cell.noise_sd): s for s in usual(summarise(lines)) if s.cell.method == "vsbq"}
    rows = []
    for problem, label in KINDS.items():
        for noise in sorted(noise for name, noise in found if name == problem):
            summary = found[problem, noise]
            rows.append([label, f"{noise:g}", *scores_of(summary), runs_of(summary)])
    return _markdown(["target", "noise sd", *SCORES, "runs"], rows)


def label_of(problem: str, noise: float) -> str:
    """Name a problem and, if there is any, its noise."""
    return problem_name(problem) + (f", noise of sd {noise:g}" if noise > 0 else "")


def scores_of(summary: Summary | None) -> list[str]:
    """Write the medians of the scores, with those of exact draws behind them."""
    if summary is None:
        return ["—"] * len(SCORES)
    return [
        _median(summary.delta_lml, None),
        _median(summary.mmtv, summary.floor_mmtv),
        _median(summary.gskl, summary.floor_gskl),
    ]


def _median(value: MedianInterval | None, floor: float | None) -> str:
    if value is None:
        return "—"
    return number(value.median) + (f" ({number(floor)})" if floor is not None else "")


def runs_of(summary: Summary) -> str:
    """Count the runs, and those that failed."""
    return f"{summary.runs}" + (f", {summary.failures} failed" if summary.failures else "")


def _runs_of_both(default: Summary, printed: Summary | None) -> str:
    """One number where both have as many runs, else that of the runs as published too."""
    if printed is None or runs_of(printed) == runs_of(default):
        return runs_of(default)
    return f"{runs_of(default)}; as published {runs_of(printed)}"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return NOT_RUN
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, ["---"] * len(header), *rows])


OVERVIEWS: Mapping[str, Callable[[Sequence[Line]], str]] = MappingProxyType({"headline": headline, "zoo": zoo})
