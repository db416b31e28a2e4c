"""One run of each optimiser: from the best of some candidates until it stops by itself.

Those of SciPy see the start box as the unit cube, as scientists scale parameters by their plausible ranges. They see a
large finite cost where the density is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq_bench.traces import TOLERANCE, _Recorder, _run_bads, _run_cma

__all__ = ["BOXED", "OPTIMISERS", "PACKAGES", "Run"]

Run = Callable[[_Recorder, ndarray, ndarray], None]

BOXED = ("differential_evolution", "tpe", "random")  # they search in the start box and never leave it
WORST_COST = 1e10
FIRST_SIMPLEX = 0.1  # edges of Nelder–Mead's first simplex
EXACT_STEP, NOISY_STEP = 1e-8, 1e-2  # of finite differences
TRIALS_PER_DIMENSION = 20  # of a study of TPE, besides the candidates
MANY = 12_000  # random points: more than any budget


def _cost(record: _Recorder, points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    return np.minimum(-record(points), WORST_COST)


class _Cube:
    """The start box as the unit cube."""

    def __init__(self, record: _Recorder) -> None:
        self.record = record
        self.low, high = record.problem.plausible_bounds.T
        self.width = high - self.low

    def cost(self, u: Float[ndarray, " d"]) -> float:
        """Return the cost at one point of the cube's coordinates."""
        return float(_cost(self.record, (self.low + u * self.width)[None, :])[0])

    def scaled(self, x: Float[ndarray, "... d"]) -> Float[ndarray, "... d"]:
        """Return the coordinates of x in the cube."""
        return (x - self.low) / self.width

    def bounds(self) -> Float[ndarray, "2 d"]:
        """Return the lower and the upper bounds in the cube's coordinates, infinite where open."""
        bounds = self.record.problem.bounds
        open_ends = np.tile([[-np.inf], [np.inf]], (1, len(self.low)))
        return open_ends if bounds is None else self.scaled(bounds.T)


def _run_local(method: str, record: _Recorder, candidates: ndarray, log_density: ndarray) -> None:
    from scipy import optimize

    cube = _Cube(record)
    low, high = cube.bounds()
    start = np.clip(cube.scaled(candidates[np.argmax(log_density)]), low, high)  # rounding must not put it outside
    bounds = None if record.problem.bounds is None else optimize.Bounds(low, high)
    minimize: Callable[..., Any] = optimize.minimize
    minimize(cube.cost, start, method=method, bounds=bounds, options=_options(method, record, start))


def _options(method: str, record: _Recorder, start: Float[ndarray, " d"]) -> dict[str, Any]:
    if method == "Nelder-Mead":
        inwards = np.where(start > 0.5, -FIRST_SIMPLEX, FIRST_SIMPLEX)
        return {"initial_simplex": start + np.vstack([np.zeros(len(start)), np.diag(inwards)])}
    if method == "L-BFGS-B":
        return {"eps": NOISY_STEP if record.noise_sd > 0 else EXACT_STEP}
    return {}


def _run_differential_evolution(record: _Recorder, candidates: ndarray, log_density: ndarray) -> None:
    from scipy import optimize

    minimize: Callable[..., Any] = optimize.differential_evolution  # its stubs know of no vectorised costs
    minimize(
        lambda columns: _cost(record, np.ascontiguousarray(columns.T)),
        [(float(low), float(high)) for low, high in record.problem.plausible_bounds],
        x0=candidates[np.argmax(log_density)],
        rng=record.rng,
        polish=False,
        vectorized=True,
        updating="deferred",
    )


def _run_tpe(record: _Recorder, candidates: ndarray, log_density: ndarray) -> None:
    """One study, with the candidates as its first trials."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError("traces of TPE need Optuna: pip install 'vsbq[optuna]'") from error
    names = [f"x{i}" for i in range(candidates.shape[1])]
    box = record.problem.plausible_bounds
    space: dict[str, Any] = {
        name: optuna.distributions.FloatDistribution(float(low), float(high))
        for name, (low, high) in zip(names, box, strict=True)
    }
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=int(record.rng.integers(2**31))))
        for point, cost in zip(candidates, np.minimum(-log_density, WORST_COST), strict=True):
            seen = dict(zip(names, map(float, point), strict=True))
            study.add_trial(optuna.trial.create_trial(params=seen, distributions=space, value=float(cost)))
        for _ in range(TRIALS_PER_DIMENSION * len(names)):
            trial = study.ask(space)
            study.tell(trial, float(_cost(record, np.array([[trial.params[name] for name in names]]))[0]))
    finally:
        optuna.logging.set_verbosity(before)


def _run_random(record: _Recorder, candidates: ndarray, log_density: ndarray) -> None:
    low, high = record.problem.plausible_bounds.T
    record(record.rng.uniform(low, high, (MANY, len(low))))


OPTIMISERS: Mapping[str, Run] = MappingProxyType(
    {
        "cma": partial(_run_cma, TOLERANCE),
        "nelder_mead": partial(_run_local, "Nelder-Mead"),
        "l_bfgs_b": partial(_run_local, "L-BFGS-B"),
        "powell": partial(_run_local, "Powell"),
        "differential_evolution": _run_differential_evolution,
        "tpe": _run_tpe,
        "bads": partial(_run_bads, TOLERANCE),
        "random": _run_random,
    }
)

PACKAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"cma": ("cma",), "bads": ("pybads", "gpyreg", "scipy"), "tpe": ("optuna",), "random": ()}
)
