"""How numbers are written: decimal points and commas, and what stands between thousands.

A comma or a point between groups of three digits can mean either. Where nothing in a file decides, it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vsbq.errors import Argument, EvaluationsError, Message, names_in_words

__all__ = ["Marks", "Spelling", "TextFormat", "hint"]

#: Signs between thousands, each with others that look like it.
THOUSANDS = {",": ",", ".": ".", " ": " \u00a0\u202f\u2009", "'": "'\u2019"}

#: A number with one mark, comma or point, that could separate thousands.
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")
DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
WITH_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(?P<mark>[.,' \u00a0\u202f\u2009\u2019])\d{3}(?:(?P=mark)\d{3})*(?:(?P<decimal>[.,])\d*)?"
)


class TextFormat(NamedTuple):
    """What the user says of a text file; None is found out."""

    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None

    def spelling(self) -> Spelling | None:
        """How numbers are written, if that was said."""
        if self.decimal is None and self.thousands is None:
            return None
        if self.decimal not in (None, ".", ","):
            raise EvaluationsError(f"decimal is {self.decimal!r:.20}. Use '.' or ','.")
        if self.thousands is not None and self.thousands not in THOUSANDS:
            raise EvaluationsError(f"thousands is {self.thousands!r:.20}. Use one of {names_in_words(THOUSANDS)}.")
        decimal = self.decimal or ("," if self.thousands == "." else ".")
        if decimal == self.thousands:
            raise EvaluationsError(f"decimal and thousands are both {decimal!r}. Give two different ones.")
        return Spelling(decimal, self.thousands)


class Spelling:
    """Reads numbers whose marks are known; groups must be of three digits."""

    def __init__(self, decimal: str, thousands: str | None) -> None:
        self.decimal = decimal
        marks = re.escape(THOUSANDS[thousands]) if thousands else ""
        whole = rf"\d{{1,3}}(?:[{marks}]\d{{3}})+|\d*" if thousands else r"\d*"
        self._number = re.compile(rf"([+-]?)({whole})(?:{re.escape(decimal)}(\d*))?([eE][+-]?\d+)?")

    def plain(self, cell: str) -> str:
        """The cell as Python writes numbers; what is no number in this spelling becomes none."""
        found = self._number.fullmatch(cell)
        if found is None:
            return "" if any(mark in cell for mark in ".,") else cell  # nan and inf have no marks
        sign, whole, fraction, power = (part or "" for part in found.groups())
        return f"{sign}{re.sub(r'[^0-9]', '', whole)}.{fraction}{power}"


class Marks:
    """What the cells of a file say about commas and points, where nobody said how numbers are written."""

    def __init__(self, separator: str | None) -> None:
        self.commas = separator != ","  # whether a comma in a cell may be a decimal one
        self.semicolons = separator == ";"  # usual where the comma is decimal, and a point may separate thousands
        self.first: dict[str, int] = {}  # line of the first number with this mark
        self.clear: set[str] = set()  # marks of numbers that can only be decimals
        self.grouped: dict[str, dict[int, tuple[int, str]]] = {",": {}, ".": {}}  # by column: line and cell

    def see_points(self, row: Sequence[str], line: int) -> None:
        """Look at the points of a row, until one is surely decimal."""
        if self.commas and "." not in self.clear:
            for i, cell in enumerate(row):
                if "." in cell and _is_float(cell):
                    self._see(".", i, cell.strip(), line)

    def comma(self, i: int, cell: str, line: int) -> str:
        """The cell with a decimal point, if it has a decimal comma."""
        if not (self.commas and "," in cell and DECIMAL_COMMA.fullmatch(cell)):
            return cell
        self._see(",", i, cell, line)
        return cell.replace(",", ".")

    def _see(self, mark: str, i: int, cell: str, line: int) -> None:
        self.first.setdefault(mark, line)
        if GROUPED.fullmatch(cell):
            self.grouped[mark].setdefault(i, (line, cell))
        else:
            self.clear.add(mark)

    def check(self, names: Sequence[str]) -> None:
        """Refuse what can be read in two ways."""
        if len(self.first) == 2:
            raise EvaluationsError(
                f"line {self.first[',']} has a comma in a number and line {self.first['.']} a point. Pass ",
                Argument("decimal", ","),
                " and ",
                Argument("thousands", "."),
                " if commas are decimal, ",
                Argument("thousands", ","),
                " if they separate thousands, or use points everywhere.",
            )
        for mark in self.first:
            if mark not in self.clear and (mark == "," or self.semicolons):
                raise EvaluationsError(_two_ways(mark, self.grouped[mark], names))


def _two_ways(mark: str, grouped: dict[int, tuple[int, str]], names: Sequence[str]) -> Message:
    line, cell = next(iter(grouped.values()))
    whole, _, rest = cell.partition(mark)
    columns = names_in_words(names[i] for i in grouped)
    return Message(
        f"its numbers can be read in two ways: {cell!r} in line {line} is {whole}.{rest} or {whole}{rest}, and so are "
        f"all others in {columns}. Pass ",
        Argument("decimal", mark),
        f" if the {'comma' if mark == ',' else 'point'} is decimal, or ",
        Argument("thousands", mark),
        " if it separates thousands.",
    )


def _is_float(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def hint(cell: str) -> Message:
    """What to pass if a cell that is no number looks like one with thousands apart; empty if it does not."""
    found = WITH_THOUSANDS.fullmatch(cell.strip())
    if found is None or found["mark"] == found["decimal"]:
        return Message()
    mark = next(sign for sign, alike in THOUSANDS.items() if found["mark"] in alike)
    decimal = (" and ", Argument("decimal", ",")) if found["decimal"] == "," and mark != "." else ()
    return Message(f" If {mark!r} separates thousands, pass ", Argument("thousands", mark), *decimal, ".")
