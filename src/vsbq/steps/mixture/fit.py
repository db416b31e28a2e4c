"""Step 3: a mixture of Gaussians, fitted to the surrogate by maximising the ELBO with sparse Bayesian quadrature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data.transform import InferenceSpace
from vsbq.history import Elbo, VariationalFit
from vsbq.numerics.em import effective_size, weighted_em
from vsbq.numerics.families import Family, FullCovariance, SharedDiagonal, log_softmax
from vsbq.numerics.mixture import (
    Mixture,
    MixtureGradient,
    entropy,
    entropy_and_gradient,
    is_degenerate,
    standard_draws,
    unbiased_draws,
)
from vsbq.numerics.optimise import maximise
from vsbq.numerics.shaping import contour_depth
from vsbq.numerics.subset import cluster_centres
from vsbq.progress import Progress, logger
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion
from vsbq.steps.trim import TrainingSet

#: τ of the soft bounds (Supplement C.1).
SOFTNESS = 0.01

#: Draws of an ELBO that only has to tell which start is better.
TRIAL_DRAWS = 20_000


@dataclass(frozen=True, kw_only=True)
class VariationalMixture:
    """How the mixture is fitted: ELBO ascent from each start (draws per component, L-BFGS steps), rounds of importance
    weighting and EM (draws, EM steps), and ELBO ascent again."""

    base_components: int = 10  # K = base + per dimension · D, at most `max_components`
    components_per_dimension: int = 5
    max_components: int = 30
    family: type[FullCovariance] | type[SharedDiagonal] = FullCovariance
    first: tuple[int, int] = (64, 30)  # for each start
    adapt: tuple[tuple[int, int], ...] = ((5_000, 15), (10_000, 15), (20_000, 15), (40_000, 20), (40_000, 20))
    then: tuple[int, int] = (1024, 30)
    spread_depth: float = 2.5  # the wide start covers evaluations within this contour of the best
    elbo_draws: int = 100_000

    def components(self, dimension: int) -> int:
        """Number of components K to start with."""
        return min(self.base_components + self.components_per_dimension * dimension, self.max_components)


class SoftBox(NamedTuple):
    """Limits of the means (the training points' range) and of the log scales of the components (Table C.1)."""

    lower: Float[ndarray, " d"]
    upper: Float[ndarray, " d"]

    @classmethod
    def around(cls, points: Float[ndarray, "n d"]) -> SoftBox:
        """The box of the training points."""
        return cls(points.min(axis=0), points.max(axis=0))

    def penalty_and_gradient(self, mixture: Mixture) -> tuple[float, MixtureGradient]:
        """Squared distance outside the limits, in units of τ times their width, halved; zero inside."""
        width = self.upper - self.lower
        variance = np.einsum("kij,kij->ki", mixture.trils, mixture.trils)
        log_scale = 0.5 * np.log(variance)
        out_mean = _outside(mixture.means, self.lower, self.upper) / (SOFTNESS * width)
        span = np.log(1e6)
        out_scale = _outside(log_scale, np.log(1e-6 * width), np.log(width)) / (SOFTNESS * span)
        value = 0.5 * float((out_mean**2).sum() + (out_scale**2).sum())
        to_scale = out_scale / (SOFTNESS * span) / variance
        gradient = MixtureGradient(
            np.zeros(len(variance)), out_mean / (SOFTNESS * width), to_scale[:, :, None] * mixture.trils
        )
        return value, gradient


def _outside(
    x: Float[ndarray, "k d"], lower: Float[ndarray, " d"], upper: Float[ndarray, " d"]
) -> Float[ndarray, "k d"]:
    """Signed distance to the box: negative below, positive above, zero inside."""
    return np.minimum(x - lower, 0.0) + np.maximum(x - upper, 0.0)


def elbo_and_gradient(
    free: Float[ndarray, " p"],
    family: Family,
    surrogate: LogDensityModel,
    box: SoftBox,
    draws: Float[ndarray, "k s d"],
) -> tuple[float, Float[ndarray, " p"]]:
    """Penalised surrogate ELBO (Eq. 8) on fixed draws, and its gradient in the family's free parameters."""
    mixture = family.mixture(free)
    if is_degenerate(mixture):
        return np.nan, np.zeros_like(free)
    expected, g = surrogate.expectation(mixture)
    uncertainty, h = entropy_and_gradient(mixture, draws)
    penalty, p = box.penalty_and_gradient(mixture)
    total = MixtureGradient(g.weights + h.weights, g.means + h.means - p.means, g.trils + h.trils - p.trils)
    return expected + uncertainty - penalty, family.pull_back(free, total)


def fit_variational(
    region: TrustedRegion,
    training: TrainingSet,
    settings: VariationalMixture,
    rng: np.random.Generator,
    progress: Progress,
    *,
    earlier: Mixture | None = None,
) -> tuple[Mixture, Elbo, VariationalFit]:
    """Both starts for a while, the better one to the end; the ELBO from fresh draws.

    A mixture that was fitted to fewer evaluations, in the same coordinates, takes the place of the first start.
    """
    surrogate = region.surrogate
    box = SoftBox.around(training.points)
    tried: list[_Tried] = []
    for name, start in starts(training, settings, rng, earlier).items():
        progress.say(f"mixture: start {name}")
        mixture = _ascend(start, settings, settings.first, surrogate=surrogate, box=box, rng=rng)
        left = region.grows_outside(start, mixture, rng)
        mixture = start if left else mixture
        tried.append(_Tried(elbo(mixture, surrogate, rng, TRIAL_DRAWS).value, name, mixture))
        left_in_words = ", left the trusted region" if left else ""
        logger.info("start %s: ELBO %.4f%s", name, tried[-1].elbo + surrogate.offset, left_in_words)
    progress.say("mixture: importance rounds")
    mixture = _adapt(_pool([one.mixture for one in tried]), settings, region, rng)
    final = elbo(mixture, surrogate, rng, settings.elbo_draws)
    for name, start, schedule in (
        ("more draws", mixture, settings.then),
        ("one normal", _one_normal(mixture), settings.first),
    ):
        progress.say(f"mixture: {name}")
        other = _ascend(start, settings, schedule, surrogate=surrogate, box=box, rng=rng)
        value = elbo(other, surrogate, rng, settings.elbo_draws)
        logger.info("%s: ELBO %.4f", name, value.value + surrogate.offset)
        if value.value > final.value and not region.grows_outside(mixture, other, rng):
            mixture, final = other, value
    names = tuple((one.name, one.elbo + surrogate.offset) for one in tried)
    return mixture, final, VariationalFit(names, len(mixture.means))


class _Tried(NamedTuple):
    """A start after its ascent, if that stayed where the surrogate can be trusted."""

    elbo: float
    name: str
    mixture: Mixture


def _pool(mixtures: list[Mixture]) -> Mixture:
    """All components of several mixtures, each mixture with the same share."""
    log_weights = np.concatenate([m.log_weights for m in mixtures]) - np.log(len(mixtures))
    return Mixture(
        log_weights, np.concatenate([m.means for m in mixtures]), np.concatenate([m.trils for m in mixtures])
    )


def _adapt(mixture: Mixture, settings: VariationalMixture, region: TrustedRegion, rng: np.random.Generator) -> Mixture:
    """Population Monte Carlo (Cappé et al. 2008): draw, weight by the surrogate where it can be trusted, EM; again."""
    for draws, iterations in settings.adapt:
        u, weights = region.weighted_draws(mixture, draws, rng)
        if len(u) < 10 * mixture.means.shape[1]:
            logger.info("%d of %d draws are where the surrogate can be trusted: too few to adapt to", len(u), draws)
            break
        mixture = weighted_em(mixture, u, weights, iterations, caution=5.0, roots=settings.family.roots)
        mixture = _heaviest(mixture, settings.components(u.shape[1]))
        logger.info(
            "%d draws: %d components, effective size %.3f", draws, len(mixture.means), effective_size(weights) / len(u)
        )
    return mixture


def _one_normal(mixture: Mixture) -> Mixture:
    """The normal with the mean and covariance of a mixture."""
    mean = mixture.weights @ mixture.means
    shift = mixture.means - mean
    second = np.matmul(mixture.trils, np.swapaxes(mixture.trils, 1, 2)) + shift[:, :, None] * shift[:, None, :]
    cov = np.einsum("k,kij->ij", mixture.weights, second)
    return Mixture(np.zeros(1), mean[None], np.linalg.cholesky(cov)[None])


def _heaviest(mixture: Mixture, count: int) -> Mixture:
    """The components with the largest weights."""
    keep = np.sort(np.argsort(-mixture.log_weights, kind="stable")[:count])
    return Mixture(log_softmax(mixture.log_weights[keep]), mixture.means[keep], mixture.trils[keep])


def _ascend(
    mixture: Mixture,
    settings: VariationalMixture,
    schedule: tuple[int, int],
    *,
    surrogate: LogDensityModel,
    box: SoftBox,
    rng: np.random.Generator,
) -> Mixture:
    """L-BFGS on fixed draws from a mixture as reference."""
    per_component, steps = schedule
    family = settings.family(mixture)
    draws = standard_draws(len(mixture.means), per_component, mixture.means.shape[1], rng)
    found = maximise(
        lambda free: elbo_and_gradient(free, family, surrogate, box, draws), family.start(), steps=steps, tolerance=1e-5
    )
    logger.info("%d draws a component, %d steps: objective %.4f", per_component, found.steps, found.value)
    return family.mixture(found.argument)


def elbo(mixture: Mixture, surrogate: LogDensityModel, rng: np.random.Generator, draws: int) -> Elbo:
    """The surrogate ELBO from fresh draws, in eight independent sets that give its Monte Carlo error."""
    k, d = mixture.means.shape
    per_component = max(32, draws // (8 * k))
    entropies = [entropy(mixture, unbiased_draws(k, per_component, d, rng)) for _ in range(8)]
    expected = surrogate.expectation(mixture)[0]
    variance = surrogate.expectation_variance(mixture)
    error = float(np.std(entropies, ddof=1) / np.sqrt(len(entropies)))
    return Elbo(expected + float(np.mean(entropies)), float(np.sqrt(variance)), error)


def starts(
    training: TrainingSet, settings: VariationalMixture, rng: np.random.Generator, earlier: Mixture | None = None
) -> dict[str, Mixture]:
    """The two starts: an earlier mixture, or around the best points; and spread over the high-density points."""
    if earlier is None:
        first = {"best points": _narrow_start(training, settings, rng)}
    else:
        cov = np.matmul(earlier.trils, np.swapaxes(earlier.trils, 1, 2))
        first = {"earlier posterior": earlier._replace(trils=settings.family.roots(earlier.weights, cov))}
    return {**first, "high-density region": _spread_start(training, settings, rng)}


def moved(mixture: Mixture, here: InferenceSpace, there: InferenceSpace) -> Mixture | None:
    """The same density in other coordinates of the same parameters, which differ by a linear map if the same bounds
    bend them; None if not."""
    if here.bending != there.bending:
        return None
    d = len(here.scale)
    out = np.eye(d) if here.rotation is None else np.linalg.inv(here.rotation)
    back = np.eye(d) if there.rotation is None else there.rotation
    linear = (back / there.scale) @ (here.scale[:, None] * out)
    shift = (here.centre - there.centre) / there.scale @ back.T
    half = linear @ mixture.trils
    trils = np.linalg.cholesky(half @ np.swapaxes(half, 1, 2))
    return Mixture(mixture.log_weights, mixture.means @ linear.T + shift, trils)


def _narrow_start(training: TrainingSet, settings: VariationalMixture, rng: np.random.Generator) -> Mixture:
    """All components around the best points."""
    k = settings.components(training.dimension)
    order = np.argsort(-training.level, kind="stable")
    top = training.points[order[: max(training.dimension + 2, len(order) // 100)]]
    near = training.points[training.level >= training.level.max() - contour_depth(1.0, training.dimension)]
    near = near if len(near) > 2 * training.dimension else top
    width = np.maximum(near.std(axis=0), 1e-3 * np.ptp(training.points, axis=0))
    centres = top.mean(axis=0) + 0.1 * width * rng.standard_normal((k, training.dimension))
    return Mixture(np.full(k, -np.log(k)), centres, np.tile(np.diag(0.5 * width), (k, 1, 1)))


def _spread_start(training: TrainingSet, settings: VariationalMixture, rng: np.random.Generator) -> Mixture:
    """One component a K-means cluster, as wide as the cluster, weighted by the mass that its best point suggests."""
    depth = contour_depth(settings.spread_depth, training.dimension)
    near = training.level >= training.level.max() - depth
    components = settings.components(training.dimension)
    enough = min(len(training), 10 * components)
    if near.sum() < enough:
        near = np.zeros(len(training), dtype=bool)
        near[np.argsort(-training.level, kind="stable")[:enough]] = True
    points, values = training.points[near], training.level[near]
    centres, label = cluster_centres(points, components, rng)
    k, d = centres.shape
    overall = np.maximum(points.std(axis=0), 1e-3 * np.ptp(training.points, axis=0))
    count = np.bincount(label, minlength=k)
    square = np.stack([np.bincount(label, weights=(points - centres[label])[:, i] ** 2, minlength=k) for i in range(d)])
    prior = 2.0
    scale = np.sqrt((square.T + prior * (overall / k ** (1 / d)) ** 2) / (count + prior)[:, None])
    top = np.array([values[label == c].max() for c in range(k)])
    logits = top + np.log(scale).sum(axis=1)
    return Mixture(log_softmax(np.maximum(logits, logits.max() - 6.0)), centres, scale[:, :, None] * np.eye(d))
