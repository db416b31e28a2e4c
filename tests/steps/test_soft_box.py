"""The soft limits of the mixture, and the whole objective of step 3 with its gradient."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.numerics import sgpr
from vsbq.numerics.families import FullCovariance, SharedDiagonal
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture, entropy_and_gradient, standard_draws
from vsbq.numerics.quadrature import expected_and_gradient
from vsbq.steps.mixture.elbo import elbo_and_gradient
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.surrogate.model import Surrogate

FAMILIES = {FullCovariance: reference.full_covariance, SharedDiagonal: reference.shared_diagonal}


@pytest.fixture(params=[1, 3], ids=lambda d: f"d{d}")
def mixture(request, rng):
    return Mixture(*reference.random_mixture(rng, 4, request.param))


@pytest.fixture
def tight(mixture):
    """A box that some means and some scales are outside of."""
    d = mixture.means.shape[1]
    return SoftBox(np.quantile(mixture.means, 0.3, axis=0), np.quantile(mixture.means, 0.3, axis=0) + np.full(d, 0.5))


@pytest.fixture
def wide(mixture):
    d = mixture.means.shape[1]
    return SoftBox(np.full(d, -20.0), np.full(d, 20.0))


def surrogate_of(rng, d):
    theta, data = reference.random_theta(rng, d), reference.random_regression(rng, 50, d)
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, reference.spread_points(data[0], 5 + 2 * d), *data)
    space = InferenceSpace(Bounds.parse(None, d), np.zeros(d), np.zeros(d), np.ones(d))
    return theta, Surrogate(space, hyp, factors, 0.0)


# The penalty


def test_box_is_that_of_the_points(rng):
    points = rng.normal(size=(30, 3))
    box = SoftBox.around(points)
    assert_allclose(box.lower, points.min(axis=0))
    assert_allclose(box.upper, points.max(axis=0))


def test_there_is_no_penalty_inside(mixture, wide):
    value, gradient = wide.penalty_and_gradient(mixture)
    assert value == 0.0
    for part in gradient:
        assert_allclose(part, 0.0)


def test_penalty_and_its_gradient(mixture, tight):
    value, gradient = tight.penalty_and_gradient(mixture)
    assert value > 0
    assert value == pytest.approx(reference.soft_penalty(mixture.means, mixture.trils, *tight), rel=1e-10)
    to_means, to_trils = reference.gradient(
        lambda m, t: reference.soft_penalty(m, t, *tight), mixture.means, mixture.trils
    )
    assert reference.relative_error(gradient.means, to_means) < 1e-6
    assert reference.relative_error(gradient.trils, to_trils) < 1e-6
    assert_allclose(gradient.weights, 0.0)


@pytest.mark.parametrize(
    ("mean", "sd", "wanted"),
    [
        (0.0, 1.0, 0.0),
        (5.1, 1.0, 0.5),  # outside by 0.1, that is by τ times the width
        (-5.2, 1.0, 2.0),
        (0.0, 10.0 * 1e6**0.01, 0.5),
        (0.0, 1e-5 * 1e6**-0.03, 4.5),
    ],
)
def test_penalty_by_hand(mean, sd, wanted):
    """A box from −5 to 5: means within it, standard deviations from 1e-5 to 10."""
    mixture = Mixture(np.zeros(1), np.array([[mean]]), np.array([[[sd]]]))
    value, _ = SoftBox(np.array([-5.0]), np.array([5.0])).penalty_and_gradient(mixture)
    assert value == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_scales_are_those_of_the_marginals():
    """A component that is wide only because of a correlation is wide all the same."""
    tril = np.array([[1.0, 0.0], [30.0, 1e-3]])
    box = SoftBox(np.array([-5.0, -5.0]), np.array([5.0, 5.0]))
    assert box.penalty_and_gradient(Mixture(np.zeros(1), np.zeros((1, 2)), tril[None]))[0] > 0


# The whole objective


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
