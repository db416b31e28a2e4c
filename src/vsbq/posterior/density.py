"""The density of a posterior: its values, its highest point and draws from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import minimize

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.numerics import mixture as mix

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior

__all__ = ["draw", "log_density", "log_pdf", "mode"]

#: Draws of the mixture among which the climbs to the mode begin, and how many climbs there are.
MODE_DRAWS = 4000
CLIMBS = 3

#: How often draws beyond the edge of the support are drawn again.
MOST_TRIES = 100


def draw(post: Posterior, n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """n draws of equal weight in random order, in the user's space."""
    if n < 0:
        raise ValueError(f"The number of draws is at least 0, not {n}.")
    if post.refined is None:
        return post.space.inverse(_of_mixture(post, int(n), rng))
    return post.space.inverse(post.refined.draw(int(n), rng))


def _of_mixture(post: Posterior, n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
    """Draws of the mixture, those beyond the edge of the support rejected."""
    u = mix.sample(post.mixture, n, rng)
    if post.support is None:
        return u
    for _ in range(MOST_TRIES):
        outside = np.flatnonzero(np.log(rng.uniform(size=n)) > post.support.log_probability(u))
        if not len(outside):
            break
        kept = np.setdiff1d(np.arange(n), outside)
        u = np.concatenate([u[kept], mix.sample(post.mixture, len(outside), rng)])
    return u


def log_pdf(post: Posterior, x: ArrayLike) -> Any:
    """Log density at one point (a number) or at several (an array), −inf outside the bounds."""
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
    mixture's elsewhere."""
    if post.prior_change is not None:
        return post.prior_change.log_pdf(x)
    u = post.space.forward(x)
    out = mix.log_pdf(post.mixture, u) - post.space.log_jacobian(u)
    if post.support is not None:
        out += post.support.log_probability(u)
    if post.refined is not None:
        space = post.refined.region.surrogate.space
        turned = space.forward(x)
        known = post.refined.region.log_density(turned) - space.log_jacobian(turned)
        out = np.where(np.isnan(known), out, known - post.refined.evidence.value)
    return out


def mode(post: Posterior) -> Float[ndarray, " d"]:
    """The point of highest density in the user's space, by climbs from the best of many draws of the mixture."""
    u = np.concatenate([post.mixture.means, mix.sample(post.mixture, MODE_DRAWS, np.random.default_rng(0))])
    density = log_density(post, post.space.inverse(u))
    limits = list(zip(u.min(axis=0), u.max(axis=0), strict=True))

    def negative(point: Float[ndarray, " d"]) -> float:
        return -float(log_density(post, post.space.inverse(point[None]))[0])

    starts = np.argsort(-density)[:CLIMBS]
    climbs = [minimize(negative, u[k], method="L-BFGS-B", bounds=limits) for k in starts]
    return post.space.inverse(min(climbs, key=lambda found: found.fun).x[None])[0]
