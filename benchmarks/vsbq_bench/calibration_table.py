"""How often the true log evidence lies within two standard deviations of the estimate, over all runs of the default."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from vsbq_bench.lines import Line
from vsbq_bench.published import number, problem_name
from vsbq_bench.tables import NOT_RUN, distinct

__all__ = ["calibration"]

HEAD = "| problem | σ | runs | within 1 sd | within 2 sd | median error | median sd |\n" + "| --- " * 7 + "|"


def calibration(lines: Sequence[Line]) -> str:
    """One row for each problem and level of noise, and one for all of them together."""
    runs = [line for line in distinct(lines) if line.method == "vsbq" and line.error is None]
    runs = [line for line in runs if line.log_evidence_sd and line.delta_lml is not None]
    if not runs:
        return NOT_RUN
    groups = [list(group) for _, group in groupby(runs, key=lambda line: (line.problem, line.noise_sd))]
    rows = [_row(problem_name(group[0].problem), f"{group[0].noise_sd:g}", group) for group in groups]
    return "\n".join([HEAD, *rows, _row("**all**", "", runs)])


def _row(name: str, noise: str, runs: Sequence[Line]) -> str:
    errors = np.array([line.delta_lml for line in runs], dtype=float)
    sds = np.array([line.log_evidence_sd for line in runs], dtype=float)
    within = [f"{np.mean(errors <= times * sds):.0%}".replace("%", " %") for times in (1, 2)]
    return (
        f"| {name} | {noise} | {len(runs)} | {' | '.join(within)} | {number(float(np.median(errors)))} | "
        f"{number(float(np.median(sds)))} |"
    )
