"""How much a file may make us read: no small file costs more memory than a machine has.

Sizes are checked before anything is allocated where a file states them, and while it is read where it does not.
"""

from __future__ import annotations

from vsbq.errors import EvaluationsError

#: Numbers in a table, parameters and values together: 256 MB of them. Reading and checking takes up to ten times that.
MOST_NUMBERS = 2**25
MOST_COLUMNS = 10_000

#: An honest file does not grow by more than this factor when it is decompressed, unless it is small.
EXPANSION_LIMIT = 100
SMALL = 2**28

#: Characters of a line of text, and of a line and of all lines of a JSON log.
LONGEST_LINE = 2**22
LONGEST_RECORD = 2**20
MOST_JSON_BYTES = 2**27

#: Lists and objects in a line of a JSON log, which cost far more memory than text.
MOST_NESTED = 2**12


def most_bytes(size: int) -> int:
    """What a compressed file of this size may grow to."""
    return max(SMALL, EXPANSION_LIMIT * size)


def check_numbers(rows: int, columns: int) -> None:
    """Refuse a table that is too large to be read."""
    if rows * columns > MOST_NUMBERS:
        raise EvaluationsError(
            f"it holds {rows} rows of {columns} numbers, more than the {MOST_NUMBERS} numbers that are read. Keep "
            "fewer rows or columns."
        )


def check_columns(count: int) -> None:
    """Refuse far too many columns before anything is done for each of them."""
    if count > MOST_COLUMNS:
        raise EvaluationsError(
            f"it has {count} columns, and at most {MOST_COLUMNS} are read. A table has one row per evaluation and one "
            "column per parameter: transpose it if it is the other way round."
        )


def check_expansion(claimed: int, size: int) -> None:
    """Refuse a compressed file that claims to be far larger than its bytes allow."""
    if claimed > most_bytes(size):
        raise EvaluationsError(
            f"it claims to hold {claimed} bytes, far more than its size of {size} bytes allows (at most {SMALL}, or "
            f"{EXPANSION_LIMIT} times its size). Don't trust it; write the table again without compression if it is "
            "yours."
        )
