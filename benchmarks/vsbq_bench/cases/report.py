"""Results of the cases for people: a comparison in the terminal, a table by kind and a picture for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vsbq_bench.cases.compare import ALL, MEASURES, Change, Comparison
from vsbq_bench.lines import Line
from vsbq_bench.published import NOTHING, number

__all__ = ["calibration_picture", "comparison_in_words", "table_by_kind"]

WITHIN = 2.0  # stated standard deviations
SHOWN = 40  # single cases


def comparison_in_words(found: Comparison) -> str:
    """Return the tables of a comparison as plain text."""
    parts = [f"{found.paired} cases in both; changes are new minus old, lower is better.", _noise_in_words(found)]
    parts.append(_kinds(found.by_kind))
    parts.append(_cases(found.by_case))
    names = (
        ("fail now", found.new_failures),
        ("no longer fail", found.mended),
        ("only in the old results", found.only_old),
        ("only in the new results", found.only_new),
    )
    parts += [f"{len(cases)} {word}:\n  " + "\n  ".join(cases) for word, cases in names if cases]
    return "\n\n".join(parts)


def _noise_in_words(found: Comparison) -> str:
    known = [f"{name} {noise.sd:.2g}" for name, noise in found.noise.items() if noise.freedom]
    if not known:
        return "No case has several seeds, so that the noise is unknown and no change counts."
    freedom = min(noise.freedom for noise in found.noise.values() if noise.freedom)
    return f"Standard deviation between seeds: {', '.join(known)} ({freedom} degrees of freedom or more)."


def _kinds(changes: Sequence[Change]) -> str:
    table = {(change.of, change.measure): change for change in changes}
    names = [measure.name for measure in MEASURES]
    rows = [f"{'kind':<16}{'cases':>6}" + "".join(f"{name:>32}" for name in names)]
    for kind in sorted({change.of for change in changes}, key=lambda kind: (kind != ALL, kind)):
        own = [table.get((kind, name)) for name in names]
        most = max(change.cases for change in own if change is not None)
        rows.append(f"{kind:<16}{most:>6}" + "".join(f"{_in_words(change):>32}" for change in own))
    return "\n".join(rows)


def _in_words(change: Change | None) -> str:
    if change is None or change.cases == 0:
        return NOTHING
    return f"{change.new - change.old:+.2f} ± {change.error:.2f} {change.verdict:<6}"


def _cases(changes: Sequence[Change]) -> str:
    if not changes:
        return "No single case changed beyond its noise."
    ends = changes if len(changes) <= SHOWN else [*changes[: SHOWN // 2], *changes[-SHOWN // 2 :]]
    rows = [f"  {c.verdict:<7}{c.measure:<16}{c.old:>8.2f} -> {c.new:<8.2f}{c.of}" for c in ends]
    left = f"\n  and {len(changes) - len(ends)} more" if len(ends) < len(changes) else ""
    return f"{len(changes)} changes of single cases beyond their noise:\n" + "\n".join(rows) + left


def table_by_kind(lines: Iterable[Line]) -> str:
    """Return a Markdown table: medians of the scores by kind, and how often the stated error of the evidence holds."""
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(str(line.case.get("kind", "other")), []).append(line)
    head = "| kind | cases | runs | failed | MMTV / floor | GsKL | \\|error\\| | within 2 sd |"
    rows = [_row(kind, groups[kind]) for kind in sorted(groups)]
    whole = _row("**all**", [line for runs in groups.values() for line in runs])
    return "\n".join([head, "| --- " * 8 + "|", *rows, whole])


def _row(kind: str, runs: Sequence[Line]) -> str:
    ratios = [line.mmtv / line.floor_mmtv for line in runs if line.mmtv and line.floor_mmtv]
    z = [line.z for line in runs if line.z is not None]
    cells = [
        kind,
        str(len({line.problem for line in runs})),
        str(len(runs)),
        str(sum(line.error is not None for line in runs)),
        _median(ratios),
        _median([line.gskl for line in runs if line.gskl is not None]),
        _median([line.delta_lml for line in runs if line.delta_lml is not None]),
        f"{np.mean(np.abs(z) <= WITHIN):.0%}" if z else NOTHING,
    ]
    return f"| {' | '.join(cells)} |"


def _median(values: Sequence[float]) -> str:
    return number(float(np.median(values))) if values else NOTHING


def calibration_picture(lines: Iterable[Line]) -> Any:
    """Return a figure: the size of the error of the log evidence against its stated standard deviation, by half."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'vsbq[plot]'") from error
    figure = Figure(figsize=(5, 4.5), layout="constrained")
    axes = figure.subplots()
    points = _points(lines)
    for half, found in points.items():
        sds, errors = np.array(found).T
        axes.scatter(sds, errors, s=14, alpha=0.7, label=half)
    ends = np.array(axes.get_xlim()) if points else np.array([0.01, 1.0])
    for factor, style in ((1.0, "-"), (WITHIN, "--")):
        axes.plot(ends, factor * ends, style, color="0.5", linewidth=1, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="stated sd of the log evidence", ylabel="|error| of the log evidence")
    if points:
        axes.legend(frameon=False)
    return figure


def _points(lines: Iterable[Line]) -> Mapping[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        if line.delta_lml and line.log_evidence_sd:
            found.setdefault(str(line.case.get("half", "other")), []).append((line.log_evidence_sd, line.delta_lml))
    return found
