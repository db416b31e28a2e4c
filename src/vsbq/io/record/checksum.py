"""Checksums of what a file of a recorder holds: a flipped bit, or a row that changed its owner, is noticed.

A checksum is BLAKE2b of 8 bytes. That of an evaluation is over, in this order: the id of the file, the uuid of its
writer, each with a line feed; `number` as an int64; log_density, log_density_sd, log_prior, started and seconds as
float64, NaN for NULL; the lengths of point and failure in bytes as int64, -1 for no failure; then both. All numbers are
little-endian, all texts UTF-8. That of a writer or of the problem is over the JSON list of its fields.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

__all__ = ["Unreadable", "checksum_of_fields", "checksum_of_row", "owner_of_rows"]

NAN = float("nan")
NUMBERS = struct.Struct("<q5d2q")


class Unreadable(ValueError):
    """A field has not the type that it was written with."""


def owner_of_rows(file: str, writer: str) -> bytes:
    """What ties a row to its file and to its writer."""
    return f"{file}\n{writer}\n".encode()


def checksum_of_row(owner: bytes, number: int, row: Sequence[Any]) -> bytes:
    """The checksum of an evaluation: its point, its numbers and its failure, as in `store.Row`."""
    point, *numbers, failure = row
    try:
        words = b"" if failure is None else failure.encode()
        plain = [NAN if x is None or x != x else x + 0.0 for x in numbers]  # SQLite knows no NaN and no -0.0
        sizes = (len(point), -1 if failure is None else len(words))
        return blake2b(owner + NUMBERS.pack(number, *plain, *sizes) + point + words, digest_size=8).digest()
    except (AttributeError, TypeError, ValueError, struct.error) as error:
        raise Unreadable(f"a field has the wrong type ({error})") from error


def checksum_of_fields(fields: Sequence[Any]) -> bytes:
    """The checksum of a list of texts, numbers and None."""
    try:
        plain = json.dumps([x + 0.0 if isinstance(x, float) else x for x in fields])
    except (TypeError, ValueError) as error:
        raise Unreadable(f"a field has the wrong type ({error})") from error
    return blake2b(plain.encode(), digest_size=8).digest()
