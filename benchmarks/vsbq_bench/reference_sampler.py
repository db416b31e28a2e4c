"""Reference posteriors where no exact sampler is known: ensemble MCMC, then importance sampling that checks it.

The two are independent ways to the same posterior: the chains need no proposal that covers the target, the weights need
no burn-in. Their means and spreads must agree within their own errors (`Reference.worst_z`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.numerics.em import effective_size, truncated_weights, weighted_em
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq.numerics.pareto import smoothed_weights
from vsbq.numerics.subset import cluster_centres
from vsbq_bench.problems import LogDensity

__all__ = [
    "Chains",
    "Reference",
    "ReferenceSampler",
    "Weighted",
    "differences",
    "fit_proposal",
    "importance_sample",
    "reference_posterior",
    "refined",
    "resample",
    "run_chains",
    "unbounded_space",
]

ROWS = 2000  # evaluated at a time, which bounds the memory of a vectorised likelihood
EDGE = 1e-12  # how near a bound a start may be, as a share of the box
STRETCH = 2.0
# Copies of the proposal's components: their standard deviations, relative to the fitted ones, and their shares.
COPIES = ((1.0, 0.6), (1.4, 0.3), (2.0, 0.1))

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class ReferenceSampler:
    """How long to run: walkers × (10 + burn_in + steps) + rounds × pilot + proposals calls of the log density."""

    walkers: int = 200
    burn_in: int = 500
    steps: int = 3000
    components: int = 24
    pilot: int = 20_000
    rounds: int = 1  # of weighted draws, each of which the proposal is fitted to
    proposals: int = 500_000
    draws: int = 40_000


class Chains(NamedTuple):
    """Positions of every walker after every step, and the longest integrated autocorrelation time in steps."""

    positions: Float[ndarray, "s w d"]
    autocorrelation_time: float
    acceptance: float

    def second_half(self) -> Float[ndarray, "n d"]:
        """All walkers in up to a hundred steps of the second half, as rows."""
        kept = self.positions[len(self.positions) // 2 :]
        return kept[:: max(1, len(kept) // 100)].reshape(-1, kept.shape[2])


class Weighted(NamedTuple):
    """Draws of a proposal with their log weights."""

    points: Float[ndarray, "n d"]
    log_weights: Float[ndarray, " n"]

    @property
    def weights(self) -> Float[ndarray, " n"]:
        """Weights that sum to one."""
        raw = np.exp(self.log_weights - self.log_weights.max())
        return raw / raw.sum()

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight."""
        top = self.log_weights.max()
        return float(top + log(np.exp(self.log_weights - top).mean()))

    @property
    def log_evidence_sd(self) -> float:
        """Standard error of the log evidence, by the delta method."""
        n = len(self.log_weights)
        return sqrt(max(1 / self.effective_share - 1, 0.0) / n)

    @property
    def effective_share(self) -> float:
        """Effective number of draws as a share of their number."""
        return effective_size(self.weights) / len(self.log_weights)


@dataclass(frozen=True, eq=False, kw_only=True)
class Reference:
    """Draws and evidence of a posterior, with what tells how far to trust them.

    `worst_z` is the largest difference between chains and weights, over all means and standard deviations, in standard
    errors. `distinct` is the share of draws that are not repeated. `pareto_shape` is that of the tail of the weights:
    below 1/2 their variance, and with it the standard error of the evidence, is finite.
    """

    draws: Float[ndarray, "n d"]
    log_evidence: float
    log_evidence_sd: float
    effective_share: float
    largest_weight: float
    pareto_shape: float
    worst_z: float
    distinct: float
    autocorrelation_time: float
    proposal: Mixture
    space: InferenceSpace


def reference_posterior(
    log_density: LogDensity,
    bounds: Float[ndarray, "d 2"] | None,
    start_box: Float[ndarray, "d 2"],
    rng: Generator,
    *,
    sampler: ReferenceSampler | None = None,
    report: Report = lambda line: None,
) -> Reference:
    """Sample a posterior twice, by weights and by chains, and compare.

    A mixture of Gaussians in the unbounded space, fitted to chains from `start_box` and then to weighted draws of its
    own, is the proposal of the weights. Other chains start from those weighted draws: a walker caught in a minor
    mode on its way from the box may never leave it. The draws handed back are resampled from the weighted ones.
    """
    sampler = sampler or ReferenceSampler()
    space = unbounded_space(bounds, start_box)
    target = _Unbounded(log_density, space)
    arriving = run_chains(target, _start(target, sampler.walkers, rng), sampler.burn_in, rng)
    first = fit_proposal(arriving.second_half(), sampler.components, rng)
    pilot = _weigh(target, first, sampler.pilot, rng)
    proposal = refined(first, pilot)
    for _ in range(sampler.rounds - 1):
        pilot = _weigh(target, proposal, sampler.pilot, rng)
        proposal = refined(proposal, pilot)
    chains = run_chains(target, resample(pilot, sampler.walkers, rng), sampler.steps, rng)
    report(f"chains: acceptance {chains.acceptance:.2f}, autocorrelation time {chains.autocorrelation_time:.1f} steps")
    weighted = importance_sample(log_density, space, proposal, sampler.proposals, rng)
    report(f"weights: log Z {weighted.log_evidence:.4f} ± {weighted.log_evidence_sd:.4f}")
    draws = resample(weighted, sampler.draws, rng)
    return Reference(
        draws=draws,
        log_evidence=weighted.log_evidence,
        log_evidence_sd=weighted.log_evidence_sd,
        effective_share=weighted.effective_share,
        largest_weight=float(weighted.weights.max() * len(weighted.points)),
        pareto_shape=smoothed_weights(weighted.log_weights).shape,
        worst_z=float(np.abs(differences(chains, space, weighted)).max()),
        distinct=len(np.unique(draws, axis=0)) / len(draws),
        autocorrelation_time=chains.autocorrelation_time,
        proposal=proposal,
        space=space,
    )


