"""What is odd about the evaluations, said before anything is fitted to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import Bool, Float, ndarray
from vsbq.data.consistency import find_offset, find_outliers, unit_of
from vsbq.data.coverage import run_findings, side_findings
from vsbq.data.findings import Finding
from vsbq.data.loss_findings import loss_findings
from vsbq.data.losses import name_in, note_on_name
from vsbq.data.penalties import between
from vsbq.data.runs import tell_runs
from vsbq.data.signs import duplicate_groups, looks_negated
from vsbq.data.whole_numbers import few_levels, whole_columns, words_on_whole_numbers
from vsbq.errors import Argument, Message, count_in_words, names_in_words, rows_in_words
from vsbq.numerics.contours import contour_depth
from vsbq.tables import badge, caption, notebook_table

if TYPE_CHECKING:
    from vsbq.data.evaluations import Evaluations

__all__ = ["BEYOND_REPAIR", "Audit", "Finding", "audit"]

#: Topics of warnings that no fit can repair: it would be one of something else than the posterior.
BEYOND_REPAIR = frozenset({"loss", "offset", "outliers"})

HUGE = 1e8  # beyond this size of the log density, differences of 1e-8 are lost in float64
MANY_PARAMETERS = 20
NEAR_BOUND = 1e-9  # share of the width
DECADES = 3  # of the distance to a bound over which a density without limit rises,
LEAST_RISE = 1.0  # by more than this many nats each
TOP_SIGMA = 3.0  # the top region reaches down to this contour of a normal
GRAIN = 0.01  # of the spread: points closer than this count once

#: Stated noise over the scatter of close neighbours, which is at least the noise.
MOST_NOISE = 3.0
LEAST_NOISE = 1.0  # nats: less does no harm

#: Starts of runs at which an offset is looked for, at most.
MOST_STARTS = 20


@dataclass(frozen=True, repr=False)
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

    __repr__ = __str__

    def _repr_html_(self) -> str:
        count = count_in_words(len(self.warnings), "warning") if self.warnings else "no warnings"
        order = (*self.warnings, *(finding for finding in self.findings if finding.severity == "info"))
        rows = [[finding.topic, badge(finding.severity), str(finding.message)] for finding in order]
        above = caption(f"Audit of the evaluations: {count}")
        return notebook_table(["topic", "", "finding"], rows, above=above, words=True)


def audit(evaluations: Evaluations, *, values_name: str | None = None) -> Audit:
    """Look for everything odd in the evaluations; nothing is changed and nothing is raised.

    `values_name` is what the values are called where they come from, such as the name of a column; readers of tables
    keep the name if it is that of a loss.
    """
    with np.errstate(all="ignore"):
        return Audit(tuple(_findings(evaluations, values_name or name_in(evaluations.notes))))


def _findings(evaluations: Evaluations, values_name: str | None) -> Iterator[Finding]:
    yield from _size(evaluations)
    for note in evaluations.notes:
        if note in note_on_name(values_name):
            continue  # it is asked about below
        yield Finding("info", "input", note)
    yield from _duplicates(evaluations)
    yield from _whole_numbers(evaluations)
    yield from _zero_density(evaluations)
    finite = evaluations.take(np.isfinite(evaluations.log_density))
    if len(finite):
        yield from _scale(finite)
        yield from _stand_in(finite)
        yield from _sign(finite)
        yield from loss_findings(finite, len(evaluations) - len(finite), values_name)
        yield from _consistency(finite)
        yield from _noise(finite)
        yield from _top_region(finite)
        yield from side_findings(finite)
        yield from run_findings(finite)
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


def _whole_numbers(evaluations: Evaluations) -> Iterator[Finding]:
    """Parameters that may not be continuous."""
    found = whole_columns(evaluations.points)
    if found:
        top = top_region(evaluations.log_density, evaluations.dimension)
        few = few_levels(evaluations.points, top, found)
        coarse = {evaluations.names[i]: count for i, count in few.items()}
        message = " ".join(words_on_whole_numbers([evaluations.names[i] for i in found], coarse))
        yield Finding("warning" if coarse else "info", "whole numbers", message)


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
        message = Message(
            f"{len(rows)} evaluations at different points share the lowest log density of {lowest:.6g}, as if it stood "
            "for a failure. If it does, pass ",
            Argument("zero_below", between(lowest, finite.log_density)),
            ", or -inf in place of it: then they count as a density of zero.",
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


def _consistency(finite: Evaluations) -> Iterator[Finding]:
    """Values that cannot be of one smooth function."""
    noise = np.zeros(len(finite)) if finite.log_density_sd is None else np.asarray(finite.log_density_sd)
    if not np.isfinite(finite.points.std(axis=0)).all():
        return
    rows = find_outliers(finite.points, finite.log_density, noise)
    if len(rows):
        message = (
            f"{count_in_words(len(rows), 'value')} {rows_in_words(rows.tolist())} among the highest stand far above "
            "all their neighbours. Evaluate these rows again. If they are wrong, leave them out: the posterior would "
            "be there."
        )
        yield Finding("warning", "outliers", message)
    starts = np.flatnonzero(np.diff(tell_runs(finite.points))) + 1
    offset = find_offset(finite.points, finite.log_density, noise, starts[:MOST_STARTS])
    if offset is not None:
        message = (
            f"From about row {offset.row} on the values are {abs(offset.nats):.2g} "
            f"{'higher' if offset.nats > 0 else 'lower'} than before at the same places (± {offset.error:.1g}), as if "
            "the model, the data or a constant had changed. Fit what belongs together, or correct the constant."
        )
        yield Finding("warning", "offset", message)


def _noise(finite: Evaluations) -> Iterator[Finding]:
    """Noise that is said to be much larger than the differences of close neighbours are."""
    if finite.log_density_sd is None:
        return
    top = np.flatnonzero(finite.log_density >= np.median(finite.log_density))
    sd = float(np.median(finite.log_density_sd[top]))
    scatter = _neighbour_scatter(finite.points[top], finite.log_density[top])
    if scatter is not None and sd > max(MOST_NOISE * scatter, LEAST_NOISE):
        message = (
            f"The stated noise is large: in the better half its median standard deviation is {sd:.3g}, while close "
            f"neighbours differ by {scatter:.3g} only. Check that log_density_sd holds standard deviations, and of the "
            "log density itself."
        )
        yield Finding("warning", "noise", message)


def _neighbour_scatter(points: Float[ndarray, "n d"], values: Float[ndarray, " n"]) -> float | None:
    """The standard deviation that differences between nearest neighbours suggest; an upper bound of the noise."""
    unit = unit_of(points)
    if len(points) < 10 or not np.isfinite(points / unit).all():
        return None
    nearest = np.asarray(cKDTree(points / unit).query(points / unit, 2)[1])
    other = np.where(nearest[:, 1] == np.arange(len(points)), nearest[:, 0], nearest[:, 1])
    return float(1.4826 * np.median(np.abs(values - values[other])) / np.sqrt(2.0))


def _top_region(finite: Evaluations) -> Iterator[Finding]:
    d = finite.dimension
    top = finite.points[top_region(finite.log_density, d)]
    count, depth = distinct_points(top), contour_depth(TOP_SIGMA, d)
    lie = "lies" if count == 1 else "lie"
    message = f"{count_in_words(count, 'distinct evaluation')} {lie} within {depth:.1f} nats of the best, where the "
    message += "posterior is."
    if count >= 10 * d:
        yield Finding("info", "top region", message)
    else:
        message += f" {10 * d} or more are advised: add evaluations there, for example by restarting the optimiser."
        yield Finding("warning", "top region", message)


def distinct_points(points: Float[ndarray, "n d"]) -> int:
    """How many points there are; those that differ by a hundredth of the spread, as in finite differences, are one."""
    spread = points.std(axis=0)
    unit = GRAIN * np.where(spread > 0, spread, 1.0)
    cells = np.floor(points / unit)
    return len(np.unique(cells, axis=0)) if np.isfinite(cells).all() else len(points)


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
                f"{at_bound:.0%} of the best evaluations lie within 1 % of a hard bound of '{name}', where the density "
                "may be highest. That is fine if the bound is meant; widen it if it is not."
            )
            yield Finding("info", "pile-up", message)


def _close_to_bound(evaluations: Evaluations, share: float) -> Bool[ndarray, "n d"]:
    """Which coordinates are within a share of the width of a bound; an open side makes the points' range the width."""
    points, lower, upper = evaluations.points, evaluations.bounds.lower, evaluations.bounds.upper
    high = np.where(np.isfinite(upper), upper, points.max(axis=0, initial=-np.inf))
    low = np.where(np.isfinite(lower), lower, points.min(axis=0, initial=np.inf))
    width = high - low
    margin = share * np.where(np.isfinite(width), width, 0.0)
    return np.asarray((points - lower <= margin) | (upper - points <= margin))


def top_region(log_density: Float[ndarray, " n"], dimension: int) -> Bool[ndarray, " n"]:
    """Tell which evaluations are so close to the best that the posterior may live there."""
    depth = contour_depth(TOP_SIGMA, dimension)
    return np.asarray(log_density >= log_density.max() - depth)


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
