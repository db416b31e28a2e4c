"""Pareto-smoothed weights, against arviz-stats and by what they are for."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from vsbq.numerics.pareto import smoothed_weights


@pytest.mark.parametrize("n", [30, 101, 1000, 40_000])
@pytest.mark.parametrize("spread", [0.01, 0.5, 2.0, 5.0])
def test_as_arviz(n, spread):
    from arviz_stats.base import array_stats

    log_weights = spread * np.random.default_rng([n, int(10 * spread)]).standard_normal(n) - 300.0
    weights, shape, _ = smoothed_weights(log_weights)
    # It asks for log likelihoods of data to be left out, and negates them.
    other, other_shape = array_stats.psislw(-log_weights)
    assert_allclose(shape, other_shape, rtol=1e-9)
    assert_allclose(weights, np.exp(other - other.max()) / np.exp(other - other.max()).sum(), rtol=1e-9)


@pytest.mark.parametrize("shape", [0.2, 0.6, 1.2])
def test_shape_of_a_pareto_tail(shape):
    """Over 40 samples, the mean of the estimates is the shape within four standard errors, and not within four of
    shapes that are off by 0.2."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(40):
        found.append(smoothed_weights(shape * rng.exponential(size=20_000)).shape)
    error = np.std(found, ddof=1) / np.sqrt(len(found))
    # The prior draws the estimate towards 1/2 by a share of 10 / (10 + tail).
    tail = 3 * np.sqrt(20_000)
    expected = (tail * shape + 5) / (tail + 10)
    assert abs(np.mean(found) - expected) < 4 * error
    assert abs(np.mean(found) - expected - 0.2) > 4 * error


def test_smoothing_lowers_the_error_of_a_mean():
    """Normal draws reweighted to a shifted normal, whose mean is known: the mean square error falls."""
    rng = np.random.default_rng(5)
    plain, smooth = [], []
    for _ in range(300):
        x = rng.standard_normal(500)
        log_weights = 2.0 * x  # towards a normal with mean 2
        raw = np.exp(log_weights - log_weights.max())
        plain.append(raw @ x / raw.sum() - 2.0)
        smooth.append(smoothed_weights(log_weights).weights @ x - 2.0)
    gain = np.square(plain) - np.square(smooth)
    assert gain.mean() > 2 * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize("log_weights", [[0.0], [0.0, -3.0], [0.0, -1e5, -2e5] * 50, np.arange(400.0) * 40])
def test_no_tail_to_fit(log_weights):
    """Raw weights, and a shape that says so."""
    log_weights = np.array(log_weights)
    weights, shape, _ = smoothed_weights(log_weights)
    raw = np.exp(log_weights - log_weights.max())
    assert shape == np.inf
    assert_allclose(weights, raw / raw.sum(), rtol=1e-12)


def test_order_stays():
    """Smoothing keeps the order of the weights, and leaves those below the tail in proportion."""
    log_weights = 2.0 * np.random.default_rng(1).standard_normal(2000)
    weights, *_ = smoothed_weights(log_weights)
    order = np.argsort(log_weights)
    assert (np.diff(weights[order]) >= 0).all()
    low = order[:1500]
    assert_allclose(weights[low] / weights[low[-1]], np.exp(log_weights[low] - log_weights[low[-1]]), rtol=1e-10)


@pytest.mark.parametrize("spread", [0.01, 0.3, 1.0])
def test_mean_of_the_weights(spread):
    """The mean is that of log-normal weights, within five standard errors of the raw one."""
    log_weights = spread * np.random.default_rng(2).standard_normal(40_000) - 300.0
    error = np.sqrt(np.expm1(spread**2) / len(log_weights))
    assert abs(smoothed_weights(log_weights).log_mean + 300.0 - spread**2 / 2) < 5 * error


def test_one_draw_does_not_make_the_mean():
    """A single draw, by chance where the proposal has next to nothing, may outweigh thousands of others."""
    log_weights = 0.2 * np.random.default_rng(4).standard_normal(40_000)
    odd = np.append(log_weights, np.log(0.12 * 40_000))
    usual = smoothed_weights(log_weights).log_mean
    assert logsumexp(odd) - np.log(len(odd)) > usual + 0.1
    assert abs(smoothed_weights(odd).log_mean - usual) < 0.02
