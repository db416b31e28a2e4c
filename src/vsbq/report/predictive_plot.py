"""Pictures of a posterior predictive check: the data over the replicates, and a histogram of each statistic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.errors import ArgumentError
from vsbq.report.shown import ShownFigure

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('Plots need matplotlib: pip install "vsbq[plot]"') from error

if TYPE_CHECKING:
    from vsbq.analysis.predictive import Predictive

__all__ = ["plot_predictive"]

BLUE, RED, BLACK = "#0072B2", "#b00020", "black"
COLUMNS = 3
FAR = 0.02


def plot_predictive(check: Predictive, *, x: ArrayLike | None = None, figure: Figure | None = None) -> Figure:
    """The data over the band of the replicates, then a histogram for each statistic with the observed one as a line."""
    rows = math.ceil(len(check.names) / COLUMNS)
    banded = check.observed.size > 1
    size = (9.0, 2.0 * rows + (3.2 if banded else 0.4))
    made = figure if figure is not None else ShownFigure(figsize=size, dpi=150, layout="constrained")
    grid = made.add_gridspec(rows + banded, COLUMNS, height_ratios=[1.6] * banded + [1.0] * rows)
    if banded:
        _band(made.add_subplot(grid[0, :]), check, _abscissa(check, x))
    for k, name in enumerate(check.names):
        axes = made.add_subplot(grid[banded + k // COLUMNS, k % COLUMNS])
        _histogram(axes, check.of_replicated[:, k], float(check.of_observed[k]))
        p = float(check.two_sided[k])
        axes.set_title(f"{name}: two-sided p {p:.2g}", fontsize=9, color=RED if p < FAR else BLACK)
    return made


def _abscissa(check: Predictive, x: ArrayLike | None) -> Float[ndarray, " m"]:
    if x is None:
        return np.arange(check.observed.size, dtype=np.float64)
    places = np.asarray(x, dtype=np.float64).reshape(-1)
    if places.size != check.observed.size:
        raise ArgumentError(
            f"x has {places.size} numbers, but there are {check.observed.size} data. Give one for each."
        )
    return places


def _band(axes: Axes, check: Predictive, x: Float[ndarray, " m"]) -> None:
    order = np.argsort(x, kind="stable")
    flat = check.replicated.reshape(len(check.points), -1)[:, order]
    low, lower, middle, upper, high = np.quantile(flat, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    axes.fill_between(x[order], low, high, color=BLUE, alpha=0.2, linewidth=0, label="90 % of the replicates")
    axes.fill_between(x[order], lower, upper, color=BLUE, alpha=0.35, linewidth=0, label="50 %")
    axes.plot(x[order], middle, color=BLUE, linewidth=1, label="median")
    axes.plot(x, check.observed.reshape(-1), "o", color=BLACK, markersize=3, label="observed")
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(f"Posterior predictive check, {len(check.points)} replicates", fontsize=10)


def _histogram(axes: Axes, replicated: Float[ndarray, " n"], observed: float) -> None:
    axes.hist(replicated, bins=min(30, max(8, len(replicated) // 10)), color=BLUE, alpha=0.5)
    axes.axvline(observed, color=BLACK, linewidth=1.5)
    axes.set_yticks([])
    axes.tick_params(labelsize=8)
