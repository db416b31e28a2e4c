"""What the user already has: points and their log densities, validated once and then immutable."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.optimize import OptimizeResult

from vsbq._typing import ArrayLike, Bool, Float, Int, ndarray
from vsbq.data import validation as door
from vsbq.data.bounds import Bounds, BoundsLike, refuse_vectors
from vsbq.data.penalties import apply_zero_below
from vsbq.data.row_labels import check_same_labels, refuse_bare_table
from vsbq.data.tags import read_tag
from vsbq.errors import names_in_words

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
        neg_log_density: the same with the other sign.
        log_likelihood: without the prior, which `log_prior` must then give; exactly one of the three must be given.
        log_prior: log density of the prior, a number or one per row, kept apart so that the prior can be changed later.
        log_density_sd: standard deviation of the noise in the log density, a number or one per row.
        bounds: hard bounds outside which the density is zero; see `Bounds.parse` for the accepted forms.
        plausible_bounds: a finite box, inside the hard bounds, where most of the posterior is expected.
        names: of the parameters; x1, x2, ... or the columns of a data frame if left out.
        nonfinite: "raise" refuses NaN and +inf; "drop" leaves out every row that is not finite; "floor" counts a NaN
            log density as a failed evaluation, that is as -inf.
        outside: "raise" refuses points outside the hard bounds; "drop" leaves them out.
        check_sign: refuse values that look like negative log densities.
        zero_below: log densities below this number, such as -1e9, are penalties: they count as -inf.
        tag: which model and data these are of, in your words; evaluations of different tags are neither joined nor
            compared.
    """

    points: Float[ndarray, "n d"]
    log_density: Float[ndarray, " n"]
    log_density_sd: Float[ndarray, " n"] | None
    bounds: Bounds
    plausible_bounds: Bounds | None
    names: tuple[str, ...]
    log_prior: Float[ndarray, " n"] | None
    tag: str | None
    notes: tuple[str, ...] = field(init=False)

    def __init__(
        self,
        points: ArrayLike | OptimizeResult,
        log_density: ArrayLike | None = None,
        *,
        neg_log_density: ArrayLike | None = None,
        log_likelihood: ArrayLike | None = None,
        log_prior: ArrayLike | float | int | None = None,
        log_density_sd: ArrayLike | float | int | None = None,
        bounds: BoundsLike = None,
        plausible_bounds: BoundsLike = None,
        names: Sequence[str] | None = None,
        nonfinite: door.Nonfinite = "raise",
        outside: door.Outside = "raise",
        check_sign: bool = True,
        zero_below: float | int | None = None,
        tag: str | None = None,
    ) -> None:
        door.refuse_result(points)
        refuse_bare_table(points, log_density, neg_log_density, log_likelihood)
        check_same_labels(
            {
                "points": points,
                "log_density": log_density,
                "neg_log_density": neg_log_density,
                "log_likelihood": log_likelihood,
                "log_prior": log_prior,
                "log_density_sd": log_density_sd,
            }
        )
        values = door.read_values(log_density, neg_log_density, log_likelihood, log_prior)
        rows = door.read_rows(points, values, log_density_sd, log_prior)
        names = door.read_names(names, getattr(points, "columns", None), rows.points.shape[1])
        hard = Bounds.parse(bounds, len(names), names)
        plausible = door.read_plausible(plausible_bounds, hard, names)
        refuse_vectors(bounds, hard, rows.points, names)
        rows = door.apply_nonfinite(apply_zero_below(rows, zero_below), nonfinite)
        rows = door.apply_outside(rows, hard, names, outside)
        door.check_usable(rows, names, check_sign=check_sign)
        self._assign(rows, hard, plausible, names, read_tag(tag))

    def _assign(
        self, rows: door.Rows, bounds: Bounds, plausible: Bounds | None, names: tuple[str, ...], tag: str | None
    ) -> None:
        for array in (rows.points, rows.log_density, rows.sd, rows.log_prior):
            if array is not None:
                array.flags.writeable = False
        fields = (rows.points, rows.log_density, rows.sd, bounds, plausible, names, rows.log_prior, tag, rows.notes)
        for name, value in zip(self.__dataclass_fields__, fields, strict=True):
            object.__setattr__(self, name, value)

    # Readers are doors: each imports its room, and its library, only when it is called, and what it finds passes the
    # checks above.

    @classmethod
    def from_dataframe(
        cls,
        df: TableLike,
        *,
        log_density: str | None = None,
        neg_log_density: str | None = None,
        log_likelihood: str | None = None,
        log_prior: str | float | int | None = None,
        log_density_sd: str | float | int | None = None,
        params: Sequence[str] | None = None,
        bounds: BoundsLike = None,
        plausible_bounds: BoundsLike = None,
        nonfinite: door.Nonfinite = "raise",
        outside: door.Outside = "raise",
        check_sign: bool = True,
        zero_below: float | int | None = None,
        tag: str | None = None,
    ) -> Evaluations:
        """Read a data frame by its column names; `params` are by default all other numeric columns.

        `log_density_sd` and `log_prior` may also be a number, for what is the same everywhere.
        """
        from vsbq.io.readers.frames import read_dataframe

        return read_dataframe(
            df,
            params,
            log_density=log_density,
            neg_log_density=neg_log_density,
            log_likelihood=log_likelihood,
            log_prior=log_prior,
            log_density_sd=log_density_sd,
            bounds=bounds,
            plausible_bounds=plausible_bounds,
            nonfinite=nonfinite,
            outside=outside,
            check_sign=check_sign,
            zero_below=zero_below,
            tag=tag,
        )

    # `options` are those of `Evaluations`: bounds, plausible_bounds, names, nonfinite, outside, check_sign,
    # zero_below, log_prior, tag.

    @classmethod
    def from_recorder(cls, path: str | PathLike[str], **options: Any) -> Evaluations:
        """Read what a `vsbq.Recorder` stored: `Evaluations.from_recorder("fits.db")`."""
        from vsbq.io.record import evaluations_from

        return evaluations_from(path, **options)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        *,
        log_density: str | None = None,
        neg_log_density: str | None = None,
        log_likelihood: str | None = None,
        log_prior: str | float | int | None = None,
        log_density_sd: str | float | int | None = None,
        params: Sequence[str] | None = None,
        points: str | None = None,
        encoding: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        **options: Any,
    ) -> Evaluations:
        """Read a CSV, TSV, Parquet, npz, MAT or HDF5 file, or a recorder's: `Evaluations.from_file("fits.csv")`.

        Columns called `log_density`, `neg_log_density`, `log_likelihood`, `log_prior` or `log_density_sd` (and the
        like) are found by name; all other numeric columns are parameters. Name them where that is not so. `encoding`,
        `decimal` and `thousands` say how a text is written: thousands="." and decimal="," for 1.234,5. `points` names
        the matrix of the points in a file of arrays, as "X" or "trace.X"; `params` may then name its columns.
        """
        from vsbq.io.readers.columns import Roles
        from vsbq.io.readers.number_format import TextFormat
        from vsbq.io.readers.tables import read_file

        return read_file(
            path,
            Roles(
                log_density=log_density,
                neg_log_density=neg_log_density,
                log_likelihood=log_likelihood,
                log_prior=log_prior,
                log_density_sd=log_density_sd,
            ),
            params,
            TextFormat(encoding, decimal, thousands),
            options,
            points=points,
        )

    @classmethod
    def from_optuna(cls, study: Any, study_name: str | None = None, **options: Any) -> Evaluations:
        """Read the completed trials of Optuna: `Evaluations.from_optuna(study)`, or the URL or file of its storage.

        The direction gives the sign, the distributions give the bounds. `log_density_sd` may name a user attribute.
        """
        from vsbq.io.readers.optuna_studies import read_optuna

        return read_optuna(study, study_name, options)

    @classmethod
    def from_cma(cls, trace: Any, **options: Any) -> Evaluations:
        """Read pycma: `trace = vsbq.readers.CMATrace(es); es.optimize(f); Evaluations.from_cma(trace)`."""
        from vsbq.io.readers.cma_runs import read_cma

        return read_cma(trace, options)

    @classmethod
    def from_nevergrad(cls, source: Any, **options: Any) -> Evaluations:
        """Read Nevergrad: an optimizer, a `vsbq.readers.NevergradTrace`, or the file of a `ParametersLogger`."""
        from vsbq.io.readers.nevergrad_runs import read_nevergrad

        return read_nevergrad(source, options)

    @classmethod
    def from_pybads(cls, bads: Any, **options: Any) -> Evaluations:
        """Read PyBADS: `bads = BADS(...); bads.optimize(); Evaluations.from_pybads(bads)`."""
        from vsbq.io.readers.bayesian import read_pybads

        return read_pybads(bads, options)

    @classmethod
    def from_pyvbmc(cls, vbmc: Any, **options: Any) -> Evaluations:
        """Read PyVBMC: `vbmc = VBMC(...); vbmc.optimize(); Evaluations.from_pyvbmc(vbmc)`."""
        from vsbq.io.readers.bayesian import read_pyvbmc

        return read_pyvbmc(vbmc, options)

    @classmethod
    def from_bayes_opt(cls, optimizer: Any, **options: Any) -> Evaluations:
        """Read bayes_opt: `optimizer.maximize(); Evaluations.from_bayes_opt(optimizer)`, or the file of its logger."""
        from vsbq.io.readers.bayesian import read_bayes_opt

        return read_bayes_opt(optimizer, options)

    @classmethod
    def from_skopt(cls, result: Any, **options: Any) -> Evaluations:
        """Read scikit-optimize: `Evaluations.from_skopt(gp_minimize(f, dimensions))`."""
        from vsbq.io.readers.bayesian import read_skopt

        return read_skopt(result, options)

    @classmethod
    def from_emcee(cls, sampler: Any, **options: Any) -> Evaluations:
        """Read emcee: `Evaluations.from_emcee(sampler)`, or a backend, or the HDF5 file of one.

        `log_prior` may be a function of one point, one value each, or the name of a blob.
        """
        from vsbq.io.readers.samplers import read_emcee

        return read_emcee(sampler, options)

    @classmethod
    def from_dynesty(cls, results: Any, log_prior: Any = None, **options: Any) -> Evaluations:
        """Read dynesty: `Evaluations.from_dynesty(sampler.results, log_prior=f)`; it keeps only likelihoods.

        `log_prior` is a function of one point, one number for a flat prior, or one value for each sample.
        """
        from vsbq.io.readers.samplers import read_dynesty

        return read_dynesty(results, log_prior, options)

    @classmethod
    def from_lmfit(cls, trace: Any, log_prior: Any = None, **options: Any) -> Evaluations:
        """Read lmfit: `trace = vsbq.readers.LmfitTrace(sigma); minimize(residual, params, iter_cb=trace)`.

        Residuals give a likelihood: `log_prior` is a function of one point, one number, or one value for each.
        """
        from vsbq.io.readers.lmfit_runs import read_lmfit

        return read_lmfit(trace, log_prior, options)

    @classmethod
    def from_pypesto(
        cls, result: Any, *, likelihood: bool = False, log_prior: Any = None, **options: Any
    ) -> Evaluations:
        """Read the histories of pyPESTO: `Evaluations.from_pypesto(result)`, or the HDF5 file that holds them.

        The objective is a negative log posterior; with likelihood=True it is without the prior, and `log_prior` is
        needed.
        """
        from vsbq.io.readers.pypesto_runs import read_pypesto

        return read_pypesto(result, likelihood, log_prior, options)

    @classmethod
    def from_cobaya(cls, chain: Any, params: Sequence[str] | None = None, **options: Any) -> Evaluations:
        """Read a chain of Cobaya: its sampler, a `SampleCollection`, several, or the prefix of its files.

        Files need `params`, the sampled parameters, as they hold derived ones too.
        """
        from vsbq.io.readers.cobaya_chains import read_cobaya

        return read_cobaya(chain, params, options)

    @property
    def dimension(self) -> int:
        """How many parameters there are."""
        return int(self.points.shape[1])

    @property
    def log_likelihood(self) -> Float[ndarray, " n"] | None:
        """The log density without the prior, if the prior is known; NaN where the prior is zero."""
        if self.log_prior is None:
            return None
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(self.log_prior), np.nan, self.log_density - self.log_prior)

    def __len__(self) -> int:
        return len(self.log_density)

    def take(self, rows: Int[ndarray, " m"] | Bool[ndarray, " n"] | Sequence[int] | slice) -> Evaluations:
        """Take some of the rows, by number, mask or slice; they are not validated again, so few rows are fine."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows, dtype=None if len(rows) else np.int64)
        numbers = np.arange(len(self))[chosen]
        sd = None if self.log_density_sd is None else self.log_density_sd[numbers]
        prior = None if self.log_prior is None else self.log_prior[numbers]
        taken = door.Rows(self.points[numbers], self.log_density[numbers], sd, numbers, self.notes, prior)
        part = object.__new__(Evaluations)
        part._assign(taken, self.bounds, self.plausible_bounds, self.names, self.tag)
        return part

    def with_sd(self, sd: Float[ndarray, " n"]) -> Evaluations:
        """The same evaluations with another standard deviation of their noise, one per row."""
        changed, own = copy(self), np.array(sd, dtype=np.float64)
        own.flags.writeable = False
        object.__setattr__(changed, "log_density_sd", own)
        return changed

    def with_tag(self, tag: str | None) -> Evaluations:
        """The same evaluations under another tag, or under none."""
        changed = copy(self)
        object.__setattr__(changed, "tag", read_tag(tag))
        return changed

    def _with_notes(self, notes: Sequence[str]) -> Evaluations:
        noted = copy(self)
        object.__setattr__(noted, "notes", tuple(dict.fromkeys(notes)))
        return noted

    def __add__(self, other: Evaluations) -> Evaluations:
        from vsbq.data.joining import join

        return join(self, other) if isinstance(other, Evaluations) else NotImplemented

    def __repr__(self) -> str:
        finite = self.log_density[np.isfinite(self.log_density)]
        best = f"best log density {finite.max():.6g}" if finite.size else "no finite log density"
        noise = (
            "noise-free"
            if self.log_density_sd is None
            else f"noise sd up to {self.log_density_sd.max(initial=0.0):.3g}"
        )
        tag = "" if self.tag is None else f", tag {self.tag!r:.80}"
        return f"Evaluations({len(self)} points, {best}, {noise}, parameters {names_in_words(self.names)}{tag})"
