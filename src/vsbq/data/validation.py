"""The door: what the user hands over is read, checked and, where asked, thinned, once and for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from scipy.optimize import OptimizeResult

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.data.bounds import Bounds, BoundsLike, default_names
from vsbq.data.signs import copied_column, duplicate_groups, looks_negated
from vsbq.errors import Argument, EvaluationsError, count_in_words, join_words, names_in_words, rows_in_words

Nonfinite = Literal["raise", "drop", "floor"]
Outside = Literal["raise", "drop"]
DISAGREEMENT = 0.01  # nats by which noise-free evaluations of one point may differ
MOST_COLUMNS = 1000
BEYOND = 1e100  # larger numbers are stand-ins for infinity: their squares and differences would overflow


@dataclass(frozen=True, eq=False)
class Rows:
    """The evaluations on their way through the door; `numbers` are the row numbers in the user's arrays."""

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    sd: Float[ndarray, " n"] | None
    numbers: Int[ndarray, " n"]
    notes: tuple[str, ...] = ()
    log_prior: Float[ndarray, " n"] | None = None

    def keep(self, mask: Bool[ndarray, " n"], note: str) -> Rows:
        """Only some of the rows, with a note on why."""
        sd, prior = (None if each is None else each[mask] for each in (self.sd, self.log_prior))
        notes = (*self.notes, note)
        return Rows(self.points[mask], self.log_density[mask], sd, self.numbers[mask], notes, prior)

    def words(self, mask: Bool[ndarray, " n"]) -> str:
        """The row numbers of a mask, for a message."""
        return rows_in_words(self.numbers[mask].tolist())


# Reading: from what the user has to float64 arrays of agreeing shapes.


def read_numbers(value: Any, label: str) -> ndarray:
    """A float64 copy of real numbers, whatever holds them."""
    if np.ma.isMaskedArray(value):
        raise EvaluationsError(
            f"{label} is a masked array. Pass {label}.filled(np.nan) together with nonfinite='drop' to leave the "
            "masked rows out."
        )
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as error:
        raise EvaluationsError(f"{label} can't be read as an array ({error}). Pass a NumPy array of floats.") from error
    if array.dtype.kind not in "fiu":
        raise EvaluationsError(
            f"{label} holds values of type {array.dtype}, not real numbers. "
            "Convert them first, for example with np.asarray(..., dtype=float)."
        )
    with np.errstate(over="ignore"):
        return np.array(array, dtype=np.float64, order="C")


def refuse_result(value: Any) -> None:
    """Refuse the result of `scipy.optimize`, which holds the best point and no others."""
    if isinstance(value, OptimizeResult) and "x_iters" not in value:
        raise EvaluationsError(
            "A result of scipy.optimize holds only the best point: SciPy keeps no trace. Record the run instead: "
            "rec = vsbq.Recorder('fits.db'); minimize(rec.minimise(f), ...); Evaluations.from_recorder('fits.db')."
        )


def read_values(log_density: Any, neg_log_density: Any, log_likelihood: Any, log_prior: Any) -> Float[ndarray, " n"]:
    """The log density of every row, from whichever meaning was given."""
    given = {"log_density": log_density, "neg_log_density": neg_log_density, "log_likelihood": log_likelihood}
    found = [(label, value) for label, value in given.items() if value is not None]
    if len(found) != 1:
        count = {0: "none is", 2: "two are"}.get(len(found), "all are")
        raise EvaluationsError(
            f"Exactly one of log_density, neg_log_density and log_likelihood is needed, but {count} given. "
            "Pass log_density, neg_log_density if the values were minimised, or log_likelihood with log_prior."
        )
    label, value = found[0]
    values = _per_row(read_numbers(value, label), label)
    if label != "log_likelihood":
        return -values if label == "neg_log_density" else values
    if log_prior is None:
        raise EvaluationsError(
            "log_likelihood alone is not a posterior. Pass ",
            Argument("log_prior"),
            " as well: one value per row, or one number for a flat prior (minus the log of the volume within the "
            "bounds).",
        )
    prior = read_prior(log_prior, len(values))
    with np.errstate(invalid="ignore"):
        # Where the prior is zero the likelihood is often not even computed.
        return np.where(np.isneginf(prior), -np.inf, values + prior)


def read_prior(log_prior: Any, n: int) -> Float[ndarray, " n"]:
    """The log prior of every row, from one number or one for each."""
    array = read_numbers(log_prior, "log_prior")
    array = np.full(n, array.item()) if array.ndim == 0 else _per_row(array, "log_prior")
    if len(array) != n:
        raise EvaluationsError(
            f"log_prior has {len(array)} values for {n} evaluations. Pass one number, or one per evaluation."
        )
    return array


