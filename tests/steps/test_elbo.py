"""The ELBO: the objective of step 3 with its gradient, and the value that is told."""

from __future__ import annotations

import numpy as np
import pytest
from toy import edges_at, normal_surrogate, one_normal, plain_space

import reference
from vsbq.numerics import sgpr
from vsbq.numerics.families import FullCovariance, SharedDiagonal
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture, entropy_and_gradient, standard_draws
from vsbq.numerics.quadrature import expected_and_gradient
from vsbq.steps.mixture.elbo import elbo, elbo_and_gradient, elbo_within
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.region import TrustedRegion
from vsbq.steps.surrogate.model import Surrogate

FAMILIES = {FullCovariance: reference.full_covariance, SharedDiagonal: reference.shared_diagonal}


@pytest.fixture(params=[1, 3], ids=lambda d: f"d{d}")
def mixture(request, rng):
    return Mixture(*reference.random_mixture(rng, 4, request.param))


@pytest.fixture
def tight(mixture):
    """A box that some means and some scales are outside of."""
    low = np.quantile(mixture.means, 0.3, axis=0)
    return SoftBox(low, low + 0.5)


def surrogate_of(rng, d):
    theta, data = reference.random_theta(rng, d), reference.random_regression(rng, 50, d)
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, reference.spread_points(data[0], 5 + 2 * d), *data)
    return theta, Surrogate(plain_space(d), hyp, factors, 0.0)


# The objective


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_objective_and_its_gradient(family, mixture, tight, rng):
    k, d = mixture.means.shape
    theta, surrogate = surrogate_of(rng, d)
    draws = standard_draws(k, 16, d, rng)
    instance = family(mixture)
    free = instance.start() + 0.2 * rng.normal(size=len(instance.start()))

    def twin(f):
        weights, means, trils = FAMILIES[family](f, *mixture)
        fit = reference.expected_log_density(
            weights, means, trils, theta, surrogate.factors.inducing, surrogate.factors.weights
        )
        return fit + reference.entropy(weights, means, trils, draws) - reference.soft_penalty(means, trils, *tight)

    value, gradient = elbo_and_gradient(free, instance, surrogate, tight, draws)
    (wanted,) = reference.gradient(twin, free)
    assert value == pytest.approx(twin(free), rel=1e-9)
    assert reference.relative_error(gradient, wanted) < 1e-6


def test_objective_is_the_sum_of_its_parts(mixture, tight, rng):
    k, d = mixture.means.shape
    _, surrogate = surrogate_of(rng, d)
    draws = standard_draws(k, 16, d, rng)
    family = FullCovariance(mixture)
    value, _ = elbo_and_gradient(family.start(), family, surrogate, tight, draws)
    parts = (
        expected_and_gradient(mixture, surrogate.hyp, surrogate.factors)[0]
        + entropy_and_gradient(mixture, draws)[0]
        - tight.penalty_and_gradient(mixture)[0]
    )
    assert value == pytest.approx(parts, rel=1e-10)


def test_a_flat_component_is_no_answer(rng):
    """Its density is rounding errors: the optimiser has to step back."""
    surrogate, box = normal_surrogate(2), SoftBox(np.full(2, -5.0), np.full(2, 5.0))
    flat = Mixture(np.zeros(1), np.zeros((1, 2)), np.array([[[1.0, 0.0], [1.0, 1e-9]]]))
    family = FullCovariance(flat)
    value, gradient = elbo_and_gradient(family.start(), family, surrogate, box, standard_draws(1, 16, 2, rng))
    assert np.isnan(value)
    assert np.isfinite(gradient).all()


# The value that is told


@pytest.mark.parametrize("d", [1, 3])
def test_the_elbo_of_the_posterior_itself_is_the_evidence(d, rng):
    surrogate, exact = normal_surrogate(d), one_normal(np.zeros(d), np.ones(d))
    found = elbo(exact, surrogate, rng, 20_000)
    evidence = 0.5 * d * np.log(2 * np.pi)
    assert abs(found.value - evidence) < 4 * found.monte_carlo_error + 1e-6
    assert found.monte_carlo_error < 0.01
    assert found.sd == pytest.approx(np.sqrt(surrogate.expectation_variance(exact)))


