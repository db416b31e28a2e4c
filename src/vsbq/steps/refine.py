"""Step 4: evidence and draws of the surrogate itself, with the mixture as proposal.

The mixture is what costs accuracy where the surrogate is good. Where the surrogate can be trusted, the refined density
is what the surrogate expects, normalised; elsewhere it stays the mixture's, so that the tails beyond the outermost
evaluations keep the little mass that the mixture gives them and nothing can leak there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from vsbq._typing import Float, ndarray
from vsbq.history import Evidence, RefinedFit
from vsbq.numerics.em import truncated_weights
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq.numerics.resampling import systematic_rows
from vsbq.numerics.smc import Particles, Target, sequential
from vsbq.numerics.weights import HOPELESS, weigh
from vsbq.progress import Progress, logger
from vsbq.steps.cuts import find_cuts
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion

#: By how much the surrogate's own uncertainty may be too small where no block of evaluations could be held out.
UNTESTED = 5.0

#: Draws for the mass just outside the trusted region.
WIDE_DRAWS = 8000

#: A posterior all of which is guessed is off by the logarithm of this, at least.
LEAST_KNOWN = 1e-6

#: Nats by which the mean may rise where a block of evaluations is left out: the gap would not be trusted beyond that.
MOST_CHANGE = 1.0


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """Importance weights from the mixture to the surrogate; sequential Monte Carlo where they are not good enough."""

    draws: int = 40_000
    wide_share: float = 0.1  # of the draws come from components that are wider by `wide_factor`
    wide_factor: float = 1.5
    min_share: float = 0.05  # of the draws that have to be effective for importance weights
    particles: int = 8000
    moves: int = 20  # Metropolis steps at every temperature
    uncertainty_draws: int = 1000


@dataclass(frozen=True, eq=False)
class Refined:
    """Weighted draws of the refined density, in plain inference coordinates.

    `weights` and `mixture_weights` sum to one: the same draws represent the refined density with the first, the mixture
    with the second. What is known of the mixture exactly then needs only their difference.
    """

    points: Float[ndarray, "n d"]
    weights: Float[ndarray, " n"]
    mixture_weights: Float[ndarray, " n"]
    evidence: Evidence
    region: TrustedRegion

    @property
    def both_weights(self) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """Weights towards the refined density and towards the mixture."""
        return self.weights, self.mixture_weights

    def shift(self, values: Float[ndarray, "n f"]) -> Float[ndarray, " f"]:
        """Expectations of functions of the draws, minus those under the mixture."""
        return np.asarray((self.weights - self.mixture_weights) @ values)

    def draw(self, n: int, rng: np.random.Generator) -> Float[ndarray, "n d"]:
        """n draws of equal weight in random order; a draw comes twice only if it weighs more than 1/n."""
        order = rng.permutation(len(self.weights))
        return self.points[rng.permutation(order[systematic_rows(self.weights[order], n, rng)])]


def refine(
    mixture: Mixture, region: TrustedRegion, settings: Refinement, rng: np.random.Generator, progress: Progress
) -> tuple[Refined | None, RefinedFit]:
    """Weighted draws and the evidence of the refined density, in the surrogate's coordinates; None where no draw of
    the mixture is trusted."""
    proposal = _widened(mixture, settings)
    u = sample(proposal, settings.draws, rng)
    log_proposal = log_pdf(proposal, u)
    log_target = region.log_density(u)
    inside = np.isfinite(log_target)
    to_mixture = np.exp(log_pdf(mixture, u) + region.log_support(u) - log_proposal)
    to_mixture /= to_mixture.sum()
    outside = float(to_mixture[~inside].sum())
    weights = np.where(inside, 0.0, to_mixture)
    if inside.sum() < 2:  # no draw of the mixture is where the surrogate can be trusted
        return None, RefinedFit("none", HOPELESS, 0.0, outside, 0)
    found = weigh(log_target[inside] - log_proposal[inside])
    share = found.effective / len(found.weights)
    if found.good_enough(len(found.weights), settings.min_share * len(found.weights)):
        weights[inside] = (1 - outside) * found.weights
        fit = RefinedFit("importance", found.shape, share, outside, 0)
        value, error = found.log_mean, float(np.sqrt((1.0 / share - 1.0) / len(found.weights)))
    else:
        progress.say("refinement: sequential Monte Carlo")
        start = Particles(u[inside], log_proposal[inside], log_target[inside])
        start = start.take(rng.permutation(len(start.points))[: settings.particles])
        particles, value, error, steps = sequential(start, proposal, _target(region), settings.moves, rng)
        new = len(particles.points)
        u, to_mixture = np.concatenate([u, particles.points]), np.append(to_mixture, np.zeros(new))
        weights = np.append(weights, np.full(new, (1 - outside) / new))
        fit = RefinedFit("sequential", found.shape, share, outside, steps)
    value += float(np.log(np.mean(inside)))
    logger.info("refined by %s: shape %.2f, effective share %.3f, outside %.4f", *fit[:4])
    fit = fit._replace(cuts=tuple((cut.parameter, cut.side) for cut in find_cuts(u, weights, region)))
    evidence = _evidence(value, error, outside, (mixture, region), (u, weights), settings, rng)
    return Refined(region.surrogate.space.to_plain(u), weights, to_mixture, evidence, region), fit


def _evidence(
    inside: float,
    error: float,
    share_outside: float,
    fitted: tuple[Mixture, TrustedRegion],
    draws: tuple[Float[ndarray, "n d"], Float[ndarray, " n"]],
    settings: Refinement,
    rng: np.random.Generator,
) -> Evidence:
    """The evidence and all that it may be off by; the surrogate's inside, divided by the mixture's share there, is that
    of the whole.

    That is the logarithm of an expectation. The expectation of the logarithm, to which an error bar belongs, is lower
    by half the variance.
    """
    mixture, region = fitted
    completed = -float(np.log1p(-share_outside))
    sd = surrogate_sd(region.surrogate, *draws, settings, rng)
    return Evidence(
        inside + completed - min(0.5 * sd**2, region.most_rise),  # no more than uncertainty may have added
        surrogate_sd=sd,
        outside=completed,
        monte_carlo_error=error,
        held_out_sd=_held_out_sd(region, *draws, settings, rng),
        untested=UNTESTED * sd * float(np.sqrt(1.0 - region.surrogate.tested)),
        sides=_side_sd(region, *draws, settings, rng),
        untrusted=_untrusted(mixture, region, settings, rng.spawn(1)[0]),
        trend=_trend_sd(region, *draws, settings, rng),
        guessed=_guessed(region, *draws, settings, rng),
        support_sd=_support_sd(region, *draws, settings, rng),
    )


def _widened(mixture: Mixture, settings: Refinement) -> Mixture:
    """A mixture with a share of wider components: with them no tail of the surrogate outweighs all draws."""
    return _scaled(mixture, {1.0: 1 - settings.wide_share, settings.wide_factor: settings.wide_share})


def _scaled(mixture: Mixture, shares: dict[float, float]) -> Mixture:
    """The components of a mixture several times, wider by factors, each time with a share of the weight."""
    return Mixture(
        np.concatenate([mixture.log_weights + np.log(share) for share in shares.values()]),
        np.concatenate([mixture.means for _ in shares]),
        np.concatenate([factor * mixture.trils for factor in shares]),
    )


def surrogate_sd(
    surrogate: LogDensityModel,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    settings: Refinement,
    rng: np.random.Generator,
) -> float:
    """Standard deviation of the log evidence under the surrogate: ∫∫ p(u) p(u') cov(f(u), f(u')), to first order."""
    rows = rng.choice(len(points), (2, settings.uncertainty_draws), p=weights / weights.sum())
    return float(np.sqrt(max(surrogate.covariance(points[rows[0]], points[rows[1]]).mean(), 0.0)))


def _held_out_sd(
    region: TrustedRegion,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    settings: Refinement,
    rng: np.random.Generator,
) -> float:
    """Standard error of the log evidence by leaving out one block of evaluations after the other.

    The sparse GP's own uncertainty assumes that its kernel is right. How much the evidence owes to single regions of
    the evaluations is seen without that assumption.
    """
    rows = rng.choice(len(points), settings.uncertainty_draws, p=weights / weights.sum())
    u = points[rows]
    changes = np.minimum(region.surrogate.changes(u), MOST_CHANGE)
    if len(changes) < 2:
        return 0.0
    without = logsumexp(changes, axis=1) - np.log(len(rows))
    return float(np.sqrt((len(without) - 1) * np.var(without)))


def _side_sd(
    region: TrustedRegion,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    settings: Refinement,
    rng: np.random.Generator,
) -> float:
    """−log(1 − b) with b the mass beyond the evaluations, each part as far as it is doubted."""
    rows = rng.choice(len(points), 10 * settings.uncertainty_draws, p=weights / weights.sum())
    doubted = float(np.mean(-np.expm1(-region.surrogate.doubt_beyond(points[rows]))))
    return float(np.log(1.0 / max(1.0 - doubted, LEAST_KNOWN)))


def _untrusted(mixture: Mixture, region: TrustedRegion, settings: Refinement, rng: np.random.Generator) -> float:
    """log(1 + b) with b the mass that the surrogate sees around where it is trusted, relative to that where it is.

    The posterior ends where trust ends, but the surrogate does not: what it continues to see may be there or not.
    """
    wide = _scaled(mixture, {settings.wide_factor: 1.0})
    u = sample(wide, WIDE_DRAWS, rng)
    u = u[region.in_box(u)]
    trusted = np.isfinite(region.log_density(u))
    if not trusted.any() or trusted.all():
        return 0.0
    # What one of several models alone sees far from all evaluations is invented, and so is more than is ever believed.
    claimed = np.minimum(region.surrogate.means(u).min(axis=0), region.most_mean) + region.log_support(u)
    weights = truncated_weights(claimed - log_pdf(wide, u))
    return float(np.log1p(weights[~trusted].sum() / max(weights[trusted].sum(), LEAST_KNOWN)))


def _trend_sd(
    region: TrustedRegion,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    settings: Refinement,
    rng: np.random.Generator,
) -> float:
    """Standard deviation of the log evidence by what is open of the surrogate's mean, to first order."""
    rows = rng.choice(len(points), settings.uncertainty_draws, p=weights / weights.sum())
    return float(np.linalg.norm(region.surrogate.trends(points[rows]).mean(axis=1)))


