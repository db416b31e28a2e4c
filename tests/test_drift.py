"""What evaluations leave open of the mean: the dense twin, limits, and the quadrature of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics import drift, sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.observations import Regression, fit_factors


def fitted(rng, d, n=60):
    """Hyperparameters, points, noise and the sparse GP with all points as inducing points."""
    hyp = Hyperparameters.unpack(reference.random_theta(rng, d))
    points, values, noise = reference.random_regression(rng, n, d)
    factors, _ = sgpr.fit_factors(hyp, points, points, values, 0.2 + noise)
    return hyp, points, 0.2 + noise, factors


def dense_covariance(hyp, points, noise, x):
    """Of a GP whose kernel is κ(a, b) + φ(a)ᵀ Λ⁻¹ φ(b): the coefficients are a part of the function."""
    sd = drift.prior_sd(points.shape[1])

    def whole(a, b):
        return kernel(a, b, hyp) + (drift.features(a, hyp) * sd**2) @ drift.features(b, hyp).T

    cross = whole(x, points)
    return whole(x, x) - cross @ np.linalg.solve(whole(points, points) + np.diag(noise), cross.T)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_it_is_a_gp_whose_mean_has_unknown_coefficients(d, rng):
    hyp, points, noise, factors = fitted(rng, d)
    x = rng.uniform(-4, 4, (30, d))
    rows = drift.spread(drift.fit_drift(hyp, factors, points, noise), hyp, factors, x)
    found = sgpr.predict_covariance(hyp, factors, x, x) + rows.T @ rows
    wanted = dense_covariance(hyp, points, noise, x)
    assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    alone = sgpr.predict_covariance(hyp, factors, x, x)
    assert np.abs(alone - wanted).max() > 0.1 * np.abs(wanted).max()  # it is no small part far out


def test_gradients_leave_less_open(rng):
    """Derivatives of φ and of the kernel, by differences, as further evaluations of the same GP."""
    hyp, points, noise, _ = fitted(rng, 2, 12)
    gradients, x, step = np.where(np.arange(24).reshape(12, 2) // 2 % 3, 0.0, np.nan), rng.uniform(-4, 4, (30, 2)), 1e-4
    rows, scales, sd = np.flatnonzero(np.arange(12) % 3), np.exp(hyp.log_scales), drift.prior_sd(2)
    seen = Regression(points, np.zeros(12), noise, gradients)
    inducing = np.concatenate(
        [points, *(points[rows] + side * np.diag(scales)[i] for side in (-0.3, 0.3) for i in (0, 1))]
    )
    found, _ = fit_factors(hyp, inducing, seen)

    def whole(a, b):
        return kernel(a, b, hyp) + (drift.features(a, hyp) * sd**2) @ drift.features(b, hyp).T

    def seen_by(function):
        slopes = [
            (function(points[rows] + step * e) - function(points[rows] - step * e)) / (2 * step) * scale
            for e, scale in zip(np.eye(2), scales, strict=True)
        ]
        return np.concatenate([function(points), *slopes])

    cross = seen_by(lambda a: whole(a, x))
    among = seen_by(lambda a: seen_by(lambda b: whole(b, a)).T)
    wanted = whole(x, x) - cross.T @ np.linalg.solve(
        among + np.diag(np.concatenate([noise, *[noise[rows]] * 2])), cross
    )
    open_ = drift.spread(drift.fit_drift(hyp, found, points, noise, gradients), hyp, found, x)
    total = sgpr.predict_covariance(hyp, found, x, x) + open_.T @ open_
    assert_allclose(total, wanted, rtol=0.02, atol=0.02 * np.abs(wanted).max())


def test_features_are_all_quadratics(rng):
    hyp = Hyperparameters.unpack(reference.random_theta(rng, 3))
    x = rng.normal(size=(50, 3))
    assert drift.features(x, hyp).shape == (50, 10)
    for values in (x[:, 0] * x[:, 2], x[:, 1] ** 2 - x[:, 0], np.ones(50)):
        left = np.linalg.lstsq(drift.features(x, hyp), values, rcond=None)[1]
        assert left.sum() < 1e-20


def test_more_evaluations_leave_less_open_and_few_leave_the_prior(rng):
    hyp, points, noise, factors = fitted(rng, 2, 200)
    x = rng.uniform(-1, 1, (20, 2))
    few, many = (drift.fit_drift(hyp, factors, points[:n], noise[:n]) for n in (3, 200))
    assert (np.linalg.norm(few.root, 2) > np.linalg.norm(many.root, 2)).all()
    none = drift.fit_drift(hyp, factors, points[:0], noise[:0])
    assert_allclose(none.root @ none.root.T, np.diag(drift.prior_sd(2) ** 2), atol=1e-8)
    open_ = [np.sum(drift.spread(one, hyp, factors, x) ** 2) for one in (none, many)]
    assert open_[0] > 1e3 * open_[1]


def test_chunks_do_not_matter(rng, monkeypatch):
    hyp, points, noise, factors = fitted(rng, 2)
    x = rng.uniform(-3, 3, (40, 2))
    whole = drift.spread(drift.fit_drift(hyp, factors, points, noise), hyp, factors, x)
    monkeypatch.setattr(drift, "CHUNK", 7)
    parts = drift.spread(drift.fit_drift(hyp, factors, points, noise), hyp, factors, x)
    assert_allclose(parts.T @ parts, whole.T @ whole, rtol=1e-8)


def test_rounding_errors_leave_nothing_open_among_dense_exact_evaluations(rng):
    """Long scales, a large output and hardly any noise: the precision as a difference of huge numbers would be lost."""
    hyp = Hyperparameters(np.zeros(2), np.log(50.0), 0.0, np.zeros(2), np.zeros(2))
    points = rng.normal(size=(3000, 2))
    noise = np.full(3000, 1e-5)
    factors, _ = sgpr.fit_factors(hyp, points[:250], points, -0.5 * (points**2).sum(axis=1), noise)
    x = 0.5 * rng.normal(size=(100, 2))
    rows = drift.spread(drift.fit_drift(hyp, factors, points, noise), hyp, factors, x)
    assert np.sqrt((rows**2).sum(axis=0)).max() < 0.01
