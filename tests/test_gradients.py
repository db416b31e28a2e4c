"""Sparse GPs of values and gradients: the dense twin, autodiff, the exact GP in the limit, and invariances."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics import gradients as sloped
from vsbq.numerics import observations, sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel, mean
from vsbq.numerics.observations import Regression


@pytest.fixture(params=[1, 2, 4], ids=lambda d: f"d{d}")
def case(request, rng):
    """Hyperparameters, inducing points, a regression, and gradients at two points of three."""
    d = request.param
    theta, data = reference.random_theta(rng, d), reference.random_regression(rng, 20, d)
    known = np.arange(20) % 3 > 0
    gradients = np.where(known[:, None], rng.normal(size=(20, d)), np.nan)
    return theta, 0.01 + reference.spread_points(data[0], 4 + d), Regression(*data, gradients)


def dense(seen):
    """What the twins take: the rows of gradients, and those gradients."""
    rows = sloped.places(seen.gradients)
    return rows, seen.gradients[rows]


def test_the_bound_is_that_of_the_dense_formula(case):
    theta, inducing, seen = case
    wanted = float(reference.sloped_bound(theta, inducing, *seen[:3], *dense(seen)))
    assert sloped.bound_and_gradient(theta, inducing, *seen).value == pytest.approx(wanted, rel=1e-8)
    hyp = Hyperparameters.unpack(theta)
    assert observations.fit_factors(hyp, inducing, seen)[1] == pytest.approx(wanted, rel=1e-8)
    assert abs(wanted - sgpr.fit_factors(hyp, inducing, *seen[:3])[1]) > 1  # negative control: they count


def test_the_gradient_of_the_bound_is_that_of_autodiff(case):
    theta, inducing, seen = case
    points, values, noise, _ = seen
    to_theta, to_noise = reference.gradient(
        lambda t, s: reference.sloped_bound(t, inducing, points, values, reference.squared_exp(s), *dense(seen)),
        theta,
        0.5 * np.log(noise),
    )
    got = sloped.bound_and_gradient(theta, inducing, *seen)
    assert reference.relative_error(got.hyperparameters, to_theta) < 1e-6
    assert reference.relative_error(got.log_noise_sd, to_noise) < 1e-6
    nearby = sloped.bound_and_gradient(theta + 1e-4, inducing, *seen)
    assert reference.relative_error(nearby.hyperparameters, to_theta) > 1e-6  # negative control


def test_the_gradient_by_a_linear_map_of_all_coordinates(case):
    theta, inducing, (points, values, noise, gradients) = case
    hyp, d = Hyperparameters.unpack(theta), inducing.shape[1]

    def mapped(by):
        moved, seen = hyp._replace(mean_location=by @ hyp.mean_location), gradients @ np.linalg.inv(by)
        return sloped.bound_and_gradient(moved.pack(), inducing @ by.T, points @ by.T, values, noise, seen).value

    wanted, step = np.empty((d, d)), 1e-5
    for i, j in np.ndindex(d, d):
        e = step * np.outer(np.eye(d)[i], np.eye(d)[j])
        wanted[i, j] = (mapped(np.eye(d) + e) - mapped(np.eye(d) - e)) / (2 * step)
    got = sloped.bound_and_gradient(theta, inducing, points, values, noise, gradients).coordinates
    assert reference.relative_error(got, wanted) < 1e-6


def test_with_enough_inducing_points_it_is_the_exact_gp(rng):
    """Of values and gradients, with the covariance of derivatives among themselves."""
    theta, (points, values, noise) = reference.random_theta(rng, 2), reference.random_regression(rng, 12, 2)
    hyp, rows, gradients = Hyperparameters.unpack(theta), np.arange(0, 12, 2), np.full((12, 2), np.nan)
    gradients[rows] = rng.normal(size=(6, 2))
    axis = np.linspace(-3, 3, 17)
    inducing = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    factors, bound = observations.fit_factors(hyp, inducing, Regression(points, values, noise, gradients))
    among = reference.sloped_covariance(theta, points, points[rows])
    total = among + np.diag(reference.sloped_noise(theta, noise, noise[rows]))
    rest = np.asarray(reference.sloped_rest(theta, points, values, points[rows], gradients[rows]))
    assert bound == pytest.approx(float(reference.log_normal(rest, 0.0, total)), rel=1e-4)
    x = rng.uniform(-2, 2, (10, 2))
    cross = np.asarray(reference.sloped_cross(theta, points, points[rows], x))
    assert_allclose(
        sgpr.predict_mean(hyp, factors, x), mean(x, hyp) + cross.T @ np.linalg.solve(total, rest), atol=1e-4
    )
    wanted = kernel(x, x, hyp) - cross.T @ np.linalg.solve(total, cross)
    assert_allclose(sgpr.predict_covariance(hyp, factors, x, x), wanted, atol=1e-4)


def test_without_gradients_it_is_the_sparse_gp_of_the_values(case):
    theta, inducing, seen = case
    plain, none = seen._replace(gradients=None), seen._replace(gradients=np.full(seen.points.shape, np.nan))
    hyp = Hyperparameters.unpack(theta)
    for one, other in zip(
        observations.fit_factors(hyp, inducing, plain)[0], sgpr.fit_factors(hyp, inducing, *seen[:3])[0], strict=True
    ):
        assert np.array_equal(one, other)
    wanted, got = sgpr.bound_and_gradient(theta, inducing, *seen[:3]), sloped.bound_and_gradient(theta, inducing, *none)
    assert got.value == pytest.approx(wanted.value)
    for one, other in zip(got[1:], wanted[1:], strict=True):
        assert_allclose(one, other, rtol=1e-7, atol=1e-7)


def test_chunks_do_not_matter(case, monkeypatch):
    theta, inducing, seen = case
    hyp = Hyperparameters.unpack(theta)
    whole, bound = observations.fit_factors(hyp, inducing, seen)
    passed = observations.with_residual_passes(hyp, whole, seen, 2)
    monkeypatch.setattr(sloped, "CHUNK", 3)
    parts, same = observations.fit_factors(hyp, inducing, seen)
    assert same == pytest.approx(bound)
    assert_allclose(parts.weights, whole.weights)
    assert_allclose(observations.with_residual_passes(hyp, whole, seen, 2).weights, passed.weights)
