"""What is odd about the evaluations, said before anything is fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.stats import rankdata

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq.errors import Argument, Message, count_in_words, names_in_words, rows_in_words
from vsbq.numerics.contours import contour_depth

if TYPE_CHECKING:
    from vsbq.data.evaluations import Evaluations

__all__ = ["Audit", "Finding", "audit"]

HUGE = 1e8  # beyond this size of the log density, differences of 1e-8 are lost in float64
MANY_PARAMETERS = 20
NEAR_BOUND = 1e-9  # share of the width
DECADES = 3  # of the distance to a bound over which a density without limit rises,
LEAST_RISE = 1.0  # by more than this many nats each
TOP_SIGMA = 3.0  # the top region reaches down to this contour of a normal


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: a plain sentence with its numbers and, for a warning, the remedy."""

    severity: Literal["info", "warning"]
    topic: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity:<8}{self.topic}: {self.message}"


@dataclass(frozen=True)
class Audit:
    """All that was found in one set of evaluations, in the order in which it was looked for."""

    findings: tuple[Finding, ...]

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that call for action."""
        return tuple(finding for finding in self.findings if finding.severity == "warning")

    def __str__(self) -> str:
        count = count_in_words(len(self.warnings), "warning") if self.warnings else "no warnings"
        return "\n".join([f"Audit of the evaluations: {count}", *(f"  {finding}" for finding in self.findings)])


def audit(evaluations: Evaluations) -> Audit:
    """Look for everything odd in the evaluations; nothing is changed and nothing is raised."""
    return Audit(tuple(_findings(evaluations)))


def _findings(evaluations: Evaluations) -> Iterator[Finding]:
    yield from _size(evaluations)
    for note in evaluations.notes:
        yield Finding("info", "input", note)
    yield from _duplicates(evaluations)
    yield from _zero_density(evaluations)
    finite = evaluations.take(np.isfinite(evaluations.log_density))
    if len(finite):
        yield from _scale(finite)
        yield from _stand_in(finite)
        yield from _sign(finite)
        yield from _noise(finite)
        yield from _top_region(finite)
        yield from _near_bounds(evaluations)
        yield from _pile_up(finite)
        yield from _unbounded(finite)


def _size(evaluations: Evaluations) -> Iterator[Finding]:
    n, d = len(evaluations), evaluations.dimension
    of = f"{count_in_words(n, 'evaluation')} of {count_in_words(d, 'parameter')}"
    yield Finding("info", "size", f"There are {of} ({names_in_words(evaluations.names)}).")
    if n < 100 * d:
        message = f"{of} are few; {100 * d} or more are advised. Add evaluations, best of all around the highest ones."
        yield Finding("warning", "size", message)
    if d > MANY_PARAMETERS:
        message = (
            f"{d} parameters are more than the {MANY_PARAMETERS} that the method is made for. Fix some of them, or "
            "use a sampler that has gradients."
        )
        yield Finding("warning", "dimension", message)


def _duplicates(evaluations: Evaluations) -> Iterator[Finding]:
    group = duplicate_groups(evaluations.points)
    repeats = len(group) - len(np.unique(group))
    if repeats:
        how = "averaged by inverse variance" if evaluations.log_density_sd is not None else "counted once"
        message = f"{count_in_words(repeats, 'evaluation')} repeat the point of another one exactly and will be {how}."
        yield Finding("info", "duplicates", message)


def _zero_density(evaluations: Evaluations) -> Iterator[Finding]:
    zero = np.isneginf(evaluations.log_density)
    if zero.any():
        share = f"{zero.mean():.0%} of the log densities are -inf {rows_in_words(np.flatnonzero(zero).tolist())}"
        if zero.mean() <= 0.5:
            yield Finding("info", "zero density", f"{share}.")
        else:
            message = f"{share}. Check that the model does not fail there, or narrow the bounds to where it works."
            yield Finding("warning", "zero density", message)


def _scale(finite: Evaluations) -> Iterator[Finding]:
    best = float(finite.log_density.max())
    if abs(best) > HUGE:
        message = (
            f"The best log density is {best:.3g}, so large that differences of single nats drown in rounding. "
            "Check its units, and subtract a constant inside the model if they are right."
        )
        yield Finding("warning", "scale", message)


def _stand_in(finite: Evaluations) -> Iterator[Finding]:
    lowest = float(finite.log_density.min())
    rows = np.flatnonzero(finite.log_density == lowest)
    if len(rows) >= max(5, 0.01 * len(finite)) and len(np.unique(duplicate_groups(finite.points[rows]))) >= 5:
        message = (
            f"{len(rows)} evaluations at different points share the lowest log density of {lowest:.6g}, as if it stood "
            "for a failure. Give -inf instead if it does."
        )
        yield Finding("warning", "stand-in value", message)


def _sign(finite: Evaluations) -> Iterator[Finding]:
    if looks_negated(finite.points, finite.log_density):
        message = Message(
            "The log densities look negated: the lowest lie close together and the highest far out. Pass ",
            Argument("neg_log_density", said="them as neg_log_density="),
            " if they are negative log densities.",
        )
        yield Finding("warning", "sign", message)


def _noise(finite: Evaluations) -> Iterator[Finding]:
    if finite.log_density_sd is None:
        return
    median = float(np.median(finite.log_density))
    top = finite.log_density >= median
    spread, sd = float(np.std(finite.log_density[top])), float(np.median(finite.log_density_sd[top]))
    if sd > spread:
        message = (
            f"The noise is large: in the better half its median standard deviation is {sd:.3g}, while the log "
            f"densities spread by {spread:.3g}. Check that log_density_sd holds standard deviations and not variances, "
            "or average repeated evaluations."
        )
        yield Finding("warning", "noise", message)


def _top_region(finite: Evaluations) -> Iterator[Finding]:
    d = finite.dimension
    count, depth = int(top_region(finite.log_density, d).sum()), contour_depth(TOP_SIGMA, d)
    message = f"{count_in_words(count, 'evaluation')} lie within {depth:.1f} nats of the best, where the posterior is."
    if count >= 10 * d:
        yield Finding("info", "top region", message)
    else:
        message += f" {10 * d} or more are advised: add evaluations there, for example by restarting the optimiser."
        yield Finding("warning", "top region", message)


def _near_bounds(evaluations: Evaluations) -> Iterator[Finding]:
    near = _close_to_bound(evaluations, NEAR_BOUND)
    if near.any():
        names = [name for name, hit in zip(evaluations.names, near.T, strict=True) if hit.any()]
        rows = np.flatnonzero(near.any(axis=1)).tolist()
        message = (
            f"{count_in_words(len(rows), 'evaluation')} at a bound of {names_in_words(names)} {rows_in_words(rows)}, "
            "which is allowed."
        )
        yield Finding("info", "bounds", message)


def _pile_up(finite: Evaluations) -> Iterator[Finding]:
    top = finite.take(top_region(finite.log_density, finite.dimension))
    share = _close_to_bound(top, 0.01).mean(axis=0)
    for name, at_bound in zip(finite.names, share.tolist(), strict=True):
        if at_bound > 0.25:
            message = (
                f"{at_bound:.0%} of the best evaluations lie within 1 % of a hard bound of '{name}'. "
                "Widen the bound if the model allows it; otherwise expect a posterior that is cut off there."
            )
            yield Finding("warning", "pile-up", message)


def _close_to_bound(evaluations: Evaluations, share: float) -> Bool[ndarray, "n d"]:
    """Which coordinates are within a share of the width of a bound; an open side makes the points' range the width."""
    points, lower, upper = evaluations.points, evaluations.bounds.lower, evaluations.bounds.upper
    high = np.where(np.isfinite(upper), upper, points.max(axis=0, initial=-np.inf))
    low = np.where(np.isfinite(lower), lower, points.min(axis=0, initial=np.inf))
    margin = share * (high - low)
    return np.asarray((points - lower <= margin) | (upper - points <= margin))


