"""The corner plot and the checks as pictures for a page: small, on white, and readable whatever the names."""

from __future__ import annotations

import base64
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from vsbq.markup import shortened
from vsbq.posterior import Posterior
from vsbq.progress import logger

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CornerPicture", "corner_picture", "diagnosis_picture"]

WIDEST = 2200  # pixels
SHARPEST = 200  # dots per inch
COLOURS = 128
DRAWS = 12_000
LONGEST_NAME = 16
LONGEST_FORMULA = 60


class CornerPicture(NamedTuple):
    """A PNG as a data URI with its size in pixels, or the reason why there is none."""

    uri: str
    width: int
    height: int
    missing: str = ""

    @classmethod
    def none(cls, reason: str) -> CornerPicture:
        """No picture."""
        return cls("", 0, 0, reason)


def corner_picture(posterior: Posterior) -> CornerPicture:
    """The corner plot with the evaluations under it. A report without it is still a report: what fails is said."""
    try:
        import matplotlib.style

        from vsbq.report.corner import corner
    except ImportError:
        return CornerPicture.none('The corner plot needs matplotlib: pip install "vsbq[plot]", then write the report.')
    try:
        with matplotlib.style.context("default"):
            names = tuple(_drawable(name, i) for i, name in enumerate(posterior.names))
            return _as_png(corner(replace(posterior, names=names), draws=DRAWS))
    except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:
        logger.warning("The corner plot of the report could not be drawn.", exc_info=True)
        return CornerPicture.none(f"The corner plot could not be drawn ({type(error).__name__}: {error}).")


def diagnosis_picture(posterior: Posterior) -> CornerPicture:
    """The pictures of the checks, in the same way."""
    try:
        import matplotlib.style

        from vsbq.report.diagnosis_plot import plot_diagnosis
    except ImportError:
        return CornerPicture.none('The pictures of the checks need matplotlib: pip install "vsbq[plot]".')
    try:
        with matplotlib.style.context("default"):
            names = tuple(_drawable(name, i) for i, name in enumerate(posterior.names))
            return _as_png(plot_diagnosis(replace(posterior, names=names)))
    except (ArithmeticError, ValueError, RuntimeError, MemoryError) as error:
        logger.warning("The pictures of the checks could not be drawn.", exc_info=True)
        return CornerPicture.none(f"The pictures of the checks could not be drawn ({type(error).__name__}: {error}).")


def _as_png(figure: Figure) -> CornerPicture:
    from PIL import Image

    raw, small = BytesIO(), BytesIO()
    dpi = min(SHARPEST, WIDEST / float(max(figure.get_size_inches())))
    figure.savefig(raw, format="png", dpi=dpi, facecolor="white")
    with Image.open(raw) as picture:
        flat = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        flat.save(small, format="PNG", optimize=True)
        width, height = picture.size
    return CornerPicture(f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}", width, height)


def _drawable(name: str, i: int) -> str:
    """The name if the font has its letters, shortened if it is long; else the number of the parameter."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    formula = "$" in name and name.count("$") % 2 == 0
    short = shortened(name, LONGEST_FORMULA if formula else LONGEST_NAME)
    known = get_font(findfont(FontProperties())).get_charmap()
    return short if all(ord(letter) in known for letter in short) else f"no. {i + 1}"
