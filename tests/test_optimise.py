"""Maximisers on functions whose maximum is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vsbq.numerics.linalg import NotPositiveDefinite
from vsbq.numerics.optimise import GaussianPrior, adam, maximise, maximise_with_prior


@pytest.fixture
def quadratic(rng):
    """A concave quadratic with its maximum of 3 at `top`, and its Hessian."""
    root = rng.normal(size=(4, 4))
    hessian, top = root @ root.T + np.eye(4), rng.normal(size=4)

    def objective(theta):
        slope = hessian @ (theta - top)
        return 3.0 - 0.5 * float((theta - top) @ slope), -slope

    return objective, top, hessian


def prior_of(mean=0.0, sd=2.0, reach=50.0):
    return GaussianPrior(np.full(4, mean), np.full(4, sd), np.full(4, -reach), np.full(4, reach))


def test_plain_maximum(quadratic):
    objective, top, _ = quadratic
    found = maximise(objective, np.zeros(4), steps=200, tolerance=1e-12)
    assert_allclose(found.argument, top, atol=1e-4)
    assert found.value == pytest.approx(3.0, abs=1e-8)
    assert 0 < found.steps <= 200


def test_steps_are_limited(quadratic):
    assert maximise(quadratic[0], np.full(4, 10.0), steps=2, tolerance=1e-12).steps <= 2
    assert maximise_with_prior(quadratic[0], np.full(4, 10.0), prior_of(), steps=2, tolerance=1e-12).steps <= 2


def test_prior_of_known_gradient(rng):
    prior, theta = prior_of(0.5, 3.0), rng.normal(size=4)
    value, slope = prior.log_density_and_gradient(theta)
    assert value == pytest.approx(-0.5 * (((theta - 0.5) / 3.0) ** 2).sum())
    assert_allclose(slope, -(theta - 0.5) / 9.0)


@pytest.mark.parametrize("sd", [0.1, 2.0, 100.0])
def test_maximum_with_prior_is_the_known_compromise(quadratic, sd):
    objective, top, hessian = quadratic
    wanted = np.linalg.solve(hessian + np.eye(4) / sd**2, hessian @ top + np.full(4, 1.0) / sd**2)
    found = maximise_with_prior(objective, np.zeros(4), prior_of(1.0, sd), steps=300, tolerance=1e-10)
    assert_allclose(found.argument, wanted, atol=1e-3)
    prior_value = prior_of(1.0, sd).log_density_and_gradient(found.argument)[0]
    assert found.value == pytest.approx(objective(found.argument)[0] + prior_value, rel=1e-12)
    assert found.failures == 0


def test_limits_hold(quadratic):
    objective, top, _ = quadratic
    limit = np.abs(top).max() / 2
    found = maximise_with_prior(objective, np.full(4, 99.0), prior_of(0.0, 5.0, limit), steps=300, tolerance=1e-10)
    assert (np.abs(found.argument) <= limit + 1e-12).all()
    assert np.isclose(np.abs(found.argument), limit).any()


@pytest.mark.parametrize("failure", ["raises", "nan", "infinite gradient"])
def test_failures_are_survived_and_counted(quadratic, failure):
    objective, top, _ = quadratic
    calls = []

    def fragile(theta):
        calls.append(theta)
        value, slope = objective(theta)
        if len(calls) in (3, 5):
            if failure == "raises":
                raise NotPositiveDefinite("no Cholesky factor here")
            return (np.nan, slope) if failure == "nan" else (value, np.full_like(slope, np.inf))
        return value, slope

    found = maximise_with_prior(fragile, np.zeros(4), prior_of(0.0, 100.0), steps=300, tolerance=1e-10)
    assert found.failures == 2
    assert_allclose(found.argument, top, atol=0.01)


@pytest.mark.parametrize("sd", [1.5, 10.0, 100.0])
def test_at_a_wall_the_best_point_seen_is_kept(quadratic, sd):
    """Beyond the wall every factorisation fails, and line searches end there; what was found on the way counts."""
    objective, top, _ = quadratic
    wall, start, seen = top[0] - 0.5, top - 3.0, []
    prior = GaussianPrior(top, np.full(4, sd), top - 50.0, top + 50.0)

    def fragile(theta):
        if theta[0] > wall:
            raise NotPositiveDefinite("beyond the wall")
        seen.append(objective(theta)[0] + prior.log_density_and_gradient(theta)[0])
        return objective(theta)

    found = maximise_with_prior(fragile, start, prior, steps=300, tolerance=1e-6)
    assert found.failures > 0
    assert found.argument[0] <= wall
    assert found.value == pytest.approx(max(seen), abs=1e-9)
    assert found.value > seen[0]


def test_other_errors_are_not_swallowed():
    def broken(theta):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        maximise_with_prior(broken, np.zeros(4), prior_of(), steps=10, tolerance=1e-3)


def test_adam_averages_noise_away(quadratic, rng):
    objective, top, _ = quadratic

    def noisy(theta):
        value, slope = objective(theta)
        return value + rng.normal(), slope + rng.normal(size=4)

    found = adam(noisy, np.zeros(4), steps=3000, rate=0.05, final_rate=0.005)
    assert_allclose(found.argument, top, atol=0.15)
    assert found.steps == 3000


def test_adam_moves_at_its_rate():
    found = adam(lambda theta: (0.0, np.ones_like(theta)), np.zeros(2), steps=1, rate=0.3)
    assert_allclose(found.argument, 0.3, rtol=1e-6)


def test_adam_leaves_its_start_alone(quadratic):
    start = np.zeros(4)
    adam(quadratic[0], start, steps=5, rate=0.1)
    assert_allclose(start, 0.0)
