"""A full quadratic through the better evaluations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from toy import cloud, normal

from vsbq.steps.surrogate.quadratic import Quadratic, fit_quadratic


def found(points, values, rng, noise=1e-5):
    return fit_quadratic(points, values, np.full(len(points), noise), values, rng)


def precision(d):
    root = 0.6 * (np.eye(d) + 0.7 * np.tri(d, k=-1))
    return np.linalg.inv(root @ root.T)


def falling(points, curvature, location):
    x = points - location
    return 3.0 - 0.5 * np.einsum("ni,ij,nj->n", x, curvature, x)


@pytest.mark.parametrize("d", [1, 2, 4, 8])
def test_a_quadratic_is_found_exactly_from_few_evaluations(d, rng):
    """From 1.5 times as many as it has coefficients, most of them far from its top."""
    curvature, location = precision(d), np.full(d, 0.8)
    steps = rng.normal(size=(round(1.5 * (d + 1) * (d + 2) / 2) + 3, d)) * np.linspace(0.5, 2.0, d)
    values = falling(steps, curvature, location)
    one = found(steps, values, rng)
    assert_allclose(one.curvature, curvature, rtol=1e-3, atol=1e-3 * np.abs(curvature).max())
    assert_allclose(one.location, location, atol=0.01)
    assert one.top == pytest.approx(3.0, abs=0.01)
    assert_allclose(one.values(steps), values, atol=0.01)


def test_noise_does_not_hide_the_curvature(rng):
    covariance = np.array([[1.0, 0.95], [0.95, 1.0]])
    points = 1.5 * cloud(rng, 2000) @ np.linalg.cholesky(covariance).T
    values = falling(points, np.linalg.inv(covariance), np.zeros(2))
    one = fit_quadratic(points, values + rng.standard_normal(2000), np.ones(2000), values, rng)
    white = one.whitening @ covariance @ one.whitening.T
    assert np.linalg.cond(white) < 2 < np.linalg.cond(covariance)


def test_what_is_no_quadratic_has_a_misfit(rng):
    points = cloud(rng, 300)
    straight = found(points, normal(points), rng)
    bent = found(points, normal(points) - 2 * np.abs(points).sum(axis=1) ** 1.5, rng)
    assert straight.misfit < 1e-3 < bent.misfit


def test_axes_are_turned_no_more_than_needed(rng):
    """What falls off alike in all directions stays."""
    points = cloud(rng, 600)
    assert_allclose(found(points, normal(points), rng).whitening, np.eye(2), atol=0.02)


def test_directions_that_do_not_fall_off_stay_finite(rng):
    points = cloud(rng, 300)
    for values in (-0.5 * points[:, 0] ** 2, 0.5 * points[:, 1] ** 2, 0 * points[:, 0]):
        one = found(points, values, rng)
        assert np.isfinite(one.whitening).all()
        assert np.linalg.cond(one.whitening) < 1e3
        assert (np.abs(one.location) < 3 * np.abs(points).max()).all()


def test_points_on_a_line_can_be_whitened(rng):
    points = cloud(rng, 50)[:, :1] * [1.0, 2.0]
    turn = found(points, normal(points), rng).whitening
    assert np.isfinite(turn).all()
    assert np.linalg.matrix_rank(turn, tol=1e-12) == 2


def test_few_points_keep_the_first_guess(rng):
    """Fewer than there are products of coordinates: the covariance of the points, and no rounding errors."""
    points = cloud(rng, 12, d=6, spread=1.0)
    turn = found(points, normal(points), rng).whitening
    assert np.isfinite(turn).all()
    assert np.linalg.cond(turn) < 100


def test_it_is_the_same_density_in_other_coordinates(rng):
    one = Quadratic(2.0, rng.normal(size=3), precision(3), 0.1)
    turn = rng.normal(size=(3, 3))
    points = rng.normal(size=(20, 3))
    shift = np.linalg.slogdet(turn)[1]
    assert_allclose(one.turned(turn).values(points @ turn.T), one.values(points) - shift, rtol=1e-9)


def test_it_is_a_triangular_map_and_widths(rng):
    one = Quadratic(0.0, np.zeros(4), precision(4), 0.1)
    b, widths = one.triangular()
    assert_allclose(b, np.tril(b))
    assert_allclose(np.diagonal(b), 1.0)
    assert_allclose(b.T @ np.diag(widths**-2.0) @ b, one.curvature, rtol=1e-9)
