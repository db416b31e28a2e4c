"""Cobaya: the states of its chains, with the prior apart, from a sampler, a collection or the files of a chain."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.validation import refuse_result
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.io.readers.number_format import TextFormat
from vsbq.io.readers.tables import open_table, read_safely, read_table
from vsbq.io.readers.traces import Pairs, Trace, make_evaluations, without_repeats

__all__ = ["read_cobaya"]

VALUE, PRIOR, CHI2 = "minuslogpost", "minuslogprior", "chi2"


class _Chain(NamedTuple):
    """The columns of a chain, its sampled parameters, and their bounds where the model is at hand."""

    columns: Mapping[str, Float[ndarray, " n"]]
    sampled: tuple[str, ...]
    bounds: Pairs | None = None


def read_cobaya(source: Any, params: Sequence[str] | None, options: Mapping[str, Any]) -> Evaluations:
    """All states of all chains, burn-in included: for a surrogate they are evaluations like any others."""
    refuse_result(source)
    if options.get("log_density_sd") is not None:
        raise EvaluationsError(
            "Cobaya keeps only accepted moves, so noisy values in its chain are those that were too high. Record all "
            "evaluations with vsbq.Recorder instead."
        )
    if isinstance(source, str | os.PathLike):
        chains = [_from_text(path, params) for path in _files(Path(source))]
    else:
        chains = [_collection(each, params) for each in (source if isinstance(source, list | tuple) else [source])]
    if len({chain.sampled for chain in chains}) != 1:
        raise EvaluationsError("These chains have different parameters. Read those of one model together.")
    first, names = chains[0], chains[0].sampled
    points, values, prior, chi2 = (
        np.concatenate([part(chain) for chain in chains])
        for part in (
            lambda chain: np.column_stack([chain.columns[name] for name in names]),
            lambda chain: -chain.columns[VALUE],
            lambda chain: -chain.columns[PRIOR],
            lambda chain: chain.columns[CHI2],
        )
    )
    trace = Trace(
        points=points, values=values, meaning="log_density", names=names, bounds=first.bounds, log_prior=prior
    )
    return make_evaluations(without_repeats(_at_temperature_one(trace, prior - 0.5 * chi2), "of a state"), options)


def _at_temperature_one(trace: Trace, total: Float[ndarray, " n"]) -> Trace:
    """Values that are the sum of likelihood and prior; a chain at another temperature has a multiple of it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        usable = np.isfinite(total) & np.isfinite(trace.values) & (trace.values != 0)
        ratio = float(np.median(total[usable] / trace.values[usable])) if usable.any() else 1.0
        gap = np.abs(total - ratio * trace.values)[usable]
    if (gap > 1e-4 + 1e-5 * np.abs(total[usable])).any():
        raise EvaluationsError(
            f"'{VALUE}' is not the sum of '{PRIOR}' and half of '{CHI2}', nor a multiple of it. Pass a collection "
            "whose temperature is reset (collection.reset_temperature()), or arrays."
        )
    if abs(ratio - 1) < 1e-3:
        return trace
    note = f"The chain was sampled at temperature {ratio:.4g}; the values are those at temperature 1."
    return replace(trace, values=total, notes=(*trace.notes, note))


# A sampler or a collection


def _collection(source: Any, params: Sequence[str] | None) -> _Chain:
    made = source.products() if callable(getattr(source, "products", None)) else {}
    collection = made.get("sample", source)
    data, sampled = getattr(collection, "data", None), getattr(collection, "sampled_params", None)
    if data is None or sampled is None:
        raise EvaluationsError(
            f"There is no chain of Cobaya in a {type(source).__name__}. Pass the sampler that cobaya.run returns (mcmc "
            "or polychord: minimize keeps only the best point), a SampleCollection, a list of them, or the prefix of "
            "the files of a chain."
        )
    columns = {str(name): np.asarray(data[name], dtype=np.float64) for name in data.columns}
    sampled = tuple(map(str, sampled if params is None else params))
    _check(columns, sampled)
    return _Chain(columns, sampled, _bounds(getattr(source, "model", None), sampled))


def _bounds(model: Any, sampled: tuple[str, ...]) -> Pairs | None:
    """The support of the prior, where the model is at hand."""
    if model is None:
        return None
    sides = dict(zip(model.parameterization.sampled_params(), model.prior.bounds().tolist(), strict=True))
    return tuple((float(low), float(high)) for low, high in (sides[name] for name in sampled))


# The files of a chain


def _files(path: Path) -> list[Path]:
    """The file itself, or those of all chains with this prefix."""
    if path.is_file():
        return [path]
    pattern = re.compile(re.escape(path.name) + r"\.\d+\.txt")
    there = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    found = [each for each in there if pattern.fullmatch(each.name) and each.is_file()]
    if not found:
        raise EvaluationsError(
            f"There is no file {str(path)!r} and none like {path.name + '.1.txt'!r} beside it. Pass the output of the "
            "run, as 'chains/run', or one of its files."
        )
    return found


def _from_text(path: Path, params: Sequence[str] | None) -> _Chain:
    """A chain as Cobaya writes it; which parameters are sampled and which derived is not in the file."""
    try:
        with open_table(path) as stream:
            table = read_safely(lambda: read_table(stream, path, TextFormat()))
        names = list(table.columns)
        _check(dict.fromkeys(names, np.zeros(0)), ())
        if params is None:
            between = names[names.index(VALUE) + 1 : names.index(PRIOR)]
            raise EvaluationsError(
                f"a chain's file does not tell which of {names_in_words(between, 30)} are sampled and which are "
                "derived. Name the sampled ones with params=[...]."
            )
        sampled = tuple(params)
        table.check_names(list(sampled))
        table.check_numbers([*sampled, VALUE, PRIOR, CHI2])
    except EvaluationsError as error:
        raise EvaluationsError(f"{str(path)!r}: ", error) from error
    return _Chain({name: table[name].values for name in names}, sampled)


def _check(columns: Mapping[str, Any], sampled: tuple[str, ...]) -> None:
    absent = [name for name in (VALUE, PRIOR, CHI2, *sampled) if name not in columns]
    if absent:
        raise EvaluationsError(
            f"the chain has no column {names_in_words(absent)}; it has {names_in_words(columns, 30)}. Pass a chain as "
            "Cobaya writes it, or use Evaluations.from_file for another table."
        )
