"""What can still be saved when the file of a recorder is deleted or replaced while it is in use."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from vsbq.io.record.companions import new_name
from vsbq.io.record.file import open_file

__all__ = ["name_for_rescue", "save_copy"]


def name_for_rescue(path: Path) -> Path:
    """A new name beside a file, or in the folder for temporary files where there is no writing beside it."""
    place = new_name(path, "rescued")
    if os.path.isdir(place.parent) and os.access(place.parent, os.W_OK):
        return place
    return Path(tempfile.gettempdir()) / place.name


def save_copy(connection: sqlite3.Connection, place: Path) -> bool:
    """Copy all that a connection still sees; the system keeps a deleted file for those who have it open."""
    try:
        with contextlib.closing(open_file(place, "rwc")) as copy:
            connection.backup(copy)
            if copy.execute("PRAGMA integrity_check(1)").fetchone()[0] == "ok":
                return True
    except sqlite3.Error:
        pass
    place.unlink(missing_ok=True)
    return False
