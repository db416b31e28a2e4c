"""Result lines from a file, or from a file as it was at a revision of the repository."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from vsbq.errors import VsbqError
from vsbq_bench.lines import Line, read_lines

__all__ = ["lines_of_two"]

HINT = "name a file of result lines, REVISION:PATH, or a git revision of the other file"


def lines_of_two(old: str, new: str) -> tuple[list[Line], list[Line]]:
    """Read old and new lines; each is a file, REVISION:PATH, or a revision at which the other's file is read."""
    return _lines(old, new), _lines(new, old)


def _lines(name: str, other: str) -> list[Line]:
    lines = read_lines([Path(name)]) if Path(name).is_file() else _at_revision(*_revision(name, other))
    if not lines:
        raise VsbqError(f"There are no result lines in {name}; {HINT}.")
    return lines


def _revision(name: str, other: str) -> tuple[str, Path]:
    revision, colon, path = name.partition(":")
    if colon:
        return revision, Path(path)
    if Path(other).is_file():
        return name, Path(other)
    raise VsbqError(f"There is no file {name}, and no other file that it could be a revision of; {HINT}.")


def _at_revision(revision: str, path: Path) -> list[Line]:
    """Read what git has of a file at a revision; the path is relative to the current folder, as for other files."""
    folder = path.parent if path.parent.is_dir() else Path()
    inside = f"./{path.name}" if path.parent.is_dir() else path.as_posix()
    try:
        shown = subprocess.run(["git", "show", f"{revision}:{inside}"], cwd=folder, capture_output=True, check=False)
    except OSError as error:
        raise VsbqError(f"git, which {revision}:{path} needs, could not be run: {error}") from error
    if shown.returncode != 0:
        said = shown.stderr.decode(errors="replace").strip()
        raise VsbqError(f"git has no {path} at {revision} ({said}); {HINT}.")
    with TemporaryDirectory() as temporary:
        copy = Path(temporary) / f"{path.name} at {revision}".replace("/", "_")
        copy.write_bytes(shown.stdout)
        return read_lines([copy])