def _guessed(
    region: TrustedRegion,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    settings: Refinement,
    rng: np.random.Generator,
) -> float:
    """−log(1 − g) with g the mass where the surrogate rather guesses than knows."""
    rows = rng.choice(len(points), settings.uncertainty_draws, p=weights / weights.sum())
    share = float(np.mean(region.surrogate.variance(points[rows]) > region.guessed_variance))
    return float(np.log(1.0 / max(1.0 - share, LEAST_KNOWN)))


def _support_sd(
    region: TrustedRegion,
    points: Float[ndarray, "n d"],
    weights: Float[ndarray, " n"],
    settings: Refinement,
    rng: np.random.Generator,
) -> float:
    """Standard deviation of the log evidence over what the edge of the support may be, and −log(1 − b) with b the mass
    that is nearer to an evaluation of zero density that no edge keeps out than to any other evaluation."""
    rows = rng.choice(len(points), 5 * settings.uncertainty_draws, p=weights / weights.sum())
    stray = 0.0 if region.stray is None else float(np.mean(region.stray.nearer(points[rows])))
    doubt = float(np.log(1.0 / max(1.0 - stray, LEAST_KNOWN)))
    if region.support is None:
        return doubt
    plain = region.surrogate.space.to_plain(points[rows])
    each = region.support.log_probabilities(plain)
    ratios = logsumexp(each - region.support.log_probability(plain)[:, None], axis=0)
    return float(np.hypot(np.std(ratios), doubt))


def _target(region: TrustedRegion) -> Target:
    """The refined density inside the trusted region, for sequential Monte Carlo."""

    def log_density(points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        found = region.log_density(points)
        return np.where(np.isnan(found), -np.inf, found)

    def upper_bound(points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
        most = region.claimed_mean(points) + region.most_rise
        return np.where(np.isnan(most), -np.inf, most)

    return Target(log_density, upper_bound)
