"""The sparse GP: its limits (all points inducing), its dense twin, its gradient, its invariances."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics import exact, linalg, sgpr
from vsbq.numerics.kernel import Hyperparameters


@pytest.fixture(params=[1, 2, 4], ids=lambda d: f"d{d}")
def case(request, rng):
    """Hyperparameters, inducing points, and a regression with noise of its own at each point."""
    theta = reference.random_theta(rng, request.param)
    data = reference.random_regression(rng, 40, request.param)
    return theta, 0.01 + reference.spread_points(data[0], 4 + request.param), data


# With all points as inducing points the sparse GP is the exact one. The jitter of 1e-10 σ_f² on K_ZZ is a real
# difference between the two, of about 1e-10 σ_f² / s² per point: well under the tolerance for noise of 0.2 and more.


def test_bound_is_the_evidence_if_all_points_are_inducing(rng):
    theta, (points, values, noise) = reference.random_theta(rng, 3), reference.random_regression(rng, 40, 3)
    noise = 0.2 + noise
    bound = sgpr.bound_and_gradient(theta, points, points, values, noise).value
    assert bound == pytest.approx(reference.exact_evidence(theta, points, values, noise), rel=1e-8)
    assert bound == pytest.approx(exact.evidence_and_gradient(theta, points, values, noise).value, rel=1e-8)


def test_prediction_is_exact_if_all_points_are_inducing(rng):
    theta, (points, values, noise) = reference.random_theta(rng, 3), reference.random_regression(rng, 40, 3)
    noise = 0.2 + noise
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, points, points, values, noise)
    x = rng.uniform(-2.5, 2.5, (25, 3))
    mean, cov = reference.exact_posterior(theta, points, values, noise, x)
    assert_allclose(sgpr.predict_mean(hyp, factors, x), mean, rtol=1e-8, atol=1e-8)
    assert_allclose(sgpr.predict_variance(hyp, factors, x), np.diag(cov), rtol=1e-8, atol=1e-8)
    assert_allclose(sgpr.predict_covariance(hyp, factors, x, x), cov, rtol=1e-8, atol=1e-8)


def test_gradient_is_exact_if_all_points_are_inducing(rng):
    theta, (points, values, noise) = reference.random_theta(rng, 2), reference.random_regression(rng, 25, 2)
    sparse = sgpr.bound_and_gradient(theta, points, points, values, 0.2 + noise)
    dense = exact.evidence_and_gradient(theta, points, values, 0.2 + noise)
    assert reference.relative_error(sparse.hyperparameters, dense.hyperparameters) < 1e-6
    assert reference.relative_error(sparse.log_noise_sd, dense.log_noise_sd) < 1e-6


# The dense twin


def test_bound_is_that_of_the_dense_formula(case):
    theta, inducing, data = case
    wanted = reference.sgpr_bound(theta, inducing, *data)
    assert sgpr.bound_and_gradient(theta, inducing, *data).value == pytest.approx(wanted, rel=1e-9)
    assert sgpr.fit_factors(Hyperparameters.unpack(theta), inducing, *data)[1] == pytest.approx(wanted, rel=1e-9)


def slopes_of_the_bound(theta, inducing, points, values, noise):
    """By autodiff: with respect to the hyperparameters and to the logarithms of the noise sds."""
    return reference.gradient(
        lambda t, log_sd: reference.sgpr_bound(t, inducing, points, values, reference.squared_exp(log_sd)),
        theta,
        0.5 * np.log(noise),
    )


def test_gradient_of_the_bound(case):
    theta, inducing, data = case
    to_theta, to_noise = slopes_of_the_bound(theta, inducing, *data)
    got = sgpr.bound_and_gradient(theta, inducing, *data)
    assert reference.relative_error(got.hyperparameters, to_theta) < 1e-6
    assert reference.relative_error(got.log_noise_sd, to_noise) < 1e-6


def test_gradient_by_a_linear_map_of_all_coordinates(case):
    theta, inducing, (points, values, noise) = case
    hyp, d = Hyperparameters.unpack(theta), inducing.shape[1]

    def mapped(by):
        moved = hyp._replace(mean_location=by @ hyp.mean_location)
        return reference.sgpr_bound(moved.pack(), inducing @ by.T, points @ by.T, values, noise)

    step = 1e-5
    wanted = np.empty((d, d))
    for i, j in np.ndindex(d, d):
        e = np.zeros((d, d))
        e[i, j] = step
        wanted[i, j] = (mapped(np.eye(d) + e) - mapped(np.eye(d) - e)) / (2 * step)
    got = sgpr.bound_and_gradient(theta, inducing, points, values, noise).coordinates
    assert reference.relative_error(got, wanted) < 1e-6
    nearby = sgpr.bound_and_gradient(theta + 1e-4, inducing, points, values, noise).coordinates
    assert reference.relative_error(nearby, wanted) > 1e-6  # negative control: the check can fail


def test_prediction_is_that_of_the_dense_formula(case, rng):
    theta, inducing, data = case
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, inducing, *data)
    x = rng.uniform(-2.5, 2.5, (12, inducing.shape[1]))
    mean, cov = reference.sgpr_posterior(theta, inducing, *data, x)
    assert_allclose(sgpr.predict_mean(hyp, factors, x), mean, rtol=1e-7, atol=1e-7)
    assert_allclose(sgpr.predict_variance(hyp, factors, x), np.diag(cov), atol=1e-7)
    assert_allclose(sgpr.predict_covariance(hyp, factors, x[:5], x), cov[:5], atol=1e-7)


def test_the_noise_of_the_mean_is_that_of_its_response_to_each_value(case, rng):
    theta, inducing, (points, values, noise) = case
    hyp = Hyperparameters.unpack(theta)
    x = rng.uniform(-2.5, 2.5, (12, inducing.shape[1]))

    def mean(changed):
        return sgpr.predict_mean(hyp, sgpr.fit_factors(hyp, inducing, points, changed, noise)[0], x)

    factors, _ = sgpr.fit_factors(hyp, inducing, points, values, noise)
    response = np.array([mean(values + one) - mean(values) for one in np.eye(len(values))])
    found = sgpr.predict_variances(hyp, factors, x)
    assert_allclose(found.by_noise, noise @ response**2, rtol=1e-5, atol=1e-8)
    assert_allclose(found.total, sgpr.predict_variance(hyp, factors, x))
    assert (found.by_noise < found.total).all()
    assert found.by_noise.max() > 1e-4


def test_a_set_larger_than_one_chunk(rng):
    n = sgpr.CHUNK + 77
    theta, data = reference.random_theta(rng, 2), reference.random_regression(rng, n, 2)
    inducing = reference.spread_points(data[0], 12)
    to_theta, to_noise = slopes_of_the_bound(theta, inducing, *data)
    value, by_theta, by_noise, _ = sgpr.bound_and_gradient(theta, inducing, *data)
    assert value == pytest.approx(reference.sgpr_bound(theta, inducing, *data), rel=1e-9)
    assert reference.relative_error(by_theta, to_theta) < 1e-6
    assert reference.relative_error(by_noise, to_noise) < 1e-6
    hyp = Hyperparameters.unpack(theta)
    factors, bound = sgpr.fit_factors(hyp, inducing, *data)
    assert bound == pytest.approx(value, rel=1e-12)
    whole = sgpr.predict_mean(hyp, factors, data[0]), sgpr.predict_variance(hyp, factors, data[0])
    late = data[0][sgpr.CHUNK :]
    assert_allclose(whole[0][sgpr.CHUNK :], sgpr.predict_mean(hyp, factors, late), rtol=1e-10)
    assert_allclose(whole[1][sgpr.CHUNK :], sgpr.predict_variance(hyp, factors, late), rtol=1e-10, atol=1e-12)


def test_a_workspace_changes_nothing(case):
    theta, inducing, data = case
    fresh = sgpr.bound_and_gradient(theta, inducing, *data)
    workspace = sgpr.Workspace(3)  # too small at first: it grows
    for shift in (0.3, 0.0):  # what an earlier call left behind must not show
        used = sgpr.bound_and_gradient(theta + shift, inducing, *data, workspace=workspace)
    for one, other in zip(used, fresh, strict=True):
        np.testing.assert_array_equal(one, other)


# What the theory says


def test_bound_is_below_the_evidence_and_rises_with_every_inducing_point(rng):
    theta, data = reference.random_theta(rng, 2), reference.random_regression(rng, 40, 2)
    inducing = reference.spread_points(data[0], 20)
    bounds = [sgpr.bound_and_gradient(theta, inducing[:m], *data).value for m in range(1, 20)]
    assert (np.diff(bounds) > -1e-9).all()
    assert bounds[-1] < exact.evidence_and_gradient(theta, *data).value


def test_variance_is_between_zero_and_the_prior(case, rng):
    theta, inducing, data = case
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, inducing, *data)
    near, far = (sgpr.predict_variance(hyp, factors, shift + data[0]) for shift in (0.0, 100.0))
    assert (near >= 0).all()
    assert (near <= hyp.output_variance).all()
    assert_allclose(far, hyp.output_variance, rtol=1e-9)


def test_far_away_the_mean_is_the_prior_mean(case):
    theta, inducing, data = case
    hyp = Hyperparameters.unpack(theta)
    factors, _ = sgpr.fit_factors(hyp, inducing, *data)
    far = 100.0 + data[0][:5]
    assert_allclose(sgpr.predict_mean(hyp, factors, far), reference.prior_mean(theta, far), rtol=1e-12)


# Invariances


def test_a_shift_of_the_values_is_a_shift_of_the_mean(case):
    theta, inducing, (points, values, noise) = case
    hyp = Hyperparameters.unpack(theta)
    shifted = hyp._replace(mean_top=hyp.mean_top + 7.0)
    here = sgpr.bound_and_gradient(theta, inducing, points, values, noise)
    there = sgpr.bound_and_gradient(shifted.pack(), inducing, points, values + 7.0, noise)
    assert there.value == pytest.approx(here.value, rel=1e-10)
    assert reference.relative_error(there.hyperparameters, here.hyperparameters) < 1e-9
    one, _ = sgpr.fit_factors(hyp, inducing, points, values, noise)
    other, _ = sgpr.fit_factors(shifted, inducing, points, values + 7.0, noise)
    assert_allclose(
        sgpr.predict_mean(shifted, other, points), sgpr.predict_mean(hyp, one, points) + 7.0, rtol=1e-9, atol=1e-9
    )


def test_the_order_of_rows_and_of_inducing_points_is_no_matter(case, rng):
    theta, inducing, data = case
    here = sgpr.bound_and_gradient(theta, inducing, *data)
    rows, pivots = rng.permutation(len(data[0])), rng.permutation(len(inducing))
    shuffled = sgpr.bound_and_gradient(theta, inducing[pivots], *(column[rows] for column in data))
    assert shuffled.value == pytest.approx(here.value, rel=1e-9)
    assert reference.relative_error(shuffled.hyperparameters, here.hyperparameters) < 1e-7
    assert reference.relative_error(shuffled.log_noise_sd, here.log_noise_sd[rows]) < 1e-7


def test_units_of_the_points_are_no_matter(case):
    theta, inducing, (points, values, noise) = case
    hyp = Hyperparameters.unpack(theta)
    unit, origin = 40.0, -3.0
    other = hyp._replace(
        log_scales=hyp.log_scales + np.log(unit),
        mean_location=origin + unit * hyp.mean_location,
        mean_log_widths=hyp.mean_log_widths + np.log(unit),
    )
    value = sgpr.bound_and_gradient(theta, inducing, points, values, noise).value
    again = sgpr.bound_and_gradient(other.pack(), origin + unit * inducing, origin + unit * points, values, noise).value
    assert again == pytest.approx(value, rel=1e-9)


def test_two_evaluations_of_a_point_count_as_their_average(case):
    """Merging by inverse variance loses nothing of the posterior."""
    theta, inducing, (points, values, noise) = case
    hyp = Hyperparameters.unpack(theta)
    twice = (
        np.concatenate([points, points[:1]]),
        np.concatenate([values, values[:1] + 0.5]),
        np.concatenate([noise, 2 * noise[:1]]),
    )
    merged_value, merged_noise = values.copy(), noise.copy()
    merged_value[0] += 0.5 / 3
    merged_noise[0] *= 2 / 3
    one, _ = sgpr.fit_factors(hyp, inducing, *twice)
    other, _ = sgpr.fit_factors(hyp, inducing, points, merged_value, merged_noise)
    assert_allclose(sgpr.predict_mean(hyp, one, points), sgpr.predict_mean(hyp, other, points), rtol=1e-8, atol=1e-8)
    assert_allclose(sgpr.predict_variance(hyp, one, points), sgpr.predict_variance(hyp, other, points), atol=1e-9)


# Failure


def test_duplicate_inducing_points_are_no_error(case):
    theta, inducing, data = case
    hyp = Hyperparameters.unpack(theta)
    factors, bound = sgpr.fit_factors(hyp, np.concatenate([inducing, inducing]), *data)
    assert linalg.FIRST_JITTER <= factors.jitter <= linalg.LAST_JITTER
    assert bound == pytest.approx(reference.sgpr_bound(theta, inducing, *data), abs=1e-4)


def test_hyperparameters_out_of_range_raise_and_are_not_silent(case):
    theta, inducing, data = case
    bad = theta.copy()
    bad[0] = np.nan
    with pytest.raises(linalg.NotPositiveDefinite):
        sgpr.bound_and_gradient(bad, inducing, *data)


# What the mean leaves of the values


@pytest.mark.parametrize("passes", [0, 1, 3])
def test_residual_passes_are_powers_of_the_smoother(case, passes):
    theta, inducing, (points, values, noise) = case
    hyp = Hyperparameters.unpack(theta)
    plain, _ = sgpr.fit_factors(hyp, inducing, points, values, noise)
    factors = sgpr.with_residual_passes(hyp, plain, points, values, noise, passes)
    # Column by column, the dense posterior mean of a unit value is the smoother S.
    prior = np.asarray(reference.prior_mean(theta, points))
    unit = [reference.sgpr_posterior(theta, inducing, points, prior + row, noise, points)[0] for row in np.eye(40)]
    missed = np.eye(40) - (np.array(unit).T - prior[:, None])
    wanted = values - np.linalg.matrix_power(missed, passes + 1) @ (values - prior)
    assert_allclose(sgpr.predict_mean(hyp, factors, points), wanted, rtol=1e-6, atol=1e-6)
    assert (sgpr.predict_variance(hyp, factors, points) == sgpr.predict_variance(hyp, plain, points)).all()
    assert passes == 0 or not np.allclose(factors.weights, plain.weights)


# Where rounding errors are huge


def test_the_bound_stays_below_its_ceiling(rng):
    """At tiny length scales and a huge output scale the trace is a difference of huge numbers."""
    x = rng.uniform(-3, 3, (60, 2))
    y, noise = rng.standard_normal(60), np.full(60, 1e-5)
    most = -0.5 * (60 * np.log(2 * np.pi) + np.log(noise).sum())
    seen = []
    for log_scale in (-9.0, -7.0, -5.0, -1.0, 3.0):
        for log_output in (0.0, 6.0, 12.0, 16.0):
            theta = Hyperparameters(np.full(2, log_scale), log_output, 0.0, np.full(2, 50.0), np.full(2, 2.0)).pack()
            try:
                seen.append(sgpr.bound_and_gradient(theta, x[::2].copy(), x, y, noise).value)
            except linalg.NotPositiveDefinite:
                continue
    seen = np.array(seen)
    assert np.isfinite(seen).any()
    assert not (seen > most).any()


def test_a_bound_above_its_ceiling_is_none(rng):
    x, noise = rng.uniform(-1, 1, (20, 1)), np.full(20, 0.1)
    hyp = Hyperparameters(np.zeros(1), 0.0, 0.0, np.zeros(1), np.zeros(1))
    chol, jitter = sgpr.factorise_inducing(hyp, x[:5])
    stats = sgpr.statistics(hyp, x[:5], chol, x, np.zeros(20), noise)
    factors = sgpr.posterior_factors(x[:5], chol, jitter, stats)
    assert np.isfinite(sgpr.bound_value(stats, factors.chol_v, 20))
    rounded = stats._replace(trace=stats.trace - 1e8)  # as if huge terms had lost their digits
    assert np.isnan(sgpr.bound_value(rounded, factors.chol_v, 20))


def test_kernel_blocks_do_not_exceed_the_output_scale(rng):
    """Points far from the origin in units of the length scale: x·z − |x|²/2 − |z|²/2 is mostly rounding error."""
    x = rng.uniform(-1, 1, (40, 2))
    hyp = Hyperparameters(np.full(2, -14.0), 8.0, 0.0, np.full(2, 300.0), np.zeros(2))
    chol, _ = sgpr.factorise_inducing(hyp, x)
    stats = sgpr.statistics(hyp, x, chol, x, np.zeros(40), np.ones(40))
    assert stats.trace - np.trace(stats.gram) >= -1e-6 * stats.trace