def _per_row(array: ndarray, label: str) -> Float[ndarray, " n"]:
    if array.ndim != 1 and not (array.ndim == 2 and array.shape[1] == 1):
        raise EvaluationsError(
            f"{label} must hold one number per row of points, but has shape {array.shape}. Flatten it."
        )
    return array.reshape(-1)


def read_rows(points: Any, values: Float[ndarray, " n"], sd: Any, log_prior: Any = None) -> Rows:
    """Points, log densities, noise and prior with one row for each evaluation."""
    x = read_numbers(points, "points")
    x = x[:, None] if x.ndim == 1 and len(x) == len(values) else x
    if x.ndim != 2:
        raise EvaluationsError(
            f"points must have one row per evaluation and one column per parameter, but has shape {x.shape} for "
            f"{len(values)} log densities. Reshape it."
        )
    if x.shape[0] != len(values):
        turned = x.shape[1] == len(values)
        remedy = "It looks transposed: pass points.T." if turned else "Pass one log density for every row of points."
        raise EvaluationsError(f"points has {x.shape[0]} rows, but there are {len(values)} log densities. {remedy}")
    check_column_count(x.shape[1], "points")
    if x.size == 0:
        raise EvaluationsError(f"points is empty (shape {x.shape}). Pass at least 20 evaluations of some parameter.")
    n = len(values)
    noise, prior = None if sd is None else _read_sd(sd, n), None if log_prior is None else read_prior(log_prior, n)
    return Rows(x, values, noise, np.arange(n), log_prior=prior)


def check_column_count(count: int, label: str) -> None:
    """Refuse far more columns than a fit can have parameters, before anything is done for each of them."""
    if count > MOST_COLUMNS:
        raise EvaluationsError(
            f"{label} has {count} columns, and every column would be a parameter; more than {MOST_COLUMNS} can't be "
            "fitted. Pass one row per evaluation and one column per parameter: turn it with .T if it is transposed, "
            "and pick the columns if only some are parameters."
        )


def _read_sd(sd: Any, n: int) -> Float[ndarray, " n"]:
    array = read_numbers(sd, "log_density_sd")
    array = np.full(n, array.item()) if array.ndim == 0 else _per_row(array, "log_density_sd")
    if len(array) != n:
        raise EvaluationsError(
            f"log_density_sd has {len(array)} values for {n} evaluations. Pass one number, or one per evaluation."
        )
    if (array < 0).any():
        rows = np.flatnonzero(array < 0).tolist()
        raise EvaluationsError(
            f"{len(rows)} of log_density_sd are negative {rows_in_words(rows)}. Pass standard deviations, which are "
            "zero (no noise) or positive."
        )
    return array


def read_names(names: Sequence[str] | None, columns: Any, dimension: int) -> tuple[str, ...]:
    """One name for each parameter: given, from the columns of a data frame, or x1, x2, ..."""
    if names is None:
        return default_names(dimension) if columns is None else read_names([str(c) for c in columns], None, dimension)
    if isinstance(names, str):
        raise EvaluationsError(f"names must be a list of strings, but is the string {names!r}. Pass [{names!r}].")
    names = tuple(names)
    if len(names) != dimension:
        given = count_in_words(len(names), "name")
        raise EvaluationsError(f"{given} for {dimension} columns of points. Pass one name for each.")
    if not all(isinstance(name, str) and name for name in names):
        raise EvaluationsError(f"names must be strings that are not empty, but are {names}. Pass one for each column.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise EvaluationsError(
            f"names holds {names_in_words(twice)} more than once. Give every parameter its own name."
        )
    return names


def read_plausible(value: BoundsLike, hard: Bounds, names: tuple[str, ...]) -> Bounds | None:
    """Plausible bounds, finite and inside the hard ones."""
    if value is None:
        return None
    plausible = Bounds.parse(value, len(names), names, label="plausible_bounds")
    for i, name in enumerate(names):
        pair, box = (plausible.lower[i], plausible.upper[i]), (hard.lower[i], hard.upper[i])
        if not np.isfinite(pair).all() or pair[0] < box[0] or pair[1] > box[1]:
            raise EvaluationsError(
                f"plausible_bounds of '{name}' must be finite and within the hard bounds [{box[0]:g}, {box[1]:g}], but "
                f"are ({pair[0]:g}, {pair[1]:g}). Give two finite numbers inside, or no plausible bounds at all."
            )
    return plausible


# Policies: what happens to rows that can't be used as they are.


