"""The marginal of one parameter as an inline SVG: no library needed, and its colours follow the page."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.markup import Markup, element, joined, readable
from vsbq.posterior.marginal import Marginal
from vsbq.report.densities import shown_density
from vsbq.report.digits import Digits, ticks

__all__ = ["marginal_curve"]

WIDTH, HEIGHT = 320.0, 128.0
LEFT, RIGHT, TOP, BASE = 8.0, 312.0, 8.0, 92.0  # where the curve is; ticks of the evaluations and labels are below
RUG = 8.0
POINTS = 181
LETTER = 6.2  # width of a digit
MOST_TICKS = 300


class _Axis:
    """From values of a parameter to places in the picture."""

    def __init__(self, marginal: Marginal, bounds: Bounds) -> None:
        low, high = (float(end) for end in marginal.quantile([0.001, 0.999]))
        margin = 0.06 * (high - low) + 1e-9 * abs(high) + 1e-300
        lower, upper = bounds.pair(0)
        self.low, self.high = max(low - margin, lower), min(high + margin, upper)

    def place(self, value: float) -> float:
        """Horizontal position."""
        return LEFT + (RIGHT - LEFT) * (value - self.low) / (self.high - self.low)

    def holds(self, value: float) -> bool:
        """Whether a value is in the picture."""
        return self.low <= value <= self.high


def marginal_curve(
    marginal: Marginal, quantiles: Float[ndarray, " 3"], best: float | None, rug: Float[ndarray, " n"] | None
) -> Markup:
    """Density with its median and central 90 % interval (`quantiles`), the best evaluation and some evaluations."""
    axis = _Axis(marginal, marginal.space.bounds)
    x = np.linspace(axis.low, axis.high, POINTS)
    density = shown_density(marginal, x)
    heights = BASE - (BASE - TOP) * density / max(float(density.max()), 1e-300)
    low, middle, high = quantiles.tolist()
    label = (
        f"Marginal posterior of {readable(marginal.name)}: median {middle:.4g}, "
        f"90 % of the probability between {low:.4g} and {high:.4g}."
    )
    return element(
        "svg",
        element("title", label),
        _filled(axis, x, heights, low, high),
        _path(_line(axis, x, heights), "curve"),
        _vertical(axis, middle, float(np.interp(middle, x, heights)), "median"),
        joined() if best is None or not axis.holds(best) else _diamond(axis.place(best)),
        _rug(axis, rug),
        _path(f"M{LEFT} {BASE}H{RIGHT}", "axis"),
        _bounds(axis, marginal.space.bounds),
        _labels(axis),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        role="img",
        class_="marginal",
        aria_label=label,
    )


def _path(d: str, kind: str) -> Markup:
    return element("path", d=d, class_=kind)


def _line(axis: _Axis, x: Float[ndarray, " n"], heights: Float[ndarray, " n"]) -> str:
    return "M" + "L".join(f"{axis.place(a):.1f} {h:.1f}" for a, h in zip(x.tolist(), heights.tolist(), strict=True))


def _filled(axis: _Axis, x: Float[ndarray, " n"], heights: Float[ndarray, " n"], low: float, high: float) -> Markup:
    """The area under the central interval."""
    low, high = max(low, axis.low), min(high, axis.high)
    inside = np.concatenate([[low], x[(x > low) & (x < high)], [high]])
    top = _line(axis, inside, np.interp(inside, x, heights))
    return _path(f"{top}L{axis.place(high):.1f} {BASE:g}L{axis.place(low):.1f} {BASE:g}Z", "interval")


def _vertical(axis: _Axis, value: float, top: float, kind: str) -> Markup:
    return _path(f"M{axis.place(value):.1f} {BASE:g}V{top:.1f}", kind)


def _diamond(x: float) -> Markup:
    return _path(f"M{x:.1f} {BASE - 5:g}l5 5l-5 5l-5 -5Z", "best")


def _rug(axis: _Axis, values: Float[ndarray, " n"] | None) -> Markup:
    """A tick under the axis for each of some evaluations, evenly chosen if there are too many."""
    if values is None:
        return joined()
    inside = np.sort(values[(values >= axis.low) & (values <= axis.high)])
    if len(inside) > MOST_TICKS:
        inside = inside[np.linspace(0, len(inside) - 1, MOST_TICKS).astype(int)]
    if not len(inside):
        return joined()
    return _path("".join(f"M{axis.place(value):.1f} {BASE + 2:g}v{RUG:g}" for value in inside.tolist()), "rug")


def _bounds(axis: _Axis, bounds: Bounds) -> Markup:
    """A line where the picture ends at a hard bound."""
    lower, upper = bounds.pair(0)
    ends = [end for end, bound in ((axis.low, lower), (axis.high, upper)) if end == bound]
    return joined(*(_path(f"M{axis.place(end):.1f} {BASE + RUG:g}V{TOP:g}", "bound") for end in ends))


def _labels(axis: _Axis) -> Markup:
    """Round numbers under the axis, as many as have room."""
    for most in (5, 4, 3, 2):
        values = ticks(axis.low, axis.high, most)
        digits = Digits.of(max(abs(axis.low), abs(axis.high)), _step(values, axis), significant=1)
        digits = Digits(digits.power, _fewest(values, digits, _step(values, axis)))
        words = [digits.write(value) for value in values]
        if sum(len(word) + 2 for word in words) * LETTER <= RIGHT - LEFT:
            break
    marks = [
        element("text", word, x=f"{_kept_in(axis.place(value), word):.1f}", y=f"{BASE + 23:g}")
        for value, word in zip(values, words, strict=True)
    ]
    unit = digits.unit_text
    corner = [element("text", unit, x=f"{RIGHT:g}", y=f"{HEIGHT - 2:g}", class_="unit")] if unit else []
    return joined(*(_path(f"M{axis.place(v):.1f} {BASE:g}v4", "axis") for v in values), *marks, *corner)


def _step(values: list[float], axis: _Axis) -> float:
    return values[1] - values[0] if len(values) > 1 else axis.high - axis.low


def _fewest(values: list[float], digits: Digits, step: float) -> int:
    """The fewest decimals in which all ticks are still what they are."""
    unit = 10.0**digits.power
    scaled, slack = [value / unit for value in values], 1e-3 * step / unit
    return next((n for n in range(13) if all(abs(round(v, n) - v) <= slack for v in scaled)), digits.decimals)


def _kept_in(x: float, word: str) -> float:
    """The middle of a word that does not stick out of the picture."""
    half = 0.5 * len(word) * LETTER
    return min(max(x, half), WIDTH - half)
