"""What the user says about the files: which columns mean what, bounds, and what to do with odd rows.

It is told by options, or by a small TOML file, which is refused where it says anything that is not known.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from vsbq.data.validation import Nonfinite, Outside
from vsbq.errors import EvaluationsError, names_in_words, nearest
from vsbq.io.readers.array_files import ArrayNames
from vsbq.io.readers.number_format import TextFormat

__all__ = ["COLUMNS", "NUMBERS_TOO", "POLICIES", "VALUES", "Pair", "Problem", "read_problem_file"]

Pair = tuple[float, float]

VALUES = ("log_density", "neg_log_density", "log_likelihood")  # one of them
NUMBERS_TOO = ("log_prior", "log_density_sd")
COLUMNS = (*VALUES, *NUMBERS_TOO)
POLICIES: dict[str, tuple[str, ...]] = {"nonfinite": get_args(Nonfinite), "outside": get_args(Outside)}


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What is told about the evaluations; what is left out is guessed from names, or is as in `vsbq.Evaluations`."""

    params: tuple[str, ...] = ()
    bounds: Mapping[str, Pair] = field(default_factory=dict)
    plausible: Mapping[str, Pair] = field(default_factory=dict)
    columns: Mapping[str, str | float] = field(default_factory=dict)
    points: str | None = None
    neg: bool = False
    nonfinite: str | None = None
    outside: str | None = None
    check_sign: bool | None = None
    zero_below: float | None = None
    encoding: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    title: str | None = None
    tag: str | None = None

    @property
    def text(self) -> TextFormat:
        """How text files are written."""
        return TextFormat(self.encoding, self.decimal, self.thousands)

    @property
    def arrays(self) -> ArrayNames:
        """What is said of files that hold arrays."""
        named = tuple(name for name in self.columns.values() if isinstance(name, str))
        return ArrayNames(self.points, self.params, named)

    def evaluation_options(self) -> dict[str, Any]:
        """The arguments of `Evaluations` that are told."""
        given = {
            "bounds": self.bounds or None,
            "plausible_bounds": self.plausible or None,
            "nonfinite": self.nonfinite,
            "outside": self.outside,
            "check_sign": self.check_sign,
            "zero_below": self.zero_below,
            "tag": self.tag,
        }
        return {name: value for name, value in given.items() if value is not None}


# The TOML file


LARGEST = 2**20  # bytes

SECTIONS = ["title", "tag", "parameters", "columns", "input"]
PARAMETER = ["bounds", "plausible"]
INPUT = ["points", "nonfinite", "outside", "check_sign", "zero_below", "encoding", "decimal", "thousands"]


def read_problem_file(path: Path) -> Problem:
    """What a TOML file says about a problem; errors name the file and the key."""
    try:
        return _problem(_parse(path))
    except EvaluationsError as error:
        raise EvaluationsError(f"{str(path)!r}: ", error) from error


def _parse(path: Path) -> dict[str, Any]:
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):
            raise EvaluationsError("it is no file. Pass a TOML file.")
        if about.st_size > LARGEST:
            raise EvaluationsError(f"it has {about.st_size} bytes, far too many for names and bounds.")
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except EvaluationsError:
        raise
    except FileNotFoundError as error:
        raise EvaluationsError("there is no such file. Check the path.") from error
    except OSError as error:
        raise EvaluationsError(f"it can't be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise EvaluationsError("it is not text in UTF-8. Save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise EvaluationsError(f"it is not valid TOML ({error}). Correct that place; toml.io shows how.") from error


def _problem(told: dict[str, Any]) -> Problem:
    _check_keys(told, SECTIONS, "")
    parameters = _section(told, "parameters")
    if "parameters" in told and not parameters:
        raise EvaluationsError("[parameters] is empty. Name the parameters, or leave it out.")
    pairs = {name: _parameter(name, value) for name, value in parameters.items()}
    return Problem(
        params=tuple(parameters),
        bounds={name: each["bounds"] for name, each in pairs.items() if "bounds" in each},
        plausible={name: each["plausible"] for name, each in pairs.items() if "plausible" in each},
        columns=_columns(_section(told, "columns")),
        title=_of_kind(told, "title", str, "a text"),
        tag=_of_kind(told, "tag", str, "a text"),
        **_input(_section(told, "input")),
    )


def _parameter(name: str, value: Any) -> dict[str, Pair]:
    """Bounds and plausible bounds of one parameter; an array stands for its bounds."""
    place = f"parameters.{name}"
    if isinstance(value, list):
        value = {"bounds": value}
    if not isinstance(value, dict):
        raise EvaluationsError(f"{place} is {value!r:.60}. Write [{place}] and below it bounds = [0, 1].")
    _check_keys(value, PARAMETER, f"{place}.")
    return {key: _pair(pair, f"{place}.{key}") for key, pair in value.items()}


def _pair(value: Any, place: str) -> Pair:
    fine = isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
    if not fine:
        raise EvaluationsError(f"{place} is {value!r:.60}. Write two numbers, such as [0, 1], or [0, inf] if open.")
    low, high = (_number(each, place) for each in value)
    return low, high


def _columns(told: Mapping[str, Any]) -> dict[str, str | float]:
    _check_keys(told, list(COLUMNS), "columns.")
    found: dict[str, str | float] = {}
    for key, value in told.items():
        if isinstance(value, str):
            found[key] = value
        elif _is_number(value) and key in NUMBERS_TOO:
            found[key] = _number(value, f"columns.{key}")
        else:
            also = " or a number" if key in NUMBERS_TOO else ""
            raise EvaluationsError(f"columns.{key} is {value!r:.60}. Write the name of a column{also}.")
    return found


def _input(told: Mapping[str, Any]) -> dict[str, Any]:
    _check_keys(told, INPUT, "input.")
    for key, known in POLICIES.items():
        if key in told and told[key] not in known:
            raise EvaluationsError(f"input.{key} is {told[key]!r:.60}. Use one of {names_in_words(known)}.")
    return {
        **{key: told[key] for key in POLICIES if key in told},
        "points": _of_kind(told, "points", str, "the name of an array"),
        "check_sign": _of_kind(told, "check_sign", bool, "true or false"),
        "zero_below": _limit(told),
        "encoding": _of_kind(told, "encoding", str, "the name of an encoding, such as 'utf-8'"),
        "decimal": _of_kind(told, "decimal", str, "'.' or ','"),
        "thousands": _of_kind(told, "thousands", str, "the sign between thousands, such as '.'"),
    }


def _limit(told: Mapping[str, Any]) -> float | None:
    value = told.get("zero_below")
    if value is None:
        return None
    if not _is_number(value):
        raise EvaluationsError(f"input.zero_below is {value!r:.60}. Write a number, such as -1e9.")
    return _number(value, "input.zero_below")


# Single values


def _section(told: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = told.get(key, {})
    if not isinstance(found, dict):
        raise EvaluationsError(f"{key} is {found!r:.60}. It is a section: write [{key}].")
    return found


def _of_kind(told: Mapping[str, Any], key: str, kind: type, words: str) -> Any:
    value = told.get(key)
    if value is not None and not isinstance(value, kind):
        raise EvaluationsError(f"{key} is {value!r:.60}. It must be {words}.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: int | float, place: str) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise EvaluationsError(f"{place} holds a number that is too large. Use inf if that side is open.") from error


def _check_keys(told: Mapping[str, Any], known: list[str], place: str) -> None:
    for key in told:
        if key not in known:
            raise EvaluationsError(f"the key '{place}{key}' is not known. {nearest(key, known)}")
