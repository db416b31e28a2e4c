"""pycma: what was told to an evolution strategy, in `es.optimize`, in an ask/tell loop or inside `fmin2`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.readers.traces import Pairs, Trace, column, make_evaluations, matrix, pairs_of

__all__ = ["CMATrace", "read_cma"]

RECIPE = (
    "Listen while it runs, with trace = vsbq.readers.CMATrace(es) before es.optimize(f) or the ask/tell loop, or "
    "cma.fmin2(f, x0, sigma, init_callback=trace.watch); then pass the trace."
)


class CMATrace:
    """Collects every evaluation that a `cma.CMAEvolutionStrategy` is told: `trace = CMATrace(es); es.optimize(f)`.

    `CMATrace()` without a strategy serves `cma.fmin2(f, x0, sigma, init_callback=trace.watch)`, restarts included.
    """

    def __init__(self, es: Any = None) -> None:
        self.points: list[list[float]] = []
        self.values: list[Any] = []
        self.bounds: Pairs | None = None
        self.integer: tuple[int, ...] = ()
        if es is not None:
            self.watch(es)

    def watch(self, es: Any) -> None:
        """Collect from now on what this strategy is told."""
        if not callable(getattr(es, "tell", None)):
            raise EvaluationsError(f"CMATrace watches a cma.CMAEvolutionStrategy, but was given {type(es).__name__}.")
        if isinstance(es.tell, partial) and self in es.tell.args:
            return
        options, to_user = getattr(es, "opts", {}), getattr(es, "gp", None)
        self.integer = tuple(options.get("integer_variables") or ())
        if to_user is not None:
            self.bounds = _bounds(options.get("bounds"), to_user.fixed_values or {}, to_user.N)
        es.tell = partial(_told, self, es)

    def add(self, solutions: Sequence[Any], values: Sequence[Any]) -> None:
        """Add evaluations by hand: points and their function values."""
        if len(solutions) != len(values):
            raise EvaluationsError(f"There are {len(solutions)} solutions but {len(values)} values. Pass one for each.")
        self.points += [np.asarray(solution, dtype=np.float64).tolist() for solution in solutions]
        self.values += [value if np.ndim(value) == 0 else np.ravel(value)[0] for value in values]

    def __len__(self) -> int:
        return len(self.values)


def _told(trace: CMATrace, es: Any, solutions: Any, function_values: Any, *rest: Any, **options: Any) -> Any:
    # before the strategy sees them: it replaces NaN by the median, in place
    trace.add(solutions, function_values)
    return type(es).tell(es, solutions, function_values, *rest, **options)


def _bounds(sides: Any, fixed: Mapping[int, float], dimension: int) -> Pairs | None:
    """The bounds of pycma: None, or two sides of which the last number stands for all that follow."""
    lower, upper = sides or (None, None)
    pairs = list(pairs_of(_side(lower, -np.inf, dimension), _side(upper, np.inf, dimension), dimension))
    for i, value in fixed.items():
        pairs[i] = (float(value), float(value))
    return tuple(pairs)


def _side(side: Any, where_open: float, dimension: int) -> list[float]:
    numbers = [where_open if x is None else float(x) for x in np.ravel(np.asarray(side, dtype=object))]
    return (numbers + [numbers[-1]] * dimension)[:dimension]


def read_cma(source: Any, options: Mapping[str, Any]) -> Evaluations:
    """The evaluations of a `CMATrace`; everything else that pycma leaves behind is refused, as it is not enough."""
    if isinstance(source, str | os.PathLike):
        raise EvaluationsError(
            f"The log files of pycma ({Path(source).name!r}) hold only the best point of each generation. {RECIPE}"
        )
    if not isinstance(source, CMATrace):
        raise EvaluationsError(f"pycma keeps no evaluations in its {type(source).__name__}. {RECIPE}")
    if source.integer:
        raise EvaluationsError(
            f"The variables with index {list(source.integer)} are integers. A posterior needs continuous parameters: "
            "fix them, or optimise them as real numbers."
        )
    if len({len(point) for point in source.points}) > 1:
        raise EvaluationsError("The trace holds points of different dimensions. Use one CMATrace for each problem.")
    values = column(source.values, "the trace of pycma")
    trace = Trace(points=matrix(source.points), values=values, meaning="neg_log_density", bounds=source.bounds)
    return make_evaluations(trace, options)
