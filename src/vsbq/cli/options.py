"""The options that say what the files hold; they win over the TOML file."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace, _ArgumentGroup
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

from vsbq.cli.problem import COLUMNS, NUMBERS_TOO, POLICIES, VALUES, Pair, Problem, read_problem_file
from vsbq.cli.terminal import UsageError
from vsbq.errors import join_words, nearest
from vsbq.io.readers.number_format import THOUSANDS

__all__ = ["add_problem_options", "problem_of"]


def add_problem_options(parser: ArgumentParser) -> None:
    """The options that say what the columns of the files mean."""
    group = parser.add_argument_group("what the file holds (guessed from the names of the columns where left out)")
    config = "names, bounds and columns; options win over it"
    group.add_argument("--config", type=Path, metavar="FILE.toml", help=config)
    group.add_argument(
        *("--params", "--names"),
        type=_names,
        action="extend",
        default=[],
        metavar="A,B",
        help="columns of the parameters (default: all numeric ones that are nothing else)",
    )
    group.add_argument(
        *("--bound", "--bounds"),
        type=_bound,
        action="append",
        default=[],
        metavar="A=LOW,HIGH",
        help="hard bounds, outside which the density is zero; leave a side empty if it is open: a=0,",
    )
    group.add_argument(
        "--plausible",
        type=_bound,
        action="append",
        default=[],
        metavar="A=LOW,HIGH",
        help="where most of the posterior is expected; give it for all parameters or for none",
    )
    group.add_argument(
        *("--column", "--columns"),
        type=_column,
        action="append",
        default=[],
        metavar="MEANING=NAME",
        help=f"which column holds what: {', '.join(COLUMNS)} (the last two may be a number)",
    )
    _add_columns(group)
    points = "matrix of the points in a MAT, HDF5 or npz file, as X or trace.X; --params then names its columns"
    group.add_argument("--points", metavar="NAME", help=points)
    _add_values(group)
    _add_policies(parser)


def _add_columns(group: _ArgumentGroup) -> None:
    """An option for each meaning of a column, for people who look for one of its name."""
    for role in COLUMNS:
        words = f"the same as --column {role}=NAME{' or a number' if role in NUMBERS_TOO else ''}"
        group.add_argument(
            f"--{role.replace('_', '-')}",
            type=partial(_column_of, role),
            dest="column",
            action="append",
            metavar="NAME",
            help=words,
        )


def _add_values(group: _ArgumentGroup) -> None:
    group.add_argument("--neg", action="store_true", help="the values were minimised: they are minus the log density")
    group.add_argument("--sd", type=_sd, metavar="NUMBER", help="noise of every log density, as a standard deviation")
    group.add_argument("--tag", help="which model and data it is of: vsbq compare refuses models of different tags")


def _add_policies(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("odd rows")
    words = {
        "nonfinite": "NaN and inf: refuse them, leave the rows out, or count a NaN value as a density of zero",
        "outside": "points outside the bounds: refuse them, or leave them out",
    }
    for name, known in POLICIES.items():
        group.add_argument(f"--{name}", choices=known, help=f"{words[name]} (default: {known[0]})")
    group.add_argument(
        "--no-check-sign", dest="check_sign", action="store_false", default=None, help="the sign is right"
    )
    group.add_argument(
        "--zero-below", type=_limit, metavar="NUMBER", help="penalties: log densities below it are a density of zero"
    )
    group.add_argument("--encoding", metavar="NAME", help="of text files, such as cp1252 (default: utf-8)")
    group.add_argument("--decimal", choices=(".", ","), help="decimal sign of text files (default: found out)")
    group.add_argument("--thousands", choices=tuple(THOUSANDS), help="what separates thousands (default: nothing)")


def problem_of(options: Namespace) -> Problem:
    """From the TOML file and the options, which win over it."""
    told = _told(options)
    base = read_problem_file(options.config) if options.config is not None else Problem()
    columns = {key: value for key, value in base.columns.items() if not told.replaces(key)} | told.columns
    _check_values(columns, options.neg)
    return replace(
        base,
        params=told.params or base.params,
        bounds={**base.bounds, **told.bounds},
        plausible={**base.plausible, **told.plausible},
        columns=columns,
        points=options.points or base.points,
        neg=options.neg,
        nonfinite=options.nonfinite or base.nonfinite,
        outside=options.outside or base.outside,
        check_sign=base.check_sign if options.check_sign is None else options.check_sign,
        zero_below=base.zero_below if options.zero_below is None else options.zero_below,
        encoding=options.encoding or base.encoding,
        decimal=options.decimal or base.decimal,
        thousands=options.thousands or base.thousands,
        tag=options.tag or base.tag,
    )


class _Told(NamedTuple):
    """What the options say."""

    params: tuple[str, ...]
    bounds: dict[str, Pair]
    plausible: dict[str, Pair]
    columns: dict[str, str | float]

    def replaces(self, role: str) -> bool:
        """Whether a column of the TOML file has no say any more: it, or another column of values, is an option."""
        return role in self.columns or (role in VALUES and bool(set(VALUES) & set(self.columns)))


def _told(options: Namespace) -> _Told:
    told = _Told(
        tuple(options.params),
        _once(options.bound, "--bound"),
        _once(options.plausible, "--plausible"),
        _once(options.column, "--column"),
    )
    twice = [name for name in dict.fromkeys(told.params) if told.params.count(name) > 1]
    if twice:
        raise UsageError(f"--params names '{twice[0]}' twice. Name every parameter once.")
    if options.sd is not None:
        if "log_density_sd" in told.columns:
            raise UsageError("--sd and --column log_density_sd both give the noise. Give one of them.")
        told.columns["log_density_sd"] = options.sd
    return told


def _check_values(columns: Mapping[str, Any], neg: bool) -> None:
    """Refuse two columns of values, and a sign that is turned twice."""
    values = [role for role in VALUES if role in columns]
    if len(values) > 1:
        raise UsageError(f"The columns of {join_words(values)} are given, but only one holds the values. Give one.")
    if neg and values and values != ["log_density"]:
        raise UsageError(f"--neg turns a log_density around, but a column of {values[0]} is given. Leave --neg out.")


def _once(pairs: list[tuple[str, Any]], option: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise UsageError(f"{option} gives '{name}' twice. Give it once.")
        found[name] = value
    return found


# The values of options; argparse puts the name of the option before the message


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ArgumentTypeError(f"an empty name in {text!r:.60}. Write names with commas between them: a,b")
    return names


def _bound(text: str) -> tuple[str, Pair]:
    name, equals, pair = text.rpartition("=")
    low, comma, high = pair.partition(",")
    if not (name and equals and comma):
        raise ArgumentTypeError(f"{text!r:.60} is no bound. Write NAME=LOW,HIGH, such as a=0,1 or a=0, if open above.")
    return name, (_end(low, -float("inf"), text), _end(high, float("inf"), text))


def _end(text: str, default: float, whole: str) -> float:
    if not text.strip():
        return default
    return _number(text, f"{text!r:.60} in {whole!r:.60}")


def _number(text: str, shown: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if isnan(value):
        raise ArgumentTypeError(f"{shown} is no number.")
    return value


def _column(text: str) -> tuple[str, str | float]:
    role, equals, name = text.partition("=")
    if role not in COLUMNS:
        remedy = nearest(role, list(COLUMNS)) if equals else "Write MEANING=NAME, such as log_density=ll."
        raise ArgumentTypeError(f"{text!r:.60} does not say what a column means. {remedy}")
    if not name:
        raise ArgumentTypeError(f"{text!r:.60} names no column. Write {role}=NAME.")
    if role in NUMBERS_TOO:
        try:
            return role, float(name)
        except ValueError:
            return role, name
    return role, name


def _limit(text: str) -> float:
    return _number(text, repr(text)[:60])


def _column_of(role: str, text: str) -> tuple[str, str | float]:
    return _column(f"{role}={text}")


def _sd(text: str) -> float:
    value = _number(text, repr(text)[:60])
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r:.60} is no standard deviation. Give a number that is not negative.")
    return value
