"""Bayesian optimisers and VBMC: PyBADS, PyVBMC, bayes_opt and scikit-optimize keep all that they evaluate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.validation import refuse_result
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.io.readers.json_lines import read_json_lines
from vsbq.io.readers.traces import Pairs, Trace, column, make_evaluations, pairs_of, prior_of

__all__ = ["read_bayes_opt", "read_pybads", "read_pyvbmc", "read_skopt"]


def read_pybads(bads: Any, options: Mapping[str, Any]) -> Evaluations:
    """What a `BADS` object has evaluated, with the noise that its target reported."""
    logger = _function_logger(
        bads, "BADS", "PyBADS", "bads = BADS(...); bads.optimize(); Evaluations.from_pybads(bads)"
    )
    rows = logger.Xn + 1
    points = np.array(logger.X_orig[:rows], dtype=np.float64)
    sd = _noise(logger, rows, options)
    # Y is Y_orig with repeated noisy evaluations of a point averaged, as S is; PyBADS does not transform values.
    values = np.array(logger.Y[:rows] if sd is not None else logger.Y_orig[:rows], dtype=np.float64).ravel()
    state = bads.optim_state
    constant = np.all(points == points[:1], axis=0)
    hard = _original_bounds(state["lb_orig"], state["ub_orig"], points, constant)
    plausible = _original_bounds(state["plb_orig"], state["pub_orig"], points, constant)
    return make_evaluations(
        Trace(points=points, values=values, meaning="neg_log_density", bounds=hard, plausible=plausible, sd=sd), options
    )


def read_pyvbmc(vbmc: Any, options: Mapping[str, Any]) -> Evaluations:
    """What a `VBMC` object has evaluated, also what it left out of its training set; with the prior if it has one."""
    logger = _function_logger(
        vbmc, "VBMC", "PyVBMC", "vbmc = VBMC(...); vp, results = vbmc.optimize(); Evaluations.from_pyvbmc(vbmc)"
    )
    rows = logger.Xn + 1
    points, d = np.array(logger.X_orig[:rows], dtype=np.float64), logger.X_orig.shape[1]
    prior = getattr(getattr(vbmc, "prior", None), "log_pdf", None)
    trace = Trace(
        points=points,
        values=np.array(logger.y_orig[:rows], dtype=np.float64).ravel(),
        meaning="log_density",
        bounds=pairs_of(vbmc.lower_bounds, vbmc.upper_bounds, d),
        plausible=pairs_of(vbmc.plausible_lower_bounds, vbmc.plausible_upper_bounds, d),
        sd=_noise(logger, rows, options),
        log_prior=None if prior is None else prior_of(prior, points),
    )
    return make_evaluations(trace, options)


def _function_logger(source: Any, kind: str, library: str, recipe: str) -> Any:
    refuse_result(source)
    logger = getattr(source, "function_logger", None)
    if logger is None or not hasattr(logger, "X_orig"):
        raise EvaluationsError(
            f"{library} keeps its evaluations in the {kind} object, not in a {type(source).__name__}. Pass that "
            f"object: {recipe}."
        )
    return logger


def _noise(logger: Any, rows: int, options: Mapping[str, Any]) -> Float[ndarray, " n"] | None:
    """The noise sd that the target returned; noise of unknown size must come from the user."""
    level = logger.uncertainty_handling_level
    if level == 1 and options.get("log_density_sd") is None:
        raise EvaluationsError(
            "The target is noisy, but it did not tell how noisy. Pass log_density_sd=, the standard deviation of the "
            "noise, as one number or one for each evaluation."
        )
    return np.array(logger.S[:rows], dtype=np.float64).ravel() if level == 2 else None


def _original_bounds(lower: Any, upper: Any, points: Float[ndarray, "n d"], constant: ndarray) -> Pairs | None:
    """Bounds of all variables in the user's units; those that PyBADS took out because they are fixed are put back."""
    low, high = np.ravel(lower), np.ravel(upper)
    d = points.shape[1]
    if low.size == d:
        return pairs_of(low, high, d)
    if low.size + int(constant.sum()) != d:
        return None
    full = np.repeat(points[:1], 2, axis=0)
    full[0, ~constant], full[1, ~constant] = low, high
    return pairs_of(full[0], full[1], d)


