"""Step 3: a mixture of Gaussians, fitted to the surrogate by maximising the ELBO with sparse Bayesian quadrature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq.history import Elbo, VariationalFit
from vsbq.numerics.em import effective_size, weighted_em
from vsbq.numerics.families import log_softmax
from vsbq.numerics.mixture import (
    Mixture,
    standard_draws,
)
from vsbq.numerics.optimise import maximise
from vsbq.progress import Progress, logger
from vsbq.steps.mixture.elbo import elbo, elbo_and_gradient, elbo_within
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.mixture.starts import starts
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion
from vsbq.steps.trim import TrainingSet

#: Draws of an ELBO that only has to tell which start is better.
TRIAL_DRAWS = 20_000


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
    box = SoftBox(region.lower, region.upper)
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
    names = tuple((one.name, one.elbo + surrogate.offset) for one in tried)
    if region.support is not None:  # the ascent knows of no edge
        return (
            mixture,
            elbo_within(mixture, region, rng, settings.elbo_draws),
            VariationalFit(names, len(mixture.means)),
        )
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
        share = effective_size(weights) / len(u)
        mixture = weighted_em(mixture, u, weights, iterations, caution=5.0, roots=settings.family.roots)
        mixture = _heaviest(mixture, settings.components(u.shape[1]))
        logger.info("%d draws: %d components, effective size %.3f before", draws, len(mixture.means), share)
        if share >= settings.enough:
            break
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
