"""Samplers: chains of emcee, whose values are posteriors, and runs of dynesty, whose values are likelihoods."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.data.validation import refuse_result
from vsbq.errors import EvaluationsError
from vsbq.io.readers.traces import Trace, make_evaluations, needed, prior_of, without_repeats

__all__ = ["read_dynesty", "read_emcee"]

ZERO_LIKELIHOOD = -1e300  # what dynesty stores for a log likelihood of -inf


def read_emcee(source: Any, options: Mapping[str, Any]) -> Evaluations:
    """All states of all walkers, burn-in included: for a surrogate they are evaluations like any others."""
    refuse_result(source)
    chain = _backend(source) if isinstance(source, str | os.PathLike) else source
    if not hasattr(chain, "get_chain") or not hasattr(chain, "get_log_prob"):
        raise EvaluationsError(
            f"There is no chain in a {type(source).__name__}. Pass an emcee.EnsembleSampler, a backend or an HDF5 file."
        )
    if options.get("log_density_sd") is not None:
        raise EvaluationsError(
            "emcee keeps only accepted moves, so noisy values in its chain are those that were too high. Record all "
            "evaluations with vsbq.Recorder instead."
        )
    points, values = _states(chain)
    given = dict(options)
    if isinstance(given.get("log_prior"), str):
        given["log_prior"] = _blob(chain, given["log_prior"])
    names = getattr(chain, "parameter_names", None) if getattr(chain, "params_are_named", False) else None
    trace = Trace(points=points, values=values, meaning="log_density", names=_emcee_names(names, points.shape[1]))
    prior = given.pop("log_prior", None)
    if prior is not None:
        trace = replace(trace, log_prior=prior_of(prior, points))
    return make_evaluations(without_repeats(trace, "where a walker stayed because its move was rejected"), given)


def _backend(path: str | os.PathLike[str]) -> Any:
    if not Path(path).is_file():
        raise EvaluationsError(f"There is no file {str(path)!r}. Pass the HDF5 file of an emcee backend.")
    backends = needed("emcee and h5py", "samplers", lambda: __import__("emcee.backends").backends)
    needed("h5py", "samplers", lambda: __import__("h5py"))
    return backends.HDFBackend(os.fspath(path), read_only=True)


def _states(chain: Any) -> tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]:
    try:
        points, values = chain.get_chain(flat=True), chain.get_log_prob(flat=True)
    except Exception as error:  # h5py and emcee have many ways to say that there is nothing
        raise EvaluationsError(
            f"emcee has no chain there ({type(error).__name__}: {error}). Run the sampler first, or check the file."
        ) from error
    if points is None or values is None:
        raise EvaluationsError("emcee has no chain there. Run the sampler first.")
    return np.array(points, dtype=np.float64), np.array(values, dtype=np.float64)


def _emcee_names(names: Mapping[str, Any] | None, dimension: int) -> tuple[str, ...] | None:
    """Names by index, as emcee keeps them; names for groups of parameters say too little."""
    if names is None or sorted(map(str, names.values())) != sorted(map(str, range(dimension))):
        return None
    return tuple(sorted(names, key=lambda name: int(names[name])))


def _blob(chain: Any, name: str) -> Any:
    blobs = chain.get_blobs(flat=True)
    if blobs is None or name not in (blobs.dtype.names or ()):
        raise EvaluationsError(
            f"The chain has no blob '{name}'. Return it from the log probability and name it with blobs_dtype=, or "
            "pass log_prior= as a function."
        )
    return blobs[name]


def read_dynesty(source: Any, log_prior: Any, options: Mapping[str, Any]) -> Evaluations:
    """All points of a run, dead and live, with the prior that dynesty does not keep."""
    refuse_result(source)
    results = getattr(source, "results", source)
    points, values = getattr(results, "samples", None), getattr(results, "logl", None)
    if points is None or values is None:
        raise EvaluationsError(
            f"There are no samples in a {type(source).__name__}. Pass sampler.results of a finished run of dynesty."
        )
    if log_prior is None:
        raise EvaluationsError(
            "dynesty keeps log likelihoods, which are not a posterior. Pass log_prior=: a function of one point (the "
            "log density of the prior that your prior transform draws from), one number for a flat prior (minus the "
            "log of its volume), or one value for each sample."
        )
    points, values = np.array(points, dtype=np.float64), np.array(values, dtype=np.float64)
    trace = Trace(
        points=points,
        values=np.where(values <= ZERO_LIKELIHOOD, -np.inf, values),
        meaning="log_likelihood",
        log_prior=prior_of(log_prior, points),
    )
    return make_evaluations(without_repeats(trace, "of points that dynesty lists more than once"), options)
