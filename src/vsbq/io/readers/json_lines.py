"""Logs with one JSON object a line, as Nevergrad and bayes_opt write them; a line that a crash cut short may end it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vsbq.errors import EvaluationsError
from vsbq.io.readers import limits


def read_json_lines(path: str | os.PathLike[str], writer: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The objects of a log, and a note if its last line is cut short."""
    name = Path(path).name
    records: list[dict[str, Any]] = []
    damaged: tuple[int, Exception] | None = None  # fine in the last line only
    for number, line in _lines(path):
        if damaged is not None:
            break
        try:
            record = _parsed(line)
        except (ValueError, RecursionError) as error:
            damaged = number, error
            continue
        if not isinstance(record, dict):
            raise EvaluationsError(f"Line {number} of {name!r} is no JSON object. It should come from {writer}.")
        records.append(record)
    else:
        if damaged is not None and records:
            return records, (f"Left out the last line of {name!r}, which is cut short.",)
    if damaged is not None:
        number, why = damaged
        raise EvaluationsError(
            f"Line {number} of {name!r} is no JSON ({why!s:.200}). It should come from {writer}."
        ) from why
    return records, ()


def _parsed(line: str) -> Any:
    """One line; numbers of absurd length are read as floats, so that they cost nothing."""
    if line.count("{") + line.count("[") > limits.MOST_NESTED:
        raise ValueError(f"it holds more than {limits.MOST_NESTED} lists and objects")
    return json.loads(line, parse_int=_integer)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= 19 else float(digits)


def _lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    """Numbered lines that are not empty, none of them longer than a record can be."""
    name = Path(path).name
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            raise EvaluationsError(f"{str(path)!r} is no file. Pass the file of a log.")
        if about.st_size > limits.MOST_JSON_BYTES:
            raise EvaluationsError(
                f"{name!r} has {about.st_size} bytes, and logs of up to {limits.MOST_JSON_BYTES} are read. Split it, "
                "and join the evaluations of the parts with +."
            )
        with open(path, encoding="utf-8-sig") as text:
            number = 0
            while line := text.readline(limits.LONGEST_RECORD):
                number += 1
                if len(line) >= limits.LONGEST_RECORD:
                    raise EvaluationsError(
                        f"Line {number} of {name!r} has more than {limits.LONGEST_RECORD - 1} characters, far too many "
                        "for one evaluation. Keep only the parameters and the value in it."
                    )
                if line.strip():
                    yield number, line
    except FileNotFoundError as error:
        raise EvaluationsError(f"There is no file {str(path)!r}. Check the path.") from error
    except EvaluationsError:
        raise
    except (OSError, ValueError) as error:
        raise EvaluationsError(f"{str(path)!r} can't be read as text in UTF-8 ({error!s:.200}).") from error
