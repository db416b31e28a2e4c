"""Whether the write-ahead log beside a file is whole.

SQLite reads a `-wal` up to the first frame whose checksum is wrong and takes that for its end, as it is after a kill.
So one flipped bit hides everything that was committed after it, without a word. A damaged frame is told from the end
by what follows: a commit that was written in full, which no process writes before all frames ahead of it are.

The log is a header of 32 bytes and frames of 24 bytes and a page. A frame names its page, the size of the database if
it ends a commit (else 0), the two salts of the header, and a checksum that goes on from the frame before.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Int, ndarray

__all__ = ["damaged_log"]

MAGIC = 0x377F0682  # plus 1 where the checksums are big-endian
HEADER, FRAME = 32, 24
ALL = 0xFFFFFFFF
LOOKS, PAUSE = 3, 0.01  # a log that is being written is looked at again
BLOCK = 256  # frames whose checksums are computed at once

Sum = tuple[int, int]


class _Frames(NamedTuple):
    """The frames of a log, one row each."""

    commits: Bool[ndarray, " n"]
    right: Bool[ndarray, "n 2"]  # whether the salts are those of the header
    stored: list[Sum]
    added: list[Sum]  # what the frame adds to the checksum of the frame before
    words: int


def damaged_log(path: Path) -> str | None:
    """What is wrong with a log, in words, or None; safe while others write, since SQLite locks other files."""
    said = None
    for look in range(LOOKS):
        time.sleep(PAUSE * (look > 0))
        try:
            said = _examine(path.read_bytes())
        except FileNotFoundError:
            return None
        if said is None:
            return None
    return said


def _examine(log: bytes) -> str | None:
    if len(log) < HEADER + FRAME + 512:
        return None
    header = np.frombuffer(log, ">u4", HEADER // 4).astype(np.int64)
    order = ">u4" if header[0] & 1 else "<u4"
    expected = _after((0, 0), _added(np.frombuffer(log, order, 6)[None])[0], 6)
    if header[0] & ~1 != MAGIC or tuple(header[6:].tolist()) != expected or header[2] < 512:
        return "its header is damaged"
    frames = _read_frames(log, header, order)
    sound, computed = _sound_frames(frames, expected)
    if sound == len(frames.stored) or not _cut_off(frames, sound, computed):
        return None
    return f"frame {sound + 1} of {len(frames.stored)} is damaged"


def _read_frames(log: bytes, header: Int[ndarray, " 8"], order: str) -> _Frames:
    size = FRAME + int(header[2])
    count = (len(log) - HEADER) // size
    raw = np.frombuffer(log, np.uint8, count * size, HEADER).reshape(count, size)
    heads = np.ascontiguousarray(raw[:, :FRAME]).view(">u4").astype(np.int64)
    added: list[Sum] = []
    for first in range(0, count, BLOCK):
        block = np.delete(raw[first : first + BLOCK], np.s_[8:FRAME], axis=1)
        added += _added(np.ascontiguousarray(block).view(order))
    stored = [(int(a), int(b)) for a, b in heads[:, 4:]]
    return _Frames(heads[:, 1] > 0, heads[:, 2:4] == header[4:6], stored, added, (size - FRAME + 8) // 4)


def _sound_frames(frames: _Frames, start: Sum) -> tuple[int, Sum]:
    """How many frames are as they were written, and the checksum that the next one should have."""
    state = start
    for i, (stored, added) in enumerate(zip(frames.stored, frames.added, strict=True)):
        state = _after(state, added, frames.words)
        if state != stored or not frames.right[i].all():
            return i, state
    return len(frames.stored), state


def _cut_off(frames: _Frames, bad: int, computed: Sum) -> bool:
    """Whether the first frame that is not sound, or one after it, was once part of a commit."""
    if not frames.right[bad].all():
        return bool(frames.right[bad].any())  # frames of an older log differ in both salts
    ends = np.flatnonzero(frames.commits & frames.right.all(axis=1))
    for j in ends[ends > bad]:
        links = [frames.stored[j - 1], *([computed] if j == bad + 1 else [])]
        if any(_after(link, frames.added[j], frames.words) == frames.stored[j] for link in links):
            return True
    return bad == len(frames.stored) - 1 and bool(frames.commits[bad])


# The checksum runs over pairs of words (x, y): a += x + b, then b += y + a. It is linear, with Fibonacci numbers.


def _added(words: ndarray) -> list[Sum]:
    """What each row of 32-bit words adds to the two halves of a checksum; overflow is meant."""
    halves = words.astype(np.uint32, copy=False) @ _weights(words.shape[1])
    return [(int(a), int(b)) for a, b in halves]


@functools.cache
def _weights(count: int) -> ndarray:
    """The weights of the words in the first and in the second half, in 32 bits."""
    weights, (a, b, c, d) = np.zeros((count, 2), dtype=np.uint32), (1, 0, 0, 1)
    for i in range(count - 2, -1, -2):
        weights[i], weights[i + 1] = ((a + b) & ALL, (c + d) & ALL), (b, d)
        a, b, c, d = (a + b) & ALL, (a + 2 * b) & ALL, (c + d) & ALL, (c + 2 * d) & ALL
    return weights


def _after(before: Sum, added: Sum, words: int) -> Sum:
    """The checksum after some words that add this much."""
    a, b = _fibonacci(words)
    x, y = before
    return ((b - a) * x + a * y + added[0]) & ALL, (a * x + b * y + added[1]) & ALL


@functools.cache
def _fibonacci(n: int) -> Sum:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, (a + b) & ALL
    return a, b
