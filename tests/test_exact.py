"""The exact GP against its dense twin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import reference
from vsbq.numerics import exact, linalg
from vsbq.numerics.kernel import Hyperparameters


@pytest.fixture(params=[1, 2, 5], ids=lambda d: f"d{d}")
def case(request, rng):
    return reference.random_theta(rng, request.param), reference.random_regression(rng, 30, request.param)


def test_evidence_is_that_of_scipy(case):
    theta, (points, values, noise) = case
    cov = reference.kernel(theta, points, points) + np.diag(noise)
    wanted = stats.multivariate_normal(reference.prior_mean(theta, points), cov).logpdf(values)
    assert exact.evidence_and_gradient(theta, points, values, noise).value == pytest.approx(wanted, rel=1e-10)


def test_gradient_of_the_evidence(case):
    theta, (points, values, noise) = case
    to_theta, to_noise = reference.gradient(
        lambda t, log_sd: reference.exact_evidence(t, points, values, reference.squared_exp(log_sd)),
        theta,
        0.5 * np.log(noise),
    )
    got = exact.evidence_and_gradient(theta, points, values, noise)
    assert reference.relative_error(got.hyperparameters, to_theta) < 1e-6
    assert reference.relative_error(got.log_noise_sd, to_noise) < 1e-6
    nearby = exact.evidence_and_gradient(theta + 1e-4, points, values, noise)
    assert reference.relative_error(nearby.hyperparameters, to_theta) > 1e-6  # negative control: the check can fail
    assert reference.relative_error(nearby.log_noise_sd, to_noise) > 1e-6


def test_prediction(case, rng):
    theta, data = case
    hyp = Hyperparameters.unpack(theta)
    factors = exact.fit_factors(hyp, *data)
    x = rng.uniform(-2.5, 2.5, (11, data[0].shape[1]))
    mean, variance = exact.predict(hyp, factors, x)
    wanted_mean, wanted_cov = reference.exact_posterior(theta, *data, x)
    assert_allclose(mean, wanted_mean, rtol=1e-9, atol=1e-9)
    assert_allclose(variance, np.diag(wanted_cov), rtol=1e-8, atol=1e-10)


def test_no_points_have_no_predictions(case):
    theta, data = case
    hyp = Hyperparameters.unpack(theta)
    mean, variance = exact.predict(hyp, exact.fit_factors(hyp, *data), np.empty((0, data[0].shape[1])))
    assert mean.shape == variance.shape == (0,)


def mapped_evidence(theta, points, values, noise, by):
    """The evidence where all coordinates, those of the mean too, are multiplied by a matrix."""
    hyp = Hyperparameters.unpack(theta)
    moved = hyp._replace(mean_location=by @ hyp.mean_location)
    return reference.exact_evidence(moved.pack(), points @ by.T, values, noise)


def test_gradient_by_a_linear_map_of_all_coordinates(case):
    theta, data = case
    d, step = data[0].shape[1], 1e-5
    wanted = np.empty((d, d))
    for i, j in np.ndindex(d, d):
        e = np.zeros((d, d))
        e[i, j] = step
        up, down = (mapped_evidence(theta, *data, np.eye(d) + sign * e) for sign in (1, -1))
        wanted[i, j] = (up - down) / (2 * step)
    assert reference.relative_error(exact.evidence_and_gradient(theta, *data).coordinates, wanted) < 1e-6
    nearby = exact.evidence_and_gradient(theta + 1e-4, *data).coordinates
    assert reference.relative_error(nearby, wanted) > 1e-6  # negative control: the check can fail


def test_without_noise_the_data_are_interpolated(rng):
    hyp = Hyperparameters.unpack(reference.random_theta(rng, 2))._replace(log_scales=np.full(2, -1.0))
    points = np.stack(np.meshgrid(*2 * [np.linspace(-2, 2, 6)]), axis=-1).reshape(-1, 2)
    values = rng.normal(size=len(points))
    factors = exact.fit_factors(hyp, points, values, np.full(len(values), 1e-9))
    mean, variance = exact.predict(hyp, factors, points)
    assert_allclose(mean, values, atol=1e-6)
    assert (variance < 1e-8).all()


def test_a_shift_of_the_values_is_a_shift_of_the_mean(case):
    theta, (points, values, noise) = case
    hyp = Hyperparameters.unpack(theta)
    value = exact.evidence_and_gradient(theta, points, values, noise).value
    shifted = hyp._replace(mean_top=hyp.mean_top - 11.0).pack()
    assert exact.evidence_and_gradient(shifted, points, values - 11.0, noise).value == pytest.approx(value, rel=1e-10)


def test_a_singular_matrix_is_refused(rng):
    theta = reference.random_theta(rng, 2)
    points = np.zeros((4, 2))
    with pytest.raises(linalg.NotPositiveDefinite):
        exact.evidence_and_gradient(theta, points, np.arange(4.0), np.full(4, -1e-3))