def top_region(log_density: Float[ndarray, " n"], dimension: int) -> Bool[ndarray, " n"]:
    """Tell which evaluations are so close to the best that the posterior may live there."""
    depth = contour_depth(TOP_SIGMA, dimension)
    return np.asarray(log_density >= log_density.max() - depth)


def duplicate_groups(points: Float[ndarray, "n d"]) -> Int[ndarray, " n"]:
    """For each row, the number of the first row that holds exactly the same point."""
    order = np.lexsort(points.T)
    new = np.ones(len(points), dtype=bool)
    new[1:] = np.any(points[order[1:]] != points[order[:-1]], axis=1)
    start = np.maximum.accumulate(np.where(new, np.arange(len(points)), 0))
    first = np.empty(len(points), dtype=np.int64)
    first[order] = order[start]
    return first


def copied_column(points: Float[ndarray, "n d"]) -> tuple[int, int] | None:
    """Two columns of which one is the other up to shift and scale, if there are any; single outliers don't decide."""
    bulk = np.clip(points, *np.quantile(points, [0.05, 0.95], axis=0))
    varies = np.flatnonzero(np.ptp(bulk, axis=0) > 0)
    z = bulk[:, varies] - bulk[:, varies].mean(axis=0)
    z = z / np.abs(z).max(axis=0)
    z = z / np.linalg.norm(z, axis=0)
    i, j = np.nonzero(np.triu(np.abs(z.T @ z) > 1 - 1e-12, k=1))
    return (int(varies[i[0]]), int(varies[j[0]])) if i.size else None


