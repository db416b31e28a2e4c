"""The sparse GP as a model: what it adds to what every model promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import cloud, plain_space, wavy

import reference
from vsbq.numerics import quadrature, sgpr
from vsbq.numerics.drift import Drift
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture
from vsbq.steps.surrogate.calibration import Sides
from vsbq.steps.surrogate.model import Sister, Surrogate


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


# Sisters


def sister_of(rng, data, turn):
    """Another sparse GP of the same density, in turned coordinates: with its twin, a function of points in the main
    one's coordinates."""
    points, values, noise = data
    theta, shift = reference.random_theta(rng, 2), float(np.linalg.slogdet(turn)[1])
    there = points @ turn.T, values - shift, noise
    inducing, hyp = reference.spread_points(there[0], 12), Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, inducing, *there)
    sister = Sister(turn, shift, hyp, sgpr.Mean(inducing, factors.weights))
    return sister, lambda u: reference.sgpr_posterior(theta, inducing, *there, u @ turn.T)[0] + shift


TURNS = (np.array([[1.5, 0.4], [-0.3, 0.9]]), np.array([[0.6, 0.0], [0.5, 1.2]]))


@pytest.fixture
def family(case, surrogate, rng):
    """A surrogate with two sisters, and the slow means of all three."""
    theta, inducing, data = case
    sisters, twins = zip(*(sister_of(rng, data, turn) for turn in TURNS), strict=True)
    return replace(surrogate, sisters=sisters), (
        lambda u: reference.sgpr_posterior(theta, inducing, *data, u)[0],
        *twins,
    )


def on_a_grid(mixture, f):
    """The expectation of a function under each component, on a regular grid."""
    axis = np.arange(-7.0, 7.01, 0.28)
    z = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    weights = np.exp(-0.5 * (z**2).sum(axis=1))
    parts = []
    for mean, tril in zip(mixture.means, mixture.trils, strict=True):
        values = [f(part) for part in np.array_split(mean + z @ tril.T, 10)]  # the twin's matrices grow with the square
        parts.append(np.concatenate(values) @ weights)
    return np.array(parts) / weights.sum()


def test_the_mean_is_the_average_over_sisters(family, rng):
    surrogate, twins = family
    u = cloud(rng, 20)
    wanted = np.array([twin(u) for twin in twins])
    assert_allclose(surrogate.means(u), wanted, atol=1e-6)
    assert_allclose(surrogate.mean(u), wanted.mean(axis=0), atol=1e-6)
    assert np.abs(wanted[0] - wanted.mean(axis=0)).max() > 0.1  # else the average says little


def test_what_sisters_differ_by_adds_to_the_covariance(case, family, rng):
    surrogate, twins = family
    u = cloud(rng, 20)
    within = reference.sgpr_posterior(*case[:2], *case[2], u)[1]
    means = np.array([twin(u) for twin in twins])
    wanted = within + np.cov(means.T)  # of three draws, with the divisor two
    assert_allclose(surrogate.covariance(u, u), wanted, atol=1e-5)
    assert_allclose(surrogate.covariance(u[:5], u[5:]), wanted[:5, 5:], atol=1e-5)
    assert_allclose(surrogate.variance(u), np.diag(wanted), atol=1e-5)
    assert_allclose(surrogate.at(u).covariance(surrogate.at(u[:7])), wanted[:, :7], atol=1e-5)
    assert_allclose(surrogate.at(u).take(np.array([4, 2])).variance(), np.diag(wanted)[[4, 2]], atol=1e-5)
    assert np.abs(wanted - within).max() > 0.01


def test_the_expectation_is_the_average_over_sisters(family, rng):
    surrogate, twins = family
    mixture = Mixture(*reference.random_mixture(rng, 3, 2))
    each = [mixture.weights @ on_a_grid(mixture, twin) for twin in twins]
    assert surrogate.expectation(mixture)[0] == pytest.approx(np.mean(each), abs=1e-6)
    alone = replace(surrogate, sisters=()).expectation(mixture)[0]
    assert alone == pytest.approx(each[0], abs=1e-6)
    assert abs(alone - np.mean(each)) > 1e-3


def test_what_sisters_differ_by_adds_to_the_variance_of_the_expectation(family, rng):
    surrogate, twins = family
    mixture = Mixture(*reference.random_mixture(rng, 3, 2))
    each = [mixture.weights @ on_a_grid(mixture, twin) for twin in twins]
    covariance = quadrature.integral_covariance(mixture, surrogate.hyp, surrogate.factors)
    within = mixture.weights @ covariance @ mixture.weights
    assert surrogate.expectation_variance(mixture) == pytest.approx(within + np.var(each, ddof=1), rel=1e-5)
    assert replace(surrogate, sisters=()).expectation_variance(mixture) == pytest.approx(within)


