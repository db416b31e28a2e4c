"""What each step away from the algorithm as printed brings: settings between the two entries, and their table.

From the printed algorithm to the default one thing is added after the other. What is left between the last step and the
default is economy (hyperparameters learnt on subsets) and care: more inducing points where the fit is poor, a check of
the noise, guards from the trimmed evaluations. Whitening also has an entry of its own that is the default without it:
the problems of the other steps hardly need it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vsbq.bench.lines import Cell, Line
from vsbq.bench.published import NOTHING, number, problem_name
from vsbq.bench.tables import NOT_RUN, Summary, summarise
from vsbq.fit import Settings

__all__ = ["STEPS", "ablation"]


def _steps() -> dict[str, Settings]:
    usual = Settings()
    full = replace(Settings.paper(), variational=usual.variational)
    white = replace(full, surrogate=replace(full.surrogate, whiten=True))
    refined = replace(white, refinement=usual.refinement)
    ours = usual.surrogate
    curve = replace(
        refined.surrogate, shaping=ours.shaping, shape_by_level=ours.shape_by_level, corrections=ours.corrections
    )
    shaped = replace(refined, surrogate=curve)
    passed = replace(refined, surrogate=replace(curve, residual_passes=ours.residual_passes))
    return {
        "ablation_full": full,
        "ablation_white": white,
        "ablation_refined": refined,
        "ablation_shaped": shaped,
        "ablation_passed": passed,
        "ablation_unturned": replace(usual, surrogate=replace(ours, whiten=False)),
    }


STEPS: Mapping[str, Settings] = MappingProxyType(_steps())

LABELS = {
    "vsbq_paper": "as printed",
    "ablation_full": "+ full covariance",
    "ablation_white": "+ whitening",
    "ablation_refined": "+ refinement",
    "ablation_shaped": "+ adaptive shaping",
    "ablation_passed": "+ residual passes",
    "ablation_unturned": "default without whitening",
    "vsbq": "default",
}


def ablation(lines: Sequence[Line]) -> str:
    """One row for each step and problem: medians of the three scores."""
    steps = [line for line in lines if line.method in LABELS]
    places = {_place(line.cell) for line in steps if line.method in STEPS}
    seeds = {(_place(line.cell), line.seed) for line in steps if line.method in STEPS}
    # The two ends on the same traces as the steps between them, so that the rows can be compared.
    alike = [line for line in steps if (_place(line.cell), line.seed) in seeds]
    found = [s for s in summarise(alike) if _place(s.cell) in places]
    found.sort(key=lambda s: list(LABELS).index(s.cell.method))
    order = list(dict.fromkeys(_place(s.cell) for s in summarise(alike)))
    parts = []
    for place in order:
        rows = "\n".join(_row(s) for s in found if _place(s.cell) == place)
        noise = f", σ = {place[1]:g}" if place[1] else ""
        head = "| step | ΔLML | MMTV | GsKL | runs |\n| --- | --- | --- | --- | --- |"
        parts.append(f"**{problem_name(place[0])}**{noise}\n\n{head}\n{rows}")
    return "\n\n".join(parts) or NOT_RUN


def _place(cell: Cell) -> tuple[str, float, str, int]:
    return cell.problem, cell.noise_sd, cell.optimiser, cell.evaluations


def _row(summary: Summary) -> str:
    scores = (summary.delta_lml, summary.mmtv, summary.gskl)
    cells = [NOTHING if score is None else number(score.median) for score in scores]
    return f"| {LABELS[summary.cell.method]} | {' | '.join(cells)} | {summary.runs} |"
