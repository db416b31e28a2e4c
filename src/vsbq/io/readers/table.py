"""A table as a file holds it: numeric columns by name, and what is known of the others."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.errors import EvaluationsError, count_in_words, names_in_words
from vsbq.io.readers.limits import check_columns
from vsbq.io.readers.number_format import hint

LONGEST_NAME = 200


def label_of(value: object) -> str:
    """A cell of a column of labels as text: whole numbers without a point, nothing where it is empty."""
    if value is None or value != value:
        return ""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def check_header(names: list[str]) -> None:
    """Refuse too many names, and those that can't be told apart or can't be printed."""
    check_columns(len(names))
    odd = [name for name in names if not name.isprintable() or len(name) > LONGEST_NAME]
    if odd:
        raise EvaluationsError(
            f"a column is called {odd[0]!r:.60}. Use names that can be printed, of at most {LONGEST_NAME} characters."
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise EvaluationsError(f"it has more than one column {names_in_words(twice)}. Give every column its own name.")


@dataclass(frozen=True, kw_only=True, eq=False)
class Trouble:
    """Cells of a column that hold no numbers: how many, and the first of them."""

    count: int
    line: int
    cell: str


@dataclass(frozen=True, eq=False)
class Column:
    """One column; where a cell holds no number its value is NaN and `trouble` tells of it."""

    values: Float[ndarray, " n"]
    trouble: Trouble | None = None
    filled: int = 1  # cells that are not empty

    @property
    def is_text(self) -> bool:
        """Whether no cell holds a number."""
        return self.trouble is not None and self.trouble.count == self.filled

    def take(self, rows: Int[ndarray, " k"]) -> Column:
        """Some of its rows. The first cell of the column that is no number is told of wherever a value is missing."""
        values = self.values[rows]
        if self.is_text:
            return Column(values, replace(self.trouble, count=len(rows)) if self.trouble else None, len(rows))
        filled = int(np.count_nonzero(~np.isnan(values)))
        trouble = self.trouble if filled < len(rows) else None
        return Column(values, trouble, filled if trouble is None else len(rows))

    def to_numpy(self) -> ndarray:
        """The values; text if the column holds no numbers, so that it is not taken for a parameter."""
        return self.values.astype(str) if self.is_text else self.values


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name, in the order of the file: the part of a data frame that `Evaluations.from_dataframe` uses."""

    parts: dict[str, Column]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()  # the cells of one column as texts, where that was asked for; empty ones are ""
    parameters: tuple[str, ...] = ()  # the columns of the points, where the file has a matrix of them

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.parts)

    def __getitem__(self, name: str, /) -> Column:
        return self.parts[name]

    def split(self, column: str) -> dict[str, Table]:
        """The rows of each label, in the order in which labels come first, without the column that they are of."""
        self.check_names([column])
        missing = sum(not label for label in self.labels)
        if missing:
            raise EvaluationsError(
                f"{count_in_words(missing, 'row')} of column '{column}' {'is' if missing == 1 else 'are'} empty, so it "
                "can't be told which fit they belong to. Fill them in, or leave them out."
            )
        rows: dict[str, list[int]] = {}
        for row, label in enumerate(self.labels):
            rows.setdefault(label, []).append(row)
        others = [name for name in self.parts if name != column]
        return {
            label: Table(
                {name: self.parts[name].take(np.array(chosen)) for name in others}, self.notes, (), self.parameters
            )
            for label, chosen in rows.items()
        }

    def check_numbers(self, names: list[str]) -> None:
        """Refuse cells that hold no numbers in columns that are to be used."""
        for name in names:
            trouble = self.parts[name].trouble
            if trouble is not None:
                more = f" (and {trouble.count - 1} more such cells)" if trouble.count > 1 else ""
                raise EvaluationsError(
                    f"line {trouble.line} has {trouble.cell!r:.60} in column '{name}', which is no number{more}. "
                    "Correct it, leave the cell empty, or name other columns.",
                    hint(trouble.cell),
                )

    def check_names(self, names: list[str]) -> None:
        """Refuse names that the table does not have."""
        absent = [name for name in names if name not in self.parts]
        if absent:
            raise EvaluationsError(
                f"there is no column {names_in_words(absent)}. The columns are {names_in_words(self.columns, 30)}."
            )