def read_bayes_opt(source: Any, options: Mapping[str, Any]) -> Evaluations:
    """What a `BayesianOptimization` has registered, or the JSON lines of its logger."""
    if isinstance(source, str | os.PathLike):
        records, notes = read_json_lines(source, "the JSONLogger of bayes_opt")
        return make_evaluations(_registered(records, None, notes), options)
    refuse_result(source)
    space = getattr(source, "space", None)
    if space is None or not hasattr(source, "res"):
        raise EvaluationsError(
            f"bayes_opt keeps its evaluations in the BayesianOptimization object, not in a {type(source).__name__}. "
            "Pass that object."
        )
    if getattr(space, "constraint", None) is not None:
        raise EvaluationsError(
            "This optimizer has a constraint. Pass arrays instead, with log_density=-inf where it is violated."
        )
    settings = getattr(space, "params_config", {})
    _refuse([name for name in space.keys if not getattr(settings.get(name), "is_continuous", True)])
    bounds = {name: (float(low), float(high)) for name, (low, high) in zip(space.keys, space.bounds, strict=True)}
    return make_evaluations(_registered(source.res, bounds, ()), options)


def _registered(
    records: Sequence[Any], bounds: Mapping[str, tuple[float, float]] | None, notes: Sequence[str]
) -> Trace:
    """The entries of bayes_opt: a target, which is maximised, and its parameters by name."""
    for number, record in enumerate(records):
        params = record.get("params") if isinstance(record, Mapping) else None
        if not isinstance(params, Mapping) or "target" not in record or params.keys() != records[0]["params"].keys():
            raise EvaluationsError(
                f"Entry {number} is not of bayes_opt, or has other parameters than entry 0. Each needs 'target' and "
                "'params'."
            )
    names = tuple(str(name) for name in records[0]["params"]) if records else ()
    _refuse([n for n in names if any(isinstance(r["params"][n], str | bool | list) for r in records)])
    columns = [column([record["params"][name] for record in records], f"'{name}'") for name in names]
    return Trace(
        points=np.column_stack(columns) if columns else np.zeros((0, 1)),
        values=column([record["target"] for record in records], "'target'"),
        meaning="log_density",
        names=names or None,
        bounds=None if bounds is None else tuple(bounds[name] for name in names),
        notes=tuple(notes),
    )


def read_skopt(source: Any, options: Mapping[str, Any]) -> Evaluations:
    """What a result of scikit-optimize (`gp_minimize` and others) or its `Optimizer` holds."""
    refuse_result(source)
    points, values = (
        getattr(source, new, getattr(source, old, None)) for new, old in (("x_iters", "Xi"), ("func_vals", "yi"))
    )
    space = getattr(source, "space", None)
    if points is None or values is None or space is None:
        raise EvaluationsError(
            f"There is no trace of scikit-optimize in a {type(source).__name__}. Pass what gp_minimize returned."
        )
    names = tuple(dimension.name or f"x{i + 1}" for i, dimension in enumerate(space.dimensions))
    kinds = [type(dimension).__name__ for dimension in space.dimensions]
    _refuse([name for name, kind in zip(names, kinds, strict=True) if kind != "Real"])
    trace = Trace(
        points=np.array(points, dtype=np.float64).reshape(len(points), len(names)),
        values=column(values, "func_vals"),
        meaning="neg_log_density",
        names=names,
        bounds=tuple((float(dimension.low), float(dimension.high)) for dimension in space.dimensions),
    )
    return make_evaluations(trace, options)


def _refuse(names: Sequence[str]) -> None:
    if names:
        raise EvaluationsError(
            f"The parameter {names_in_words(names)} is an integer or a category. A posterior needs continuous "
            "parameters: fix it to one value and run again, or keep only the evaluations of one value and pass them as "
            "arrays."
        )
