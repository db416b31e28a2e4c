"""Held-out blocks tell honest error bars from overconfident ones."""

import numpy as np
import pytest

from vsbq.calibration import overconfidence
from vsbq.numerics.kernel import Hyperparameters, kernel

LEVEL_SCALE = 1e-3  # so flat that every point counts as high density


def draw_function(rng, scale, n=600):
    """Points in a square and a function on them from a Gaussian process with that length scale and unit output."""
    points = rng.uniform(-3, 3, (n, 2))
    hyp = hyperparameters(scale)
    cov = kernel(points, points, hyp) + 1e-8 * np.eye(n)
    return points, np.linalg.cholesky(cov) @ rng.standard_normal(n)


def hyperparameters(scale, output=1.0):
    one = np.ones(2)
    return Hyperparameters(np.log(scale) * one, np.log(output), 0.0, 0.0 * one, np.log(1e3) * one)


def doubt(points, values, hyp, rng, noise=1e-6):
    regression = (points, values, np.full(len(values), noise))
    return overconfidence(hyp, points[::3].copy(), regression, LEVEL_SCALE * values, rng)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_the_right_hyperparameters_are_believed(rng):
    points, values = draw_function(rng, 1.0)
    assert doubt(points, values, hyperparameters(1.0), rng) < 1.5


def test_a_function_rougher_than_assumed_is_noticed(rng):
    points, values = draw_function(rng, 0.5)
    assert doubt(points, values, hyperparameters(2.0), rng) > 3


def test_an_output_scale_too_small_is_noticed(rng):
    points, values = draw_function(rng, 1.0)
    assert doubt(points, values, hyperparameters(1.0, output=0.2), rng) > 2


def test_a_function_calmer_than_assumed_gives_no_credit(rng):
    points, values = draw_function(rng, 1.0)
    assert doubt(points, 0.2 * values, hyperparameters(1.0), rng) == 1.0


def test_noise_is_not_taken_for_overconfidence(rng):
    points, values = draw_function(rng, 1.0)
    noisy = values + 2.0 * rng.standard_normal(len(values))
    assert doubt(points, noisy, hyperparameters(1.0), rng, noise=4.0) < 1.2


def test_too_few_evaluations_say_nothing(rng):
    points, values = draw_function(rng, 0.5, n=30)
    assert doubt(points, values, hyperparameters(2.0), rng) == 1.0