# The unbounded space


def unbounded_space(bounds: Float[ndarray, "d 2"] | None, box: Float[ndarray, "d 2"]) -> InferenceSpace:
    """Probit, log or identity by coordinate, scaled so that the box is [-1, 1]."""
    limits = Bounds.parse(bounds, len(box))
    edge = EDGE * (box[:, 1] - box[:, 0])
    plain = InferenceSpace(limits, edge, np.zeros(len(box)), np.ones(len(box)))
    low, high = plain.forward(np.ascontiguousarray(box.T))
    return InferenceSpace(limits, edge, (low + high) / 2, (high - low) / 2)


@dataclass(frozen=True, eq=False)
class _Unbounded:
    """The log density of the unbounded space: -inf where the problem's is -inf or not a number."""

    log_density: LogDensity
    space: InferenceSpace

    def __call__(self, u: Float[ndarray, "n d"], /) -> Float[ndarray, " n"]:
        values = np.empty(len(u))
        for start in range(0, len(u), ROWS):
            rows = slice(start, start + ROWS)
            values[rows] = self.log_density(self.space.inverse(u[rows]))
        values += self.space.log_jacobian(u)
        return np.where(np.isnan(values), -np.inf, values)


def _start(target: _Unbounded, walkers: int, rng: Generator) -> Float[ndarray, "w d"]:
    """The best tenth of uniform points in the box."""
    candidates = rng.uniform(-1, 1, (10 * walkers, len(target.space.centre)))
    values = target(candidates)
    if not np.isfinite(values).sum() >= walkers:
        raise ValueError("the log density is finite at too few points of the start box")
    return candidates[np.argsort(-values, kind="stable")[:walkers]]


# Chains


def run_chains(target: LogDensity, start: Float[ndarray, "w d"], steps: int, rng: Generator) -> Chains:
    """Move two halves of an ensemble in turn, each by what the other half knows.

    A move is the affine-invariant stretch (Goodman and Weare 2010) or a difference of two walkers of the other half
    (ter Braak 2006), which is symmetric; both leave the target as it is because the other half stands still.
    """
    walkers, d = start.shape
    halves = np.array_split(rng.permutation(walkers), 2)
    x, value = start.copy(), target(start)
    positions = np.empty((steps, walkers, d))
    accepted = 0.0
    for step in range(steps):
        for own, other in (halves, halves[::-1]):
            proposed, log_factor = _propose(x[own], x[other], rng)
            new = target(proposed)
            yes = np.log(rng.random(len(own))) < new - value[own] + log_factor
            x[own[yes]], value[own[yes]] = proposed[yes], new[yes]
            accepted += yes.sum()
        positions[step] = x
    return Chains(positions, _autocorrelation_time(positions), float(accepted / (steps * walkers)))


def _propose(
    x: Float[ndarray, "w d"], other: Float[ndarray, "v d"], rng: Generator
) -> tuple[Float[ndarray, "w d"], Float[ndarray, " w"]]:
    """New positions, and the log of the factor that the stretch brings to the acceptance ratio."""
    n, d = x.shape
    first = rng.integers(len(other), size=n)
    second = (first + rng.integers(1, len(other), size=n)) % len(other)
    factor = ((STRETCH - 1) * rng.random((n,)) + 1) ** 2 / STRETCH  # density ∝ 1/√z on [1/a, a]
    stretched = other[first] + factor.reshape(-1, 1) * (x - other[first])
    # one step in ten jumps by a whole difference, from one mode to another
    scale = np.where(rng.random((n, 1)) < 0.1, 1.0, 2.38 / sqrt(2 * d)) * (1 + 0.01 * rng.standard_normal((n, 1)))
    moved = x + scale * (other[first] - other[second]) + 1e-5 * rng.standard_normal((n, d))
    stretch = rng.random((n, 1)) < 0.5
    return np.where(stretch, stretched, moved), np.where(stretch[:, 0], (d - 1) * np.log(factor), 0.0)


