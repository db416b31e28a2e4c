"""Tables of the results page, in Markdown, from nothing but the lines of runs.

A score is the median over seeds with its bootstrapped 95 % interval; a run that failed counts as infinitely bad. The
best score is bold, and so are all whose interval overlaps with its own, as in the paper.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from math import inf, isfinite
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from vsbq_bench.lines import Cell, Line
from vsbq_bench.metrics import MedianInterval, median_interval
from vsbq_bench.published import (
    EVIDENCES,
    METHOD_NAMES,
    NOTHING,
    PRINTED,
    PROBLEM_NAMES,
    Printed,
    PrintedRow,
    base_name,
    method_name,
    number,
    optimiser_name,
    printed_row,
    printed_runtime,
    problem_name,
    seconds,
)
from vsbq_bench.zoo import ZOO

__all__ = ["TABLES", "Summary", "all_tables", "runs_alone", "stage_seconds", "summarise", "usual", "varied"]

SCORES = ("delta_lml", "mmtv", "gskl")
NOT_RUN = "*No runs yet.*"
EXACT = {"two_moons": 0.0, "rosenbrock_gaussian": 0.0}
EVIDENCE_ERRORS = EXACT | {name: evidence.corrected_sd for name, evidence in EVIDENCES.items()}
APART = ("ablation_", "oracle")  # methods with tables of their own, no rivals of the others
SAMPLERS = ("emcee", "dynesty")  # they start from nothing and leave the trace alone
BEHAVIOUR = ("timing", "multisensory")
SYNTHETIC = tuple(EXACT)


# Summaries


class Summary(NamedTuple):
    """The runs of a cell: scores over seeds (None where a method has no such number), and what they took.

    `delta_lml_printed` is the error against the evidence behind the paper's numbers, where that is another one.
    """

    cell: Cell
    runs: int
    failures: int
    delta_lml: MedianInterval | None
    mmtv: MedianInterval | None
    gskl: MedianInterval | None
    delta_lml_printed: MedianInterval | None
    further_evaluations: float | None
    floor_mmtv: float | None
    floor_gskl: float | None


def summarise(lines: Iterable[Line]) -> list[Summary]:
    """Return one summary for each cell, in the order of the tables."""
    return [_summary(cell, list(group)) for cell, group in groupby(distinct(lines), key=lambda line: line.cell)]


def distinct(lines: Iterable[Line]) -> list[Line]:
    """Return one line for each run, ordered by cell and seed: of several the last one without an error."""
    runs: dict[tuple[Cell, int], Line] = {}
    for line in lines:
        if line.error is None or (line.cell, line.seed) not in runs:
            runs[line.cell, line.seed] = line
    return sorted(runs.values(), key=lambda line: (_order(line.cell), line.seed))


def _summary(cell: Cell, runs: list[Line]) -> Summary:
    good = [line for line in runs if line.error is None]
    known = EVIDENCES.get(cell.problem)
    values = [line.log_evidence for line in good]
    printed = [None if known is None or value is None else abs(value - known.printed) for value in values]
    failures = len(runs) - len(good)
    return Summary(
        cell=cell,
        runs=len(runs),
        failures=failures,
        delta_lml=_interval([line.delta_lml for line in good], failures, optional=True),
        mmtv=_interval([line.mmtv for line in good], failures),
        gskl=_interval([line.gskl for line in good], failures),
        delta_lml_printed=_interval(printed, failures, optional=True),
        further_evaluations=_median(line.target_evaluations for line in good),
        floor_mmtv=_median(line.floor_mmtv for line in good),
        floor_gskl=_median(line.floor_gskl for line in good),
    )


def _interval(values: list[float | None], failures: int, *, optional: bool = False) -> MedianInterval | None:
    """Summarise a score. A gap is a score that was not finite, or one that an optional score does not have at all."""
    if not values or (optional and all(value is None for value in values)):
        return None
    filled = [inf if value is None else value for value in values] + [inf] * failures
    return _bootstrap(tuple(sorted(filled)))


@cache
def _bootstrap(values: tuple[float, ...]) -> MedianInterval:
    return median_interval(np.array(values), np.random.default_rng(0))


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


def usual(summaries: Sequence[Summary], optimiser: str | None = "cma") -> list[Summary]:
    """Keep the longest traces of each problem, those the main results are made from; None keeps every optimiser."""
    summaries = [s for s in summaries if not s.cell.method.startswith(APART)]
    longest = dict(sorted((s.cell.problem, s.cell.evaluations) for s in summaries))
    wanted = [s for s in summaries if s.cell.evaluations == longest[s.cell.problem]]
    return [s for s in wanted if optimiser in (None, s.cell.optimiser)]


def varied(summaries: Sequence[Summary], field: Literal["evaluations", "optimiser"]) -> list[Summary]:
    """Keep cells that differ from another one in nothing but this field."""
    others = [name for name in Cell._fields if name != field]
    rest = [tuple(getattr(s.cell, name) for name in others) for s in summaries]
    alike = Counter(rest)
    return [s for s, key in zip(summaries, rest, strict=True) if alike[key] > 1]


def _order(cell: Cell) -> tuple[int, str, float, str, int, int, str]:
    """Sort key: problems and methods in the order of their names above, unknown ones after them."""
    problem, method = list(PROBLEM_NAMES), list(METHOD_NAMES)
    name = base_name(cell.problem)
    first = problem.index(name) if name in problem else len(problem)
    last = method.index(cell.method) if cell.method in method else len(method)
    optimiser = "" if cell.optimiser == "cma" else cell.optimiser
    return first, cell.problem, cell.noise_sd, optimiser, cell.evaluations, last, cell.method


def _score(value: MedianInterval | Printed | None, bold: bool = False) -> str:
    if value is None:
        return NOTHING
    middle = f"**{number(value.median)}**" if bold else number(value.median)
    if value.low is None or value.high is None:
        return middle
    if isinstance(value, MedianInterval) and value.low == value.high:
        return middle
    return f"{middle} [{number(value.low)}, {number(value.high)}]"


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows))


# Tables of scores


class _Row(NamedTuple):
    """A row of scores: ours, the paper's, or both; rows with the same `rivals` compete for the best score."""

    labels: tuple[str, ...]
    summary: Summary | None
    printed: PrintedRow | None
    rivals: Hashable = None


