"""A small table of a posterior's parameters."""

from __future__ import annotations

from dataclasses import dataclass

from vsbq._typing import Float, ndarray
from vsbq.errors import ArgumentError
from vsbq.tables import badge, caption, notebook_table

__all__ = ["LEVEL", "Summary", "ends_of"]

#: The share of the central interval, unless another is asked for.
LEVEL = 0.9


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Mean, standard deviation, median and a central interval of each parameter; shows as a table.

    `low` and `high` are the ends of the interval that holds the share `level`, with as much below it as above.
    """

    names: tuple[str, ...]
    mean: Float[ndarray, " d"]
    sd: Float[ndarray, " d"]
    low: Float[ndarray, " d"]
    median: Float[ndarray, " d"]
    high: Float[ndarray, " d"]
    level: float = LEVEL
    verdict: str | None = None  # of `Posterior.diagnose`; None where it is not known

    def __str__(self) -> str:
        width = max(9, *(len(name) for name in self.names))
        head = f"{'':<{width}}" + "".join(f"{title:>12}" for title in self._titles())
        rows = [f"{name:<{width}}" + "".join(f"{value:>12.5g}" for value in values) for name, *values in self._rows()]
        last = [] if self.verdict is None else [f"verdict: {self.verdict}"]
        return "\n".join([head, *rows, *last])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html("" if self.verdict is None else caption("verdict: ", badge(self.verdict)))

    def as_html(self, above: str = "") -> str:
        """The table for a notebook, below a line of HTML."""
        rows = ([name, *(f"{value:.5g}" for value in values)] for name, *values in self._rows())
        return notebook_table(["", *self._titles()], rows, above=above)

    def _titles(self) -> list[str]:
        low, high = ends_of(self.level)
        return ["mean", "sd", f"{100 * low:.6g} %", "median", f"{100 * high:.6g} %"]

    def _rows(self) -> list[tuple[str, float, float, float, float, float]]:
        columns = (each.tolist() for each in (self.mean, self.sd, self.low, self.median, self.high))
        return list(zip(self.names, *columns, strict=True))

    def to_dict(self) -> dict[str, dict[str, float]]:
        """One entry per parameter; the ends of the interval are called by their percent, as "q05" or "q97.5"."""
        low, high = ends_of(self.level)
        keys = ("mean", "sd", _key(low), "median", _key(high))
        return {name: dict(zip(keys, values, strict=True)) for name, *values in self._rows()}


def ends_of(level: float) -> tuple[float, float]:
    """The shares of the posterior below the two ends of a central interval."""
    if not 0 < level < 1:
        raise ArgumentError(f"level={level:g} is no share of a posterior. Give a number between 0 and 1, such as 0.95.")
    # Rounded, so that 0.95 gives 0.025 and not 0.025000000000000022.
    return round((1 - level) / 2, 12), round((1 + level) / 2, 12)


def _key(share: float) -> str:
    percent = f"{100 * share:.6g}"
    return f"q0{percent}" if 100 * share < 10 else f"q{percent}"