def test_the_gradient_of_the_expectation_by_differences(family, rng):
    surrogate, _ = family
    mixture = Mixture(*reference.random_mixture(rng, 2, 2))
    gradient = surrogate.expectation(mixture)[1]
    for name in ("means", "trils"):
        direction = np.tril(rng.normal(size=getattr(mixture, name).shape))
        up, down = (
            surrogate.expectation(mixture._replace(**{name: getattr(mixture, name) + h * direction}))[0]
            for h in (1e-5, -1e-5)
        )
        slope = (getattr(gradient, name) * direction).sum()
        assert slope == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)
        assert slope != pytest.approx((up - down) / 2e-5 + 0.01, rel=1e-5, abs=1e-6)


def test_a_sister_in_other_units_has_the_same_density(case, surrogate, rng):
    """Scales that are stretched as the coordinates are make the same GP: only the volume of a unit differs."""
    _, inducing, (points, values, noise) = case
    unit, hyp = np.array([3.0, 0.2]), surrogate.hyp
    shift = float(np.log(unit).sum())
    there = hyp._replace(
        log_scales=hyp.log_scales + np.log(unit),
        mean_top=hyp.mean_top - shift,
        mean_location=unit * hyp.mean_location,
        mean_log_widths=hyp.mean_log_widths + np.log(unit),
    )
    factors, _ = sgpr.fit_factors(there, unit * inducing, unit * points, values - shift, noise)
    posterior, u = sgpr.Mean(factors.inducing, factors.weights), cloud(rng, 20)
    twin = replace(surrogate, sisters=(Sister(np.diag(unit), shift, there, posterior),))
    assert_allclose(twin.means(u)[1], surrogate.mean(u), atol=1e-6)
    assert_allclose(twin.variance(u), surrogate.variance(u), atol=1e-6)
    mixture = Mixture(*reference.random_mixture(rng, 3, 2))
    assert twin.expectation(mixture)[0] == pytest.approx(surrogate.expectation(mixture)[0], abs=1e-6)
    forgetful = replace(surrogate, sisters=(Sister(np.diag(unit), 0.0, there, posterior),))
    assert_allclose(forgetful.means(u)[1], surrogate.mean(u) - shift, atol=1e-6)
    assert abs(shift) > 0.1


# Beyond the evaluations


def test_doubt_grows_with_the_square_of_the_distance_beyond_a_side(surrogate, rng):
    axes, ends = np.array([[1.0, 0.0], [-0.6, 0.8]]), np.array([0.5, 0.2])
    errors, distances = np.array([0.3, 2.0]), np.array([0.1, 0.5])
    u = cloud(rng, 200)
    expected = [
        max(
            error * (max(axis @ row - end, 0.0) / distance) ** 2
            for axis, end, error, distance in zip(axes, ends, errors, distances, strict=True)
        )
        for row in u
    ]
    sides = Sides(axes, ends, errors, distances)
    assert_allclose(replace(surrogate, sides=sides).doubt_beyond(u), expected, rtol=1e-12)
    assert 0 < np.count_nonzero(expected) < len(u)
    assert (surrogate.doubt_beyond(u) == 0).all()


# Taken apart


def test_it_can_be_taken_apart_and_put_together(family, rng):
    whole = replace(
        family[0],
        without=rng.normal(size=(3, 15)),
        tested=0.7,
        sides=Sides(np.eye(2), rng.normal(size=2), rng.uniform(size=2), rng.uniform(size=2)),
        rise=0.3,
        drift=Drift(rng.normal(size=(15, 6)), rng.normal(size=(6, 6))),
    )
    u, mixture = cloud(rng, 20), Mixture(*reference.random_mixture(rng, 3, 2))
    for surrogate in (whole, replace(whole, sides=None, without=None), replace(whole, sisters=whole.sisters[:1])):
        arrays, scalars = surrogate.packed()
        assert all(isinstance(part, np.ndarray) and part.dtype == float for part in arrays.values())
        again = Surrogate.unpacked(surrogate.space, {k: v.copy() for k, v in arrays.items()}, dict(scalars))
        for ask in ("means", "variance", "changes", "doubt_beyond", "trends"):
            assert_array_equal(getattr(again, ask)(u), getattr(surrogate, ask)(u))
        assert again.expectation(mixture)[0] == surrogate.expectation(mixture)[0]
        assert again.expectation_variance(mixture) == surrogate.expectation_variance(mixture)
        assert (again.offset, again.tested) == (3.0, 0.7)
        assert again.packed()[0].keys() == arrays.keys()
    assert len(arrays) < len(whole.packed()[0])
