"""Tables of a few new evaluations for a posterior that is there: which rows have values, and what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.cli.input import guess_roles, read_part, told
from vsbq.cli.problem import Problem
from vsbq.data import validation as door
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, VsbqError, count_in_words
from vsbq.io.readers.columns import Roles
from vsbq.io.readers.table import Table
from vsbq.posterior import Posterior

__all__ = ["NewRows", "read_new_rows"]


class NewRows(NamedTuple):
    """New evaluations as `Posterior.update` takes them, the number of rows in each file, and notes on rows without a
    value."""

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    log_density_sd: Float[ndarray, " n"] | None
    log_prior: Float[ndarray, " n"] | None
    rows: tuple[int, ...]
    notes: tuple[str, ...]


class _Columns(NamedTuple):
    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    sd: ArrayLike | float | None
    prior: ArrayLike | float | None


def read_new_rows(paths: Sequence[Path], problem: Problem, post: Posterior) -> NewRows:
    """The rows of all files that have a value; columns that the posterior does not know are left out."""
    found = [_read(path, replace(problem, params=post.names)) for path in paths]
    points = np.concatenate([each.points for each in found])
    values = np.concatenate([each.values for each in found])
    sd, prior = (_together([each[k] for each in found], [len(each.values) for each in found]) for k in (2, 3))
    rows = tuple(len(each.values) for each in found)
    missing = np.isnan(values)
    if missing.all():
        raise EvaluationsError("No row has a value. Write the log densities into a column log_density.")
    notes = (f"Left out {count_in_words(int(missing.sum()), 'row')} without a value.",) if missing.any() else ()
    sd, prior = (None if each is None else each[~missing] for each in (sd, prior))
    return NewRows(points[~missing], values[~missing], sd, prior, rows, notes)


def _read(path: Path, problem: Problem) -> _Columns:
    part = read_part(path, problem)
    if isinstance(part, Evaluations):
        order = [part.names.index(name) for name in problem.params]
        return _Columns(part.points[:, order], part.log_density, part.log_density_sd, part.log_prior)
    try:
        return _columns(part.table, guess_roles(part.table, problem), problem)
    except VsbqError as error:
        raise EvaluationsError(f"{told(path)}: ", error) from error


def _columns(table: Table, roles: Roles, problem: Problem) -> _Columns:
    names = list(problem.params)
    table.check_names(names)
    table.check_numbers([*names, *roles.named()])

    def values(role: str | float | None) -> Any:
        return table[role].values if isinstance(role, str) else role

    prior = values(roles.log_prior)
    found = values(roles.log_density), values(roles.neg_log_density), values(roles.log_likelihood), prior
    points = np.column_stack([table[name].values for name in names])
    return _Columns(points, door.read_values(*found), values(roles.log_density_sd), prior)


def _together(columns: Sequence[Any], rows: Sequence[int]) -> Float[ndarray, " n"] | None:
    """A column of all files; None where none has it."""
    if all(column is None for column in columns):
        return None
    if any(column is None for column in columns):
        raise EvaluationsError("Some of the files have a column of noise or prior that others lack. Add it to all.")
    return np.concatenate([np.broadcast_to(np.asarray(c, float), n) for c, n in zip(columns, rows, strict=True)])
