"""Pictures of a diagnosis: every finding against its threshold, and what the main ones look like."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS, contour_depth
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Diagnosis, Finding
from vsbq.posterior.diagnosis.distance import marginal_distance, reweighted
from vsbq.posterior.diagnosis.edges import USUAL, Edge, edges
from vsbq.posterior.diagnosis.measures import MOST_CHANGE, UNSURE, Rows, View
from vsbq.report.shown import ShownFigure

try:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
except ImportError as error:
    raise ImportError('Plots need matplotlib: pip install "vsbq[plot]"') from error

__all__ = ["parts", "plot_diagnosis", "surrogate", "under", "unsure", "weights"]

COLOURS = {"trusted": "#1c7a3d", "doubtful": "#e69f00", "rejected": "#b00020"}
BLUE, GREY, ORANGE = "#0072B2", "#7f7f7f", "#cc4c02"
MOST_DOTS = 2000
CELLS = 40
SIZE = (11.5, 7.2)  # inches
BETWEEN = 0.12  # inches around each picture, so that labels of two do not run into each other
TICKS = 8  # points

#: Range of number over threshold that is shown; what is beyond is drawn at its edge.
LEAST_RATIO, MOST_RATIO = 1e-3, 1e2


def plot_diagnosis(posterior: Posterior, *, figure: Figure | None = None) -> Figure:
    """Six pictures: the findings against their thresholds, evaluations under the posterior, the surrogate against the
    evaluations, what the surrogate does not know, what it owes to parts of the evaluations, and the weights.

    A posterior from a compact file shows its findings alone.
    """
    spaced = ConstrainedLayoutEngine(w_pad=BETWEEN, h_pad=BETWEEN)
    made = figure if figure is not None else ShownFigure(figsize=SIZE, dpi=150, layout=spaced)
    diagnosis, view, rows = posterior.diagnose(), View.of(posterior), Rows.of(posterior)
    made.suptitle(f"Verdict: {diagnosis.verdict}", color=COLOURS[diagnosis.verdict], fontweight="bold")
    if view is None or rows is None:
        _findings(made.subplots(), diagnosis)
        return made
    axes = made.subplots(2, 3)
    _findings(axes[0, 0], diagnosis)
    found = edges(view)
    worst = max(found, key=lambda edge: (edge.cut, edge.height))
    under(axes[0, 1], posterior, view, rows, [edge for edge in found if edge.parameter == worst.parameter])
    surrogate(axes[0, 2], view, rows)
    unsure(axes[1, 0], view)
    parts(axes[1, 1], posterior, view)
    weights(axes[1, 2], posterior)
    for each in made.axes:
        each.tick_params(labelsize=TICKS)
    return made


def _findings(axes: Axes, diagnosis: Diagnosis) -> None:
    """A bar for each finding: how far its number is on the way to the threshold of a doubt."""
    shown = [finding for finding in diagnosis.findings if finding.number is not None and finding.threshold]
    for place, finding in enumerate(reversed(shown)):
        ratio = float(np.clip(_ratio(finding), LEAST_RATIO, MOST_RATIO))
        axes.barh(place, ratio - LEAST_RATIO, left=LEAST_RATIO, color=COLOURS[finding.level], height=0.7)
    axes.axvline(1.0, color="black", linewidth=1)
    axes.set_yticks(range(len(shown)), [finding.name for finding in reversed(shown)], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(LEAST_RATIO, MOST_RATIO)
    axes.set_xlabel("number / threshold; right of the line is a reason to doubt", fontsize=8)
    axes.set_title("Findings", fontsize=10)


def _ratio(finding: Finding) -> float:
    """Above one is bad; small effective shares are."""
    assert finding.number is not None
    assert finding.threshold is not None
    ratio = max(finding.number, 1e-12) / finding.threshold
    return 1.0 / ratio if finding.name == "mixture" else ratio


def under(axes: Axes, posterior: Posterior, view: View, rows: Rows, sides: list[Edge]) -> None:
    """Evaluations under the marginal that is nearest to a cut, and where belief ends."""
    i = sides[0].parameter
    draws = posterior.space.inverse(view.plain)[:, i]
    axes.hist(draws, CELLS, density=True, color=BLUE, alpha=0.35, label="posterior")
    plain = view.model.space.to_plain(rows.points)
    depth = contour_depth(SURROUNDINGS, posterior.dimension)
    level = np.clip((rows.values - rows.values.max()) / depth, -1.0, 0.0)
    some = np.linspace(0, len(level) - 1, min(MOST_DOTS, len(level))).astype(int)
    right = axes.twinx()
    right.scatter(posterior.space.inverse(plain)[some, i], depth * level[some], s=4, color=GREY, linewidths=0)
    right.set_ylabel("evaluations: nats below the best", fontsize=8)
    for edge in sides:
        if edge.cut > USUAL:
            centre = np.zeros((1, posterior.dimension))
            centre[0, i] = edge.end
            axes.axvline(posterior.space.inverse(centre)[0, i], color=COLOURS["rejected"], linestyle="--")
    low, high = np.quantile(draws, [0.0, 1.0])
    axes.set_xlim(low - 0.3 * (high - low), high + 0.3 * (high - low))
    cut = "\n(dashed: it is cut off there)" if any(edge.cut > USUAL for edge in sides) else ""
    axes.set_xlabel(f"{posterior.names[i]}{cut}", fontsize=8)
    axes.set_yticks([])
    axes.set_title("Evaluations under the posterior", fontsize=10)


def surrogate(axes: Axes, view: View, rows: Rows) -> None:
    """Values that the surrogate predicts against those that were evaluated."""
    near = rows.under(view.model, SURROUNDINGS)
    some = near.take(np.linspace(0, len(near.values) - 1, min(MOST_DOTS, len(near.values))).astype(int))
    mean, top = view.model.mean(some.points), float(near.values.max())
    axes.scatter(some.values - top, mean - top, s=5, color=BLUE, linewidths=0, alpha=0.6)
    ends = np.array([min((some.values - top).min(), (mean - top).min()), 0.0])
    axes.plot(ends, ends, color="black", linewidth=0.8)
    axes.axvspan(-contour_depth(POSTERIOR, some.points.shape[1]), 0, color=GREY, alpha=0.12, linewidth=0)
    axes.set_xlabel("evaluated, nats below the best (grey: posterior)", fontsize=8)
    axes.set_ylabel("surrogate, nats below the best", fontsize=8)
    axes.set_title("Surrogate against evaluations", fontsize=10)


def unsure(axes: Axes, view: View) -> None:
    """What the surrogate does not know under the posterior."""
    sd = np.sqrt(view.model.variance(view.draws))
    axes.hist(np.clip(sd, 1e-3, 10.0), np.geomspace(1e-3, 10.0, CELLS).tolist(), color=BLUE, alpha=0.6)
    axes.axvline(UNSURE, color=COLOURS["doubtful"])
    axes.set_xscale("log")
    share = np.mean(sd > UNSURE)
    axes.set_xlabel(f"sd at draws, nats ({share:.0%} of the mass: above {UNSURE:g})", fontsize=8)
    axes.set_yticks([])
    axes.set_title("Uncertainty of the surrogate", fontsize=10)


def parts(axes: Axes, posterior: Posterior, view: View) -> None:
    """The marginal that parts of the evaluations change most: without each block, and by each of the surrogates."""
    means = view.model.means(view.draws)
    sisters = [reweighted(mean - means.mean(axis=0)) for mean in means] if len(means) > 1 else []
    blocks = [reweighted(np.minimum(change, MOST_CHANGE)) for change in view.model.changes(view.draws)]
    even = np.full(len(view.draws), 1.0 / len(view.draws))
    moved = [
        max((marginal_distance(view.plain[:, [i]], even, one) for one in (*sisters, *blocks)), default=0.0)
        for i in range(posterior.dimension)
    ]
    i = int(np.argmax(moved))
    x = posterior.space.inverse(view.plain)[:, i]
    low, high = (float(end) for end in np.quantile(x, [0.002, 0.998]))
    cells = np.linspace(low, high, CELLS + 1)
    for weights in blocks:
        _curve(axes, x, weights, cells, GREY, 0.8)
    for weights in sisters:
        _curve(axes, x, weights, cells, ORANGE, 1.4)
    _curve(axes, x, even, cells, BLUE, 2.0)
    axes.set_xlabel(f"{posterior.names[i]}\n(grey: without a part; orange: by one surrogate)", fontsize=8)
    axes.set_yticks([])
    axes.set_title("Without parts of the evaluations", fontsize=10)


def _curve(
    axes: Axes,
    x: Float[ndarray, " n"],
    weights: Float[ndarray, " n"],
    cells: Float[ndarray, " c"],
    colour: str,
    width: float,
) -> None:
    height, _ = np.histogram(x, cells, weights=weights)
    axes.plot((cells[1:] + cells[:-1]) / 2, height, color=colour, linewidth=width)


def weights(axes: Axes, posterior: Posterior) -> None:
    """The share of the mass that the heaviest draws hold."""
    axes.set_title("Weights of the draws", fontsize=10)
    if posterior.refined is None:
        axes.text(0.5, 0.5, "not refined", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    weights = np.sort(posterior.refined.weights[posterior.refined.weights > 0])[::-1]
    share = np.arange(1, len(weights) + 1) / len(weights)
    axes.plot(share, share, color="black", linewidth=0.8)
    axes.plot(share, np.cumsum(weights), color=BLUE, linewidth=2)
    axes.set_xlabel("share of the draws, heaviest first (black: equal)", fontsize=8)
    axes.set_ylabel("share of the mass", fontsize=8)
    axes.set_ylim(0, 1.02)