def _count(mask: Bool[ndarray, " n"], noun: str) -> str:
    return count_in_words(int(mask.sum()), noun)


def _check_policy(label: str, policy: str, known: tuple[str, ...]) -> None:
    if policy not in known:
        raise EvaluationsError(
            f"{label}={policy!r} is not known. Use one of {join_words([repr(word) for word in known])}."
        )


def apply_nonfinite(rows: Rows, policy: str) -> Rows:
    """Refuse, drop or floor what is not finite; log densities of -inf stay unless dropped."""
    _check_policy("nonfinite", policy, get_args(Nonfinite))
    rows = _floor_stand_ins(rows)
    if policy == "drop":
        rows = _drop_nonfinite(rows)
    elif policy == "floor":
        rows = _floor_nan(rows)
    found = [f"{what} in {_count(mask, 'row')} {rows.words(mask)}" for what, mask in _nonfinite(rows).items()]
    if found:
        drop = ("Correct them, or pass ", Argument("nonfinite", "drop"), " to leave these rows out")
        floor = (", or ", Argument("nonfinite", "floor"), " to count a NaN log density as a density of zero")
        remedy = drop if policy == "floor" else drop + floor
        raise EvaluationsError(f"Some numbers are not finite: {join_words(found)}. ", *remedy, ".")
    _check_prior(rows)
    return rows if policy == "drop" else _note_zero_density(rows)


def _nonfinite(rows: Rows) -> dict[str, Bool[ndarray, " n"]]:
    """What is wrong with which rows; a density or a prior of zero is fine."""
    columns = {"the log density": rows.log_density, "the log prior": rows.log_prior}
    huge = np.isfinite(rows.points).all(axis=1) & ~(np.abs(rows.points) < BEYOND).all(axis=1)
    bad = {"points has NaN or inf": ~np.isfinite(rows.points).all(axis=1)}
    bad[f"points has numbers beyond ±{BEYOND:g} (use another unit)"] = huge
    bad |= {f"{what} is NaN or +inf": ~(array < BEYOND) for what, array in columns.items() if array is not None}
    if rows.sd is not None:
        bad["log_density_sd is NaN or inf"] = ~(rows.sd < BEYOND)
    return {what: mask for what, mask in bad.items() if mask.any()}


def _floor_stand_ins(rows: Rows) -> Rows:
    """Count what is absurdly low as what it stands for: a density of zero."""
    low = np.isfinite(rows.log_density) & (rows.log_density <= -BEYOND)
    prior = rows.log_prior
    if prior is not None:
        absurd = np.isfinite(prior) & (prior <= -BEYOND)
        low |= absurd & ~np.isneginf(rows.log_density)
        prior = np.where(absurd, -np.inf, prior)
    if not low.any():
        return replace(rows, log_prior=prior)
    note = f"Counted {_count(low, 'log density')} below {-BEYOND:g} as -inf {rows.words(low)}."
    values = np.where(low, -np.inf, rows.log_density)
    return replace(rows, log_density=values, log_prior=prior, notes=(*rows.notes, note))


def _drop_nonfinite(rows: Rows) -> Rows:
    keep = np.isfinite(rows.log_density)
    for mask in _nonfinite(rows).values():
        keep &= ~mask
    if keep.all():
        return rows
    return rows.keep(keep, f"Left out {_count(~keep, 'row')} with NaN or inf {rows.words(~keep)}.")


def _floor_nan(rows: Rows) -> Rows:
    failed = np.isnan(rows.log_density)
    if not failed.any():
        return rows
    note = f"Counted {_count(failed, 'log density')} of NaN as failed, that is as -inf {rows.words(failed)}."
    prior = rows.log_prior
    return replace(
        rows,
        log_density=np.where(failed, -np.inf, rows.log_density),
        sd=None if rows.sd is None else np.where(failed & np.isnan(rows.sd), 0.0, rows.sd),
        notes=(*rows.notes, note),
        log_prior=None if prior is None else np.where(failed & np.isnan(prior), -np.inf, prior),
    )


def _check_prior(rows: Rows) -> None:
    """Where the prior is zero, so is the posterior."""
    if rows.log_prior is None:
        return
    clash = np.isneginf(rows.log_prior) & ~np.isneginf(rows.log_density)
    if clash.any():
        raise EvaluationsError(
            f"The log prior is -inf but the log density is not in {_count(clash, 'row')} {rows.words(clash)}. "
            "Pass log densities with the prior in them; values without it are a log_likelihood."
        )


