"""What each part of the default brings: the default without it, in a table beside the algorithm as printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from vsbq.numerics.families import SharedDiagonal
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.published import PublishedGP
from vsbq.steps.surrogate.shaped_data import SparseGP
from vsbq_bench.lines import Cell, Line
from vsbq_bench.published import NOTHING, number, problem_name
from vsbq_bench.tables import NOT_RUN, Summary, summarise

__all__ = ["STEPS", "ablation"]


STEPS: Mapping[str, Steps] = MappingProxyType(
    {
        "ablation_diagonal": Steps(mixture=VariationalMixture(family=SharedDiagonal)),
        "ablation_unturned": Steps(surrogate=SparseGP(whiten=False)),
        "ablation_unrefined": Steps(refinement=None),
        "ablation_unshaped": Steps(surrogate=SparseGP(shaping=PublishedGP().shaping)),
        "ablation_unpassed": Steps(surrogate=SparseGP(residual_passes=0)),
    }
)

LABELS = {
    "vsbq_paper": "as printed",
    "ablation_diagonal": "default with shared diagonal scales",
    "ablation_unturned": "default without whitening",
    "ablation_unrefined": "default without refinement",
    "ablation_unshaped": "default with the printed noise shaping",
    "ablation_unpassed": "default without residual passes",
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
