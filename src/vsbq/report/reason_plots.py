"""One plot for one finding of a diagnosis: what the check saw, large enough to be read on a page."""

from __future__ import annotations

import numpy as np

from vsbq.history import ERRORS, Evidence
from vsbq.numerics.contours import SURROUNDINGS, contour_depth
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import THRESHOLDS, Finding
from vsbq.posterior.diagnosis.edges import edges
from vsbq.posterior.diagnosis.measures import Rows, View, mode_counts
from vsbq.report import diagnosis_plot as overview
from vsbq.report.diagnosis_plot import BLUE, COLOURS, GREY, ORANGE
from vsbq.report.shown import ShownFigure

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('Plots need matplotlib: pip install "vsbq[plot]"') from error

__all__ = ["plot_reason"]

SIZE = (5.6, 3.6)  # inches
LABELS, TICKS = 10, 9  # points
AROUND = 2000  # points in and around the posterior
LINEAR = 100.0  # nats, two powers of ten: what a linear axis still shows
WIDEST = 6.0  # standard deviations from the middle of the posterior
MOST_PARTS = 6  # of the error of the evidence


def plot_reason(posterior: Posterior, finding: Finding) -> Figure:
    """What one finding is about; ValueError if it is about nothing that can be drawn."""
    view, rows = View.of(posterior), Rows.of(posterior)
    if view is None or rows is None:
        raise ValueError("the file holds no surrogate or no evaluations")
    figure = ShownFigure(figsize=SIZE, dpi=150, layout="constrained")
    with rc_context({"xtick.labelsize": TICKS, "ytick.labelsize": TICKS}):
        axes = figure.subplots()
        _draw(axes, finding, posterior, view, rows)
    axes.set_title("")  # the page says it
    for each in figure.axes:
        each.xaxis.label.set_fontsize(LABELS)
        each.yaxis.label.set_fontsize(LABELS)
    return figure


def _draw(axes: Axes, finding: Finding, posterior: Posterior, view: View, rows: Rows) -> None:
    match finding.name:
        case "input":
            _in_order(axes, posterior)
        case "cut off" | "beyond" | "too few":
            _one_marginal(axes, posterior, view, rows)
        case "support" | "around":
            _around(axes, view, rows)
        case "unsure" | "open":
            overview.unsure(axes, view)
        case "surrogate":
            _blocks(axes, posterior, view, rows, finding)
        case "ignored" | "noise":
            overview.surrogate(axes, view, rows)
        case "held out" | "sisters":
            overview.parts(axes, posterior, view)
        case "mixture":
            overview.weights(axes, posterior)
        case "bound":
            _both_bounds(axes, posterior)
        case "evidence":
            _errors(axes, posterior)
        case "modes":
            _regions(axes, posterior, view, rows)
        case "together":
            _shares(axes, posterior)
        case _:
            raise ValueError(f"there is no picture of '{finding.name}'")


def _shares(axes: Axes, posterior: Posterior) -> None:
    """How far each number is on its way to a doubt."""
    shares = THRESHOLDS.shares({finding.name: finding.number for finding in posterior.diagnose().findings})
    names = sorted((name for name in shares if shares[name] > 0), key=lambda name: shares[name])
    axes.barh(names, [shares[name] for name in names], color=BLUE)
    axes.set_xlabel("share of what a trusted fit may have; the sum counts")


def _in_order(axes: Axes, posterior: Posterior) -> None:
    """The log densities row by row."""
    assert posterior.evaluations is not None
    values = posterior.evaluations.log_density
    finite = np.flatnonzero(np.isfinite(values))
    below = values[finite] - values[finite].max()
    axes.scatter(finite, below, s=4, color=GREY, linewidths=0)
    if below.min() < -LINEAR:
        axes.set_yscale("symlog", linthresh=1.0)
    axes.set_xlabel("row", fontsize=8)
    axes.set_ylabel("log density, nats below the best", fontsize=8)


def _one_marginal(axes: Axes, posterior: Posterior, view: View, rows: Rows) -> None:
    """The parameter that is nearest to a cut."""
    found = edges(view)
    worst = max(found, key=lambda edge: (edge.cut, edge.height))
    overview.under(axes, posterior, view, rows, [edge for edge in found if edge.parameter == worst.parameter])


