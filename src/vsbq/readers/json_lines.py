"""Logs with one JSON object a line, as Nevergrad and bayes_opt write them; a line that a crash cut short may end it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from vsbq.errors import EvaluationsError

MOST_BYTES = 2**31


def read_json_lines(path: str | os.PathLike[str], writer: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The objects of a log, and a note if its last line is cut short."""
    name = Path(path).name
    lines = [(number, line) for number, line in enumerate(_text(path).split("\n"), start=1) if line.strip()]
    records: list[dict[str, Any]] = []
    for number, line in lines:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == lines[-1][0] and records:
                return records, (f"Left out the last line of {name!r}, which is cut short.",)
            raise EvaluationsError(
                f"Line {number} of {name!r} is no JSON ({error}). It should come from {writer}."
            ) from error
        if not isinstance(record, dict):
            raise EvaluationsError(f"Line {number} of {name!r} is no JSON object. It should come from {writer}.")
        records.append(record)
    return records, ()


def _text(path: str | os.PathLike[str]) -> str:
    try:
        file = Path(path)
        if not file.is_file():
            raise EvaluationsError(f"There is no file {str(path)!r}. Check the path.")
        if file.stat().st_size > MOST_BYTES:
            raise EvaluationsError(f"{file.name!r} is larger than {MOST_BYTES // 2**30} GB. Split it.")
        return file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, EvaluationsError):
            raise
        raise EvaluationsError(f"{str(path)!r} can't be read as text in UTF-8 ({error}).") from error
