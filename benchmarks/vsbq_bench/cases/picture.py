"""A picture for pages: what the default says of its error of the log evidence, and how large that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from vsbq_bench.cases.before_now import WITHIN, both_versions, has_plenty, is_noisy
from vsbq_bench.figures import BLUE, DPI, FONT, GREY, ORANGE, RED, WIDTH
from vsbq_bench.lines import Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration_picture"]

SMALLEST = 1e-3  # nats; smaller ones are drawn here
TITLES = ("first version", "now")
GROUPS: Mapping[str, tuple[Callable[[Line], bool], str, str]] = MappingProxyType(
    {
        "noise-free, 300·D evaluations or more": (lambda line: not is_noisy(line) and has_plenty(line), BLUE, "o"),
        "noise-free, fewer": (lambda line: not is_noisy(line) and not has_plenty(line), ORANGE, "s"),
        "noisy": (is_noisy, RED, "^"),
    }
)


def calibration_picture(lines: Sequence[Line], half: str = "validation") -> Any:
    """Return a figure, or None without lines: the error of the log evidence against its stated standard deviation.

    A panel for the first version and one for the version of now, with the runs of a half that both have.
    """
    from matplotlib.figure import Figure

    sides = [[line for line in side if line.delta_lml and line.log_evidence_sd] for side in both_versions(lines, half)]
    if not all(sides):
        return None
    figure = Figure(figsize=(WIDTH, 4.4), dpi=DPI)
    figure.subplots_adjust(left=0.08, right=0.985, top=0.93, bottom=0.17, wspace=0.06)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    ends = _ends([line for side in sides for line in side])
    for axes, title, side in zip(panels, TITLES, sides, strict=True):
        _panel(axes, side, ends)
        axes.set_title(title, fontsize=FONT + 1)
        axes.set_xlabel("stated sd of the log evidence", fontsize=FONT)
    panels[0].set_ylabel("|error| of the log evidence", fontsize=FONT)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(GROUPS), fontsize=FONT, frameon=False)
    return figure


def _panel(axes: Axes, runs: Sequence[Line], ends: tuple[float, float]) -> None:
    x = np.array(ends)
    axes.fill_between(x, ends[0], WITHIN * x, color="0.93", linewidth=0, zorder=0)
    axes.plot(x, x, color=GREY, linewidth=0.8, zorder=1)
    at = 8 * ends[0]
    axes.text(1.3 * at, at, "1 sd", fontsize=FONT - 1, color=GREY, ha="left", va="center")
    axes.text(0.85 * at, WITHIN * at, "2 sd", fontsize=FONT - 1, color=GREY, ha="right", va="center")
    for label, (wanted, colour, marker) in GROUPS.items():
        points = np.array([_point(line) for line in runs if wanted(line)]).reshape(-1, 2)
        axes.scatter(
            points[:, 0], points[:, 1], s=20, c=colour, marker=marker, alpha=0.75, linewidths=0, label=label, zorder=2
        )
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axes.set_box_aspect(1)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(labelsize=FONT - 1, length=2.5, width=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _point(line: Line) -> tuple[float, float]:
    """Where a run is drawn; both numbers are known."""
    return max(line.log_evidence_sd or 0.0, SMALLEST), max(line.delta_lml or 0.0, SMALLEST)


def _ends(runs: Sequence[Line]) -> tuple[float, float]:
    """The same ends for both axes of both panels, so that the diagonal is one."""
    values = [value for line in runs for value in _point(line)]
    return 0.7 * min(values), 1.5 * max(values)
