"""The folder that a fit leaves behind: all of its files appear at the end, or none."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vsbq.cli.files import FileError, check_new

__all__ = ["Folder"]

SUMMARY = "summary.json"
SAMPLES = ("samples.csv", "samples.parquet")


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Where the results go, and under which names; `draft` is a folder inside it that nobody sees for long."""

    path: Path
    draft: Path
    names: tuple[str, ...]
    overwrite: bool

    @classmethod
    @contextmanager
    def prepared(
        cls, path: Path, names: tuple[str, ...], *, overwrite: bool, inputs: Iterable[Path] = ()
    ) -> Iterator[Folder]:
        """Make the folder and see that all files can be written, before the work starts; tidy up if it fails."""
        _check(path, names, overwrite, inputs)
        made = not path.exists()
        try:
            path.mkdir(parents=True, exist_ok=True)
            draft = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=path))
        except (OSError, ValueError) as error:
            raise FileError(f"The folder {str(path)!r} can't be written ({error!s:.200}). Choose another.") from error
        try:
            yield cls(path=path, draft=draft, names=names, overwrite=overwrite)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            if made:
                with suppress(OSError):  # there is something in it, as there should be
                    path.rmdir()

    def finish(self) -> None:
        """Give all files their names; the summary comes last and says that the others are there."""
        _check(self.path, self.names, self.overwrite, ())
        stale = [] if not self.overwrite else _stale(self.path, self.names)
        try:
            for name in self.names:
                os.replace(self.draft / name, self.path / name)
            for file in stale:
                file.unlink(missing_ok=True)
        except OSError as error:
            raise FileError(f"The folder {str(self.path)!r} can't be written ({error.strerror}).") from error


def _check(path: Path, names: tuple[str, ...], overwrite: bool, inputs: Iterable[Path]) -> None:
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise FileError(f"{str(path)!r} is a file. Give the name of a folder for the results.")
        if not path.is_dir():
            return
        here = {name for name in {*names, *SAMPLES} if os.path.lexists(path / name)}
        if here and not overwrite:
            raise FileError(
                f"{str(path)!r} holds results already ({', '.join(sorted(here))}). Pass --overwrite to replace them, "
                "or choose another folder."
            )
        for name in here & set(names):
            check_new(path / name, overwrite)
        for given in inputs:
            if any(os.path.samefile(given, path / name) for name in here if os.path.exists(given)):
                raise FileError(f"{str(given)!r} is read, and would be replaced by the results. Choose another folder.")
    except (OSError, ValueError) as error:
        raise FileError(f"The folder {str(path)!r} can't be used ({error!s:.200}). Choose another.") from error


def _stale(path: Path, names: tuple[str, ...]) -> list[Path]:
    """Samples of an earlier fit in the other format: they would not belong to the new posterior."""
    try:
        told: Any = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        files = told["files"]
        return [path / name for name in SAMPLES if name not in names and name in files]
    except (OSError, ValueError, KeyError, TypeError):
        return []
