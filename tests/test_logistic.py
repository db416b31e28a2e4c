"""Logistic regression: its mode by another optimiser, its draws by a fine grid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

import reference
from vsbq.numerics.logistic import Logistic


def line(x):
    """A constant and the coordinates."""
    return np.asfortranarray(np.column_stack([np.ones(len(x)), x]))


def overlapping(rng, n=80, d=2):
    """Classes that no plane separates."""
    x = rng.standard_normal((n, d))
    return Logistic(line(x), rng.uniform(size=n) < expit(1.0 + 2.0 * x[:, 0]), 3.0)


def apart(rng, n=40):
    """Classes with a gap between them: only the prior keeps the coefficients finite."""
    x = np.concatenate([rng.uniform(0.3, 2.0, n), -rng.uniform(0.1, 2.0, n)])[:, None]
    return Logistic(line(x), x[:, 0] > 0, 20.0)


def of_one_class(rng):
    return Logistic(line(rng.standard_normal((30, 1))), np.ones(30, dtype=bool), 5.0)


CASES = {"overlapping": overlapping, "apart": apart, "of one class": of_one_class}


def slow_log_density(found, b):
    """Label by label."""
    total = -0.5 * sum(value**2 for value in b) / found.prior_sd**2
    for row, label in zip(found.features, found.labels, strict=True):
        share = expit(row @ b)
        total += np.log(share if label else 1 - share)
    return total


@pytest.fixture(params=CASES)
def found(request, rng):
    return CASES[request.param](rng)


def test_the_density_is_likelihood_times_prior(found, rng):
    b = rng.normal(size=(found.features.shape[1], 6))
    assert_allclose(found.log_density(b), [slow_log_density(found, column) for column in b.T], rtol=1e-9)
    wrong = replace(found, labels=~found.labels)
    assert np.abs(wrong.log_density(b) - found.log_density(b)).min() > 1e-3


def test_the_evidence_is_the_integral_over_the_coefficients(rng):
    """Where the posterior is nearly normal; of two coefficients, on a grid."""
    found = overlapping(rng, d=1)
    axis = np.linspace(-25, 25, 501)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    log_prior = -np.log(2 * np.pi * found.prior_sd**2)
    truth = logsumexp(found.log_density(grid.T) + log_prior) + 2 * np.log(axis[1] - axis[0])
    assert abs(found.evidence() - truth) < 0.1
    assert abs(replace(found, prior_sd=5 * found.prior_sd).evidence() - truth) > 1.0


def test_the_mode_is_that_of_another_optimiser(found):
    mode, chol = found.mode()
    start = np.zeros(len(mode))
    other = minimize(lambda b: -found.log_density(b[:, None])[0], start, method="BFGS", options={"gtol": 1e-7})
    assert_allclose(mode, other.x, atol=1e-2)
    assert abs(found.log_density(mode[:, None])[0] + other.fun) < 1e-5
    assert found.log_density(mode[:, None])[0] > found.log_density(start[:, None])[0] + 1.0
    assert_allclose(chol, np.tril(chol))


def test_the_curvature_at_the_mode_by_differences(found):
    mode, chol = found.mode()
    f, h = len(mode), 1e-3

    def at(shift):
        return found.log_density((mode + shift)[:, None])[0]

    hessian = np.empty((f, f))
    for i, j in np.ndindex(f, f):
        a, b = h * np.eye(f)[i], h * np.eye(f)[j]
        hessian[i, j] = (at(a + b) - at(a - b) - at(b - a) + at(-a - b)) / (4 * h**2)
    assert_allclose(chol @ chol.T, -hessian, rtol=1e-3, atol=1e-4)


def test_classes_far_apart_do_not_make_the_steps_overshoot(rng):
    """Sharp edges at large coordinates: full steps would jump to where everything is flat."""
    x = np.concatenate([rng.uniform(1.0, 100.0, 200), -rng.uniform(1.0, 100.0, 200)])[:, None]
    found = Logistic(line(x), x[:, 0] > 0, 1e3)
    mode, _ = found.mode()
    slope = found.features.T @ (found.labels - expit(found.features @ mode)) - mode / found.prior_sd**2
    assert (np.sign(found.features @ mode) == np.where(found.labels, 1, -1)).all()
    assert np.abs(slope * mode).max() < 1e-2  # nats that are left to gain


# Draws


def on_a_grid(found, size=500):
    """Coefficients on a grid as wide as the prior, and their probabilities."""
    axis = np.linspace(-5 * found.prior_sd, 5 * found.prior_sd, size)
    b = np.stack(np.meshgrid(axis, axis, indexing="ij")).reshape(2, -1)
    log_density = found.log_density(np.asfortranarray(b))
    weights = np.exp(log_density - log_density.max())
    return b, weights / weights.sum()


TWO = {
    "overlapping": lambda rng: overlapping(rng, d=1),
    "few": lambda rng: overlapping(rng, n=6, d=1),
    "apart": apart,
    "of one class": of_one_class,
}


def summaries(b):
    """Means, spread, and how points of the line would be classified."""
    return [b[0], b[1], b[0] * b[1], b[1] ** 2, expit(b[0] + 0.1 * b[1]), expit(b[0] + b[1])]


@pytest.mark.parametrize("case", TWO)
def test_draws_are_those_of_a_fine_grid(case, rng):
    found = TWO[case](rng)
    b, weights = on_a_grid(found)
    assert weights.max() < 0.01  # fine enough
    draws = found.draws(2000, rng)
    assert draws.shape == (2, 2000)
    for seen, exact in zip(summaries(draws), summaries(b), strict=True):
        assert reference.agree(seen, weights @ exact)
        assert not reference.agree(seen, weights @ exact + 0.2 * seen.std())


def test_the_normal_approximation_alone_would_be_noticed(rng):
    """Where the classes are apart the posterior is skew."""
    found = apart(rng)
    b, weights = on_a_grid(found)
    mode, chol = found.mode()
    normal = mode[:, None] + np.linalg.solve(chol.T, rng.standard_normal((2, 2000)))
    assert not reference.agree(normal[1], weights @ b[1])


def test_draws_are_independent_chains(rng):
    """No two are the same, and neighbours do not go together."""
    draws = overlapping(rng, d=1).draws(2000, rng)
    assert len(np.unique(draws[1])) == 2000
    centred = draws[1] - draws[1].mean()
    assert reference.agree(centred[1:] * centred[:-1], 0.0)
    assert not reference.agree(centred * centred, 0.0)


def test_the_same_numbers_give_the_same_draws(rng):
    found = overlapping(rng)
    one, other, another = (found.draws(5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (one == other).all()
    assert (one != another).any()


def test_features_of_very_different_size_do_not_break_it(rng):
    """The Hessian of classes that are apart is singular to rounding."""
    x = np.concatenate([rng.uniform(1.0, 2.0, (20, 1)), -rng.uniform(1.0, 2.0, (20, 1))])
    features = np.asfortranarray(np.column_stack([np.ones(40), x, 1e9 * x, 1e9 * x + 1e-3 * x**2, 1e18 * x]))
    model = Logistic(features, x[:, 0] > 0, 50.0)
    mode, _ = model.mode()
    assert np.isfinite(mode).all()
    assert np.isfinite(model.draws(4, rng)).all()
    assert ((features @ mode > 0) == (x[:, 0] > 0)).all()
