"""Laplace approximation: a normal around the mode of inference space, from exact evaluations as in the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from vsbq._typing import Float, ndarray
from vsbq.data.transform import InferenceSpace
from vsbq_bench.methods._space import InferenceTarget, space_of
from vsbq_bench.task import Answer, Stopwatch, Target, Task

__all__ = ["laplace"]

STARTS = 5  # modes that are climbed
CANDIDATES = 20  # best points of the trace that compete to be a start, besides the best of every run
SIMPLEX_STEP = 0.1  # of half the plausible box
WORST_COST = 1e30  # what the optimiser sees where the density is zero: it cannot work with infinities

Cost = Callable[[Float[ndarray, " d"]], float]


def laplace(task: Task) -> Answer:
    """Fit a normal to the mode and the curvature of the log density in inference space.

    The mode is looked for from the best points of the trace, and evaluations are exact even where the trace is noisy:
    second differences of a noisy log density mean nothing. Raises RuntimeError where the curvature at the mode is not
    that of a maximum.
    """
    space, watch = space_of(task.problem), Stopwatch()
    exact = Target(task.problem, 0.0, task.rng)
    log_density = InferenceTarget(exact, space)

    def cost(u: Float[ndarray, " d"]) -> float:
        return min(-float(log_density(u[None])[0]), WORST_COST)

    with watch.stage("optimisation"):
        mode = _mode(cost, _starts(task, space, log_density))
        used = exact.evaluations
    with watch.stage("hessian"):
        root = _cholesky(_hessian(cost, mode.u))
    with watch.stage("draws"):
        draws = space.inverse(_normal_draws(mode.u, root, task.draws, task.rng))
    log_volume = 0.5 * task.problem.dimension * np.log(2 * np.pi) - np.log(np.diag(root)).sum()
    return Answer(
        draws=draws,
        log_evidence=float(log_volume - mode.cost),
        seconds=watch.seconds,
        details={
            "evaluations": exact.evaluations,
            "optimisation_evaluations": used,
            "hessian_evaluations": exact.evaluations - used,
            "map": space.inverse(mode.u[None])[0].tolist(),
            "map_log_density": -mode.cost,
        },
    )


class _Mode(NamedTuple):
    u: Float[ndarray, " d"]
    cost: float


def _starts(task: Task, space: InferenceSpace, log_density: InferenceTarget) -> Float[ndarray, "s d"]:
    """The best few of the trace's best points, by their exact values; each run of the optimiser has one of them."""
    trace = task.trace
    u = space.forward(trace.points)
    value = trace.log_density + space.log_jacobian(u)
    order = np.argsort(-value)
    first_of_run = np.unique(trace.run[order], return_index=True)[1]
    candidates = u[order[np.union1d(np.arange(min(CANDIDATES, len(order))), first_of_run)]]
    exact = log_density(candidates)
    if not np.isfinite(exact).any():
        raise FloatingPointError("no point of the trace has a finite log density to start from")
    chosen: list[int] = []
    for i in np.argsort(-exact)[: np.isfinite(exact).sum()]:
        # Two candidates from the same hill would find the same mode
        if all(np.abs(candidates[i] - candidates[j]).max() > SIMPLEX_STEP for j in chosen):
            chosen.append(int(i))
    return candidates[chosen[:STARTS]]


def _mode(cost: Cost, starts: Float[ndarray, "s d"]) -> _Mode:
    """Climb from every start by Nelder–Mead, which needs no smoothness, then finish by BFGS."""
    dimension = starts.shape[1]
    best = _Mode(starts[0], cost(starts[0]))
    with np.errstate(all="ignore"):
        for start in starts:
            simplex = np.concatenate([start[None], start + SIMPLEX_STEP * np.eye(dimension)])
            climbed = minimize(
                cost,
                start,
                method="Nelder-Mead",
                options={
                    "initial_simplex": simplex,
                    "adaptive": True,
                    "xatol": 1e-4,
                    "fatol": 1e-6,
                    "maxfev": 1000 * dimension,
                },
            )
            finished = minimize(cost, climbed.x, method="BFGS", jac="3-point", options={"gtol": 1e-6})
            best = min(
                best,
                _Mode(climbed.x, float(climbed.fun)),
                _Mode(finished.x, float(finished.fun)),
                key=lambda mode: mode.cost if np.isfinite(mode.cost) else np.inf,
            )
    return best


def _hessian(cost: Cost, u: Float[ndarray, " d"]) -> Float[ndarray, "d d"]:
    try:
        from numdifftools import Hessian
    except ImportError as error:
        raise ImportError("the Laplace approximation needs numdifftools: pip install ./benchmarks") from error
    with np.errstate(all="ignore"):
        hessian = np.asarray(Hessian(cost)(u), dtype=np.float64)
    return (hessian + hessian.T) / 2


def _cholesky(hessian: Float[ndarray, "d d"]) -> Float[ndarray, "d d"]:
    """Lower factor of the precision; refuses one that is not positive definite."""
    if not np.isfinite(hessian).all():
        raise RuntimeError("the Hessian of the log density at the mode is not finite: the density has an edge there")
    eigenvalues = np.linalg.eigvalsh(hessian)
    smallest, largest = eigenvalues[0], eigenvalues[-1]
    if not smallest > len(hessian) * np.finfo(float).eps * abs(largest):
        raise RuntimeError(
            "the negative Hessian of the log density at the mode is not positive definite (eigenvalues from "
            f"{smallest:.3g} to {largest:.3g}): there is no Laplace approximation"
        )
    return np.linalg.cholesky(hessian)


def _normal_draws(
    mean: Float[ndarray, " d"], root: Float[ndarray, "d d"], n: int, rng: Generator
) -> Float[ndarray, "n d"]:
    """Draws with precision root rootᵀ."""
    z = rng.standard_normal((n, len(mean)))
    return mean + solve_triangular(root, z.T, lower=True, trans="T").T
