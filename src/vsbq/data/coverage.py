"""Where the evaluations went: on both sides of the best one in every parameter, and how many runs came to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from vsbq._typing import Float, Int, ndarray
from vsbq.data.findings import Finding
from vsbq.data.runs import tell_runs
from vsbq.errors import count_in_words, join_words
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS, contour_depth

if TYPE_CHECKING:
    from vsbq.data.evaluations import Evaluations

__all__ = ["Bare", "bare_sides", "run_findings", "side_findings"]

#: Of the reach to the other side: a side with less has hardly been visited. The evaluations it takes to tell.
LEAST_REACH = 0.05
LEAST_TOP = 10

#: Parameters of a message.
SHOWN = 4

#: Of the width of the top region: a best evaluation so close to a bound has no room beyond it.
NO_ROOM = 0.02


class Bare(NamedTuple):
    """A side of the best evaluation, of one parameter, on which hardly anything was evaluated."""

    parameter: int
    side: Literal["below", "above"]
    best: float


def side_findings(finite: Evaluations) -> Iterator[Finding]:
    """Parameters whose high-density range was evaluated on one side of the best only."""
    bare = bare_sides(finite.points, finite.log_density, finite.bounds.lower, finite.bounds.upper)
    if bare:
        sides = join_words(
            [f"{each.side} {each.best:.4g} in '{finite.names[each.parameter]}'" for each in bare[:SHOWN]]
        )
        more = f" and of {len(bare) - SHOWN} more parameters" if len(bare) > SHOWN else ""
        message = (
            f"Hardly any evaluation near the top is {sides}{more}, where the best one is: the posterior is not seen to "
            "end there. Add evaluations on that side, for example by starting the optimiser there, or give a bound if "
            "the density ends."
        )
        yield Finding("warning", "one side", message)


def bare_sides(
    points: Float[ndarray, "n d"],
    values: Float[ndarray, " n"],
    lower: Float[ndarray, " d"],
    upper: Float[ndarray, " d"],
) -> list[Bare]:
    """Sides on which the evaluations near the top reach hardly beyond the best one, though no bound is in the way.

    All evaluations within the surroundings of the posterior count, also low ones: they show where it ends.
    """
    d = points.shape[1]
    top = points[values >= values.max() - contour_depth(POSTERIOR, d)]
    if len(np.unique(top, axis=0)) < max(LEAST_TOP, 2 * d):
        return []
    near = points[values >= values.max() - contour_depth(SURROUNDINGS, d)]
    best = points[int(np.argmax(values))]
    below, above = best - near.min(axis=0), near.max(axis=0) - best
    width = np.maximum(below, above)
    found = []
    for i in np.flatnonzero((width > 0) & np.isfinite(width)).tolist():
        if below[i] < LEAST_REACH * above[i] and best[i] - lower[i] > NO_ROOM * width[i]:
            found.append(Bare(i, "below", float(best[i])))
        elif above[i] < LEAST_REACH * below[i] and upper[i] - best[i] > NO_ROOM * width[i]:
            found.append(Bare(i, "above", float(best[i])))
    return found


def run_findings(finite: Evaluations) -> Iterator[Finding]:
    """One run or several, and which of them came to the top."""
    run = tell_runs(finite.points)
    if not run.any():
        message = (
            "The rows look like one run of an optimiser, or like points without order. Another mode would not be "
            "noticed; runs from several starts would find it."
        )
        yield Finding("info", "runs", message)
        return
    count = int(run.max()) + 1
    reached = _reached(finite, run)
    message = f"The rows look like {count} runs of an optimiser."
    if reached == count:
        message += " All of them came to where the posterior is."
    elif reached == 1:
        message += (
            " Only one of them came to where the posterior is: nothing confirms that it is the highest mode, or that "
            "it was seen from all sides. Restart the optimiser from other places, and let it go on for longer."
        )
    else:
        message += f" {count_in_words(reached, 'run')} came to where the posterior is; the others ended below it."
    yield Finding("info", "runs", message)


def _reached(finite: Evaluations, run: Int[ndarray, " n"]) -> int:
    """How many runs have more evaluations in the top region than a single lucky one for each parameter."""
    values = finite.log_density
    top = values >= values.max() - contour_depth(POSTERIOR, finite.dimension)
    return max(1, int(np.sum(np.bincount(run[top]) > finite.dimension)))
