"""The density of a posterior: its values, its highest point and draws from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.errors import as_count
from vsbq.numerics import mixture as mix
from vsbq.steps.support import OUTSIDE, asked

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior

__all__ = ["CutDraws", "cut_draws", "draw", "log_density", "log_inside", "log_pdf", "mode"]

#: Draws of the mixture among which the climbs to the mode begin, and how many climbs there are.
MODE_DRAWS = 4000
CLIMBS = 3

#: What a climb takes for the negative log of a density of zero.
IMPOSSIBLE = 1e10

#: How often draws beyond the edge of the support are drawn again.
MOST_TRIES = 100

#: Draws from which it is found what the support leaves of the mixture.
CUT_DRAWS = 40_000

#: A log probability to be inside that is the least one, up to rounding, is that of a density of zero.
ROUNDING = 1e-6


class CutDraws(NamedTuple):
    """Draws of a mixture: with the first weights they stand for what its support leaves of it, with the second for the
    mixture itself; both sum to one. `log_mass` is the log of the share that is left."""

    points: Float[ndarray, "n d"]
    weights: Float[ndarray, " n"]
    mixture_weights: Float[ndarray, " n"]
    log_mass: float


def draw(post: Posterior, n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """n draws of equal weight in random order, in the user's space."""
    count = as_count(n, "The number of draws", 0)
    if post.refined is None:
        return post.space.inverse(_of_mixture(post, count, rng))
    return post.space.inverse(post.refined.draw(count, rng))


def _of_mixture(post: Posterior, n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """Draws of the mixture, those beyond the edge of the support rejected."""
    u = mix.sample(post.mixture, n, rng)
    if post.support is None:
        return u
    kept = u[:0]
    for _ in range(MOST_TRIES):
        kept = np.concatenate([kept, u[-rng.exponential(size=len(u)) <= log_inside(post, u)]])
        if len(kept) == n:
            return kept
        u = mix.sample(post.mixture, n - len(kept), rng)
    # Hardly anything of the mixture is inside.
    return np.concatenate([kept, kept[rng.integers(len(kept), size=n - len(kept))] if len(kept) else u])


def log_inside(post: Posterior, u: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """Log of the probability that the density is not zero at points of inference space; −inf where it surely is."""
    if post.support is None:
        return np.zeros(len(u))
    found = post.support.log_probability(u)
    return np.where(found <= OUTSIDE + ROUNDING, -np.inf, found)


def cut_draws(post: Posterior) -> CutDraws | None:
    """Draws of the mixture that stand for what its support leaves of it; None where it leaves all."""
    if post.support is None:
        return None
    u = mix.sample(post.mixture, CUT_DRAWS, np.random.default_rng(0))
    inside = np.exp(log_inside(post, u))
    if not inside.any():
        return None
    return CutDraws(u, inside / inside.sum(), np.full(len(u), 1.0 / len(u)), float(np.log(inside.mean())))


def log_pdf(post: Posterior, x: ArrayLike) -> Any:
    """Log density at one point (a number) or at several (an array), −inf outside the bounds and the support."""
    values = np.asarray(x, dtype=np.float64)
    points = np.atleast_2d(values)
    if values.ndim > 2 or points.shape[1] != post.dimension:
        raise ValueError(f"Points have {post.dimension} coordinates; got an array of shape {values.shape}.")
    inside = ~post.bounds.outside(points).any(axis=1) & np.isfinite(points).all(axis=1)
    out = np.full(len(points), -np.inf)
    out[inside] = log_density(post, points[inside])
    return float(out[0]) if values.ndim < 2 else out


def log_density(post: Posterior, x: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    """At points inside the bounds: the density that the surrogate expects, normalised, where it is trusted; the
    mixture's elsewhere; −inf where the density is zero."""
    if post.prior_change is not None:
        return post.prior_change.log_pdf(x)
    u = post.space.forward(x)
    edge = log_inside(post, u)
    if post.support is not None and post.support.told is not None and len(x):
        # The points themselves: on their way to inference space and back they might cross the edge.
        edge[~asked(post.support.told.in_support, x)] = -np.inf
    out = mix.log_pdf(post.mixture, u) - post.space.log_jacobian(u) + edge
    if post.refined is None:
        return out if post.cut is None else out - post.cut.log_mass
    space = post.refined.region.surrogate.space
    turned = space.forward(x)
    known = post.refined.region.log_density(turned) - space.log_jacobian(turned)
    out = np.where(np.isnan(known), out, known - post.refined.evidence.value)
    return np.where(np.isneginf(edge), -np.inf, out)


def mode(post: Posterior) -> Float[ndarray, " d"]:
    """The point of highest density in the user's space, by climbs from the best of many draws of the mixture."""
    u = np.concatenate([post.mixture.means, mix.sample(post.mixture, MODE_DRAWS, np.random.default_rng(0))])
    density = log_density(post, post.space.inverse(u))
    limits = list(zip(u.min(axis=0), u.max(axis=0), strict=True))

    def negative(point: Float[ndarray, " d"]) -> float:
        return min(-float(log_density(post, post.space.inverse(point[None]))[0]), IMPOSSIBLE)

    # Slopes mean nothing at an edge of the density, where its highest point may be.
    method: Literal["L-BFGS-B", "Nelder-Mead"] = "L-BFGS-B" if post.support is None else "Nelder-Mead"
    starts = np.argsort(-density)[:CLIMBS]
    climbs = [minimize(negative, u[k], method=method, bounds=limits) for k in starts]
    return post.space.inverse(min(climbs, key=lambda found: found.fun).x[None])[0]