def _note_zero_density(rows: Rows) -> Rows:
    zero = np.isneginf(rows.log_density)
    if not zero.any():
        return rows
    note = (
        f"Kept {_count(zero, 'log density')} of -inf, as knowledge that the density is zero there {rows.words(zero)}."
    )
    return replace(rows, notes=(*rows.notes, note))


def apply_outside(rows: Rows, bounds: Bounds, names: tuple[str, ...], policy: str) -> Rows:
    """Refuse or drop points outside the hard bounds."""
    _check_policy("outside", policy, get_args(Outside))
    coordinates = bounds.outside(rows.points)
    outside: Bool[ndarray, " n"] = np.asarray(coordinates.any(axis=1))
    if not outside.any():
        return rows
    which = names_in_words(name for name, out in zip(names, coordinates.T, strict=True) if out.any())
    found = f"{_count(outside, 'point')} outside the hard bounds of {which} {rows.words(outside)}"
    if policy == "drop":
        return rows.keep(~outside, f"Left out {found}.")
    raise EvaluationsError(
        f"points has {found}. Widen the bounds, or pass ", Argument("outside", "drop"), " to leave these rows out."
    )


# Checks of what is left: is there anything to learn from it, and does it contradict itself?


def check_usable(rows: Rows, names: tuple[str, ...], *, check_sign: bool) -> None:
    """Refuse evaluations from which nothing can be learnt, or that contradict themselves or their sign."""
    finite = np.isfinite(rows.log_density)
    points, values = rows.points[finite], rows.log_density[finite]
    _check_enough(len(values), len(rows.numbers), len(names))
    _check_columns(points, names)
    if np.ptp(values) == 0:
        raise EvaluationsError(
            f"All {len(values)} finite log densities equal {values[0]:g}. Check that the right column was passed."
        )
    _check_duplicates(rows)
    if check_sign and looks_negated(points, values):
        raise EvaluationsError(
            f"The log densities look negated: the lowest (down to {values.min():.4g}) lie close together, the highest "
            f"(up to {values.max():.4g}) far out. Pass ",
            Argument("neg_log_density", said="them as neg_log_density="),
            " if they are negative log densities, or ",
            Argument("check_sign", False),
            " if they are right.",
        )


def _check_enough(usable: int, total: int, dimension: int) -> None:
    needed = max(20, 5 * dimension)
    if usable < needed:
        there = count_in_words(total, "evaluation")
        found = f"There are {there}" if usable == total else f"Only {usable} of {there} have a finite log density"
        raise EvaluationsError(
            f"{found}, but {count_in_words(dimension, 'parameter')} need at least {needed} (and 100 each is better). "
            "Add evaluations."
        )


def _check_columns(points: Float[ndarray, "n d"], names: tuple[str, ...]) -> None:
    constant = np.flatnonzero(np.all(points == points[0], axis=0))
    if constant.size:
        which = join_words([f"'{names[i]}' ({points[0, i]:g})" for i in constant])
        raise EvaluationsError(
            f"The column of {which} is constant wherever the log density is finite. Fix that parameter and leave its "
            "column out."
        )
    copy = copied_column(points)
    if copy is not None:
        raise EvaluationsError(
            f"The columns of '{names[copy[0]]}' and '{names[copy[1]]}' carry the same numbers, up to shift and scale. "
            "Leave one of them out."
        )


def _check_duplicates(rows: Rows) -> None:
    """Without noise, a point has one log density: repeated evaluations must agree with the first one.

    Where no sd is given and repeated evaluations differ as a rule, they are noisy; the fit then estimates how much.
    """
    exact = np.flatnonzero(rows.sd == 0) if rows.sd is not None else np.arange(len(rows.numbers))
    values, first = rows.log_density[exact], duplicate_groups(rows.points[exact])
    with np.errstate(invalid="ignore"):
        gap = np.abs(values - values[first])
    clash = np.flatnonzero((gap > DISAGREEMENT) & (values != values[first]))
    repeated = int((first != np.arange(len(first))).sum())
    if clash.size and not (rows.sd is None and clash.size >= max(3, repeated / 2)):
        numbers = rows.numbers[exact]
        pairs = [f"{numbers[first[i]]} and {numbers[i]}" for i in clash[:5]]
        more = f", and {clash.size - 5} more" if clash.size > 5 else ""
        raise EvaluationsError(
            f"{count_in_words(clash.size, 'pair')} of rows with the same point have log densities that differ by more "
            f"than {DISAGREEMENT} (rows {'; '.join(pairs)}{more}). Pass ",
            Argument("log_density_sd"),
            " if the log density is noisy, or keep only one row of each point.",
        )
