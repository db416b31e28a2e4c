"""Integrals of the surrogate under a mixture: by Monte Carlo, by brute-force quadrature, by autodiff."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics import quadrature, sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture


@pytest.fixture(params=[1, 2, 4], ids=lambda d: f"d{d}")
def case(request, rng):
    return make(rng, request.param)


@pytest.fixture
def plane(rng):
    return make(rng, 2)


def make(rng, d):
    """Packed hyperparameters, a sparse GP posterior with its data, and a mixture."""
    theta, data = reference.random_theta(rng, d), reference.random_regression(rng, 60, d)
    inducing = 0.01 + reference.spread_points(data[0], 5 + 2 * d)
    factors, _ = sgpr.fit_factors(Hyperparameters.unpack(theta), inducing, *data)
    return theta, factors, data, Mixture(*reference.random_mixture(rng, 3, d))


def grid_of(d, step):
    """Nodes and weights of a standard normal on a regular grid, which integrates smooth functions to many digits."""
    axis = np.arange(-8.0, 8.0 + step, step)
    nodes = np.stack(np.meshgrid(*d * [axis], indexing="ij"), axis=-1).reshape(-1, d)
    weights = np.exp(-0.5 * (nodes**2).sum(axis=1))
    return nodes, weights / weights.sum()


# The mean


def test_mean_agrees_with_monte_carlo(case, rng):
    theta, factors, data, mixture = case
    hyp = Hyperparameters.unpack(theta)
    integrals = quadrature.expected_and_gradient(mixture, hyp, factors)[1].weights
    for mean, tril, integral in zip(mixture.means, mixture.trils, integrals, strict=True):
        x = mean + rng.normal(size=(4000, len(mean))) @ tril.T
        f, _ = reference.sgpr_posterior(theta, factors.inducing, *data, x[:400])
        assert_allclose(sgpr.predict_mean(hyp, factors, x[:400]), f, rtol=1e-6, atol=1e-6)
        f = sgpr.predict_mean(hyp, factors, x)
        assert reference.agree(f, integral)
        assert not reference.agree(f, integral + 0.2 * f.std())


def test_mean_agrees_with_brute_force(plane):
    theta, factors, _, mixture = plane
    hyp = Hyperparameters.unpack(theta)
    z, weights = grid_of(2, 0.1)
    wanted = [
        weights @ sgpr.predict_mean(hyp, factors, mean + z @ tril.T)
        for mean, tril in zip(mixture.means, mixture.trils, strict=True)
    ]
    value, gradient = quadrature.expected_and_gradient(mixture, hyp, factors)
    assert_allclose(gradient.weights, wanted, rtol=1e-8)
    assert value == pytest.approx(mixture.weights @ np.array(wanted), rel=1e-8)


def test_kernel_integrals_are_those_of_the_paper(case):
    theta, factors, _, mixture = case
    got = quadrature.kernel_integrals(mixture, factors.inducing, Hyperparameters.unpack(theta))
    assert_allclose(got, reference.kernel_integrals(theta, mixture.means, mixture.trils, factors.inducing), rtol=1e-9)


def test_a_point_mass_is_the_surrogate_itself(case):
    theta, factors, _, mixture = case
    hyp = Hyperparameters.unpack(theta)
    narrow = mixture._replace(trils=1e-7 * mixture.trils)
    integrals = quadrature.expected_and_gradient(narrow, hyp, factors)[1].weights
    assert_allclose(integrals, sgpr.predict_mean(hyp, factors, mixture.means), rtol=1e-8, atol=1e-8)
    covariance = quadrature.integral_covariance(narrow, hyp, factors)
    pointwise = sgpr.predict_covariance(hyp, factors, mixture.means, mixture.means)
    assert_allclose(covariance, pointwise, atol=1e-8)


def test_gradient_of_the_expectation(case):
    theta, factors, _, mixture = case
    value, gradient = quadrature.expected_and_gradient(mixture, Hyperparameters.unpack(theta), factors)

    def twin(weights, means, trils):
        return reference.expected_log_density(weights, means, trils, theta, factors.inducing, factors.weights)

    assert value == pytest.approx(twin(mixture.weights, mixture.means, mixture.trils), rel=1e-9)
    slopes = reference.gradient(twin, mixture.weights, mixture.means, mixture.trils)
    assert reference.relative_error(gradient.weights, slopes[0]) < 1e-6
    assert reference.relative_error(gradient.means, slopes[1]) < 1e-6
    assert reference.relative_error(gradient.trils, np.tril(slopes[2])) < 1e-6


# The covariance


def test_covariance_agrees_with_monte_carlo(plane, rng):
    """Cov(I_j, I_k) is the posterior covariance of f between a draw of one component and a draw of the other."""
    theta, factors, data, mixture = plane
    covariance = quadrature.integral_covariance(mixture, Hyperparameters.unpack(theta), factors)
    assert_allclose(covariance, covariance.T)
    for j in range(3):
        for k in range(j + 1):
            draws = []
            for _ in range(40):  # pairs in small sets: only the pairs' own covariances are independent draws
                a = mixture.means[j] + rng.normal(size=(25, 2)) @ mixture.trils[j].T
                b = mixture.means[k] + rng.normal(size=(25, 2)) @ mixture.trils[k].T
                _, cov = reference.sgpr_posterior(theta, factors.inducing, *data, np.concatenate([a, b]))
                draws.append(np.diag(cov[:25, 25:]))
            draws = np.concatenate(draws)
            assert reference.agree(draws, covariance[j, k])
            assert not reference.agree(draws, covariance[j, k] + 0.3 * draws.std())


def test_covariance_agrees_with_brute_force(rng):
    theta, factors, data, mixture = make(rng, 1)
    z, weights = grid_of(1, 0.05)
    x = np.concatenate([mean + z @ tril.T for mean, tril in zip(mixture.means, mixture.trils, strict=True)])
    _, cov = reference.sgpr_posterior(theta, factors.inducing, *data, x)
    blocks = cov.reshape(3, len(z), 3, len(z))
    wanted = np.einsum("jakb,a,b->jk", blocks, weights, weights)
    got = quadrature.integral_covariance(mixture, Hyperparameters.unpack(theta), factors)
    assert_allclose(got, wanted, rtol=1e-6, atol=1e-8)


def test_covariance_is_positive_and_below_that_of_the_prior(case):
    theta, factors, _, mixture = case
    hyp = Hyperparameters.unpack(theta)
    posterior = quadrature.integral_covariance(mixture, hyp, factors)
    # Noise without limit is no data at all: the posterior is the prior.
    d = mixture.means.shape[1]
    nothing, _ = sgpr.fit_factors(hyp, factors.inducing, np.zeros((1, d)), np.zeros(1), np.full(1, 1e12))
    prior = quadrature.integral_covariance(mixture, hyp, nothing)
    assert np.linalg.eigvalsh(posterior).min() > 0
    assert np.linalg.eigvalsh(prior - posterior).min() > -1e-9


# Invariances


def test_the_origin_is_no_matter(case):
    theta, factors, data, mixture = case
    hyp = Hyperparameters.unpack(theta)
    moved = hyp._replace(mean_location=hyp.mean_location + 50.0)
    points, values, noise = data
    there, _ = sgpr.fit_factors(moved, factors.inducing + 50.0, points + 50.0, values, noise)
    shifted = mixture._replace(means=mixture.means + 50.0)
    here = quadrature.expected_and_gradient(mixture, hyp, factors)[0]
    assert quadrature.expected_and_gradient(shifted, moved, there)[0] == pytest.approx(here, rel=1e-8)
    assert_allclose(
        quadrature.integral_covariance(shifted, moved, there),
        quadrature.integral_covariance(mixture, hyp, factors),
        rtol=1e-5,
        atol=1e-8,
    )


def test_a_shift_of_the_values_shifts_the_integrals(case):
    theta, factors, (points, values, noise), mixture = case
    hyp = Hyperparameters.unpack(theta)
    raised = hyp._replace(mean_top=hyp.mean_top + 7.0)
    above, _ = sgpr.fit_factors(raised, factors.inducing, points, values + 7.0, noise)
    here = quadrature.expected_and_gradient(mixture, hyp, factors)[1].weights
    assert_allclose(quadrature.expected_and_gradient(mixture, raised, above)[1].weights, here + 7.0, rtol=1e-8)


# Turned coordinates


def turn_of(rng, d):
    """A matrix far from a rotation."""
    return np.eye(d) + 0.5 * rng.normal(size=(d, d))


def test_a_turn_is_a_mixture_moved_by_hand(case, rng):
    theta, factors, _, mixture = case
    hyp, turn = Hyperparameters.unpack(theta), turn_of(rng, mixture.means.shape[1])
    cov = [turn @ tril @ tril.T @ turn.T for tril in mixture.trils]
    moved = Mixture(mixture.log_weights, np.array([turn @ mean for mean in mixture.means]), np.linalg.cholesky(cov))
    value, gradient = quadrature.expected_and_gradient(mixture, hyp, factors, turn)
    wanted, by_hand = quadrature.expected_and_gradient(moved, hyp, factors)
    assert value == pytest.approx(wanted, rel=1e-9)
    assert_allclose(gradient.weights, by_hand.weights, rtol=1e-9)
    assert value != pytest.approx(quadrature.expected_and_gradient(mixture, hyp, factors)[0], rel=1e-3)


def test_the_gradient_with_a_turn_by_differences(case, rng):
    theta, factors, _, mixture = case
    hyp, turn, step = Hyperparameters.unpack(theta), turn_of(rng, mixture.means.shape[1]), 1e-5
    gradient = quadrature.expected_and_gradient(mixture, hyp, factors, turn)[1]
    nearby = mixture._replace(means=mixture.means + 1e-3, trils=1.001 * mixture.trils)
    elsewhere = quadrature.expected_and_gradient(nearby, hyp, factors, turn)[1]
    for name in ("means", "trils"):
        part, slopes = getattr(mixture, name), np.zeros_like(getattr(mixture, name))
        free = np.tril(np.ones_like(part)) if name == "trils" else np.ones_like(part)
        for where in zip(*np.nonzero(free), strict=True):
            e = np.zeros_like(part)
            e[where] = step
            up, down = (
                quadrature.expected_and_gradient(mixture._replace(**{name: part + s * e}), hyp, factors, turn)[0]
                for s in (1, -1)
            )
            slopes[where] = (up - down) / (2 * step)
        assert reference.relative_error(getattr(gradient, name), slopes) < 1e-6
        assert reference.relative_error(getattr(elsewhere, name), slopes) > 1e-6  # negative control
    assert_allclose(gradient.trils, np.tril(gradient.trils))
