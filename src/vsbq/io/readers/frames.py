"""Data frames of pandas, polars and others: which columns are read, and from them to `Evaluations`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vsbq._typing import ndarray
from vsbq.data import validation as door
from vsbq.data.evaluations import Evaluations, TableLike
from vsbq.data.losses import note_on_name
from vsbq.errors import Argument, EvaluationsError, names_in_words
from vsbq.io.readers.columns import questions

__all__ = ["read_dataframe"]


def read_dataframe(
    df: TableLike,
    params: Sequence[str] | None,
    *,
    log_density: str | None,
    neg_log_density: str | None,
    log_likelihood: str | None,
    log_prior: str | float | int | None,
    log_density_sd: str | float | int | None,
    **options: Any,
) -> Evaluations:
    """Evaluations from the columns of a data frame; `options` are those of `Evaluations`."""
    if log_density is None and neg_log_density is None and log_likelihood is None:
        raise _which(df)
    columns = (log_density, neg_log_density, log_likelihood, log_prior, log_density_sd)
    names, note = _parameter_columns(df, params, {name for name in columns if isinstance(name, str)})
    values, negated, likelihood, prior, noise = (_column(df, c) if isinstance(c, str) else c for c in columns)
    made = Evaluations(
        np.column_stack([door.read_numbers(_column(df, name), f"column '{name}'") for name in names]),
        values,
        neg_log_density=negated,
        log_likelihood=likelihood,
        log_prior=prior,
        log_density_sd=noise,
        names=[str(name) for name in names],
        **options,
    )
    called = note_on_name(log_density or neg_log_density or log_likelihood)
    return made._with_notes([*note, *called, *made.notes])


def _which(df: TableLike) -> EvaluationsError:
    """Which column holds the values? With what can be guessed from the names."""
    door.check_column_count(len(df.columns), "the data frame")
    columns = [str(column) for column in df.columns]
    return EvaluationsError(
        "Which column of the data frame holds the values?",
        *questions(columns),
        " Name it with ",
        *(Argument("log_density", "NAME"), ", ", Argument("neg_log_density", "NAME"), " (if it was minimised) or "),
        *(Argument("log_likelihood", "NAME"), " with ", Argument("log_prior", "NAME")),
        f". The columns are {names_in_words(columns, 30)}.",
    )


def _column(df: TableLike, name: str) -> ndarray:
    if name not in list(df.columns):
        known = names_in_words(str(column) for column in df.columns)
        raise EvaluationsError(f"There is no column '{name}' in the data frame. Use one of {known}.")
    return np.asarray(df[name].to_numpy())


def _parameter_columns(df: TableLike, params: Sequence[str] | None, taken: set[Any]) -> tuple[list[str], list[str]]:
    """The columns of the parameters, and a note on columns that were left out because they hold no numbers."""
    if params is not None:
        names, left_out = [params] if isinstance(params, str) else list(params), []
    else:
        door.check_column_count(len(df.columns), "the data frame")
        others = [name for name in df.columns if name not in taken]
        numeric = [np.asarray(df[name].to_numpy()).dtype.kind in "fiu" for name in others]
        names = [name for name, fine in zip(others, numeric, strict=True) if fine]
        left_out = [str(name) for name, fine in zip(others, numeric, strict=True) if not fine]
    if not names:
        raise EvaluationsError("No numeric column is left for the parameters. Name the columns with params=.")
    return names, [f"Left out {names_in_words(left_out)}, which hold no numbers."] if left_out else []