def _score_table(header: tuple[str, ...], rows: Sequence[_Row]) -> str:
    """Return a table of scores; an extra column appears where the paper measures ΔLML against another evidence."""
    mine = [row.summary for row in rows if row.summary is not None]
    both = any(summary.delta_lml_printed is not None for summary in mine)
    columns = ["ΔLML", *(["ΔLML, paper's constant"] if both else []), "MMTV", "GsKL"]
    best = _best(rows)
    body = [[*row.labels, *_scores(row, best, both), _runs(row.summary), _effort(row.summary)] for row in rows]
    body.append(["*floor*", *[""] * (len(header) - 1), *_floor(mine, both), "", ""])
    return _markdown([*header, *columns, "runs", "calls beyond the trace"], body)


def _best(rows: Sequence[_Row]) -> dict[tuple[Hashable, str], MedianInterval]:
    """The best value of each score among rivals, where there are at least two."""
    values: dict[tuple[Hashable, str], list[MedianInterval]] = {}
    for row in rows:
        for score in SCORES:
            value: MedianInterval | None = getattr(row.summary, score, None)
            if value is not None:
                values.setdefault((row.rivals, score), []).append(value)
    best = {place: min(several) for place, several in values.items() if len(several) > 1}
    return {place: value for place, value in best.items() if isfinite(value.median)}


def _scores(row: _Row, best: Mapping[tuple[Hashable, str], MedianInterval], both: bool) -> list[str]:
    cells = []
    for score in SCORES:
        ours = _own(row.summary, score, best.get((row.rivals, score)))
        printed = None if row.printed is None else getattr(row.printed, score)
        if score == "delta_lml" and both:
            cells.append(ours)
            ours = NOTHING if row.summary is None else _score(row.summary.delta_lml_printed)
        cells.append(f"{ours}<br>paper: {_score(printed)}" if printed else ours)
    return cells


def _own(summary: Summary | None, score: str, best: MedianInterval | None) -> str:
    if summary is None or summary.failures == summary.runs:
        return "not run" if summary is None else "failed"
    value: MedianInterval | None = getattr(summary, score)
    bold = value is not None and best is not None and value.low <= best.high and best.low <= value.high
    return _score(value, bold)


