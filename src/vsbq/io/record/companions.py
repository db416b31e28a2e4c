"""The files beside the file of a recorder: `-wal`, `-shm` and `-journal`, which outlive it if it is deleted alone.

SQLite takes whatever lies beside a file for its own, so evaluations of an earlier file would appear in a new one of the
same name. Before a new file appears, what an earlier one has left is therefore moved aside: its `-wal` may hold
evaluations that are nowhere else.
"""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

from vsbq.errors import VsbqWarning, names_in_words
from vsbq.io.record.problem import RecorderError

__all__ = ["alone", "beside", "left_over", "move_left_over", "new_name"]

SUFFIXES = ("-wal", "-shm", "-journal")
PATIENCE = 60.0  # seconds to wait for another process that makes the same file


def beside(path: Path, suffix: str) -> Path:
    """A companion of a file; SQLite keeps it beside the file itself, not beside a link to it."""
    return Path(f"{os.path.realpath(path)}{suffix}")


def new_name(path: Path, purpose: str) -> Path:
    """A name beside a file that is not used yet and tells when and why it was made."""
    return path.with_name(f"{path.name}.{purpose}-{time.strftime('%Y%m%d-%H%M%S')}-{uuid4().hex[:6]}")


def left_over(path: Path) -> list[Path]:
    """The companions of a file that may hold evaluations."""
    return [place for place in (beside(path, "-wal"), beside(path, "-journal")) if _size(place) > 0]


def move_left_over(path: Path) -> None:
    """Move aside what an earlier file of this name has left; only for one who is `alone` and has found no file."""
    found, aside = left_over(path), new_name(path, "left")
    for suffix in SUFFIXES:
        place = beside(path, suffix)
        with contextlib.suppress(FileNotFoundError):
            if found:
                os.rename(place, f"{aside}{suffix}")
            else:
                place.unlink()  # no page is in it
    if found:
        names = names_in_words(place.name for place in found)
        moved = [f"{aside}{suffix}" for suffix in SUFFIXES if beside(path, suffix) in found]
        warnings.warn(
            f"An earlier '{path}' is gone, but {names} beside it may hold evaluations of it. So that they do not get "
            f"into the new file, they were moved to {names_in_words(moved)}. If you have a copy of the earlier file, "
            f"name it '{aside.name}' and read it.",
            VsbqWarning,
            stacklevel=2,
        )


def _size(place: Path) -> int:
    try:
        return place.stat().st_size
    except OSError:
        return 0


# One process at a time may make a file: another one's new `-wal` must not be taken for an old one.


@contextlib.contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process makes this file; the lock ends with the process, however that ends."""
    if os.name == "nt":  # where nobody can move a file that is in use
        yield
        return
    place = path.with_name(f".{path.name}.lock")
    descriptor = _locked(place)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # while it is locked: who waits for it will see that it is gone
            place.unlink()
        os.close(descriptor)


def _locked(place: Path) -> int:
    """A descriptor of the lock file, locked, and still the one under its name."""
    end = time.monotonic() + PATIENCE
    while True:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o666)
        if _try_lock(descriptor) and _is_at(descriptor, place):
            return descriptor
        os.close(descriptor)
        if time.monotonic() > end:
            raise RecorderError(
                f"Another process holds '{place}' for more than {PATIENCE:g} s. End it, or wait for it."
            )
        time.sleep(0.002)


def _try_lock(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a drive without locks
        return True
    return True


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(place))
    except FileNotFoundError:
        return False
