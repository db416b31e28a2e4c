"""Whether the file under a name is still the one that was opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple

__all__ = ["Place", "place_of", "why_gone"]


class Place(NamedTuple):
    """What tells a file from others of the same name; a recorder's file never becomes smaller."""

    device: int
    inode: int
    size: int


def place_of(path: Path) -> Place:
    """The file that is under this name now."""
    now = os.stat(path)
    return Place(now.st_dev, now.st_ino, now.st_size)


def why_gone(path: Path, opened: Place) -> str | None:
    """What has become of a file that was opened, in words, or None if it is still there."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return "was deleted or moved"
    except OSError as error:
        return f"can't be reached any more ({error.strerror or error})"
    if (now.st_dev, now.st_ino) != opened[:2]:
        return f"was replaced by {'a folder' if stat.S_ISDIR(now.st_mode) else 'another file'}"
    return "was cut short" if now.st_size < opened.size else None
