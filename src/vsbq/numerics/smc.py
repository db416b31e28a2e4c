"""Sequential Monte Carlo from a mixture of Gaussians to a density that is dear to evaluate (Del Moral et al. 2006)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from vsbq._typing import Float, ndarray
from vsbq.numerics.em import effective_size
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq.numerics.resampling import systematic_rows

#: Share of the particles that a step in temperature leaves effective.
EFFECTIVE = 0.5

#: The acceptance at which a random walk is best (Roberts and Rosenthal 2001), and how fast its scale follows.
ACCEPTANCE = 0.25
ADAPTATION = 2.0

LogDensity = Callable[[Float[ndarray, "n d"]], Float[ndarray, " n"]]


class Target(NamedTuple):
    """A log density, −inf where there is none, and an upper bound of it that is cheap."""

    log_density: LogDensity
    upper_bound: LogDensity


class Particles(NamedTuple):
    """Points with the log densities of the proposal and of the target."""

    points: Float[ndarray, "n d"]
    log_proposal: Float[ndarray, " n"]
    log_target: Float[ndarray, " n"]

    def take(self, rows: ndarray) -> Particles:
        """Some of them."""
        return Particles(*(part[rows] for part in self))

    def between(self, temperature: float) -> Float[ndarray, " n"]:
        """Log density on the way from the proposal (0) to the target (1)."""
        return (1 - temperature) * self.log_proposal + temperature * self.log_target


class End(NamedTuple):
    """Particles of the target, the log ratio of its integral to that of the proposal, with its error, and the steps."""

    particles: Particles
    log_ratio: float
    error: float
    steps: int


def sequential(particles: Particles, proposal: Mixture, target: Target, moves: int, rng: np.random.Generator) -> End:
    """From the proposal to the target in steps that halve the effective size at most, with Metropolis moves."""
    n = len(particles.points)
    temperature, log_ratio, variance, steps, scale = 0.0, 0.0, 0.0, 0, 1.0
    while temperature < 1.0:
        slope = particles.log_target - particles.log_proposal
        step = _longest_step(slope, 1.0 - temperature)
        log_weights = step * slope
        log_ratio += float(logsumexp(log_weights) - np.log(n))
        weights = np.exp(log_weights - logsumexp(log_weights))
        variance += float((weights**2).sum()) - 1.0 / n
        particles = particles.take(systematic_rows(weights, n, rng))
        temperature, steps = temperature + step, steps + 1
        root = np.linalg.cholesky(np.cov(particles.points.T) + 1e-12 * np.eye(particles.points.shape[1]))
        for move in range(moves):
            if move % 2:  # anywhere, so that modes exchange particles
                fresh, balance = sample(proposal, n, rng), 1.0
            else:
                noise = rng.standard_normal(particles.points.shape) @ root.T
                fresh, balance = particles.points + scale * 2.38 / np.sqrt(len(root)) * noise, 0.0
            particles, accepted = _metropolis(particles, fresh, temperature, balance, (proposal, target), rng)
            if not move % 2:
                scale = float(np.clip(scale * np.exp(ADAPTATION * (accepted - ACCEPTANCE)), 1e-3, 1.0))
    return End(particles, log_ratio, float(np.sqrt(variance)), steps)


def _longest_step(slope: Float[ndarray, " n"], most: float) -> float:
    """The largest step in temperature that keeps enough of the particles effective, found by bisection."""
    if effective_size(np.exp(most * (slope - slope.max()))) >= EFFECTIVE * len(slope):
        return most
    low, high = 0.0, most
    for _ in range(40):
        middle = 0.5 * (low + high)
        fine = effective_size(np.exp(middle * (slope - slope.max()))) >= EFFECTIVE * len(slope)
        low, high = (middle, high) if fine else (low, middle)
    return max(low, 1e-6 * most)


def _metropolis(
    now: Particles,
    points: Float[ndarray, "n d"],
    temperature: float,
    balance: float,
    densities: tuple[Mixture, Target],
    rng: np.random.Generator,
) -> tuple[Particles, float]:
    """Metropolis–Hastings; `balance` is 1 if the points come from the proposal, 0 if from a symmetric step."""
    proposal, target = densities
    fresh = Particles(points, log_pdf(proposal, points), target.upper_bound(points))
    needed = np.log(rng.uniform(size=len(points))) + balance * (fresh.log_proposal - now.log_proposal)
    needed += now.between(temperature)
    yes = fresh.between(temperature) > needed
    # Only points that may be accepted are worth the whole target.
    fresh.log_target[yes] = target.log_density(points[yes])
    yes[yes] = fresh.between(temperature)[yes] > needed[yes]
    merged = (np.where(yes[:, None] if new.ndim == 2 else yes, new, old) for new, old in zip(fresh, now, strict=True))
    return Particles(*merged), float(np.mean(yes))