def _runs(summary: Summary | None) -> str:
    failed = f", {summary.failures} failed" if summary is not None and summary.failures else ""
    return NOTHING if summary is None else f"{summary.runs}{failed}"


def _effort(summary: Summary | None) -> str:
    calls = None if summary is None else summary.further_evaluations
    return NOTHING if calls is None else f"{round(calls):,}"


def _floor(summaries: Sequence[Summary], both: bool) -> list[str]:
    error = EVIDENCE_ERRORS.get(summaries[0].cell.problem)
    least = [_median(s.floor_mmtv for s in summaries), _median(s.floor_gskl for s in summaries)]
    scores = [NOTHING if value is None else number(value) for value in (error, *least)]
    return [scores[0], *([""] if both else []), *scores[1:]]


# The tables of the page


def _tables(
    found: Sequence[Summary],
    split: Callable[[Cell], Hashable],
    title: Callable[[Cell], str],
    header: tuple[str, ...],
    row: Callable[[Cell], tuple[tuple[str, ...], Hashable]],
) -> str:
    """Return a table with a title for each group of cells; `row` gives the labels and the rivals of a cell."""
    parts = []
    for _, same in groupby(found, key=lambda s: split(s.cell)):
        group = list(same)
        rows = [_Row(labels, s, printed_row(*s.cell), rivals) for s in group for labels, rivals in [row(s.cell)]]
        if len(header) == 1:
            rows += _only_printed(group)
        parts.append(f"{title(group[0].cell)}\n\n{_score_table(header, rows)}")
    return "\n\n".join(parts) or NOT_RUN


def _title(cell: Cell) -> str:
    noise = f", σ = {cell.noise_sd:g}" if cell.noise_sd > 0 else ""
    trace = f"traces of {optimiser_name(cell.optimiser)} with {cell.evaluations:,} evaluations"
    return f"**{problem_name(cell.problem)}**{noise}, {trace}"


def _only_printed(group: Sequence[Summary]) -> list[_Row]:
    """Return rows of the paper's table for methods that have not been run here."""
    place = group[0].cell[:4]
    have = {s.cell.method.removesuffix("_paper") for s in group}
    return [
        _Row((method_name(row.method),), None, row)
        for row in PRINTED
        if (row.problem, row.noise_sd, row.optimiser, row.evaluations) == place and row.method not in have
    ]


def _by_method(found: Sequence[Summary]) -> str:
    """Return a table for each problem and level of noise, one row for each method."""
    return _tables(found, lambda c: c[:4], _title, ("method",), lambda c: ((method_name(c.method),), None))


def synthetic(lines: Sequence[Line]) -> str:
    """Tables 1 and 2 of the paper: every method on the two synthetic problems."""
    return _by_method([s for s in usual(summarise(lines)) if s.cell.problem in SYNTHETIC])


def surrogate_mcmc(lines: Sequence[Line]) -> str:
    """Slice sampling of the surrogate against variational inference (Table S5): the timing model, noise of 3."""
    found = usual([s for s in summarise(lines) if base_name(s.cell.problem) == "timing" and s.cell.noise_sd == 3])
    return _by_method([s for s in found if s.cell.method.startswith(("vsbq", "nnr", "slice"))])


def beyond(lines: Sequence[Line]) -> str:
    """Problems of the field that the paper does not have."""
    known = (*SYNTHETIC, *BEHAVIOUR, *ZOO)
    return _by_method([s for s in usual(summarise(lines)) if base_name(s.cell.problem) not in known])


def by_noise(lines: Sequence[Line], problem: str) -> str:
    """A behavioural model by level of noise; the best of each level is bold."""
    found = [s for s in usual(summarise(lines)) if base_name(s.cell.problem) == problem]
    return _tables(
        found,
        lambda c: c.problem,
        lambda c: _title(c._replace(noise_sd=0.0)),
        ("σ", "method"),
        lambda c: ((f"{c.noise_sd:g}", method_name(c.method)), c.noise_sd),
    )


def sensitivity(lines: Sequence[Line]) -> str:
    """The same methods on shorter traces; the best of each length is bold."""
    return _tables(
        varied(summarise(lines), "evaluations"),
        lambda c: c[:3],
        lambda c: f"**{problem_name(c.problem)}**, σ = {c.noise_sd:g}, traces of {optimiser_name(c.optimiser)}",
        ("evaluations", "method"),
        lambda c: ((f"{c.evaluations:,}", method_name(c.method)), c.evaluations),
    )


