"""A figure that a notebook shows as it is: pyplot is not needed, nor a magic command."""

from __future__ import annotations

from io import BytesIO

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('Plots need matplotlib: pip install "vsbq[plot]"') from error

__all__ = ["ShownFigure"]

#: Pixels of the page for each inch of the figure; the picture itself has more, for sharp screens.
PAGE_DPI = 96


class ShownFigure(Figure):
    """A matplotlib `Figure` that is a picture as the last line of a notebook's cell."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture, and the size at which the notebook shows it."""
        stream = BytesIO()
        self.savefig(stream, format="png", facecolor="white")
        width, height = (round(float(side) * PAGE_DPI) for side in self.get_size_inches())
        return stream.getvalue(), {"width": width, "height": height}
