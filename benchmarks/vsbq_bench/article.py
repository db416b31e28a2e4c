"""The tables of the article in docs/paper: accuracy and speed, each row with the commits that its lines come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vsbq_bench.cases.before_now import (
    Runs,
    both_versions,
    floor_ratio,
    has_plenty,
    is_noisy,
    is_unusable,
    markdown,
    percent,
    share_within,
)
from vsbq_bench.lines import Line
from vsbq_bench.overview import HEADLINE, SCORES, label_of, runs_of, scores_of
from vsbq_bench.published import NOTHING, base_name, number, printed_runtime, problem_name, seconds
from vsbq_bench.tables import NOT_RUN, distinct, runs_alone, summarise, usual

__all__ = ["ARTICLE", "ARTICLE_CASES", "accuracy", "held_out", "speed"]

VERSIONS: Mapping[str, str] = MappingProxyType({"vsbq": "default", "vsbq_paper": "as published"})


def accuracy(lines: Sequence[Line]) -> str:
    """Two rows for each problem: the default, and the algorithm as published."""
    found = {(*s.cell[:2], s.cell.method): s for s in usual(summarise(lines))}
    rows = []
    for problem, noise in HEADLINE:
        for method, version in VERSIONS.items():
            summary = found.get((problem, noise, method))
            if summary is not None:
                runs = [line for line in distinct(lines) if line.cell == summary.cell]
                label = label_of(problem, noise)
                rows.append([label, version, *scores_of(summary), runs_of(summary), commits(runs)])
    return markdown(["problem", "version", *SCORES, "runs", "commits"], rows) if rows else NOT_RUN


def speed(lines: Sequence[Line]) -> str:
    """Seconds of fits that had the machine to themselves, beside those that the paper prints."""
    rows = []
    for cell, runs in runs_alone(lines).items():
        if cell.method in VERSIONS:
            paper = printed_runtime(base_name(cell.problem), cell.method)
            printed = [NOTHING] * 2 if paper is None else [paper.cpu, paper.gpu or NOTHING]
            middle = float(np.median([line.seconds["total"] for line in runs]))
            label = [problem_name(cell.problem), f"{cell.evaluations:,}", VERSIONS[cell.method]]
            rows.append([*label, seconds(middle), *printed, str(len(runs)), commits(runs)])
    header = ["problem", "evaluations", "version", "seconds", "paper: CPU s", "paper: GPU s", "runs", "commits"]
    return markdown(header, rows) if rows else NOT_RUN


def held_out(lines: Sequence[Line]) -> str:
    """The half of the zoo that nobody looked at: the first version of the default, and the present one."""
    runs = both_versions(lines, "validation")
    if not runs.now:
        return NOT_RUN
    groups = {
        "noise-free, 300·D evaluations or more": runs.where(lambda line: not is_noisy(line) and has_plenty(line)),
        "noise-free, fewer evaluations": runs.where(lambda line: not is_noisy(line) and not has_plenty(line)),
        "noisy": runs.where(is_noisy),
        "all": runs,
    }
    rows = [row for name, group in groups.items() for row in _both_rows(name, group)]
    return markdown(["cases", "version", "runs", "usable", "MMTV / floor", "within 2 sd", "commits"], rows)


def _both_rows(name: str, runs: Runs) -> list[list[str]]:
    rows = []
    for version, side in zip(("first", "present"), runs, strict=True):
        if side:
            usable = percent(float(np.mean([not is_unusable(line) for line in side])))
            ratio = number(float(np.median([floor_ratio(line) for line in side])))
            rows.append([name, version, str(len(side)), usable, ratio, percent(share_within(side)), commits(side)])
    return rows


def commits(lines: Iterable[Line]) -> str:
    """The commits that made the lines, in alphabetical order."""
    return ", ".join(sorted({line.commit or "unknown" for line in lines}))


ARTICLE: Mapping[str, Callable[[Sequence[Line]], str]] = MappingProxyType(
    {"article-accuracy": accuracy, "article-speed": speed}
)
ARTICLE_CASES: Mapping[str, Callable[[Sequence[Line]], str]] = MappingProxyType({"article-held-out": held_out})
