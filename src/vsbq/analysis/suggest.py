"""What to evaluate next: the batch of points that would reduce the uncertainty of a posterior most, with reasons.

Where the log density may be wrong by s nats matters only if the density may be high there. A place counts if the log
density might reach the outer contour of the posterior: if mean + s does. It counts for log(1 + (s / s₀)²), which
chases neither places of which nothing at all is known nor those that are known well enough. What s is made of, from
the surrogate's own variance to the edge of the support, is in `suggesting.doubt`. The batch is chosen one by one: the
next point is the one whose evaluation lowers the sum over all places most, given the points before it. Variances do
not depend on values, so that nothing has to be evaluated in between.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from vsbq._typing import ArrayLike, Bool, Float, ndarray
from vsbq.analysis.suggesting.batch import BLOCK, Batch
from vsbq.analysis.suggesting.doubt import Doubts, Relevance
from vsbq.analysis.suggesting.places import Weak, distinct, proposals
from vsbq.analysis.suggesting.policy import Suggesting
from vsbq.analysis.suggesting.reasons import Suggestions, reasons_of
from vsbq.data.validation import read_numbers
from vsbq.errors import EvaluationsError, VsbqError, as_count
from vsbq.numerics.contours import highest
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState
from vsbq.steps.model import LogDensityModel

__all__ = ["MOST_POINTS", "Suggesting", "Suggestions", "suggest", "suggestions"]

MOST_POINTS = 4000


def suggest(
    post: Posterior, n: int, rng: RandomState = None, settings: Suggesting | None = None
) -> Float[ndarray, "n d"]:
    """n points in the user's space, inside the bounds and where the density rather is not zero, whose evaluation would
    tell most, the most telling one first."""
    return suggestions(post, n, rng, settings=settings).points


def suggestions(
    post: Posterior,
    n: int,
    rng: RandomState = None,
    pending: ArrayLike | None = None,
    settings: Suggesting | None = None,
) -> Suggestions:
    """The same with a reason for each point; see `Posterior.suggestions`."""
    model = _surrogate(post)
    n = as_count(n, "The number of points", 1)
    if n > MOST_POINTS:
        raise ValueError(f"suggest gives from 1 to {MOST_POINTS} points at a time, not {n}.")
    settings, generator = settings or Suggesting(), np.random.default_rng(rng)
    weak = Weak.of(post)
    doubts = Doubts.of(post, model, weak, settings)
    places, candidates = _places_and_candidates(post, weak, n, settings, generator)
    waiting = _pending(post, pending)
    noise_sd, known = noise_of_next(post, settings), len(waiting)
    under_way = model.space.forward(waiting)
    candidates = candidates[_away_from(under_way, candidates)]
    points = np.concatenate([under_way, candidates])
    batch = Batch(doubts, (points, places), Relevance.of(post, model, settings), noise_sd)
    batch.take(np.arange(known))
    while len(batch.chosen) < known + n:
        batch.choose(min(max(n // 16, 1), BLOCK, known + n - len(batch.chosen)))
    chosen = points[batch.chosen[known:]]
    reasons = reasons_of(post, doubts, weak, chosen, noise_sd)
    return Suggestions(post.names, model.space.inverse(chosen), reasons)


def _places_and_candidates(
    post: Posterior, weak: Weak, n: int, settings: Suggesting, rng: np.random.Generator
) -> tuple[Float[ndarray, "p d"], Float[ndarray, "c d"]]:
    """Points in the surrogate's coordinates: those at which what is open counts, and those that may be evaluated."""
    model = _surrogate(post)

    def some(size: int, least_inside: float) -> Float[ndarray, "k d"]:
        u = proposals(post, weak, size, settings, rng)
        if post.support is not None:
            u = u[post.support.log_probability(u) > np.log(least_inside)]
        return distinct(model.space.from_plain(u), model)

    places = some(settings.places * (1 + post.dimension), settings.least_inside)
    size = max(settings.candidates * (1 + post.dimension), settings.candidates_per_point * n)
    candidates = some(size, 0.5)
    while len(candidates) < n:
        candidates = distinct(np.concatenate([candidates, some(size, 0.5)]), model)
    return places, candidates


def _surrogate(post: Posterior) -> LogDensityModel:
    if post.surrogate is None:
        raise VsbqError(
            "This posterior has no surrogate (a compact file leaves it out), and without it nothing can be said about "
            "where more evaluations would help. Load a file that was saved with compact=False, or fit again."
        )
    return post.surrogate


def _pending(post: Posterior, pending: ArrayLike | None) -> Float[ndarray, "k d"]:
    """Points that are under way, checked."""
    if pending is None:
        return np.empty((0, post.dimension))
    x = read_numbers(pending, "pending")
    x = x[None] if x.shape == (post.dimension,) else x.reshape(0, post.dimension) if x.size == 0 else x
    if x.ndim != 2 or x.shape[1] != post.dimension:
        raise EvaluationsError(f"pending has shape {x.shape}. Pass one row of {post.dimension} numbers for each point.")
    if not np.isfinite(x).all() or post.bounds.outside(x).any():
        raise EvaluationsError("Some pending points are not finite or outside the bounds. Pass points of `suggest`.")
    return x


def _away_from(points: Float[ndarray, "k d"], u: Float[ndarray, "n d"]) -> Bool[ndarray, " n"]:
    """Which candidates are not one of the points again, but for rounding."""
    if not len(points):
        return np.ones(len(u), dtype=bool)
    return np.asarray(cKDTree(points).query(u)[0] > 1e-8 * (1.0 + np.abs(u).max(axis=1)))


def noise_of_next(post: Posterior, settings: Suggesting) -> float:
    """Noise of an evaluation to come: the usual one among the best so far, or what was found out about it."""
    given, found = post.evaluations, None if post.history is None else post.history.noise
    if found is not None and found.kind in ("estimated", "rescaled"):
        return max(settings.least_noise_sd, found.sd)
    if given is None or given.log_density_sd is None:
        return settings.least_noise_sd
    best = highest(given.log_density, max(20, len(given) // 10))
    return max(settings.least_noise_sd, float(np.median(given.log_density_sd[best])))