def _autocorrelation_time(positions: Float[ndarray, "s w d"]) -> float:
    """The longest integrated autocorrelation time, over the coordinates and their squares, in steps."""
    centred = positions - positions.mean(axis=(0, 1))
    return max(_integrated_time(series) for part in (centred, centred**2) for series in np.moveaxis(part, 2, 0))


def _integrated_time(series: Float[ndarray, "s w"]) -> float:
    """Sum the autocorrelation, averaged over walkers, up to a lag of five times the sum (Sokal's window)."""
    n = len(series)
    spectrum = np.abs(np.fft.rfft(series - series.mean(), 2 * n, axis=0)) ** 2
    covariance = np.fft.irfft(spectrum, axis=0)[:n].mean(axis=1)
    time = 2 * np.cumsum(covariance / covariance[0]) - 1
    enough = np.arange(n) >= 5 * time
    return float(max(time[np.argmax(enough)] if enough.any() else time[-1], 1.0))


# Weights


def fit_proposal(points: Float[ndarray, "n d"], components: int, rng: Generator) -> Mixture:
    """Fit a mixture of Gaussians to draws by EM, and mix in copies with wider components.

    The wide copies keep the weights small where the draws are few.
    """
    centres = cluster_centres(points, components, rng)[0]
    spread = np.linalg.cholesky(np.atleast_2d(np.cov(points, rowvar=False))) / 2
    start = Mixture(np.full(len(centres), -log(len(centres))), centres, np.tile(spread, (len(centres), 1, 1)))
    return _defended(weighted_em(start, points, np.full(len(points), 1 / len(points)), 100, 1.0))


def refined(proposal: Mixture, pilot: Weighted) -> Mixture:
    """Fit the proposal again, to weighted draws of its own: unlike those of chains, they are independent."""
    weights = truncated_weights(pilot.log_weights)
    return _defended(weighted_em(_narrow(proposal), pilot.points, weights, 50, 1.0))


def _defended(narrow: Mixture) -> Mixture:
    """Mix in copies of every component with wider tails."""
    return Mixture(
        np.concatenate([narrow.log_weights + log(share) for _, share in COPIES]),
        np.concatenate([narrow.means for _ in COPIES]),
        np.concatenate([scale * narrow.trils for scale, _ in COPIES]),
    )


def _narrow(defended: Mixture) -> Mixture:
    """Return the components that `_defended` was given."""
    k = len(defended.means) // len(COPIES)
    return Mixture(defended.log_weights[:k] - log(COPIES[0][1]), defended.means[:k], defended.trils[:k])


def importance_sample(
    log_density: LogDensity, space: InferenceSpace, proposal: Mixture, n: int, rng: Generator
) -> Weighted:
    """Draw from the proposal in the unbounded space and weight by the target; the points are in the problem's space."""
    weighted = _weigh(_Unbounded(log_density, space), proposal, n, rng)
    return Weighted(space.inverse(weighted.points), weighted.log_weights)


def _weigh(target: LogDensity, proposal: Mixture, n: int, rng: Generator) -> Weighted:
    u = sample(proposal, n, rng)
    log_weights = target(u)
    for start in range(0, n, 10 * ROWS):
        rows = slice(start, start + 10 * ROWS)
        log_weights[rows] -= log_pdf(proposal, u[rows])
    return Weighted(u, log_weights)


def resample(weighted: Weighted, n: int, rng: Generator) -> Float[ndarray, "n d"]:
    """Resample systematically, in random order: a draw of weight below 1 / n is picked at most once."""
    order = rng.permutation(len(weighted.points))
    edges = np.cumsum(weighted.weights[order])
    picks = np.searchsorted(edges / edges[-1], (np.arange(n) + rng.random()) / n, side="right")
    return weighted.points[order[rng.permutation(np.minimum(picks, len(order) - 1))]]


def differences(chains: Chains, space: InferenceSpace, weighted: Weighted) -> Float[ndarray, "2 d"]:
    """How far the chains' means and variances are from the weighted ones, in standard errors of the difference."""
    steps, walkers, d = chains.positions.shape
    points = space.inverse(chains.positions.reshape(-1, d)).reshape(steps, walkers, d)
    weights = weighted.weights
    centre = weights @ weighted.points
    z = np.empty((2, d))
    for power in (1, 2):
        theirs, ours = (points - centre) ** power, (weighted.points - centre) ** power
        mean = weights @ ours
        variance = (weights**2) @ (ours - mean) ** 2
        times = [_integrated_time(theirs[:, :, i]) for i in range(d)]
        variance = variance + theirs.var(axis=(0, 1)) * np.array(times) / (steps * walkers)
        z[power - 1] = (theirs.mean(axis=(0, 1)) - mean) / np.sqrt(variance)
    return z
