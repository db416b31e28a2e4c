"""Files that commands write and read: complete or not there at all, and never over another one without asking."""

from __future__ import annotations

import csv
import importlib
import os
import secrets
import stat
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from vsbq._typing import Float, ndarray
from vsbq.errors import VsbqError
from vsbq.io.files.posterior_file import load
from vsbq.posterior import Posterior

__all__ = [
    "FileError",
    "check_new",
    "load_posterior",
    "need_parquet",
    "posterior_path",
    "table_text",
    "write_new",
    "write_table",
]

POSTERIOR = "posterior.npz"


class FileError(VsbqError):
    """A file can't be read or written; the message says which and why."""


def posterior_path(path: Path) -> Path:
    """The posterior file: itself, or the one in a folder that `vsbq fit` made."""
    try:
        if path.is_dir():
            inside = path / POSTERIOR
            if not inside.is_file():
                raise FileError(
                    f"{str(path)!r} is a folder without {POSTERIOR}. Pass a posterior file, or such a folder."
                )
            return inside
        found = path if path.exists() or path.suffix else path.with_name(path.name + ".npz")
        if not stat.S_ISREG(os.stat(found).st_mode):
            raise FileError(f"{str(path)!r} is no file. Pass a posterior file, or a folder of vsbq fit.")
    except FileNotFoundError as error:
        raise FileError(f"There is no file {str(path)!r}. Check the path.") from error
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} can't be opened ({error!s:.200}).") from error
    return found


def load_posterior(path: Path) -> Posterior:
    """The posterior in a file or in a folder that `vsbq fit` made."""
    found = posterior_path(path)
    try:
        return load(found)
    except OSError as error:
        raise FileError(f"{str(found)!r} can't be read ({error.strerror}).") from error


# Writing


def check_new(path: Path, overwrite: bool) -> None:
    """Refuse, before any work is done, what could not be written in the end."""
    try:
        if "\0" in path.name:
            raise FileError(f"{str(path)!r} can't be the name of a file. Choose another.")
        if path.is_dir():
            raise FileError(f"{str(path)!r} is a folder. Give the name of a file.")
        if not path.parent.is_dir():
            raise FileError(f"There is no folder {str(path.parent)!r} for {path.name!r}. Create it first.")
        if os.path.lexists(path):
            if not overwrite:
                raise FileError(f"{str(path)!r} exists. Pass --overwrite to replace it, or choose another name.")
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise FileError(f"{str(path)!r} is a link or a device, and is not replaced. Choose another name.")
    except (OSError, ValueError) as error:
        raise FileError(f"{str(path)!r} can't be written ({error!s:.200}).") from error


def write_new(path: Path, write: Callable[[Path], object], overwrite: bool) -> None:
    """Write a file under another name and give it its own when it is complete."""
    check_new(path, overwrite)
    draft = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        write(draft)
        check_new(path, overwrite)
        draft.replace(path)
    except OSError as error:
        raise FileError(f"{str(path)!r} can't be written ({error.strerror}).") from error
    finally:
        draft.unlink(missing_ok=True)


def table_text(names: Sequence[str], rows: Float[ndarray, "n d"]) -> str:
    """CSV with a line of names and all digits of the numbers."""
    text = StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows.tolist())
    return text.getvalue()


def need_parquet() -> Any:
    """The package for Parquet files; called early, so that nobody waits for a fit only to hear that it is missing."""
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'vsbq[parquet]'. CSV files need nothing.") from error


def write_table(path: Path, names: Sequence[str], rows: Float[ndarray, "n d"], *, parquet: bool) -> None:
    """A table with a column for each parameter."""
    if not parquet:
        path.write_bytes(table_text(names, rows).encode("utf-8", "backslashreplace"))
        return
    pyarrow = need_parquet()
    table = pyarrow.table(dict(zip(names, rows.T.copy(), strict=True)))
    pyarrow.parquet.write_table(table, path, write_page_checksum=True)
