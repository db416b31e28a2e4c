"""lmfit: residuals, turned into log likelihoods while a fit runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, names_in_words
from vsbq.io.readers.traces import Pairs, Trace, make_evaluations, matrix, prior_of

__all__ = ["LmfitTrace", "read_lmfit"]

RECIPE = (
    "Listen while it runs: trace = vsbq.readers.LmfitTrace(sigma=...); lmfit.minimize(residual, params, "
    "iter_cb=trace); then pass the trace."
)


class LmfitTrace:
    """Collects every evaluation of lmfit: `trace = LmfitTrace(sigma=0.4); minimize(residual, params, iter_cb=trace)`.

    It serves `Model.fit(..., iter_cb=trace)` and several fits, one after the other, of the same parameters too.

    Args:
        sigma: standard deviation of the noise in the data, a number or one for each residual; the noise is normal and
            independent. It is not needed if the objective returns one number, a negative log posterior.
        weighted: whether the residuals are divided by sigma already, as those of `Model.fit(..., weights=1 / sigma)`.
    """

    def __init__(self, sigma: ArrayLike | float | None = None, *, weighted: bool = False) -> None:
        self.sigma = None if sigma is None else _sigma(sigma)
        self.weighted = weighted
        self.points: list[list[float]] = []
        self.values: list[float] = []
        self.names: tuple[str, ...] | None = None
        self.bounds: Pairs = ()
        self.meaning: Literal["neg_log_density", "log_likelihood"] | None = None

    def __call__(self, params: Any, iteration: int, residual: Any, *args: Any, **kws: Any) -> None:
        """Take an evaluation down, as lmfit calls it after each of them."""
        varied = [each for each in params.values() if each.vary]
        names = tuple(str(each.name) for each in varied)
        if self.names not in (None, names):
            raise EvaluationsError(
                f"This trace holds a fit of {names_in_words(self.names or ())}, but now {names_in_words(names)} are "
                "varied. Use one LmfitTrace for each set of parameters."
            )
        value = self._value(np.asarray(residual))
        self.names, self.bounds = names, tuple((float(each.min), float(each.max)) for each in varied)
        self.points.append([float(each.value) for each in varied])
        self.values.append(value)

    def _value(self, residual: ndarray) -> float:
        meaning: Literal["neg_log_density", "log_likelihood"]
        meaning = "neg_log_density" if residual.size == 1 else "log_likelihood"
        if self.meaning not in (None, meaning):
            raise EvaluationsError(
                "The objective returned residuals before and one number now, or the other way round. Use one "
                "LmfitTrace for each objective."
            )
        if residual.size == 1 and self.sigma is not None:
            raise EvaluationsError(
                "The objective returns one number, which can't be told from a sum of squares. If it is a negative log "
                "posterior, leave out sigma=; else return the residuals."
            )
        self.meaning = meaning
        if residual.size == 1:
            return float(residual.reshape(()))
        parts = residual.ravel()
        whole = parts.astype(np.complex128).view(np.float64) if parts.dtype.kind == "c" else parts.astype(np.float64)
        return self._log_likelihood(whole)

    def _log_likelihood(self, parts: Float[ndarray, " n"]) -> float:
        """Of normal noise; a complex residual is two."""
        sigma = self.sigma
        if sigma is None:
            raise EvaluationsError(
                f"The objective returns {parts.size} residuals, whose sum of squares is no log likelihood without the "
                "noise of the data. Pass it: LmfitTrace(sigma=...), and weighted=True if the residuals are divided by "
                "it already."
            )
        if sigma.size not in (1, parts.size):
            raise EvaluationsError(
                f"sigma has {sigma.size} values for {parts.size} residuals. Give one number, or one for each residual."
            )
        z = parts if self.weighted else parts / sigma
        logs = np.broadcast_to(np.log(sigma), parts.shape)
        return float(-0.5 * np.dot(z, z) - logs.sum() - 0.5 * parts.size * np.log(2 * np.pi))

    def __len__(self) -> int:
        return len(self.values)


def _sigma(sigma: ArrayLike | float) -> Float[ndarray, " n"]:
    try:
        array = np.asarray(sigma, dtype=np.float64).ravel()
    except (TypeError, ValueError) as error:
        raise EvaluationsError(f"sigma is {sigma!r:.60}, which can't be read as numbers. Give floats.") from error
    if not array.size or not (array > 0).all() or not np.isfinite(array).all():
        raise EvaluationsError("sigma must be positive and finite: the standard deviation of the noise in the data.")
    return array


def read_lmfit(source: Any, log_prior: Any, options: Mapping[str, Any]) -> Evaluations:
    """The evaluations of an `LmfitTrace`, with the prior, which lmfit does not know."""
    if not isinstance(source, LmfitTrace):
        raise EvaluationsError(f"lmfit keeps no evaluations in its {type(source).__name__}. {RECIPE}")
    points = matrix(source.points)
    if source.meaning == "log_likelihood" and log_prior is None:
        raise EvaluationsError(
            "Residuals give a likelihood, which is no posterior. Pass log_prior=: a function of one point, one number "
            "for a flat prior between the bounds (minus the log of their volume), or one value for each evaluation."
        )
    prior = None if log_prior is None else prior_of(log_prior, points)
    values = np.array(source.values, dtype=np.float64)
    trace = Trace(
        points=points,
        values=values,
        meaning=source.meaning or "log_likelihood",
        names=source.names,
        bounds=source.bounds or None,
        log_prior=prior,
    )
    return make_evaluations(trace, options)
