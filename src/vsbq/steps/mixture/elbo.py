"""The surrogate ELBO (Eq. 8): on fixed draws with its gradient, and from fresh draws with its error."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.history import Elbo
from vsbq.numerics.families import Family
from vsbq.numerics.mixture import (
    Mixture,
    MixtureGradient,
    entropy,
    entropy_and_gradient,
    is_degenerate,
    log_pdf,
    sample,
    unbiased_draws,
)
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.model import LogDensityModel
from vsbq.steps.region import TrustedRegion


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


def elbo(mixture: Mixture, surrogate: LogDensityModel, rng: np.random.Generator, draws: int) -> Elbo:
    """The surrogate ELBO from fresh draws, in eight independent sets that give its Monte Carlo error."""
    k, d = mixture.means.shape
    per_component = max(32, draws // (8 * k))
    entropies = [entropy(mixture, unbiased_draws(k, per_component, d, rng)) for _ in range(8)]
    expected = surrogate.expectation(mixture)[0]
    variance = surrogate.expectation_variance(mixture)
    error = float(np.std(entropies, ddof=1) / np.sqrt(len(entropies)))
    return Elbo(expected + float(np.mean(entropies)), float(np.sqrt(variance)), error)


def elbo_within(mixture: Mixture, region: TrustedRegion, rng: np.random.Generator, draws: int) -> Elbo:
    """The surrogate ELBO of a mixture that is cut at the edge of the support, from fresh draws.

    With P the probability of being inside and q cut by it, q P / Z_q with Z_q = E_q P, it is
    E_q[P (f − log q)] / Z_q + log Z_q.
    """
    u = sample(mixture, draws, rng)
    weights = np.exp(region.log_support(u))
    share = float(weights.mean())
    if share <= 0:
        return Elbo(-np.inf, np.inf, np.inf)
    gain = region.surrogate.mean(u) - log_pdf(mixture, u)
    value = float(weights @ gain) / (share * draws)
    error = float(np.std(weights * (gain - value + 1.0) / share) / np.sqrt(draws))
    return Elbo(value + float(np.log(share)), float(np.sqrt(region.surrogate.expectation_variance(mixture))), error)
