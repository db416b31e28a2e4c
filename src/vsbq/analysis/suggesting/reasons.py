"""Why a point is worth an evaluation, in words: what is most open there, and where it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vsbq._typing import Bool, Float, ndarray
from vsbq.analysis.suggesting.doubt import Doubts
from vsbq.analysis.suggesting.places import VALLEY, Weak
from vsbq.numerics.contours import NEGLIGIBLE, contour_depth
from vsbq.posterior import Posterior

__all__ = ["Suggestions", "reasons_of"]

#: Rows of the table that are shown.
SHOWN = 30

#: How near to the line between two modes a point is between them, and how far from all evaluations nobody has looked:
#: standard deviations within a mode.
ABREAST = 3.0
FAR = 0.5

WORDS = {
    "block": "one region of the evaluations decides here",
    "trend": "far from all evaluations; how fast the density falls is open",
    "side": "only the outermost evaluations tell what is here",
    "support": "the edge of the support is uncertain here",
}


@dataclass(frozen=True, eq=False, repr=False)
class Suggestions:
    """Points to be evaluated, the most telling one first, each with the reason for it in words."""

    names: tuple[str, ...]
    points: Float[ndarray, "n d"]
    reasons: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        cells = [[*self.names], *([f"{value:.4g}" for value in row] for row in self.points[:SHOWN])]
        width = [max(len(row[i]) for row in cells) for i in range(len(self.names))]
        lines = [
            "  ".join(cell.rjust(size) for cell, size in zip(row, width, strict=True)) + f"  {why}"
            for row, why in zip(cells, ["reason", *self.reasons[:SHOWN]], strict=True)
        ]
        return "\n".join([*lines, *([f"... and {len(self) - SHOWN} more"] if len(self) > SHOWN else [])])


class _Where(NamedTuple):
    """Where points lie, in plain coordinates."""

    plain: Float[ndarray, "n d"]
    away: Float[ndarray, " n"]  # from all evaluations, in posterior sds beyond the usual
    low: Float[ndarray, " d"]  # box of the better evaluations
    high: Float[ndarray, " d"]


def reasons_of(
    post: Posterior, doubts: Doubts, weak: Weak, u: Float[ndarray, "n d"], noise_sd: float
) -> tuple[str, ...]:
    """For points in the surrogate's coordinates."""
    where = _where(post, doubts, u)
    open_by = _parts(doubts, u)
    main = np.argmax(np.stack(list(open_by.values())), axis=0)
    kinds = list(open_by)
    between = _between(weak, where.plain) & (where.away > FAR)
    own_sd = np.sqrt(doubts.model.variance(u))
    out = []
    for i, kind in enumerate(kinds[k] for k in main):
        if kind == "sisters":
            nats = 2.0 * np.sqrt(open_by[kind][i] / _factor(doubts, u[i : i + 1])[0] ** 2)
            out.append(f"surrogates learnt from different evaluations disagree here by {nats:.2g} nats")
        elif kind in ("block", "support"):
            out.append(WORDS[kind])
        elif between[i]:
            out.append("nothing was evaluated between these two modes")
        else:
            out.append(_place(post, weak, where, i) or _unsure(kind, float(own_sd[i]), noise_sd))
    return tuple(out)


def _factor(doubts: Doubts, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    return np.ones(len(u)) if doubts.gap is None else doubts.gap(u)


def _parts(doubts: Doubts, u: Float[ndarray, "n d"]) -> dict[str, Float[ndarray, " n"]]:
    """What each doubt adds to the variance of points."""
    means, factor = doubts.model.means(u), _factor(doubts, u)
    sisters = ((means - means.mean(axis=0)) ** 2).sum(axis=0) / max(1, len(means) - 1)
    within = np.maximum(doubts.model.variance(u) - sisters, 0.0)
    parts = {"surrogate": factor**2 * within, "sisters": factor**2 * sisters}
    return parts | {kind: (each**2).sum(axis=0) for kind, each in doubts.features(u).items()}


def _where(post: Posterior, doubts: Doubts, u: Float[ndarray, "n d"]) -> _Where:
    plain = doubts.model.space.to_plain(u)
    given = post.evaluations
    if given is None or doubts.gap is None:
        return _Where(plain, np.zeros(len(u)), np.full(u.shape[1], -np.inf), np.full(u.shape[1], np.inf))
    better = given.log_density >= given.log_density.max() - contour_depth(NEGLIGIBLE, post.dimension)
    seen = post.space.forward(given.points[better])
    return _Where(plain, doubts.gap.distance(u), seen.min(axis=0), seen.max(axis=0))


def _between(weak: Weak, plain: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
    """Which points lie on the way from one mode to another."""
    modes, sd = np.unique(weak.region), weak.within_sd(weak.draws)
    centres = [weak.draws[weak.region == mode].mean(axis=0) / sd for mode in modes]
    found = np.zeros(len(plain), dtype=bool)
    for i, one in enumerate(centres):
        for other in centres[:i]:
            way = other - one
            along = (plain / sd - one) @ way / (way @ way)
            apart = np.linalg.norm(plain / sd - one - along[:, None] * way, axis=1)
            found |= (along > VALLEY[0]) & (along < VALLEY[1]) & (apart < ABREAST)
    return found


def _place(post: Posterior, weak: Weak, where: _Where, i: int) -> str:
    """Words for a point beyond a cut or beyond the evaluations; none where there are evaluations around it."""
    for tail in weak.tails:
        edge = tail.edge
        if edge.side * where.plain[i, edge.parameter] > edge.side * edge.end:
            end = _end(post, edge.parameter, edge.side, edge.end)
            return f"the density is still high where the evaluations end, {end}"
    out = np.maximum(where.low - where.plain[i], where.plain[i] - where.high) / weak.within_sd(weak.draws)
    worst = int(np.argmax(out))
    if out[worst] > 0:
        side = -1 if where.plain[i, worst] < where.low[worst] else 1
        return f"nothing was evaluated with {_end(post, worst, side, float((where.low, where.high)[side > 0][worst]))}"
    return "no evaluation is near, and the density may be high here" if where.away[i] > FAR else ""


def _end(post: Posterior, parameter: int, side: int, value: float) -> str:
    """A parameter beyond a value, in the user's units."""
    point = np.zeros((1, post.dimension))
    point[0, parameter] = value
    shown = post.space.inverse(point)[0, parameter]
    return f"'{post.names[parameter]}' {'above' if side > 0 else 'below'} {shown:.3g}"


def _unsure(kind: str, sd: float, noise_sd: float) -> str:
    if kind in WORDS:
        return WORDS[kind]
    if noise_sd > sd:
        return f"noise of {noise_sd:.2g} nats: one more evaluation here averages it out"
    return f"the log density is known to no better than {sd:.2g} nats here"
