"""Figures of the results page: from the lines of runs, and two that are made on the spot.

All return a matplotlib `Figure` made without pyplot, or None where the lines hold nothing to draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from math import exp, log
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.bench.lines import Cell, Line
from vsbq.bench.metrics import MedianInterval
from vsbq.bench.problems import Problem
from vsbq.bench.published import base_name, method_name, optimiser_name, printed_runtime, problem_name, seconds
from vsbq.bench.tables import Summary, runs_alone, stage_seconds, summarise, usual, varied
from vsbq.evaluations import Evaluations
from vsbq.fit import Settings, fit
from vsbq.numerics.shaping import contour_depth, shaping_sd
from vsbq.posterior import Posterior
from vsbq.surrogate import Shaping, SparseGP
from vsbq.trim import Trim
from vsbq.variational import VariationalMixture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "noise_shaping", "posterior_against_truth"]

DPI = 130
WIDTH = 7.6  # inches
FONT = 8.5

#: The scores with the paper's rule of thumb for a usable posterior.
THRESHOLDS = (("delta_lml", "ΔLML", 1.0), ("mmtv", "MMTV", 0.2), ("gskl", "GsKL", 0.125))

# Colours of Okabe and Ito, safe for the colour-blind; markers keep them apart in grey.
BLUE, SKY, GREEN, RED, ORANGE, PINK, GREY = "#0072B2", "#56B4E9", "#009E73", "#D55E00", "#E69F00", "#CC79A7", "#777777"
LOOKS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "vsbq": (BLUE, "o"),
        "vsbq_paper": (ORANGE, "s"),
        "nnr": (RED, "^"),
        "nnr_paper": (RED, "v"),
        "bbvi_mog50": (GREEN, "D"),
        "slice_surrogate": (PINK, "X"),
        "laplace": (GREY, "P"),
    }
)
STAGE_COLOURS = {"trim": GREY, "surrogate": BLUE, "mixture": ORANGE}


def _figure(height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'vsbq[plot]'") from error
    return Figure(figsize=(WIDTH, height), dpi=DPI)


def _tidy(axes: Axes) -> None:
    axes.tick_params(labelsize=FONT - 1, length=2.5, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_linewidth(0.6)


# Scores along an axis


class _Curve(NamedTuple):
    """A method along an axis: where it was run, and what came out there."""

    label: str
    colour: str
    marker: str
    x: list[float]
    cells: list[Summary]


def _curves(summaries: Sequence[Summary], where: Callable[[Cell], float]) -> list[_Curve]:
    curves = []
    for method in dict.fromkeys(s.cell.method for s in summaries):
        cells = sorted((s for s in summaries if s.cell.method == method), key=lambda s: where(s.cell))
        colour, marker = LOOKS.get(method, ("black", "."))
        curves.append(_Curve(method_name(method), colour, marker, [where(s.cell) for s in cells], cells))
    return curves


def _draw_scores(row: Sequence[Axes], curves: Sequence[_Curve], *, titles: bool) -> None:
    """Draw three panels on log axes; the names stand at the right end of the last one."""
    for axes, (score, name, threshold) in zip(row, THRESHOLDS, strict=True):
        axes.set_yscale("log")
        axes.axhline(threshold, color="0.6", ls="-.", lw=0.8, zorder=1)
        for curve in curves:
            _draw_curve(axes, curve, score)
        if titles:
            axes.set_title(name, fontsize=FONT + 0.5)
        _tidy(axes)
        axes.tick_params(which="minor", length=1.2, width=0.4, labelleft=False)
    _name_curves(row[-1], curves, "gskl")


def _draw_curve(axes: Axes, curve: _Curve, score: str) -> None:
    known = [(x, value) for x, cell in zip(curve.x, curve.cells, strict=True) if (value := getattr(cell, score))]
    if not known:
        return
    x = [place for place, _ in known]
    median, low, high = (np.array([value[i] for _, value in known]) for i in range(3))
    style: dict[str, Any] = {"color": curve.colour, "zorder": 3}
    if len(known) == 1:
        axes.errorbar(x, median, [median - low, high - median], fmt=curve.marker, ms=4, lw=1, capsize=2, **style)
        return
    axes.fill_between(x, low, high, color=curve.colour, alpha=0.2, lw=0, zorder=2)
    axes.plot(x, median, marker=curve.marker, ms=3.5, lw=1.4, **style)


def _name_curves(axes: Axes, curves: Sequence[_Curve], score: str) -> None:
    """Write the names beside the last points, moved apart where they would overlap."""
    ends = [(value.median, c) for c in curves if (value := getattr(c.cells[-1], score)) and np.isfinite(value.median)]
    ends.sort(key=lambda end: end[0])
    low, high = axes.get_ylim()
    span = log(high / low)
    height = axes.get_window_extent().height / axes.get_figure().dpi * 72
    places = _spread([log(median / low) / span for median, _ in ends], 1.25 * FONT / height)
    for place, (median, curve) in zip(places, ends, strict=True):
        axes.annotate(
            curve.label,
            xy=(curve.x[-1], median),
            xytext=(1.04, place),
            textcoords="axes fraction",
            color=curve.colour,
            fontsize=FONT,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": curve.colour, "lw": 0.5, "shrinkA": 1, "shrinkB": 3, "alpha": 0.6},
        )


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Move sorted places as little as needed to keep them a gap apart."""
    # Pool neighbours that are too close, as in isotonic regression of the places less their rank times the gap.
    blocks: list[list[float]] = []
    for rank, place in enumerate(places):
        blocks.append([place - rank * gap])
        while len(blocks) > 1 and np.mean(blocks[-2]) > np.mean(blocks[-1]):
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    flat = [float(np.mean(block)) for block in blocks for _ in block]
    return [place + rank * gap for rank, place in enumerate(flat)]


