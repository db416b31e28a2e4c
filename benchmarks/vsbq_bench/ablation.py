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

__all__ = ["LABELS", "STEPS", "ablation"]


STEPS: Mapping[str, Steps] = MappingProxyType(
    {
        "ablation_diagonal": Steps(mixture=VariationalMixture(family=SharedDiagonal)),
        "ablation_unturned": Steps(surrogate=SparseGP(turn=False)),
        "ablation_unrefined": Steps(refinement=None),
        "ablation_unshaped": Steps(surrogate=SparseGP(shaping=PublishedGP().shaping)),
        "ablation_unpassed": Steps(surrogate=SparseGP(residual_passes=0)),
        "ablation_alone": Steps(surrogate=SparseGP(sisters=0)),
    }
)

LABELS = {
    "vsbq": "default",
    "ablation_diagonal": "with shared diagonal scales",
    "ablation_unturned": "without whitening",
    "ablation_unrefined": "without refinement",
    "ablation_unshaped": "with the printed noise shaping",
    "ablation_unpassed": "without residual passes",
    "ablation_alone": "without sisters",
    "vsbq_paper": "as printed",
}


def ablation(lines: Sequence[Line]) -> str:
    """Medians of the three scores, a table for each problem: the default, the default without a part, as printed."""
    known = [line for line in lines if line.method in LABELS]
    traces = {(_place(line.cell), line.seed) for line in known if line.method in STEPS}
    # The default and the printed algorithm on the same traces as what is between them, so that rows can be compared.
    found = summarise(line for line in known if (_place(line.cell), line.seed) in traces)
    places = dict.fromkeys(_place(summary.cell) for summary in found)
    return "\n\n".join(_table([s for s in found if _place(s.cell) == place]) for place in places) or NOT_RUN


def _table(summaries: Sequence[Summary]) -> str:
    cell = summaries[0].cell
    noise = f", σ = {cell.noise_sd:g}" if cell.noise_sd else ""
    head = "| version | ΔLML | MMTV | GsKL | runs |\n| --- | --- | --- | --- | --- |"
    ordered = sorted(summaries, key=lambda summary: list(LABELS).index(summary.cell.method))
    return "\n".join([f"**{problem_name(cell.problem)}**{noise}\n\n{head}", *map(_row, ordered)])


def _place(cell: Cell) -> tuple[str, float, str, int]:
    return cell.problem, cell.noise_sd, cell.optimiser, cell.evaluations


def _row(summary: Summary) -> str:
    scores = (summary.delta_lml, summary.mmtv, summary.gskl)
    cells = [NOTHING if score is None else number(score.median) for score in scores]
    return f"| {LABELS[summary.cell.method]} | {' | '.join(cells)} | {summary.runs} |"
