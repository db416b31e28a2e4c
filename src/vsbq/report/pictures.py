"""Plots as pictures for a page: small, on white, readable whatever the names, and larger on request."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from vsbq.markup import Markup, element, scroll, shortened
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Finding
from vsbq.progress import logger

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Picture", "corner_picture", "diagnosis_picture", "enlargeable", "reason_picture"]

WIDEST = 2200  # pixels
SHARPEST = 200  # dots per inch
COLOURS = 128
DRAWS = 12_000
LONGEST_NAME = 16
LONGEST_FORMULA = 60


class Picture(NamedTuple):
    """A PNG as a data URI with its size in pixels, or the reason why there is none."""

    uri: str
    width: int
    height: int
    missing: str = ""

    @classmethod
    def none(cls, reason: str) -> Picture:
        """No picture."""
        return cls("", 0, 0, reason)


def corner_picture(posterior: Posterior) -> Picture:
    """The corner plot with the evaluations under it. A report without it is still a report: what fails is said."""

    def draw(drawable: Posterior) -> Figure:
        from vsbq.report.corner import corner

        return corner(drawable, draws=DRAWS)

    return _drawn(posterior, "The corner plot", draw)


def diagnosis_picture(posterior: Posterior) -> Picture:
    """The pictures of the checks, in the same way."""

    def draw(drawable: Posterior) -> Figure:
        from vsbq.report.diagnosis_plot import plot_diagnosis

        return plot_diagnosis(drawable)

    return _drawn(posterior, "The pictures of the checks", draw)


def reason_picture(posterior: Posterior, finding: Finding) -> Picture:
    """What one finding is about, in the same way."""

    def draw(drawable: Posterior) -> Figure:
        from vsbq.report.reason_plots import plot_reason

        return plot_reason(drawable, finding)

    return _drawn(posterior, f"The picture of '{finding.name}'", draw)


def _drawn(posterior: Posterior, what: str, draw: Callable[[Posterior], Figure]) -> Picture:
    try:
        import matplotlib.style
    except ImportError:
        return Picture.none(f'{what} can only be drawn with matplotlib: pip install "vsbq[plot]".')
    try:
        with matplotlib.style.context("default"):
            names = tuple(_drawable(name, i) for i, name in enumerate(posterior.names))
            return _as_png(draw(replace(posterior, names=names)))
    except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:
        logger.warning("%s of the report could not be drawn.", what, exc_info=True)
        return Picture.none(f"{what} could not be drawn ({type(error).__name__}: {error}).")


def enlargeable(picture: Picture, name: str, *, alt: str, caption: Markup | str, style: str | None = None) -> Markup:
    """A figure with a link that shows it at its full size, over the page, and one that closes it again: no script."""
    size = {"width": str(picture.width), "height": str(picture.height)}
    image = element("img", src=picture.uri, alt=alt, style=style, **size)
    label = alt.split(".")[0]
    larger = element("a", element("span", "Enlarge"), href=f"#{name}", class_="enlarge", aria_label=f"Enlarge: {label}")
    close = element("a", "Close", href=f"#{name}-place", class_="close", aria_label=f"Close: {label}")
    shown = scroll(element("div", image, larger, class_="picture", style=style), label)
    figure = element("figure", close, shown, element("figcaption", caption), class_="card-figure", id=name)
    return element("div", figure, id=f"{name}-place")


def _as_png(figure: Figure) -> Picture:
    from PIL import Image

    raw, small = BytesIO(), BytesIO()
    dpi = min(SHARPEST, WIDEST / float(max(figure.get_size_inches())))
    figure.savefig(raw, format="png", dpi=dpi, facecolor="white")
    with Image.open(raw) as picture:
        flat = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        flat.save(small, format="PNG", optimize=True)
        width, height = picture.size
    return Picture(f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}", width, height)


def _drawable(name: str, i: int) -> str:
    """The name if the font has its letters, shortened if it is long; else the number of the parameter."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    formula = "$" in name and name.count("$") % 2 == 0
    short = shortened(name, LONGEST_FORMULA if formula else LONGEST_NAME)
    known = get_font(findfont(FontProperties())).get_charmap()
    return short if all(ord(letter) in known for letter in short) else f"no. {i + 1}"