def by_noise(lines: Sequence[Line], problem: str) -> Figure | None:
    """Draw the scores on a behavioural model against the noise (Figures 5 and 6 of the paper)."""
    found = [s for s in usual(summarise(lines)) if base_name(s.cell.problem) == problem]
    if len({s.cell.noise_sd for s in found}) < 2:
        return None
    found = [s for s in found if s.cell.problem == found[0].cell.problem and s.cell.method in LOOKS]
    figure = _figure(2.7)
    row = figure.subplots(1, 3)
    figure.subplots_adjust(left=0.07, right=0.83, bottom=0.17, top=0.9, wspace=0.3)
    _draw_scores(row, _curves(found, lambda c: c.noise_sd), titles=True)
    for axes in row:
        axes.set_xticks(sorted({s.cell.noise_sd for s in found}))
        axes.set_xlabel("noise σ of each evaluation", fontsize=FONT)
    return figure


def sensitivity(lines: Sequence[Line]) -> Figure | None:
    """Draw the scores against the length of the traces (Figures 7 and S4 of the paper)."""
    found = [s for s in varied(summarise(lines), "evaluations") if s.cell.method in LOOKS]
    groups = [list(group) for _, group in groupby(found, key=lambda s: s.cell[:3])]
    if not groups:
        return None
    height = 1.75 * len(groups) + 0.7
    figure = _figure(height)
    rows = figure.subplots(len(groups), 3, squeeze=False)
    figure.subplots_adjust(left=0.07, right=0.83, bottom=0.45 / height, top=1 - 0.5 / height, wspace=0.3, hspace=0.55)
    for number, (row, group) in enumerate(zip(rows, groups, strict=True)):
        _draw_scores(row, _curves(group, lambda c: c.evaluations / 1000), titles=False)
        cell = group[0].cell
        title = f"{problem_name(cell.problem)}, σ = {cell.noise_sd:g}, {optimiser_name(cell.optimiser)}"
        row[0].set_title(title, fontsize=FONT, loc="left", fontweight="bold")
        for axes, (_, name, _) in zip(row, THRESHOLDS, strict=True):
            axes.set_xticks(sorted({s.cell.evaluations / 1000 for s in group}))
            axes.set_ylabel(name, fontsize=FONT, labelpad=1)
            if number == len(groups) - 1:
                axes.set_xlabel("evaluations, thousands", fontsize=FONT)
    return figure


def optimisers(lines: Sequence[Line]) -> Figure | None:
    """Draw the scores on traces of CMA-ES and of BADS side by side (Tables S2, S3 and Figures S2, S3)."""
    both = varied(usual(summarise(lines), None), "optimiser")
    methods = [s.cell.method for s in both]
    found = [s for s in both if s.cell.method == ("vsbq" if "vsbq" in methods else methods[0])]
    if not found:
        return None
    places = list(dict.fromkeys(s.cell[:2] for s in found))
    height = 0.42 * len(places) + 1.05
    figure = _figure(height)
    row = figure.subplots(1, 3, sharey=True)
    figure.subplots_adjust(left=0.25, right=0.98, bottom=0.3 / height, top=1 - 0.55 / height, wspace=0.1)
    looks = dict(zip(dict.fromkeys(s.cell.optimiser for s in found), ((BLUE, "o", -1), (RED, "s", 1)), strict=False))
    for axes, (score, name, threshold) in zip(row, THRESHOLDS, strict=True):
        axes.set_xscale("log")
        axes.axvline(threshold, color="0.6", ls="-.", lw=0.8)
        for s in found:
            colour, marker, side = looks[s.cell.optimiser]
            value: MedianInterval | None = getattr(s, score)
            if value is not None:
                y = places.index(s.cell[:2]) + 0.14 * side
                axes.plot([value.low, value.high], [y, y], color=colour, lw=2.5, alpha=0.35, solid_capstyle="butt")
                axes.plot(value.median, y, marker=marker, color=colour, ms=4.5)
        axes.set_title(name, fontsize=FONT + 0.5)
        _tidy(axes)
        axes.tick_params(which="minor", length=1.2, width=0.4, labelbottom=False)
    row[0].set_yticks(range(len(places)), [f"{problem_name(p)}, σ = {noise:g}" for p, noise in places])
    row[0].set_ylim(len(places) - 0.5, -0.5)
    for number, (optimiser, (colour, marker, _)) in enumerate(looks.items()):
        row[0].plot([], [], marker=marker, color=colour, lw=0, ms=4.5, label=optimiser_name(optimiser))
        del number
    figure.legend(loc="upper left", fontsize=FONT, frameon=False, ncols=1, borderaxespad=0.2)
    return figure