def test_any_other_mixture_has_less_by_its_divergence(rng):
    """KL(N(m, s²) ‖ N(0, 1)) = (m² + s² − 1) / 2 − log s in each coordinate."""
    found = elbo(one_normal([0.5, -1.0], [0.7, 1.3]), normal_surrogate(2), rng, 50_000)
    divergence = 0.5 * (0.25 + 0.49 - 1 + 1.0 + 1.69 - 1) - np.log(0.7 * 1.3)
    wanted = np.log(2 * np.pi) - divergence
    assert abs(found.value - wanted) < 4 * found.monte_carlo_error + 1e-6
    assert not abs(found.value - wanted - 0.05) < 4 * found.monte_carlo_error + 1e-6


def test_its_error_is_what_seeds_differ_by(rng):
    mixture = Mixture(*reference.random_mixture(rng, 3, 2))
    found = [elbo(mixture, normal_surrogate(2), np.random.default_rng(seed), 2000) for seed in range(30)]
    spread = np.std([one.value for one in found], ddof=1)
    told = np.sqrt(np.mean([one.monte_carlo_error**2 for one in found]))
    assert 0.5 < told / spread < 2.0


def test_components_split_in_two_are_the_same_mixture(rng):
    mixture = Mixture(*reference.random_mixture(rng, 2, 2))
    twice = Mixture(*(np.concatenate([part, part]) for part in mixture))
    twice = twice._replace(log_weights=twice.log_weights - np.log(2))
    one, other = (elbo(case, normal_surrogate(2), rng, 50_000) for case in (mixture, twice))
    error = np.hypot(one.monte_carlo_error, other.monte_carlo_error)
    assert abs(one.value - other.value) < 4 * error + 1e-6
    assert other.sd == pytest.approx(one.sd)


# Within a support


def region_within(support, d=1):
    return TrustedRegion(normal_surrogate(d), np.full(d, -9.0), np.full(d, 9.0), 1.0, 1.0, support=support)


#: A soft edge, one that may be anywhere between two places, one far below all mass, and none.
SUPPORTS = {
    "soft": edges_at(0.3, steep=4.0),
    "unknown": edges_at(np.linspace(-0.5, 1.0, 64), steep=50.0),
    "far": edges_at(30.0),
    "none": None,
}


def integrated(mixture, region):
    """−KL of the cut mixture to the surrogate's exp f, by a sum over a fine grid."""
    x = np.linspace(-12, 12, 200_001)[:, None]
    step, q = x[1, 0] - x[0, 0], np.exp(reference.mixture_log_pdf(*mixture, x))
    inside = np.exp(region.log_support(x))
    cut = q * inside / (q @ inside * step)
    f = region.surrogate.mean(x) + np.log(np.maximum(inside, 1e-300))
    seen = cut > 1e-30
    return float((cut * (f - np.log(np.where(seen, cut, 1.0))))[seen].sum() * step)


@pytest.mark.parametrize("edge", SUPPORTS)
def test_the_elbo_within_a_support_by_integration(edge, rng):
    region, mixture = region_within(SUPPORTS[edge]), Mixture(*reference.random_mixture(rng, 2, 1))
    wanted = integrated(mixture, region)
    found = elbo_within(mixture, region, rng, 100_000)
    assert abs(found.value - wanted) < 4 * found.monte_carlo_error
    assert not abs(found.value + 0.1 - wanted) < 4 * found.monte_carlo_error
    assert found.sd == pytest.approx(np.sqrt(region.surrogate.expectation_variance(mixture)))


def test_the_posterior_cut_at_an_edge_has_the_evidence_of_what_is_left(rng):
    """Half of a normal."""
    found = elbo_within(one_normal([0.0], [1.0]), region_within(edges_at(0.0)), rng, 50_000)
    evidence = 0.5 * np.log(2 * np.pi) - np.log(2)
    assert abs(found.value - evidence) < 4 * found.monte_carlo_error
    assert not abs(found.value + 0.1 - evidence) < 4 * found.monte_carlo_error


@pytest.mark.parametrize("edge", SUPPORTS)
def test_its_error_within_a_support_is_what_seeds_differ_by(edge):
    region, mixture = region_within(SUPPORTS[edge]), one_normal([0.3], [0.8])
    found = [elbo_within(mixture, region, np.random.default_rng(seed), 4000) for seed in range(40)]
    spread = np.std([one.value for one in found], ddof=1)
    told = np.sqrt(np.mean([one.monte_carlo_error**2 for one in found]))
    assert 0.5 < told / spread < 2.0


def test_a_mixture_beyond_the_edge_has_no_elbo(rng):
    found = elbo_within(one_normal([60.0], [0.1]), region_within(edges_at(0.0)), rng, 1000)
    assert not np.isfinite(found.value) or found.value < -500
    assert not found.monte_carlo_error < 0.01
