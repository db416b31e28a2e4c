"""Other versions of the default on the cases of the zoo: without one of its parts, and made worse on purpose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from vsbq_bench.ablation import LABELS, STEPS
from vsbq_bench.cases.before_now import (
    floor_ratio,
    is_noisy,
    is_unusable,
    markdown,
    percent,
    share_within,
)
from vsbq_bench.cases.compare import ALL, DEFAULT, MEASURES, Change, Comparison, compare, of_method
from vsbq_bench.lines import Line
from vsbq_bench.methods.control import CONTROLS
from vsbq_bench.published import NOTHING, number
from vsbq_bench.stored import COMPARED
from vsbq_bench.tables import NOT_RUN

__all__ = ["ablation_of_cases", "control"]

SCORES = ("MMTV / floor", "within 2 sd", "unusable")


def ablation_of_cases(lines: Sequence[Line]) -> str:
    """The default and the default without a part, on cases that all of them have been run on, with the first seed.

    The geometric mean of MMTV over its floor is over cases on which none of them failed.
    """
    methods = [method for method in LABELS if method == DEFAULT or method in STEPS]
    first = {(line.method, line.problem): line for line in lines if line.method in methods and line.seed == 0}
    have = [method for method in methods if any(line.method == method for line in first.values())]
    if have[:1] != [DEFAULT] or len(have) == 1:
        return NOT_RUN
    shared = [name for name in _names(first.values(), DEFAULT) if all((method, name) in first for method in have)]
    if not shared:
        return NOT_RUN
    noisy = [name for name in shared if is_noisy(first[DEFAULT, name])]
    sides = {"noise-free": [name for name in shared if name not in noisy], "noisy": noisy}
    head = ["version", *(f"{score}, {side}" for side in sides for score in SCORES)]
    rows = [[LABELS[method]] for method in have]
    for names in sides.values():
        ended = [name for name in names if all(first[method, name].error is None for method in have)]
        for method, row in zip(have, rows, strict=True):
            row += _scores([first[method, name] for name in names], [first[method, name] for name in ended])
    counts = " and ".join(f"{len(names)} {side}" for side, names in sides.items())
    return f"{counts} cases of the validation half, one run of each.\n\n{markdown(head, rows)}"


def _names(lines: Iterable[Line], method: str) -> list[str]:
    return sorted(line.problem for line in lines if line.method == method)


def _scores(runs: Sequence[Line], ended: Sequence[Line]) -> list[str]:
    mean = number(float(np.exp(np.mean(np.log([floor_ratio(line) for line in ended]))))) if ended else NOTHING
    return [mean, percent(share_within(runs)), str(sum(map(is_unusable, runs)))]


def control(lines: Sequence[Line]) -> str:
    """What `vsbq bench compare` makes of the default and of the default made worse on purpose, a table for each.

    The default is that of the commit at which it was made worse, if its lines are kept.
    """
    kept = [replace(line, method=DEFAULT) for line in lines if line.method == COMPARED]
    usual = of_method(kept or lines, DEFAULT)
    parts = []
    for method, told in CONTROLS.items():
        worse = of_method(lines, method)
        if usual and worse:
            parts.append(f"**{told.capitalize()}**\n\n{_changes(compare(usual, worse))}")
    return "\n\n".join(parts) or NOT_RUN


def _changes(found: Comparison) -> str:
    table = {(change.of, change.measure): change for change in found.by_kind}
    names = [measure.name for measure in MEASURES]
    kinds = sorted({change.of for change in found.by_kind}, key=lambda kind: (kind == ALL, kind))
    rows = []
    for kind in kinds:
        own = [table.get((kind, name)) for name in names]
        cases = max(change.cases for change in own if change is not None)
        label = f"**{kind}**" if kind == ALL else kind.replace("_", " ")
        rows.append([label, str(cases), *map(_in_words, own)])
    single = [sum(change.verdict == verdict for change in found.by_case) for verdict in ("worse", "better")]
    said = f"Changes of single cases beyond their noise: {single[0]} worse, {single[1]} better. "
    said += f"New failures: {len(found.new_failures)}."
    return markdown(["kind", "cases", *(name.replace("|", "\\|") for name in names)], rows) + f"\n\n{said}"


def _in_words(change: Change | None) -> str:
    if change is None or change.cases == 0:
        return NOTHING
    size = f"{change.new - change.old:+.2f} ± {change.error:.2f}"
    return f"{size} **{change.verdict}**" if change.verdict else size