def _around(axes: Axes, view: View, rows: Rows) -> None:
    """The surrogate's height in and around the posterior, and where it is not trusted."""
    rng, centre = np.random.default_rng(0), view.plain.mean(axis=0)
    root = np.linalg.cholesky(np.atleast_2d(np.cov(view.plain, rowvar=False)))
    directions = rng.normal(size=(AROUND, len(centre)))
    directions *= rng.uniform(0.0, WIDEST, (AROUND, 1)) / np.linalg.norm(directions, axis=1, keepdims=True)
    plain = np.concatenate([view.plain, centre + directions @ root.T])
    distance = np.linalg.norm(np.linalg.solve(root, (plain - centre).T), axis=0)
    u = view.model.space.from_plain(plain)
    believed, depth = view.believed(u), contour_depth(SURROUNDINGS, len(centre))
    above = np.clip(view.model.mean(u) - rows.values.max(), -2 * depth, depth)
    axes.axhline(0.0, color="black", linewidth=0.8)
    for chosen, colour, label in ((believed, BLUE, "trusted"), (~believed, ORANGE, "not trusted")):
        axes.scatter(distance[chosen], above[chosen], s=7, color=colour, linewidths=0, alpha=0.7, label=label)
    axes.set_xlim(0.0, WIDEST)
    axes.set_xlabel("distance from the middle of the posterior, in its standard deviations", fontsize=8)
    axes.set_ylabel("surrogate, nats above the best evaluation", fontsize=8)
    axes.legend(fontsize=8, loc="lower left", markerscale=2)


def _blocks(axes: Axes, posterior: Posterior, view: View, rows: Rows, finding: Finding) -> None:
    """Errors of held-out blocks; without them, the surrogate against the evaluations."""
    errors = () if posterior.history is None else posterior.history.surrogate.held_out
    if not errors:
        overview.surrogate(axes, view, rows)
        return
    axes.bar(range(1, len(errors) + 1), errors, color=BLUE)
    if finding.threshold is not None:
        axes.axhline(finding.threshold, color=COLOURS[finding.level])
    axes.set_xlabel("block of evaluations that was held out", fontsize=8)
    axes.set_ylabel("error, in stated standard deviations", fontsize=8)


def _both_bounds(axes: Axes, posterior: Posterior) -> None:
    """ELBO and log evidence with their standard deviations."""
    values = [posterior.elbo, posterior.log_evidence]
    sds = np.nan_to_num([posterior.elbo_sd, posterior.log_evidence_sd], posinf=0.0)
    axes.errorbar(values, [1, 0], xerr=sds, fmt="o", color=BLUE, capsize=4)
    axes.set_yticks([1, 0], ["ELBO", "log evidence"])
    axes.set_ylim(-0.6, 1.6)


def _errors(axes: Axes, posterior: Posterior) -> None:
    """The largest parts of the error of the log evidence."""
    parts = posterior.evidence_parts
    if parts is None:
        raise ValueError("the parts of the error are not known")
    named = sorted(zip(Evidence._fields[1:], parts[1:], strict=True), key=lambda part: -part[1])[:MOST_PARTS]
    places = range(len(named))[::-1]
    axes.barh(places, [min(value, 1e6) for _, value in named], color=BLUE)
    axes.set_yticks(places, [_in_lines(ERRORS[name]) for name, _ in named], fontsize=7)
    axes.set_xlabel("nats", fontsize=8)


def _in_lines(words: str, most: int = 30) -> str:
    """Words with line breaks, so that no line is much longer than some letters."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def _regions(axes: Axes, posterior: Posterior, view: View, rows: Rows) -> None:
    """Mass and evaluations of each separate region."""
    found = mode_counts(posterior, view, rows)
    bars = axes.bar(range(1, len(found) + 1), [100 * mode.share for mode in found], color=BLUE)
    axes.bar_label(bars, [f"{mode.evaluations} evaluations" for mode in found], fontsize=8)
    axes.set_xticks(range(1, len(found) + 1))
    axes.set_xlabel("separate region", fontsize=8)
    axes.set_ylabel("% of the probability", fontsize=8)
    axes.margins(y=0.15)
