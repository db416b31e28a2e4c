"""What the headers inside a MAT-file of version 5 to 7 claim, checked before it is read.

A small file can claim cells beyond number, nest them without end, or unpack to far more than its size. The format is
that of MathWorks' document "MAT-File Format", level 5: elements with a tag of type and length, within one another.
"""

from __future__ import annotations

import zlib
from io import BufferedIOBase
from typing import NamedTuple

import numpy as np

from vsbq.errors import EvaluationsError
from vsbq.io.readers import limits

__all__ = ["check_claims"]

HEADER = 128
MATRIX, COMPRESSED = 14, 15
CELL, STRUCT, OBJECT, OPAQUE = 1, 2, 3, 17
DEEPEST = 30
DAMAGED = "it is shorter than its headers say, or damaged. Take another copy."


class _Element(NamedTuple):
    """A piece of the file: its type, where its content starts and stops, and where the next one starts."""

    kind: int
    start: int
    stop: int
    next: int


def check_claims(stream: BufferedIOBase, size: int) -> None:
    """Refuse a file whose headers promise more than its bytes can hold."""
    header = stream.read(HEADER)
    if len(header) < HEADER or header[126:] not in (b"IM", b"MI"):
        raise EvaluationsError("its header is damaged. Take another copy, or write it again.")
    order = "<" if header[126:] == b"IM" else ">"
    left = limits.most_bytes(size)
    while tag := stream.read(8):
        if len(tag) < 8:
            raise EvaluationsError(DAMAGED)
        kind, length = np.frombuffer(tag, order + "u4").tolist()
        if length > size:
            raise EvaluationsError(DAMAGED)
        content = stream.read(length)
        if kind == COMPRESSED:
            content = _unpacked(content, left, size)
            left -= len(content)
        else:
            content = tag + content
        _check(_Walk(content, order), 0, 0)
    stream.seek(0)


def _unpacked(content: bytes, most: int, size: int) -> bytes:
    """One compressed element, of which no more is made than is allowed."""
    try:
        plain = zlib.decompressobj().decompress(content, max(most, 0) + 1)
    except zlib.error as error:
        raise EvaluationsError(f"its compression is damaged ({error}). Take another copy.") from error
    if len(plain) > most:
        raise EvaluationsError(
            f"it unpacks to far more than its size of {size} bytes allows (at most {limits.SMALL}, or "
            f"{limits.EXPANSION_LIMIT} times its size). Save only the variables that are needed."
        )
    return plain


class _Walk:
    """Reads tags in the bytes of a variable."""

    def __init__(self, data: bytes, order: str) -> None:
        self.data, self.order = data, order

    def element(self, at: int, stop: int) -> _Element:
        """The element at this place, which must end before `stop`; short ones keep their content in the tag."""
        first, length = self.numbers(at, at + 8, stop)
        if first >> 16:
            return _Element(first & 0xFFFF, at + 4, at + 4 + (first >> 16), at + 8)
        end = at + 8 + length
        padded = end if first in (MATRIX, COMPRESSED) else end + (-length) % 8
        if end > stop:
            raise EvaluationsError(DAMAGED)
        return _Element(first, at + 8, end, padded)

    def numbers(self, start: int, end: int, stop: int) -> list[int]:
        """Unsigned integers of four bytes."""
        if end > min(stop, len(self.data)) or (end - start) % 4:
            raise EvaluationsError(DAMAGED)
        return np.frombuffer(self.data[start:end], self.order + "u4").tolist()


def _check(walk: _Walk, at: int, depth: int) -> int:
    """Check the matrix at this place and all within it; returns where it ends."""
    whole = walk.element(at, len(walk.data))
    if whole.kind != MATRIX or whole.start == whole.stop:
        return whole.next
    if depth > DEEPEST:
        raise EvaluationsError(f"it holds cells or structs within one another, more than {DEEPEST} deep. Flatten them.")
    flags = walk.element(whole.start, whole.stop)
    kind = walk.numbers(flags.start, flags.start + 4, whole.stop)[0] & 0xFF
    if kind not in (CELL, STRUCT, OBJECT):
        return whole.next
    dims = walk.element(flags.next, whole.stop)
    count = int(np.prod(walk.numbers(dims.start, dims.stop, whole.stop), dtype=object))
    at = walk.element(dims.next, whole.stop).next  # behind the name
    if kind == OBJECT:
        at = walk.element(at, whole.stop).next
    if kind in (STRUCT, OBJECT):
        length = walk.element(at, whole.stop)
        names = walk.element(length.next, whole.stop)
        each = max(walk.numbers(length.start, length.stop, whole.stop)[0], 1)
        fields, at = (names.stop - names.start) // each, names.next
    else:
        fields = 1
    if 8 * count * max(fields, 1) > whole.stop - at + 8:
        raise EvaluationsError(f"it claims a cell array or struct of {count} elements, more than it has bytes for.")
    for _ in range(count * fields):
        at = _check(walk, at, depth + 1)
    return whole.next
