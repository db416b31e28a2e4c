"""Names of fits: checked once, and turned into names of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from unicodedata import normalize

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, names_in_words

__all__ = ["Given", "check_files", "file_of", "read_names"]

#: What is to be fitted: evaluations, or a function that returns them when it is their turn.
Given = Evaluations | Callable[[], Evaluations]

#: Signs that stay as they are in the name of a file, beside letters and digits; others become %XX.
PLAIN = " ._-+=,@()"
LONGEST = 200  # bytes of the name of a file or folder


def read_names(given: Any) -> dict[str, Given]:
    """What is to be fitted by name; what comes as a list is named "0", "1", ..."""
    if isinstance(given, Mapping):
        found = dict(given)
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        found = {str(number): each for number, each in enumerate(given)}
    else:
        raise EvaluationsError(
            f"fit_many takes a dict of Evaluations by name, or a list of them, not {type(given).__name__}. "
            "Use vsbq.fit for a single one."
        )
    if not found:
        raise EvaluationsError("There is nothing to fit: no Evaluations were given. Pass at least one.")
    odd = [name for name in found if not (isinstance(name, str) and name and name.isprintable())]
    if odd:
        raise EvaluationsError(f"{odd[0]!r:.60} is no name of a fit. Use texts that can be printed, such as str(name).")
    wrong = [name for name, each in found.items() if not (isinstance(each, Evaluations) or callable(each))]
    if wrong:
        raise EvaluationsError(
            f"{names_in_words(wrong)} is of type {type(found[wrong[0]]).__name__}. Pass vsbq.Evaluations(points, "
            "log_density), or a function without arguments that returns them."
        )
    return found


def file_of(name: str) -> PurePosixPath:
    """The file of a fit within the folder; a "/" in the name makes folders."""
    parts = [_quoted(part) for part in name.split("/")]
    if not all(parts) or any(len(part.encode()) > LONGEST for part in parts):
        raise EvaluationsError(
            f"{name!r:.80} can't be the name of a file: a part of it is empty or longer than {LONGEST} bytes. "
            "Choose another name, or leave out folder."
        )
    return PurePosixPath(*parts[:-1], f"{parts[-1]}.npz")


def check_files(names: Sequence[str]) -> None:
    """Refuse names whose files could be the same one; some systems don't tell capital from small letters."""
    seen: dict[str, str] = {}
    for name in names:
        file = normalize("NFC", str(file_of(name)).casefold())
        if file in seen:
            raise EvaluationsError(
                f"The files of {names_in_words([seen[file], name])} can't be told apart on every system. "
                "Choose names that differ in more than capital letters."
            )
        seen[file] = name


def _quoted(part: str) -> str:
    """Text that every file system takes, different for different parts."""
    last = len(part) - 1
    return "".join(
        char if char.isalnum() or (char in PLAIN and not (char in " ." and i in (0, last))) else _escape(char)
        for i, char in enumerate(part)
    )


def _escape(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode())