def optimisers(lines: Sequence[Line]) -> str:
    """Traces of one optimiser against those of another; the better one for each method is bold."""
    found = varied(usual(summarise(lines), None), "optimiser")
    found.sort(key=lambda s: (_order(s.cell)[:3], _order(s.cell)[-2:], _order(s.cell)))
    return _tables(
        found,
        lambda c: c.problem,
        lambda c: f"**{problem_name(c.problem)}**, traces with {c.evaluations:,} evaluations",
        ("σ", "method", "traces of"),
        lambda c: ((f"{c.noise_sd:g}", method_name(c.method), optimiser_name(c.optimiser)), (c.noise_sd, c.method)),
    )


def samplers(lines: Sequence[Line]) -> str:
    """Samplers that call the model as often as they like, with the package's default for comparison."""
    found = usual(summarise(lines))
    places = {s.cell[:2] for s in found if s.cell.method in SAMPLERS}
    found = [s for s in found if s.cell[:2] in places and s.cell.method in ("vsbq", *SAMPLERS)]
    header = ("σ", "method")
    return _tables(found, lambda c: c[:4], _title, header, lambda c: ((f"{c.noise_sd:g}", method_name(c.method)), None))


def runtime(lines: Sequence[Line]) -> str:
    """Seconds by stage, units and memory of runs that had the machine to themselves, beside the paper's seconds."""
    rows = [_runtime_row(cell, runs) for cell, runs in runs_alone(lines).items()]
    header = "problem|σ|method|runs|seconds [least, most]|median by stage|units|peak GiB|paper: CPU s|paper: GPU s"
    return _markdown(header.split("|"), rows) if rows else NOT_RUN


def runs_alone(lines: Sequence[Line]) -> dict[Cell, list[Line]]:
    """Return the good runs on the longest traces of CMA-ES that shared the machine with no other run, by cell."""
    alone = distinct(line for line in lines if line.processes == 1 and line.error is None)
    longest = {s.cell for s in usual(summarise(alone))}
    by_cell = groupby(alone, key=lambda line: line.cell)
    return {cell: list(group) for cell, group in by_cell if cell in longest}


def _runtime_row(cell: Cell, runs: list[Line]) -> list[str]:
    totals = np.array([line.seconds.get("total", sum(line.seconds.values())) for line in runs])
    spent = [f"{stage} {seconds(value)}" for stage, value in stage_seconds(runs).items()]
    paper = printed_runtime(base_name(cell.problem), cell.method)
    return [
        problem_name(cell.problem),
        f"{cell.noise_sd:g}",
        method_name(cell.method),
        str(len(runs)),
        f"{seconds(float(np.median(totals)))} [{seconds(float(totals.min()))}, {seconds(float(totals.max()))}]",
        ", ".join(spent) or NOTHING,
        seconds(_median(line.units for line in runs)),
        seconds(_median(line.peak_gib for line in runs)),
        NOTHING if paper is None else paper.cpu,
        NOTHING if paper is None or paper.gpu is None else paper.gpu,
    ]


def stage_seconds(runs: Sequence[Line]) -> dict[str, float]:
    """Return the median time of each stage, in the order of the first run."""
    stages = dict.fromkeys(name for line in runs for name in line.seconds if name != "total")
    return {name: float(np.median([line.seconds.get(name, 0.0) for line in runs])) for name in stages}


TABLES: Mapping[str, Callable[[Sequence[Line]], str]] = MappingProxyType(
    {
        "synthetic": synthetic,
        "timing": partial(by_noise, problem="timing"),
        "multisensory": partial(by_noise, problem="multisensory"),
        "sensitivity": sensitivity,
        "optimisers": optimisers,
        "runtime": runtime,
        "surrogate-mcmc": surrogate_mcmc,
        "beyond": beyond,
        "samplers": samplers,
    }
)


def all_tables(lines: Sequence[Line]) -> str:
    """Return every table under a heading of its own."""
    return "\n\n".join(f"## {name}\n\n{table(lines)}" for name, table in TABLES.items())
