"""Corner plot: every parameter, every pair, and the evaluations that the posterior rests on.

The densities of a mixture, of one parameter or of two, are exact, but that the curves of one parameter are means over
cells; those of a refined posterior are so up to a smooth factor. The levels of the contours are those above which 50 %
and 90 % of its draws lie. Reference draws are smoothed: a histogram and a Gaussian whose width is chosen by
cross-validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log10
from typing import Any, NamedTuple

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.errors import lists_options
from vsbq.numerics.contours import contour_depth
from vsbq.posterior import Posterior
from vsbq.posterior.marginal import Marginal
from vsbq.randomness import RandomState, Seed, one_of
from vsbq.report.densities import middles, shown_density, smoothed, surface, surface_of_draws
from vsbq.report.shown import ShownFigure

try:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.mathtext import MathTextParser
    from matplotlib.patheffects import withStroke
    from matplotlib.ticker import FixedLocator, MaxNLocator
except ImportError as error:
    raise ImportError('Plots need matplotlib: pip install "vsbq[plot]"') from error

__all__ = ["corner"]

INTERVAL = np.array([0.05, 0.5, 0.95])
WINDOW = (0.001, 0.999)
PAIR_CELLS = 96
CURVE_CELLS = 400
MOST_DOTS = 4000
DOT_DEPTH = 5.0  # evaluations below this contour of a normal all have the palest colour

# Colours of Okabe and Ito and of Tol, safe for the colour-blind; the dashes keep them apart in grey.
BLUE = "#0072B2"
OTHERS = (("#009E73", "--"), ("#882255", "-."), ("#333333", ":"))
HEAT = LinearSegmentedColormap.from_list("vsbq", ["#e6e6e6", "#fee0b6", "#fdb863", "#f0812b", "#cc4c02"])


class _Layer(NamedTuple):
    """One distribution in the plot; reference draws have no posterior."""

    label: str
    draws: Float[ndarray, "n d"]
    posterior: Posterior | None
    colour: str
    dashes: str
    width: float


class _Page(NamedTuple):
    """Axes by row and column (the lower triangle), the window of each parameter, and the sizes that fit."""

    figure: Figure
    axes: dict[tuple[int, int], Axes]
    windows: Float[ndarray, "d 2"]
    panel: float  # inches
    font: float
    line: float

    def view(self, i: int) -> tuple[float, float]:
        """The limits of an axis: a little beyond the window, so that a bound at its edge can be seen."""
        low, high = (float(end) for end in self.windows[i])
        return low - 0.02 * (high - low), high + 0.02 * (high - low)


class _Dots(NamedTuple):
    """Evaluations to draw, the best last, and how many nats each is below the best of all."""

    points: Float[ndarray, "n d"]
    below: Float[ndarray, " n"]
    deepest: float


@lists_options("vsbq.report.corner")
def corner(
    posterior: Posterior,
    *,
    draws: int = 20_000,
    evaluations: bool = True,
    truth: ArrayLike | None = None,
    others: Mapping[str, Posterior] | None = None,
    figure: Figure | None = None,
    rng: RandomState = None,
    seed: Seed = None,
) -> Figure:
    """Corner plot of a posterior as a matplotlib `Figure`, with no use of pyplot; save it with `savefig`.

    Args:
        posterior: what to plot.
        draws: how many draws set the windows and the levels of the contours.
        evaluations: whether to show the evaluations as dots, the darker the higher their log density.
        truth: draws of a reference posterior, one row each, to compare with.
        others: more posteriors of the same parameters, by label.
        figure: an empty figure to draw in, instead of a new one.
        rng: an integer or a NumPy Generator; None gives the same plot every time, as 0 does.
        seed: another word for an integer as `rng`.
    """
    random = one_of(rng, seed)
    layers = _layers(posterior, draws, truth, others or {}, np.random.default_rng(0 if random is None else random))
    page = _page(figure, posterior.dimension, _windows(layers, posterior.bounds))
    seen = posterior.evaluations if evaluations else None
    dots = None if seen is None else _dots(seen, page.windows)
    for (i, j), axes in page.axes.items():
        if i == j:
            _draw_marginal(axes, page, layers, i)
        else:
            _draw_pair(axes, page, layers, i, j)
        if dots is not None and (i != j or len(page.axes) == 1):
            _draw_dots(axes, page, dots, i, j)
        _draw_bounds(axes, posterior.bounds, page, i, j)
    _label(page, posterior)
    _draw_legend(page, layers, dots)
    return page.figure


def _layers(
    posterior: Posterior,
    draws: int,
    truth: ArrayLike | None,
    others: Mapping[str, Posterior],
    rng: np.random.Generator,
) -> list[_Layer]:
    """The posterior first, the reference on top."""
    layers = [_Layer("posterior", posterior.sample(draws, rng), posterior, BLUE, "-", 2.2)]
    for k, (label, other) in enumerate(others.items()):
        if other.names != posterior.names:
            raise ValueError(f"'{label}' has the parameters {other.names}, not {posterior.names}.")
        layers.append(_Layer(label, other.sample(draws, rng), other, *OTHERS[k % len(OTHERS)], 1.6))
    if truth is not None:
        reference = np.asarray(truth, dtype=np.float64)
        d, shape = posterior.dimension, reference.shape
        if reference.ndim != 2 or shape[1] != d or len(reference) < 2 or not np.isfinite(reference).all():
            raise ValueError(f"truth holds draws, one row of {d} finite numbers each; got an array of shape {shape}.")
        layers.append(_Layer("reference", reference, None, "black", "-", 0.7))
    return layers


# Windows and axes


def _windows(layers: list[_Layer], bounds: Bounds) -> Float[ndarray, "d 2"]:
    """Where nearly all draws of all layers are, with a margin, inside the bounds."""
    low = np.min([np.quantile(layer.draws, WINDOW[0], axis=0) for layer in layers], axis=0)
    high = np.max([np.quantile(layer.draws, WINDOW[1], axis=0) for layer in layers], axis=0)
    margin = 0.05 * (high - low) + 1e-9 * np.abs(high) + 1e-300
    return np.column_stack([np.maximum(low - margin, bounds.lower), np.minimum(high + margin, bounds.upper)])


def _page(figure: Figure | None, dimension: int, windows: Float[ndarray, "d 2"]) -> _Page:
    """Panels that shrink with their number, and fonts that shrink with the panels."""
    left, right, bottom, top = 0.75, 0.15, 0.7, 0.45
    if figure is None:
        panel = 3.2 if dimension == 1 else float(np.clip(2.75 - 0.17 * dimension, 1.15, 2.4))
        figure = ShownFigure(figsize=(panel * dimension + left + right, panel * dimension + bottom + top), dpi=150)
    width, height = (float(side) for side in figure.get_size_inches())
    panel = min(width - left - right, height - bottom - top) / dimension
    grid = figure.add_gridspec(
        dimension,
        dimension,
        left=left / width,
        right=1 - right / width,
        bottom=bottom / height,
        top=1 - top / height,
        wspace=0.08,
        hspace=0.08,
    )
    axes = {(i, j): figure.add_subplot(grid[i, j]) for i in range(dimension) for j in range(i + 1)}
    font = float(np.clip(4.2 + 2.3 * panel, 6.0, 9.0))
    return _Page(figure, axes, windows, panel, font, float(np.clip(0.45 + 0.3 * panel, 0.7, 1.0)))


def _label(page: _Page, posterior: Posterior) -> None:
    """Titles, names and ticks, only at the outer axes."""
    last = posterior.dimension - 1
    names = [_displayed(name) for name in posterior.names]
    scales = [_Scale.of(low, high, 4 if page.panel > 1.4 else 3) for low, high in page.windows.tolist()]
    room = page.panel * 72 / (0.58 * page.font)
    for (i, j), axes in page.axes.items():
        axes.tick_params(labelsize=page.font - 1.5, length=2.5, width=0.6, direction="in", top=i != j, right=i != j)
        axes.spines[:].set_linewidth(0.6)
        axes.set_xlim(*page.view(j))
        scales[j].apply(axes.xaxis, shown=i == last)
        if i == last:
            axes.set_xlabel(names[j] + scales[j].unit, fontsize=page.font)
            axes.tick_params(axis="x", labelrotation=45 if scales[j].letters > 1.1 * room else 0)
        if i == j:
            axes.set_yticks([])
            axes.set_title(_title(posterior.marginal(i), names[i], room), fontsize=page.font, pad=5)
            continue
        axes.set_ylim(*page.view(i))
        scales[i].apply(axes.yaxis, shown=j == 0)
        if j == 0:
            axes.set_ylabel(names[i] + scales[i].unit, fontsize=page.font)
    page.figure.align_labels(list(page.axes.values()))


class _Scale(NamedTuple):
    """Ticks of a parameter, and the power of ten that was taken out of their labels."""

    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    unit: str

    @property
    def letters(self) -> int:
        """How many letters the labels have together, with a space between them."""
        return sum(len(label) + 1 for label in self.labels)

    @classmethod
    def of(cls, low: float, high: float, most: int) -> _Scale:
        """A few round numbers of an interval."""
        values = MaxNLocator(nbins=most, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        ticks = [float(tick) for tick in values if low <= tick <= high]
        power = _power(max(abs(low), abs(high)))
        step = (values[1] - values[0]) / 10.0**power
        decimals = max(0, ceil(-log10(step) - 1e-9))
        decimals += round(step * 10**decimals, 6) % 1 > 0  # 2.5 needs one digit more than 2 or 5
        labels = [f"{tick / 10.0**power + 0.0:.{decimals}f}".replace("-", "−") for tick in ticks]
        return cls(tuple(ticks), tuple(labels), rf" $[10^{{{power}}}]$" if power else "")

    def apply(self, axis: Any, shown: bool) -> None:
        """Put the ticks on an axis, with or without labels."""
        axis.set_major_locator(FixedLocator(self.ticks))
        axis.set_ticklabels(self.labels if shown else [])


def _power(size: float) -> int:
    """The power of ten to take out of a number of some size; 0 where plain digits read well."""
    exponent = floor(log10(size)) if size > 0 else 0
    return exponent if exponent < -2 or exponent > 3 else 0


def _displayed(name: str) -> str:
    """The name with its mathematics, if matplotlib can read it; else letter by letter."""
    try:
        MathTextParser("path").parse(name)
    except ValueError:
        return name.replace("$", r"\$")
    return name if name.count("$") % 2 == 0 else name.replace("$", r"\$")


def _title(marginal: Marginal, name: str, room: float) -> str:
    """Median and central 90 % interval, under the name if there is no room beside it; `room` is in letters."""
    low, middle, high = (float(value) for value in marginal.quantile(INTERVAL))
    number, letters = _in_digits(middle, high - middle, middle - low)
    return f"{name} = {number}" if len(name) + 3 + letters <= room else f"{name}\n{number}"


def _in_digits(middle: float, up: float, down: float) -> tuple[str, float]:
    """The number with its errors, to two digits of the smaller one, and its width in letters."""
    power = _power(max(abs(middle), up, down))
    smaller = min((error for error in (up, down) if error > 0), default=10.0**power) / 10.0**power
    decimals = min(max(0, 1 - floor(log10(smaller))), 12)
    # Adding zero turns a rounded −0.0 into 0.0.
    main, plus, minus = (f"{round(value / 10.0**power, decimals) + 0.0:.{decimals}f}" for value in (middle, up, down))
    number = rf"{main}^{{+{plus}}}_{{-{minus}}}"
    letters = len(main) + 0.7 * (1 + max(len(plus), len(minus)))
    return (rf"$({number})\times 10^{{{power}}}$", letters + 6) if power else (f"${number}$", letters)


# Panels


def _dots(evaluations: Evaluations, windows: Float[ndarray, "d 2"]) -> _Dots:
    """Evaluations inside the window; of too many, the better half of the allowed number and some of the rest."""
    values, points = evaluations.log_density, evaluations.points
    best = values[np.isfinite(values)].max(initial=-np.inf)
    inside = np.isfinite(values) & ((points >= windows[:, 0]) & (points <= windows[:, 1])).all(axis=1)
    order = np.flatnonzero(inside)
    order = order[np.argsort(-values[order], kind="stable")]
    if len(order) > MOST_DOTS:
        half = MOST_DOTS // 2
        rest = np.linspace(half, len(order) - 1, MOST_DOTS - half).astype(int)
        order = np.concatenate([order[:half], order[rest]])
    order = order[::-1]
    return _Dots(points[order], best - values[order], contour_depth(DOT_DEPTH, points.shape[1]))


def _draw_marginal(axes: Axes, page: _Page, layers: list[_Layer], i: int) -> None:
    edges = np.linspace(page.windows[i, 0], page.windows[i, 1], CURVE_CELLS + 1)
    x = middles(edges)
    top = 0.0
    for layer in layers:
        if layer.posterior is None:
            density = smoothed(layer.draws[:, [i]], (edges,)) / (edges[1] - edges[0])
        else:
            density = shown_density(layer.posterior.marginal(i), x)
        top = max(top, float(density.max()))
        dashes = "--" if layer.posterior is None else layer.dashes
        axes.plot(x, density, dashes, color=layer.colour, lw=max(layer.width, 0.9) * page.line, zorder=3)
        if layer is layers[0] and layer.posterior is not None:
            low, middle, high = layer.posterior.marginal(i).quantile(INTERVAL)
            shaded = (x >= low) & (x <= high)
            axes.fill_between(x[shaded], density[shaded], color=layer.colour, alpha=0.2, lw=0)
            axes.vlines(middle, 0, np.interp(middle, x, density), color=layer.colour, lw=0.9 * page.line)
    axes.set_ylim(0, 1.1 * top)


def _draw_pair(axes: Axes, page: _Page, layers: list[_Layer], i: int, j: int) -> None:
    """Parameter j across, parameter i up."""
    across, up = (np.linspace(low, high, PAIR_CELLS + 1) for low, high in page.windows[[j, i]])
    # The outermost cells reach to the edges of the window, so that contours meet a bound.
    x, y = (np.concatenate([edges[:1], middles(edges), edges[-1:]]) for edges in (across, up))
    for layer in layers:
        if layer.posterior is None:
            density, levels = surface_of_draws((j, i), layer.draws, (across, up))
        else:
            density, levels = surface(layer.posterior, (j, i), layer.draws, (across, up))
        z = np.pad(density, 1, mode="edge").T
        levels = np.unique(levels[levels < z.max()])
        if not len(levels):
            continue  # a spike narrower than a cell
        if layer is layers[0]:
            axes.contourf(x, y, z, [*levels, np.inf], colors=[layer.colour], alpha=0.14, zorder=2)
        style: dict[str, Any] = {"linestyles": layer.dashes, "linewidths": layer.width * page.line}
        lines = axes.contour(x, y, z, levels, colors=[layer.colour], zorder=3, **style)
        if layer.posterior is not None:  # a white rim, to stand out from the dots also in grey
            lines.set_path_effects([withStroke(linewidth=(layer.width + 1.2) * page.line, foreground="white")])


def _draw_dots(axes: Axes, page: _Page, dots: _Dots, i: int, j: int) -> None:
    """The evaluations under the contours; with a single parameter, in a row under its curve."""
    y = dots.points[:, i]
    if len(page.axes) == 1:
        top = axes.get_ylim()[1]
        axes.set_ylim(-0.07 * top, 1.2 * top)
        y = np.full(len(y), -0.035 * top)
    below = np.minimum(dots.below, dots.deepest)
    style: dict[str, Any] = {"cmap": HEAT, "vmin": -dots.deepest, "vmax": 0, "s": 3.0 * page.line**4, "lw": 0}
    axes.scatter(dots.points[:, j], y, c=-below, rasterized=True, zorder=1, **style)


def _draw_bounds(axes: Axes, bounds: Bounds, page: _Page, i: int, j: int) -> None:
    """Thin lines where the window ends at a bound."""
    for side, column in ((bounds.lower, 0), (bounds.upper, 1)):
        if side[j] == page.windows[j, column]:
            axes.axvline(float(side[j]), color="0.5", lw=0.7, zorder=0)
        if i != j and side[i] == page.windows[i, column]:
            axes.axhline(float(side[i]), color="0.5", lw=0.7, zorder=0)


def _draw_legend(page: _Page, layers: list[_Layer], dots: _Dots | None) -> None:
    """What the lines mean, and the colours of the evaluations, in the empty corner."""
    handles = [
        Line2D([], [], color=layer.colour, ls=layer.dashes, lw=layer.width, label=layer.label) for layer in layers
    ]
    font = page.font
    width, height = page.figure.get_size_inches()
    if len(page.axes) == 1:
        page.axes[0, 0].legend(handles=handles, fontsize=font, frameon=False)
        return
    right, top = 1 - 0.15 / width, 1 - 0.4 / height
    page.figure.legend(handles=handles, fontsize=font, frameon=False, loc="upper right", bbox_to_anchor=(right, top))
    if dots is None:
        return
    bar_width = min(1.5, page.panel)
    below_legend = top - (len(handles) + 1) * 1.45 * font / 72 / height
    box = (right - (bar_width + 0.1) / width, below_legend - 0.1 / height, bar_width / width, 0.09 / height)
    bar = page.figure.colorbar(
        ScalarMappable(Normalize(-dots.deepest, 0), HEAT), cax=page.figure.add_axes(box), orientation="horizontal"
    )
    bar.set_label("evaluations:\nlog density\nbelow the best", fontsize=font - 1)
    bar.set_ticks(MaxNLocator(4 if bar_width > 1.3 else 2, integer=True))
    bar.ax.tick_params(labelsize=font - 1.5, length=2, width=0.6)
    bar.outline.set_linewidth(0.5)