def looks_negated(points: Float[ndarray, "n d"], log_density: Float[ndarray, " n"]) -> bool:
    """Tell whether finite log densities look like negative log densities; made to stay silent when in doubt.

    Four things must hold at once: the values reach much further above their median than below it, the highest
    tenth is spread much wider than the lowest tenth, the values curve upwards, and they don't rise from row to row
    as those of an optimiser that climbs.
    """
    if len(log_density) < 20 or np.ptp(log_density) == 0:
        return False
    y = (log_density - log_density.min()) / np.ptp(log_density)
    low, tenth, middle, ninetieth, high = np.quantile(y, [0.01, 0.1, 0.5, 0.9, 0.99])
    if high - middle <= 2 * (middle - low):
        return False
    tie = 1e-6 * (high - low)
    wider = _width_ratio(points, y >= ninetieth - tie, y <= tenth + tie)
    return wider > 2 and _curvature(points, y) > 0 and _trend(y) < 0.2


def _width_ratio(points: Float[ndarray, "n d"], some: Bool[ndarray, " n"], others: Bool[ndarray, " n"]) -> float:
    """How much wider some points are spread than others: the geometric mean over the parameters."""
    tiny = 1e-9 * np.ptp(points, axis=0) + np.finfo(float).tiny
    wide, narrow = (np.subtract(*np.quantile(points[rows], [0.9, 0.1], axis=0)) for rows in (some, others))
    return float(np.exp(np.mean(np.log(wide + tiny) - np.log(narrow + tiny))))


def _curvature(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> float:
    """Coefficient of the squared radius in a least-squares fit of a paraboloid."""
    z = points - np.median(points, axis=0)
    z = z / np.maximum(np.abs(z).max(axis=0), np.finfo(float).tiny)
    basis = np.column_stack([np.ones(len(z)), z, np.sum(z**2, axis=1)])
    return float(np.linalg.lstsq(basis, values, rcond=None)[0][-1])


def _trend(values: Float[ndarray, " n"]) -> float:
    """Rank correlation of the values with their row numbers."""
    return float(np.corrcoef(np.arange(len(values)), rankdata(values))[0, 1])


def _unbounded(finite: Evaluations) -> Iterator[Finding]:
    """A density without limit: its logarithm rises by as much with every decade that a parameter comes nearer to a
    bound, as it does where a standard deviation goes to zero at a data point."""
    for i, name in enumerate(finite.names):
        for bound, side in ((finite.bounds.lower[i], "lower"), (finite.bounds.upper[i], "upper")):
            if not np.isfinite(bound):
                continue
            best = _best_by_decade(np.abs(finite.points[:, i] - bound), finite.log_density)
            rises = np.diff(best[-DECADES - 1 :])
            if len(rises) == DECADES and rises.min() > LEAST_RISE and best[-1] == best.max():
                message = (
                    f"The log density keeps rising as '{name}' approaches its {side} bound {bound:g}: by "
                    f"{', '.join(f'{rise:.1f}' for rise in rises)} from one power of ten of the distance to the next. "
                    "Such a density may have no limit and no finite integral. Give the parameter a prior that vanishes "
                    "there, or a bound that keeps away from it."
                )
                yield Finding("warning", "unbounded density", message)


def _best_by_decade(distance: Float[ndarray, " n"], values: Float[ndarray, " n"]) -> Float[ndarray, " k"]:
    """The best value in each power of ten of a distance, from the largest to the smallest; only adjoining ones."""
    near = distance > 0
    decade = np.floor(np.log10(distance[near])).astype(int)
    best: list[float] = []
    for k in range(int(decade.max(initial=0)), int(decade.min(initial=0)) - 1, -1):
        here = values[near][decade == k]
        best = [*best, float(here.max())] if len(here) else []
    return np.array(best)
