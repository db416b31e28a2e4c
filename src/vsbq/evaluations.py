"""What the user already has: points and their log densities, validated once and then immutable."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from vsbq import _validation as door
from vsbq._typing import ArrayLike, Bool, Float, Int, ndarray
from vsbq.bounds import Bounds, BoundsLike
from vsbq.errors import EvaluationsError, names_in_words

__all__ = ["Evaluations"]


@runtime_checkable
class TableLike(Protocol):
    """The part of a data frame that is used, so that pandas, polars and others all serve."""

    @property
    def columns(self) -> Any:
        """The column names."""

    def __getitem__(self, column: Any, /) -> Any: ...


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Evaluations:
    """Log densities at points, as an optimiser left them behind; the arrays are float64 and read-only.

    The log density is with respect to the parameters as they are in `points`, and not negated; whoever minimised
    passes `neg_log_density` instead. The evidence means something only if no constant was left out of it.

    Args:
        points: one row per evaluation, one column per parameter; (n,) for a single parameter.
        log_density: one value per row. -inf is knowledge (the density is zero there) and is kept.
        neg_log_density: the same with the other sign; exactly one of the two must be given.
        log_density_sd: standard deviation of the noise in the log density, a number or one per row.
        bounds: hard bounds outside which the density is zero; see `Bounds.parse` for the accepted forms.
        plausible_bounds: a finite box, inside the hard bounds, where most of the posterior is expected.
        names: of the parameters; x1, x2, ... or the columns of a data frame if left out.
        nonfinite: "raise" refuses NaN and +inf; "drop" leaves out every row that is not finite; "floor" counts a NaN
            log density as a failed evaluation, that is as -inf.
        outside: "raise" refuses points outside the hard bounds; "drop" leaves them out.
        check_sign: refuse values that look like negative log densities.
    """

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    log_density_sd: Float[ndarray, " n"] | None
    bounds: Bounds
    plausible_bounds: Bounds | None
    names: tuple[str, ...]
    notes: tuple[str, ...] = field(init=False)

    def __init__(
        self,
        points: ArrayLike,
        log_density: ArrayLike | None = None,
        *,
        neg_log_density: ArrayLike | None = None,
        log_density_sd: ArrayLike | float | int | None = None,
        bounds: BoundsLike = None,
        plausible_bounds: BoundsLike = None,
        names: Sequence[str] | None = None,
        nonfinite: door.Nonfinite = "raise",
        outside: door.Outside = "raise",
        check_sign: bool = True,
    ) -> None:
        values = door.read_values(log_density, neg_log_density)
        rows = door.read_rows(points, values, log_density_sd)
        names = door.read_names(names, getattr(points, "columns", None), rows.points.shape[1])
        hard = Bounds.parse(bounds, len(names), names)
        plausible = door.read_plausible(plausible_bounds, hard, names)
        rows = door.apply_nonfinite(rows, nonfinite)
        rows = door.apply_outside(rows, hard, names, outside)
        door.check_usable(rows, names, check_sign=check_sign)
        self._assign(rows, hard, plausible, names)

    def _assign(self, rows: door.Rows, bounds: Bounds, plausible: Bounds | None, names: tuple[str, ...]) -> None:
        for array in (rows.points, rows.log_density, rows.sd):
            if array is not None:
                array.flags.writeable = False
        fields = (rows.points, rows.log_density, rows.sd, bounds, plausible, names, rows.notes)
        for name, value in zip(self.__dataclass_fields__, fields, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def from_dataframe(
        cls,
        df: TableLike,
        *,
        log_density: str | None = None,
        neg_log_density: str | None = None,
        log_density_sd: str | float | int | None = None,
        params: Sequence[str] | None = None,
        bounds: BoundsLike = None,
        plausible_bounds: BoundsLike = None,
        nonfinite: door.Nonfinite = "raise",
        outside: door.Outside = "raise",
        check_sign: bool = True,
    ) -> Evaluations:
        """Read a data frame by its column names; `params` are by default all other numeric columns.

        `log_density_sd` may also be a number, for noise that is the same everywhere.
        """
        noise = [log_density_sd] if isinstance(log_density_sd, str) else []
        names, note = _parameter_columns(df, params, {log_density, neg_log_density, *noise})
        made = cls(
            np.column_stack([door.read_numbers(_column(df, name), f"column '{name}'") for name in names]),
            None if log_density is None else _column(df, log_density),
            neg_log_density=None if neg_log_density is None else _column(df, neg_log_density),
            log_density_sd=_column(df, noise[0]) if noise else log_density_sd,
            bounds=bounds,
            plausible_bounds=plausible_bounds,
            names=[str(name) for name in names],
            nonfinite=nonfinite,
            outside=outside,
            check_sign=check_sign,
        )
        return made._with_notes([*note, *made.notes])

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return int(self.points.shape[1])

    def __len__(self) -> int:
        return len(self.log_density)

    def take(self, rows: Int[ndarray, " m"] | Bool[ndarray, " n"] | Sequence[int] | slice) -> Evaluations:
        """Take some of the rows, by number, mask or slice; they are not validated again, so few rows are fine."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows, dtype=None if len(rows) else np.int64)
        numbers = np.arange(len(self))[chosen]
        sd = None if self.log_density_sd is None else self.log_density_sd[numbers]
        taken = door.Rows(self.points[numbers], self.log_density[numbers], sd, numbers, self.notes)
        part = object.__new__(Evaluations)
        part._assign(taken, self.bounds, self.plausible_bounds, self.names)
        return part

    def _with_notes(self, notes: Sequence[str]) -> Evaluations:
        noted = copy(self)
        object.__setattr__(noted, "notes", tuple(dict.fromkeys(notes)))
        return noted

    def __add__(self, other: Evaluations) -> Evaluations:
        if not isinstance(other, Evaluations):
            return NotImplemented
        _check_same_problem(self, other)
        together = Evaluations(
            np.concatenate([self.points, other.points]),
            np.concatenate([self.log_density, other.log_density]),
            log_density_sd=_join_sd(self, other),
            bounds=self.bounds,
            plausible_bounds=self.plausible_bounds or other.plausible_bounds,
            names=self.names,
            check_sign=False,
        )
        note = f"Joined {len(self)} and {len(other)} evaluations."
        return together._with_notes([note, *self.notes, *other.notes])

    def __repr__(self) -> str:
        finite = self.log_density[np.isfinite(self.log_density)]
        best = f"best log density {finite.max():.6g}" if finite.size else "no finite log density"
        noise = (
            "noise-free"
            if self.log_density_sd is None
            else f"noise sd up to {self.log_density_sd.max(initial=0.0):.3g}"
        )
        return f"Evaluations({len(self)} points, {best}, {noise}, parameters {names_in_words(self.names)})"


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
        others = [name for name in df.columns if name not in taken]
        names = [name for name in others if _column(df, name).dtype.kind in "fiu"]
        left_out = [str(name) for name in others if name not in names]
    if not names:
        raise EvaluationsError("No numeric column is left for the parameters. Name the columns with params=.")
    return names, [f"Left out {names_in_words(left_out)}, which hold no numbers."] if left_out else []


def _join_sd(one: Evaluations, other: Evaluations) -> Float[ndarray, " n"] | None:
    """The noise of both; noise-free evaluations have a standard deviation of zero."""
    if one.log_density_sd is None and other.log_density_sd is None:
        return None
    return np.concatenate([np.zeros(len(e)) if e.log_density_sd is None else e.log_density_sd for e in (one, other)])


def _check_same_problem(one: Evaluations, other: Evaluations) -> None:
    if one.names != other.names:
        raise EvaluationsError(
            f"The parameters are {names_in_words(one.names)} on one side and {names_in_words(other.names)} on the "
            "other. Join only evaluations of the same parameters in the same order."
        )
    if one.bounds != other.bounds:
        names = [n for i, n in enumerate(one.names) if one.bounds.pair(i) != other.bounds.pair(i)]
        raise EvaluationsError(
            f"The bounds of {names_in_words(names)} differ between the two. Pass the same bounds to both."
        )
    if None not in (one.plausible_bounds, other.plausible_bounds) and one.plausible_bounds != other.plausible_bounds:
        raise EvaluationsError(
            "The plausible bounds differ between the two. Pass the same ones to both, or to only one."
        )
