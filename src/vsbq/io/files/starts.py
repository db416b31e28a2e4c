"""Samplers that start where a posterior ends: ensembles, Hamiltonian Monte Carlo and nested sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, stdtrit

from vsbq._typing import Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.io.files.exports import ExportError
from vsbq.numerics import mixture as mix
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState

__all__ = ["LivePoints", "MassMatrix", "live_points", "mass_matrix", "start_ensemble"]

#: Draws from which covariances in other coordinates are taken.
MANY = 20_000

#: Degrees of freedom of the prior that a nested sampler starts from: tails heavier than any posterior should have.
TAILS = 5.0


def start_ensemble(post: Posterior, walkers: int, rng: RandomState = None) -> Float[ndarray, "n d"]:
    """Distinct draws strictly inside the bounds and of finite density: `p0` of emcee, zeus and other ensembles.

    emcee wants at least two walkers per parameter.
    """
    if walkers < 1:
        raise ExportError(f"An ensemble has at least one walker, not {walkers}.")
    generator = np.random.default_rng(rng)
    found = np.empty((0, post.dimension))
    for attempt in range(20):
        many = 2 * walkers + 10
        # The draws of the refinement are a finite set; the mixture has no end of them.
        if attempt < 2:
            more = post.sample(many, generator)
        else:
            more = post.space.inverse(mix.sample(post.mixture, many, generator))
        inside = ((more > post.bounds.lower) & (more < post.bounds.upper)).all(axis=1)
        more = more[inside]
        found = np.concatenate([found, more[np.isfinite(post.log_pdf(more))]])
        _, first = np.unique(found, axis=0, return_index=True)
        found = found[np.sort(first)]
        if len(found) >= walkers:
            return found[:walkers]
    raise ExportError(
        f"Only {len(found)} distinct points strictly inside the bounds were found for {walkers} walkers: the posterior "
        "is narrower than its numbers can tell apart. Rescale the parameters."
    )


@dataclass(frozen=True, eq=False)
class MassMatrix:
    """What Hamiltonian samplers adapt to, already known.

    `inverse` is the covariance of the posterior in the coordinates that the sampler moves in: `inv_metric` of Stan,
    `inverse_mass_matrix` of BlackJAX and NumPyro, the covariance of PyMC's potential. `matrix` is its inverse, the mass
    matrix itself.
    """

    names: tuple[str, ...]
    coordinates: tuple[str, ...]  # what each coordinate is, as a formula of the parameter x
    inverse: Float[ndarray, "d d"]

    @property
    def matrix(self) -> Float[ndarray, "d d"]:
        """The mass matrix: the precision of the posterior."""
        return np.linalg.inv(self.inverse)


def mass_matrix(
    post: Posterior, space: Literal["unconstrained", "user"] = "unconstrained", *, rng: RandomState = None
) -> MassMatrix:
    """Inverse metric for Hamiltonian Monte Carlo, from 20,000 draws.

    "unconstrained" are the coordinates in which Stan and PyMC sample: logit((x − lower) / (upper − lower)) with two
    bounds, log(x − lower) or log(upper − x) with one, x with none. "user" leaves the parameters as they are.
    """
    if space not in ("unconstrained", "user"):
        raise ExportError(f"space={space!r} is not known. Use 'unconstrained' or 'user'.")
    draws = post.sample(MANY, rng)
    if space == "user":
        return MassMatrix(post.names, ("x",) * post.dimension, np.atleast_2d(np.cov(draws.T)))
    free = _unconstrained(draws, post.bounds, post.space.edge)
    return MassMatrix(post.names, _formulas(post.bounds), np.atleast_2d(np.cov(free.T)))


def _unconstrained(x: Float[ndarray, "n d"], bounds: Bounds, edge: Float[ndarray, " d"]) -> Float[ndarray, "n d"]:
    out = x.copy()
    least = np.maximum(edge, 1e-300)
    with np.errstate(invalid="ignore"):
        low, high = np.maximum(x - bounds.lower, least), np.maximum(bounds.upper - x, least)
    for i, kind in enumerate(bounds.kind):
        if kind != "open":
            to_low, to_high = np.log(low[:, i]), np.log(high[:, i])
            out[:, i] = {"both": to_low - to_high, "lower": to_low, "upper": to_high}[kind]
    return out


def _formulas(bounds: Bounds) -> tuple[str, ...]:
    """The coordinates of `_unconstrained` in words."""
    out = []
    for i, kind in enumerate(bounds.kind):
        low, high = (f"{side:g}" for side in bounds.pair(i))
        words = {
            "open": "x",
            "lower": f"log(x - {low})",
            "upper": f"log({high} - x)",
            "both": f"logit((x - {low}) / ({high} - {low}))",
        }
        out.append(words[kind])
    return tuple(out)


@dataclass(frozen=True, eq=False)
class LivePoints:
    """A start for nested sampling near the posterior that leaves its evidence right; made by `Posterior.live_points`.

    Live points have to be drawn from the prior of the run, or its evidence is wrong, and draws of a posterior are not.
    So the run gets another prior: a wide density q with heavy tails around the posterior, from which `points` are
    drawn (`unit` are their coordinates on the unit cube). The sampler then takes `prior_transform` as its prior and
    `log_likelihood(log_density)` as its likelihood, which is log_density − log q: their product is the user's own
    likelihood times prior, so that posterior and evidence are those of the user's model while the run starts where the
    mass is. What is needed is a call of the model at each of the points:

        live = post.live_points(500, rng=1)
        sampler = dynesty.NestedSampler(
            live.log_likelihood(log_density), live.prior_transform, D, nlive=500,
            live_points=live.for_dynesty(log_density),
        )
    """

    points: Float[ndarray, "n d"]
    unit: Float[ndarray, "n d"]
    log_prior: Float[ndarray, " n"]  # log q of the points
    space: InferenceSpace = field(repr=False)
    centre: Float[ndarray, " d"] = field(repr=False)
    root: Float[ndarray, "d d"] = field(repr=False)

    def prior_transform(self, unit: ndarray) -> ndarray:
        """From the unit cube to the user's space, one point (D,) or several (n, D)."""
        cube = np.clip(np.atleast_2d(unit), 1e-300, np.nextafter(1.0, 0.0))
        u = self.centre + np.asarray(stdtrit(TAILS, cube)) @ self.root.T
        return self.space.inverse(u).reshape(np.shape(unit))

    def log_pdf(self, x: ndarray) -> Any:
        """Log q at one point (D,) or at several (n, D) of the user's space; −inf outside the bounds."""
        points = np.atleast_2d(np.asarray(x, dtype=np.float64))
        u = self.space.forward(points)
        z = np.linalg.solve(self.root, (u - self.centre).T).T
        turn = float(np.log(np.abs(np.diagonal(self.root))).sum())
        constant = gammaln(0.5 * (TAILS + 1)) - gammaln(0.5 * TAILS) - 0.5 * np.log(np.pi * TAILS)
        student = (constant - 0.5 * (TAILS + 1) * np.log1p(z**2 / TAILS)).sum(axis=1)
        out = student - turn - self.space.log_jacobian(u)
        out = np.where(self.space.bounds.outside(points).any(axis=1), -np.inf, out)
        return float(out[0]) if np.ndim(x) < 2 else out

    def log_likelihood(self, log_density: Callable[[ndarray], float]) -> Callable[[ndarray], float]:
        """What the nested sampler takes as log likelihood, from the user's log density (likelihood times prior)."""

        def difference(x: ndarray) -> float:
            value = float(log_density(x))
            return value if value == -np.inf else value - self.log_pdf(x)

        return difference

    def for_dynesty(self, log_density: Callable[[ndarray], float]) -> list[ndarray]:
        """`live_points` of dynesty: unit cube, points and their log likelihoods, with one model call each."""
        likelihood = self.log_likelihood(log_density)
        return [self.unit.copy(), self.points.copy(), np.array([likelihood(x) for x in self.points])]


def live_points(post: Posterior, n: int, rng: RandomState = None, *, widen: float = 1.5) -> LivePoints:
    """n live points for a nested sampler, and the prior that they are drawn from; see `LivePoints`.

    `widen` is how much wider than the posterior that prior is in each direction.
    """
    if n < 1 or not 0 < widen < np.inf:
        raise ExportError(f"Live points need n of at least 1 and a positive widen; got n={n}, widen={widen}.")
    generator = np.random.default_rng(rng)
    u = post.space.forward(post.sample(MANY, generator))
    root = widen * np.linalg.cholesky(np.atleast_2d(np.cov(u.T)))
    bare = LivePoints(
        np.empty((0, u.shape[1])), np.empty((0, u.shape[1])), np.empty(0), post.space, u.mean(axis=0), root
    )
    unit = generator.uniform(size=(n, post.dimension))
    points = bare.prior_transform(unit)
    return LivePoints(points, unit, bare.log_pdf(points), bare.space, bare.centre, root)
