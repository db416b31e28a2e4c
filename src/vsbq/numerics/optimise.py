"""Maximisers: bounded L-BFGS with a Gaussian prior on standardised variables, and Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from vsbq._typing import Float, ndarray
from vsbq.numerics.linalg import NotPositiveDefinite

Objective = Callable[[Float[ndarray, " p"]], tuple[float, Float[ndarray, " p"]]]


class GaussianPrior(NamedTuple):
    """Independent normals with hard limits; also the scaling in which the optimiser works."""

    mean: Float[ndarray, " p"]
    sd: Float[ndarray, " p"]
    lower: Float[ndarray, " p"]
    upper: Float[ndarray, " p"]

    def log_density_and_gradient(self, theta: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        """Log prior up to a constant."""
        z = (theta - self.mean) / self.sd
        return -0.5 * float(z @ z), -z / self.sd


class Maximum(NamedTuple):
    """Where a maximiser ended."""

    argument: Float[ndarray, " p"]
    value: float
    steps: int
    failures: int


def maximise_with_prior(
    objective: Objective, start: Float[ndarray, " p"], prior: GaussianPrior, *, steps: int, tolerance: float
) -> Maximum:
    """L-BFGS-B on objective + log prior; a failed factorisation counts as a very poor value, not as an error.

    Stops when a step gains less than `tolerance` (in nats) and returns the best point seen, whose value is −inf if
    every factorisation failed.
    """
    best = _Best(np.inf, (np.clip(start, prior.lower, prior.upper) - prior.mean) / prior.sd)
    failures, ceiling = 0, 1e10

    def negative(z: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        nonlocal best, failures, ceiling
        theta = prior.mean + prior.sd * z
        try:
            value, gradient = objective(theta)
        except NotPositiveDefinite:
            value, gradient = np.nan, np.zeros_like(z)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            failures += 1
            return ceiling, np.zeros_like(z)
        log_prior, prior_gradient = prior.log_density_and_gradient(theta)
        loss = -(value + log_prior)
        ceiling = max(ceiling, 10 * abs(loss))
        if loss < best.loss:
            best = _Best(loss, z.copy())
        return loss, -(gradient + prior_gradient) * prior.sd

    limits = Bounds((prior.lower - prior.mean) / prior.sd, (prior.upper - prior.mean) / prior.sd)
    negative(best.z)
    taken = 0
    while taken < steps:
        before = best.loss
        options: dict[str, Any] = {"maxiter": steps - taken, "gtol": 0.0, "maxcor": 20}
        options["ftol"] = tolerance / max(1.0, abs(before)) if np.isfinite(before) else 0.0
        found = minimize(negative, best.z, jac=True, method="L-BFGS-B", bounds=limits, options=options)  # type: ignore[call-overload]
        taken += max(1, int(found.nit))
        if not before - best.loss >= (10 if found.success else 1) * tolerance:
            break  # else the line search gave up, or the loss has shrunk so that the tolerance was loose: go on
    return Maximum(prior.mean + prior.sd * best.z, -best.loss, taken, failures)


class _Best(NamedTuple):
    loss: float
    z: Float[ndarray, " p"]


def maximise(objective: Objective, start: Float[ndarray, " p"], *, steps: int, tolerance: float) -> Maximum:
    """Plain L-BFGS; stops when a step gains less than `tolerance`. Steps into nonsense count as failures."""
    failures = 0
    best = _Best(np.inf, start)

    def negative(theta: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        nonlocal best, failures
        try:
            with np.errstate(over="raise", invalid="raise", divide="raise"):
                value, gradient = objective(theta)
        except (np.linalg.LinAlgError, FloatingPointError):
            value, gradient = np.nan, np.zeros_like(theta)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            failures += 1
            return 1e10, np.zeros_like(theta)
        if -value < best.loss:
            best = _Best(-value, theta.copy())
        return -value, -gradient

    scale = max(1.0, abs(negative(start)[0]))
    options: dict[str, Any] = {"maxiter": steps, "ftol": tolerance / scale, "gtol": 0.0, "maxcor": 30}
    found = minimize(negative, start, jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return Maximum(best.z, -best.loss, int(found.nit), failures)


def adam(
    objective: Objective, start: Float[ndarray, " p"], *, steps: int, rate: float, final_rate: float | None = None
) -> Maximum:
    """Adam ascent on a stochastic objective, its rate falling geometrically; returns the average of the last fifth."""
    theta, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    tail, tail_from = np.zeros_like(start), steps - max(1, steps // 5)
    decay = 1.0 if final_rate is None else (final_rate / rate) ** (1.0 / max(1, steps - 1))
    value = np.nan
    for t in range(steps):
        value, gradient = objective(theta)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        step = first / (1 - 0.9 ** (t + 1)) / (np.sqrt(second / (1 - 0.999 ** (t + 1))) + 1e-8)
        theta = theta + rate * decay**t * step
        if t >= tail_from:
            tail += theta
    return Maximum(tail / (steps - tail_from), float(value), steps, 0)
