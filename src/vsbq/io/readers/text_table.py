"""Tables as text: comma, semicolon, tab or blanks between the cells, read line by line and without guesses at numbers.

The first line that is not a comment holds the names. Nothing is skipped in silence: a line with too few cells and a
cell that is no number are errors with their line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from array import array
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np

from vsbq.errors import Argument, EvaluationsError, join_words
from vsbq.io.readers import limits
from vsbq.io.readers.number_format import Marks, Spelling, TextFormat
from vsbq.io.readers.table import Column, Table, Trouble, check_header

#: Cells without a value: empty ones, and as R writes it.
MISSING = ("", "NA")

SEPARATORS = (",", ";", "\t", "|")
BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

Line = tuple[int, str]
Row = tuple[int, list[str]]


def read_text_table(
    stream: io.BufferedReader | gzip.GzipFile,
    suffix: str,
    told: TextFormat,
    most_characters: float,
    labels: str | None = None,
) -> Table:
    """A table from the bytes of a text file; with the cells of the column `labels` as they are written."""
    start = stream.read(4)
    stream.seek(0)
    spelling = told.spelling()
    found = told.encoding or next((name for bom, name in BOMS if start.startswith(bom)), "utf-8")
    try:
        with io.TextIOWrapper(stream, encoding=found) as text:
            return _read(_lines(text, most_characters), suffix, spelling, labels)
    except UnicodeError as error:
        raise EvaluationsError(
            f"it is not text in {found} ({error!s:.200}). Save it as UTF-8, or pass its encoding, such as ",
            Argument("encoding", "cp1252"),
            ".",
        ) from error
    except LookupError as error:
        raise EvaluationsError(
            f"the encoding {told.encoding!r} can't be used ({error}). Pass ", Argument("encoding", "utf-8"), "."
        ) from error
    except csv.Error as error:
        raise EvaluationsError(f"it can't be read as a table ({error}). Check its quotes and separators.") from error


def _lines(text: io.TextIOWrapper, most_characters: float) -> Iterator[Line]:
    """Numbered lines; a line of absurd length, a NUL, or far more text than the file can honestly hold end it all."""
    number, total = 0, 0
    while line := text.readline(limits.LONGEST_LINE):
        number, total = number + 1, total + len(line)
        if len(line) >= limits.LONGEST_LINE:
            raise EvaluationsError(
                f"line {number} has more than {limits.LONGEST_LINE - 1} characters. A table has one line per "
                "evaluation and one column per parameter: transpose it if it is the other way round."
            )
        if total > most_characters:
            raise EvaluationsError(
                f"it holds more than {most_characters} characters by line {number}, far more than its compressed size "
                "allows. Don't trust it; decompress it first if it is yours."
            )
        if "\0" in line:
            raise EvaluationsError(
                f"line {number} holds NUL bytes, so it is no text (or UTF-16 without its mark). Save it as UTF-8."
            )
        yield number, line


def _read(lines: Iterator[Line], suffix: str, spelling: Spelling | None, labels: str | None) -> Table:
    comment, first = _start(lines)
    sample = [first, *islice(lines, 20)]
    separator = "\t" if suffix == ".tsv" else _separator([line for _, line in sample if not _skipped(line)])
    body = _rows(chain(sample, lines), separator)
    number, header = next(body)
    if comment is not None and all(map(_is_number, header)):
        names = _split(comment.strip().lstrip("#% "), separator)
        if len(names) == len(header):
            body, header = chain([(number, header)], body), names
    names = [name.strip() for name in header]
    _check_header(names)
    return _Reading(names, separator, spelling, labels).table(body)


def _start(lines: Iterator[Line]) -> tuple[str | None, Line]:
    """The last comment before the table, which may hold the names, and the first line of the table."""
    comment = None
    for number, line in lines:
        if not _skipped(line):
            return comment, (number, line)
        comment = line if line.strip() else comment
    raise EvaluationsError("it holds no table. The first line should name the columns.")


def _skipped(line: str) -> bool:
    return line.lstrip()[:1] in ("", "#", "%")


def _split(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return line.split()
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def _separator(lines: list[str]) -> str | None:
    """What cuts the first lines into equally many cells, and into the most; None stands for blanks."""

    def score(separator: str) -> tuple[bool, int]:
        counts = [len(_split(line, separator)) for line in lines]
        return len(set(counts)) == 1, counts[0]

    cutting = [separator for separator in SEPARATORS if score(separator)[1] > 1]
    return max(cutting, key=score) if cutting else None


def _rows(lines: Iterator[Line], separator: str | None) -> Iterator[Row]:
    """The cells of every line that holds any, with the number of the line."""
    if separator is None:
        yield from ((number, line.split()) for number, line in lines if not _skipped(line))
        return
    last = 0

    def text() -> Iterator[str]:
        nonlocal last
        for number, line in lines:
            last = number
            if not _skipped(line):
                yield line

    for row in csv.reader(text(), delimiter=separator, skipinitialspace=True, strict=True):
        yield last, row


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _check_header(names: list[str]) -> None:
    if all(map(_is_number, filter(None, names))):
        raise EvaluationsError(
            "its first line holds numbers where the names of the columns should be. Add a line with the names."
        )
    check_header([name for name in names if name])
    if len(names) < 2:
        raise EvaluationsError(
            f"it has one column only, {names[0]!r:.60}. Separate the columns by commas, semicolons or tabs."
        )


class _Reading:
    """A table while it is read: all numbers in one array, and what was odd about each column."""

    def __init__(
        self, names: list[str], separator: str | None, spelling: Spelling | None, labels: str | None = None
    ) -> None:
        self.names, self.spelling, self.marks = names, spelling, Marks(separator)
        self.points_are_plain = spelling is None or spelling.decimal == "."
        self.numbers = array("d")
        self.rows = self.plain = 0  # how many there are, and how many of them are numbers throughout
        self.filled = [0] * len(names)  # cells of the other rows that are not empty
        self.bad = [0] * len(names)
        self.first_bad = [(0, "")] * len(names)
        self.labelled = names.index(labels) if labels in names else None
        self.labels: list[str] = []

    def table(self, rows: Iterator[Row]) -> Table:
        """Read all rows."""
        ragged: list[str] = []
        for line, row in rows:
            if len(row) != len(self.names):
                ragged.append(f"line {line} has {len(row)}")
                if len(ragged) > 5:
                    break
            else:
                self.add(line, row)
        self._check(ragged)
        unnamed = [name for name in self.names if not name or name.startswith("Unnamed: ")]
        notes = ("Left out a column without a name.",) if unnamed else ()
        columns = {name: self.column(i) for i, name in enumerate(self.names) if name not in unnamed}
        return Table(columns, notes, tuple(self.labels))

    def add(self, line: int, row: list[str]) -> None:
        """Read one row: at once if it is plain, else cell by cell."""
        if self.labelled is not None:
            self.labels.append(row[self.labelled].strip())
        together = "".join(row)
        if self.spelling is None and "." in together:
            self.marks.see_points(row, line)
        try:
            if "_" in together or not together.isascii() or not (self.points_are_plain or "." not in together):
                raise ValueError
            self.numbers.extend(map(float, row))
            self.plain += 1
        except ValueError:
            del self.numbers[self.rows * len(row) :]
            self.numbers.extend([self.cell(i, cell.strip(), line) for i, cell in enumerate(row)])
        self.rows += 1
        if len(self.numbers) > limits.MOST_NUMBERS:
            limits.check_numbers(self.rows, len(self.names))

    def cell(self, i: int, cell: str, line: int) -> float:
        """Read one cell; NaN where it is empty or holds no number."""
        if cell in MISSING:
            return float("nan")
        self.filled[i] += 1
        number = self.marks.comma(i, cell, line) if self.spelling is None else self.spelling.plain(cell)
        try:
            if "_" in number or not number.isascii():
                raise ValueError
            return float(number)
        except ValueError:
            self.first_bad[i] = self.first_bad[i] if self.bad[i] else (line, cell)
            self.bad[i] += 1
            return float("nan")

    def column(self, i: int) -> Column:
        """One of the columns, after all rows were read."""
        values = np.frombuffer(self.numbers, dtype=np.float64).reshape(-1, len(self.names))[:, i].copy()
        line, cell = self.first_bad[i]
        trouble = Trouble(count=self.bad[i], line=line, cell=cell) if self.bad[i] else None
        return Column(values, trouble, self.filled[i] + self.plain)

    def _check(self, ragged: list[str]) -> None:
        if ragged:
            raise EvaluationsError(
                f"it has {len(self.names)} columns, but {join_words(ragged[:5])}{' and so on' * (len(ragged) > 5)}. "
                "Correct these lines; if the last one is cut short, the file is not complete."
            )
        self.marks.check(self.names)
        if not len(self.numbers):
            raise EvaluationsError("it has names of columns but no rows. Write the table again.")
