"""The sparse GP as a model: what it adds to what every model promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import cloud, plain_space, wavy

import reference
from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture
from vsbq.steps.surrogate.model import Surrogate


@pytest.fixture
def case(rng):
    """Hyperparameters, inducing points and a regression."""
    theta, data = reference.random_theta(rng, 2), reference.random_regression(rng, 60, 2)
    return theta, reference.spread_points(data[0], 15), data


@pytest.fixture
def surrogate(case):
    theta, inducing, data = case
    hyp = Hyperparameters.unpack(theta)
    return Surrogate(plain_space(2), hyp, sgpr.fit_factors(hyp, inducing, *data)[0], 3.0)


def test_it_is_the_sparse_posterior(case, surrogate, rng):
    u = cloud(rng, 20)
    mean, cov = reference.sgpr_posterior(*case[:2], *case[2], u)
    assert_allclose(surrogate.mean(u), mean, atol=1e-6)
    assert_allclose(surrogate.covariance(u, u), cov, atol=1e-6)
    assert_allclose(surrogate.predict(u).mean, mean + 3.0, atol=1e-6)
    assert_array_equal(surrogate.inducing, case[1])


def test_doubt_widens_error_bars_and_moves_nothing(surrogate, rng):
    u, mixture = cloud(rng, 20), Mixture(*reference.random_mixture(rng, 3, 2))
    doubted = replace(surrogate, overconfidence=3.0)
    assert_array_equal(doubted.mean(u), surrogate.mean(u))
    assert doubted.expectation(mixture)[0] == surrogate.expectation(mixture)[0]
    assert_allclose(doubted.predict(u).sd, 3 * surrogate.predict(u).sd)
    assert_allclose(doubted.covariance(u, u), 9 * surrogate.covariance(u, u), atol=1e-12)
    assert_allclose(doubted.at(u).covariance(doubted.at(u)), 9 * surrogate.covariance(u, u), atol=1e-6)
    assert doubted.expectation_variance(mixture) == pytest.approx(9 * surrogate.expectation_variance(mixture))
    assert doubted.prior_variance == pytest.approx(9 * surrogate.prior_variance)


def test_changes_are_those_of_a_fit_without_the_block(case, surrogate, rng):
    _, inducing, data = case
    rest, _ = sgpr.fit_factors(surrogate.hyp, inducing, *(column[20:] for column in data))
    without = (rest.weights - surrogate.factors.weights)[None]
    u = cloud(rng, 20)
    found = replace(surrogate, without=without).changes(u)
    assert_allclose(found[0], sgpr.predict_mean(surrogate.hyp, rest, u) - surrogate.mean(u), atol=1e-6)
    assert np.abs(found).max() > 0.01


def test_without_blocks_there_are_no_changes(surrogate, rng):
    assert surrogate.changes(cloud(rng, 7)).shape == (0, 7)


def test_where_everything_is_known_the_variance_is_not_negative(rng):
    """As many inducing points as evaluations, all of them exact: rounding errors must not make a square root fail."""
    x = cloud(rng, 40)
    hyp = Hyperparameters(np.log([3.0, 3.0]), 2.0, 0.0, np.zeros(2), np.zeros(2))
    known = Surrogate(plain_space(2), hyp, sgpr.fit_factors(hyp, x, x, wavy(x), np.full(40, 1e-12))[0], 0.0)
    narrow = Mixture(np.zeros(1), x[:1], 1e-6 * np.eye(2)[None])
    for variance in (known.variance(x), known.at(x).variance(), known.expectation_variance(narrow)):
        assert (np.asarray(variance) >= 0).all()
    assert np.isfinite(known.predict(x).sd).all()
