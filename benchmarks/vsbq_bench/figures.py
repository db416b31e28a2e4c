"""Figures of the results page: from the lines of runs, and two that are made on the spot.

All return a matplotlib `Figure` made without pyplot, or None where the lines hold nothing to draw.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from math import ceil, floor, log, log10
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.errors import VsbqWarning
from vsbq.fit import fit
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.shaping import shaping_sd
from vsbq.posterior import Posterior
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.published import PublishedGP
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Shaping
from vsbq_bench.lines import Cell, Line
from vsbq_bench.metrics import MedianInterval
from vsbq_bench.problems import Problem
from vsbq_bench.published import base_name, method_name, optimiser_name, printed_runtime, problem_name, seconds
from vsbq_bench.tables import BEHAVIOUR, Summary, runs_alone, stage_seconds, summarise, usual, varied

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DPI", "by_noise", "noise_shaping", "optimisers", "posterior_against_truth", "runtime", "sensitivity"]

DPI = 130
WIDTH = 7.6  # inches
FONT = 8.5
FARTHEST = 100.0  # axes end at this multiple of a threshold; what is worse is just off

#: The scores with the paper's rule of thumb for a usable posterior.
THRESHOLDS = (("delta_lml", "ΔLML", 1.0), ("mmtv", "MMTV", 0.2), ("gskl", "GsKL", 0.125))

# Colours of Okabe and Ito, safe for the colour-blind; markers keep them apart in grey.
BLUE, GREEN, RED, ORANGE, PINK, GREY = "#0072B2", "#009E73", "#D55E00", "#E69F00", "#CC79A7", "#777777"
LOOKS = {
    "vsbq": (BLUE, "o"),
    "vsbq_paper": (ORANGE, "s"),
    "nnr": (RED, "^"),
    "nnr_paper": (RED, "v"),
    "bbvi_mog50": (GREEN, "D"),
    "slice_surrogate": (PINK, "X"),
    "laplace": (GREY, "P"),
}
SAND = "#d9a066"
STAGE_COLOURS = {"trim": GREY, "surrogate": BLUE, "mixture": ORANGE, "refinement": GREEN}


def _figure(height: float, width: float = WIDTH) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=DPI)


def _tidy(axes: Axes) -> None:
    axes.tick_params(labelsize=FONT - 1, length=2.5, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_linewidth(0.6)


def _words(axes: Axes, title: str, x: str, y: str = "") -> None:
    axes.set_title(title, fontsize=FONT)
    axes.set_xlabel(x, fontsize=FONT, labelpad=1)
    axes.set_ylabel(y, fontsize=FONT, labelpad=1)


def _log_ticks(axis: Any, low: float, high: float) -> None:
    """Label powers of ten, and 2 and 5 times them where there are few."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    decades = log10(high / low)
    steps = (1, 2, 5) if decades < 1.7 else (1,)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1, 1 if decades < 5 else ceil(decades / 4))
    ticks = [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(lambda value, _: f"{value:g}" if 1e-4 < value < 1e4 else f"$10^{{{round(log10(value))}}}$")
    axis.set_minor_formatter(NullFormatter())
    axis.set_tick_params(which="minor", length=1.2, width=0.4)


def _place(cell: Cell) -> str:
    name = problem_name(cell.problem).replace(" causal inference", "")
    return f"{name}, σ = {cell.noise_sd:g}" if base_name(cell.problem) in BEHAVIOUR or cell.noise_sd > 0 else name


# Scores along an axis


class _Curve(NamedTuple):
    """A method along an axis: its name and look, where it was run, and what came out there."""

    label: str
    colour: str
    marker: str
    x: list[float]
    cells: list[Summary]


def _curves(summaries: Sequence[Summary], where: Callable[[Cell], float]) -> list[_Curve]:
    curves = []
    for method in dict.fromkeys(s.cell.method for s in summaries):
        cells = sorted((s for s in summaries if s.cell.method == method), key=lambda s: where(s.cell))
        curves.append(_Curve(method_name(method), *LOOKS[method], [where(s.cell) for s in cells], cells))
    return curves


def _draw_scores(row: Sequence[Axes], curves: Sequence[_Curve]) -> None:
    """Draw three panels on log axes; the names stand at the right end of the last one."""
    for axes, (score, name, threshold) in zip(row, THRESHOLDS, strict=True):
        axes.set_yscale("log")
        axes.axhline(threshold, color="0.6", ls="-.", lw=0.8, zorder=1)
        for curve in curves:
            _draw_curve(axes, curve, score)
        axes.set_ylabel(name, fontsize=FONT, labelpad=1)
        axes.set_ylim(top=min(axes.get_ylim()[1], FARTHEST * threshold))
        _tidy(axes)
        _log_ticks(axes.yaxis, *axes.get_ylim())
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
    """Write the names at the height of the last points, moved apart where they would overlap."""
    ends = [(value.median, c) for c in curves if (value := getattr(c.cells[-1], score)) and np.isfinite(value.median)]
    ends.sort(key=lambda end: end[0])
    low, high = axes.get_ylim()
    shares = [min(log(median / low) / log(high / low), 1.0) for median, _ in ends]
    places = _spread(shares, 1.3 * FONT / (axes.bbox.height / DPI * 72))
    for y, (_, curve) in zip(places, ends, strict=True):
        style: dict[str, Any] = {"color": curve.colour, "transform": axes.transAxes, "clip_on": False}
        axes.plot(1.07, y, marker=curve.marker, ms=4, **style)
        axes.text(1.12, y, curve.label, fontsize=FONT, va="center", **style)


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
    found = [s for s in usual(summarise(lines)) if base_name(s.cell.problem) == problem and s.cell.method in LOOKS]
    groups = [list(group) for _, group in groupby(found, key=lambda s: s.cell.problem)]
    groups = [group for group in groups if len({s.cell.noise_sd for s in group}) > 1]
    return _rows_of_panels(groups, lambda c: c.noise_sd, lambda c: problem_name(c.problem), "noise σ of an evaluation")


def sensitivity(lines: Sequence[Line]) -> Figure | None:
    """Draw the scores against the length of the traces (Figures 7 and S4 of the paper)."""
    found = [s for s in varied(summarise(lines), "evaluations") if s.cell.method in LOOKS]
    groups = [list(group) for _, group in groupby(found, key=lambda s: s.cell[:3])]
    return _rows_of_panels(
        groups,
        lambda c: c.evaluations / 1000,
        lambda c: f"{_place(c)}, traces of {optimiser_name(c.optimiser)}",
        "evaluations, thousands",
    )


def _rows_of_panels(
    groups: Sequence[Sequence[Summary]], where: Callable[[Cell], float], title: Callable[[Cell], str], axis: str
) -> Figure | None:
    """Draw three panels for each group, one for each score."""
    if not groups:
        return None
    height = 1.85 * len(groups) + 0.75
    figure = _figure(height)
    rows = figure.subplots(len(groups), 3, squeeze=False)
    room = {"left": 0.08, "right": 0.82, "bottom": 0.45 / height, "top": 1 - 0.3 / height}
    figure.subplots_adjust(**room, wspace=0.36, hspace=0.5)
    for row, group in zip(rows, groups, strict=True):
        _draw_scores(row, _curves(group, where))
        row[0].set_title(title(group[0].cell), fontsize=FONT, loc="left", fontweight="bold")
        for axes in row:
            axes.set_xticks(sorted({where(s.cell) for s in group}))
    for axes in rows[-1]:
        axes.set_xlabel(axis, fontsize=FONT)
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
    figure.subplots_adjust(left=0.24, right=0.98, bottom=0.3 / height, top=1 - 0.55 / height, wspace=0.1)
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
        _log_ticks(axes.xaxis, *axes.get_xlim())
    row[0].set_yticks(range(len(places)), list(dict.fromkeys(_place(s.cell) for s in found)))
    row[0].set_ylim(len(places) - 0.5, -0.5)
    for optimiser, (colour, marker, _) in looks.items():
        row[0].plot([], [], marker=marker, color=colour, lw=0, ms=4.5, label=optimiser_name(optimiser))
    figure.legend(loc="upper left", fontsize=FONT, frameon=False, borderaxespad=0.2)
    return figure


def runtime(lines: Sequence[Line]) -> Figure | None:
    """Draw the time of each stage of this package's fits as stacked bars, with the paper's time in words."""
    spent = {cell: stage_seconds(runs) for cell, runs in runs_alone(lines).items()}
    spent = {cell: stages for cell, stages in spent.items() if cell.method in ("vsbq", "vsbq_paper")}
    if not spent:
        return None
    height = 0.27 * len(spent) + 0.95
    figure = _figure(height)
    axes = figure.subplots()
    figure.subplots_adjust(left=0.33, right=0.78, bottom=0.42 / height, top=1 - 0.32 / height)
    named = list(dict.fromkeys([*STAGE_COLOURS, *(name for stages in spent.values() for name in stages)]))
    for y, (cell, stages) in enumerate(spent.items()):
        start = 0.0
        for name in named:
            spell, colour = stages.get(name, 0.0), STAGE_COLOURS.get(name, SAND)
            axes.barh(y, spell, left=start, height=0.66, color=colour, label=name if y == 0 else None)
            start += spell
        paper = printed_runtime(base_name(cell.problem), cell.method)
        beside = f"  (paper: {paper.cpu.split()[0]} s)" if paper else ""
        axes.annotate(f" {seconds(start)} s{beside}", (start, y), fontsize=FONT - 1, va="center", annotation_clip=False)
    axes.set_yticks(range(len(spent)), [f"{_place(cell)}: {method_name(cell.method)}" for cell in spent])
    axes.set_ylim(len(spent) - 0.4, -0.6)
    axes.set_xlabel("seconds", fontsize=FONT)
    _tidy(axes)
    figure.legend(loc="upper center", ncols=len(named), fontsize=FONT, frameon=False, borderaxespad=0.1)
    return figure


# Noise shaping, made on the spot

SEEN = np.linspace(-6.0, 6.0, 201)
PRINTED = PublishedGP()


def _rippled(x: Float[ndarray, " n"]) -> Float[ndarray, " n"]:
    """Two bumps of mass 0.6 and 0.4, and a rugged log density where there is no mass to speak of."""
    bumps = [log(mass / sd) - 0.5 * ((x - at) / sd) ** 2 for mass, at, sd in ((0.6, -1.0, 0.35), (0.4, 0.6, 0.55))]
    far = 1 - np.exp(-((np.maximum(np.abs(x) - 2.5, 0.0) / 1.5) ** 2))
    result: ndarray = np.logaddexp(*bumps) - 0.5 * log(2 * np.pi) + 20 * np.sin(2 * x) * far
    return result


def _few_inducing_points(shaping: Shaping) -> Posterior:
    """Fit the rippled density with the package's own steps and ten inducing points."""
    few = replace(PRINTED, shaping=shaping, inducing_per_dimension=10)
    quick = VariationalMixture(adapt=((5_000, 15), (10_000, 15)), then=(256, 30), elbo_draws=10_000)
    seen = Evaluations(SEEN[:, None], _rippled(SEEN))
    with warnings.catch_warnings():  # what is wrong with one of them is what the figure shows
        warnings.simplefilter("ignore", VsbqWarning)
        return fit(seen, settings=Steps(surrogate=few, mixture=quick), rng=0, progress=False)


def noise_shaping() -> Figure:
    """Draw what noise shaping does for a sparse GP with few inducing points (Figure 3 of the paper)."""
    on = PRINTED.shaping
    off = replace(on, sd_min=1e-6, sd_med=1e-6, slope=0.0)
    figure = _figure(4.1)
    grid = figure.subplots(2, 3)
    figure.subplots_adjust(left=0.07, right=0.99, bottom=0.1, top=0.93, wspace=0.28, hspace=0.45)
    x = np.linspace(SEEN[0], SEEN[-1], 601)
    grid[0, 0].plot(x, np.exp(_rippled(x)), "k", lw=1.2)
    grid[0, 0].plot(SEEN, np.exp(_rippled(SEEN)), "o", ms=1.8, color=GREY)
    _words(grid[0, 0], "density and evaluations", "x")
    below = np.linspace(0, 80, 400)
    sd = shaping_sd(below, contour_depth(on.depth, 1), on.sd_min, on.sd_med, on.slope)
    grid[1, 0].plot(below, sd, color=GREEN, lw=1.6)
    _words(grid[1, 0], "shaping noise (Eq. 27)", "Δy, nats below the top", "σ")
    for row, shaping, word in ((grid[0], off, "without"), (grid[1], on, "with")):
        _draw_shaped(row[1:], x, _few_inducing_points(shaping), word)
    for axes in grid.flat:
        _tidy(axes)
        axes.set_xticks([-5, 0, 5] if axes is not grid[1, 0] else [0, 20, 40, 60, 80])
    return figure


def _draw_shaped(row: Sequence[Axes], x: Float[ndarray, " n"], post: Posterior, word: str) -> None:
    assert isinstance(post.surrogate, Surrogate)  # which has inducing points
    inducing = post.surrogate.space.inverse(post.surrogate.inducing)
    log_density, density = row
    log_density.plot(x, _rippled(x), "k", lw=1.0)
    log_density.plot(x, post.surrogate.predict(x[:, None]).mean, color=ORANGE, lw=1.8)
    log_density.plot(inducing[:, 0], np.full(len(inducing), -92.0), "^", color=RED, ms=4)
    log_density.set_ylim(-98, 12)
    _words(log_density, f"log density: sparse GP {word} shaping", "x")
    truth, found = np.exp(_rippled(x)), post.pdf(x[:, None])
    density.fill_between(x, found, color=BLUE, alpha=0.15, lw=0)
    density.plot(x, truth, "k", lw=1.0)
    density.plot(x, found, "--", color=BLUE, lw=1.6)
    density.set_ylim(0, 1.1 * max(truth.max(), found.max()))
    distance = 0.5 * float(np.trapezoid(np.abs(found - truth), x))
    _words(density, f"posterior {word} shaping", f"x;  total variation {distance:.2f}")
    words = (("truth", "black"), ("sparse GP", ORANGE), ("inducing points", RED))
    for height, (what, shade) in zip((-34, -50, -84), words, strict=True):
        log_density.text(0, height, what, color=shade, fontsize=FONT - 1, ha="center")
    for share, (what, shade) in zip((0.9, 0.8), (("truth", "black"), ("posterior", BLUE)), strict=True):
        density.text(0.03, share, what, color=shade, fontsize=FONT - 1, transform=density.transAxes)


# Posterior against truth


def posterior_against_truth(
    problem: Problem, draws: Float[ndarray, "n d"], trace_points: Float[ndarray, "m d"] | None = None
) -> Figure:
    """Draw marginals and pairs of posterior draws (blue) over exact ones (black) and the optimiser's evaluations."""
    from vsbq.report.densities import middles, smoothed, surface_of_draws

    truth = problem.draw(20_000, np.random.default_rng(0))
    d = problem.dimension
    side = min(WIDTH, 1.3 * d + 1.0)
    figure = _figure(side, side)
    grid: Any = figure.subplots(d, d, squeeze=False)
    figure.subplots_adjust(0.55 / side, 0.55 / side, 0.985, 0.985, wspace=0.06, hspace=0.06)
    low, high = np.quantile(np.concatenate([truth, draws]), [0.001, 0.999], axis=0)
    edges = [np.linspace(a - 0.05 * (b - a), b + 0.05 * (b - a), 97) for a, b in zip(low, high, strict=True)]
    layers = ((draws, BLUE, 1.8), (truth, "black", 0.8))
    for i, j in np.ndindex(d, d):
        axes = grid[i, j]
        if j > i:
            axes.set_visible(False)
            continue
        for points, colour, width in layers:
            if i == j:
                axes.plot(middles(edges[i]), smoothed(points[:, [i]], (edges[i],)), color=colour, lw=width)
                continue
            density, levels = surface_of_draws((j, i), points, (edges[j], edges[i]))
            if levels[0] < levels[1]:
                axes.contour(middles(edges[j]), middles(edges[i]), density.T, levels, colors=[colour], linewidths=width)
        if i != j and trace_points is not None:
            axes.plot(trace_points[:, j], trace_points[:, i], ",", color=SAND, zorder=0)
        _label_pair(axes, problem, edges, i, j)
    words = [("posterior", BLUE), ("truth", "black")] + [("evaluations", SAND)] * (trace_points is not None)
    for line, (word, colour) in enumerate(words):
        figure.text(0.98, 0.97 - 0.2 / side * line, word, color=colour, ha="right", va="top", fontsize=FONT + 1)
    return figure


def _label_pair(axes: Axes, problem: Problem, edges: list[Float[ndarray, " e"]], i: int, j: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(edges[j][0], edges[j][-1])
    axes.xaxis.set_major_locator(MaxNLocator(3, prune="both"))
    axes.tick_params(labelsize=FONT - 2, length=2, width=0.5, labelbottom=i == problem.dimension - 1, labelleft=j == 0)
    axes.spines[:].set_linewidth(0.6)
    if i == problem.dimension - 1:
        axes.set_xlabel(problem.names[j], fontsize=FONT)
    if i == j:
        axes.set_yticks([])
        axes.set_ylim(bottom=0)
        return
    axes.set_ylim(edges[i][0], edges[i][-1])
    axes.yaxis.set_major_locator(MaxNLocator(3, prune="both"))
    if j == 0:
        axes.set_ylabel(problem.names[i], fontsize=FONT)
