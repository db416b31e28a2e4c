"""Weighted EM: uphill, towards the truth, careful where there is little to go by."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics.em import effective_size, truncated_weights, weighted_em
from vsbq.numerics.mixture import Mixture, log_pdf, sample


def even(n):
    return np.full(n, 1.0 / n)


@pytest.fixture
def truth():
    trils = np.array([[[1.0, 0.0], [0.7, 0.5]], [[0.5, 0.0], [-0.2, 0.4]], [[0.6, 0.0], [0.0, 1.2]]])
    return Mixture(np.log([0.5, 0.3, 0.2]), np.array([[0.0, 0.0], [4.0, 1.0], [-3.0, 3.0]]), trils)


@pytest.fixture
def start(truth, rng):
    means = truth.means + 0.5 * rng.normal(size=truth.means.shape)
    return Mixture(np.log(even(3)), means, np.tile(np.eye(2), (3, 1, 1)))


def test_every_step_goes_uphill(truth, start, rng):
    x = sample(truth, 600, rng)
    weights = rng.dirichlet(np.ones(len(x)))
    gains, mixture = [weights @ log_pdf(start, x)], start
    for _ in range(15):
        mixture = weighted_em(mixture, x, weights, 1, caution=0.0)
        gains.append(weights @ log_pdf(mixture, x))
    assert (np.diff(gains) > -1e-12).all()
    assert gains[-1] > gains[0]


def test_steps_together_are_the_steps_one_by_one(truth, start, rng):
    x = sample(truth, 400, rng)
    together, mixture = weighted_em(start, x, even(400), 5, caution=0.0), start
    for _ in range(5):
        mixture = weighted_em(mixture, x, even(400), 1, caution=0.0)
    for one, other in zip(together, mixture, strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("caution", [0.0, 5.0])
def test_one_step_is_that_of_the_textbook(truth, start, caution, rng):
    x, weights = sample(truth, 300, rng), rng.dirichlet(np.ones(300))
    found = weighted_em(start, x, weights, 1, caution=caution)
    share, means, covs = reference.em_step(*start, x, weights, caution)
    # The library's responsibilities are in single precision.
    assert_allclose(found.weights, share, rtol=1e-6)
    assert_allclose(found.means, means, rtol=1e-6, atol=1e-6)
    assert_allclose(found.trils @ np.swapaxes(found.trils, 1, 2), covs, rtol=1e-6, atol=1e-6)


def test_one_step_by_hand(rng):
    """One component takes on the weighted moments of the points."""
    x, weights = rng.normal(size=(50, 3)), rng.dirichlet(np.ones(50))
    mixture = weighted_em(Mixture(np.zeros(1), np.zeros((1, 3)), np.eye(3)[None]), x, weights, 1, caution=0.0)
    mean = weights @ x
    assert_allclose(mixture.means[0], mean, atol=1e-12)
    assert_allclose(mixture.trils[0] @ mixture.trils[0].T, (x - mean).T * weights @ (x - mean), atol=1e-12)
    assert mixture.log_weights[0] == pytest.approx(0.0, abs=1e-12)


def test_a_known_mixture_is_recovered(truth, start, rng):
    n = 20_000
    found = weighted_em(start, sample(truth, n, rng), even(n), 60, caution=0.0)
    order = np.argsort(-found.weights)
    assert_allclose(found.weights[order], truth.weights, atol=0.02)
    assert_allclose(found.means[order], truth.means, atol=0.08)
    for k, tril in zip(order, truth.trils, strict=True):
        assert_allclose(found.trils[k] @ found.trils[k].T, tril @ tril.T, atol=0.12)


def test_weights_turn_one_distribution_into_another(truth, rng):
    """Draws of a wide normal, weighted, are draws of the truth."""
    wide = Mixture(np.zeros(1), np.array([[0.5, 1.0]]), 4.0 * np.eye(2)[None])
    x = sample(wide, 40_000, rng)
    weights = truncated_weights(log_pdf(truth, x) - log_pdf(wide, x))
    found = weighted_em(truth, x, weights, 5, caution=0.0)
    assert_allclose(found.weights, truth.weights, atol=0.03)
    assert_allclose(found.means, truth.means, atol=0.15)


def test_a_weight_of_two_is_a_point_twice(truth, start, rng):
    x = sample(truth, 300, rng)
    count = rng.integers(1, 4, len(x))
    one = weighted_em(start, x, count / count.sum(), 3, caution=0.0)
    twice = np.repeat(x, count, axis=0)
    other = weighted_em(start, twice, even(len(twice)), 3, caution=0.0)
    for a, b in zip(one, other, strict=True):
        assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_caution_holds_on_to_the_covariance_of_the_start(truth, start, rng):
    x = sample(truth, 500, rng)
    before = start.trils @ np.swapaxes(start.trils, 1, 2)
    gaps = []
    for caution in (0.0, 50.0, 1e12):
        found = weighted_em(start, x, even(500), 3, caution=caution)
        gaps.append(np.abs(found.trils @ np.swapaxes(found.trils, 1, 2) - before).max())
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-6


def test_a_component_that_nothing_speaks_for_is_dropped(truth, rng):
    lonely = Mixture(
        np.log(even(4)), np.concatenate([truth.means, [[60.0, 60.0]]]), np.concatenate([truth.trils, truth.trils[:1]])
    )
    found = weighted_em(lonely, sample(truth, 500, rng), even(500), 3, caution=5.0)
    assert len(found.means) == 3
    assert np.exp(found.log_weights).sum() == pytest.approx(1.0)
    assert (found.means < 20).all()


@pytest.mark.parametrize("spread", [4.0, 100.0])
def test_weights_that_no_component_can_live_on_leave_a_mixture(spread, rng):
    """Many components, few effective points: no component has D + 1 of them, but something has to be left."""
    k, d = 60, 10
    wide = Mixture(np.log(even(k)), rng.normal(size=(k, d)), np.tile(np.eye(d), (k, 1, 1)))
    x = sample(wide, 2000, rng)
    found = weighted_em(wide, x, truncated_weights(spread * rng.normal(size=2000)), 3, caution=5.0)
    assert len(found.means) >= 1
    assert all(np.isfinite(part).all() for part in found)


def test_a_shift_of_the_points_shifts_the_means(truth, start, rng):
    x = sample(truth, 400, rng)
    one = weighted_em(start, x, even(400), 4, caution=5.0)
    other = weighted_em(start._replace(means=start.means + 100.0), x + 100.0, even(400), 4, caution=5.0)
    assert_allclose(other.means, one.means + 100.0, rtol=1e-8)
    assert_allclose(other.trils, one.trils, atol=1e-7)


# Importance weights


def test_truncated_weights_sum_to_one_and_ignore_a_constant(rng):
    logs = 3 * rng.normal(size=1000)
    weights = truncated_weights(logs)
    assert weights.sum() == pytest.approx(1.0)
    assert_allclose(truncated_weights(logs + 5e3), weights, rtol=1e-9)


def test_mild_weights_are_not_truncated(rng):
    logs = rng.uniform(-1, 1, 1000)
    assert_allclose(truncated_weights(logs), np.exp(logs) / np.exp(logs).sum(), rtol=1e-12)


def test_a_huge_weight_is_held_to_the_square_root():
    weights = truncated_weights(np.concatenate([np.zeros(9999), [12.0]]))
    # Raw weights sum to e¹² + 9999; the largest is cut to √n times their mean, that is to their sum over 100.
    raw = np.exp(12.0) + 9999
    assert weights.max() == pytest.approx(raw / 100 / (raw / 100 + 9999))


def test_zero_weights_are_fine():
    weights = truncated_weights(np.array([0.0, -np.inf, 0.0]))
    assert_allclose(weights, [0.5, 0.0, 0.5])


@pytest.mark.parametrize(("weights", "size"), [([0.25] * 4, 4.0), ([1.0, 0.0, 0.0], 1.0), ([3.0, 1.0], 1.6)])
def test_effective_size(weights, size):
    assert effective_size(np.array(weights)) == pytest.approx(size)
    assert effective_size(7 * np.array(weights)) == pytest.approx(size)
