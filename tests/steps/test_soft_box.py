"""The soft limits of the mixture."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from vsbq.numerics.mixture import Mixture
from vsbq.steps.mixture.soft_box import SoftBox


@pytest.fixture(params=[1, 3], ids=lambda d: f"d{d}")
def mixture(request, rng):
    return Mixture(*reference.random_mixture(rng, 4, request.param))


@pytest.fixture
def tight(mixture):
    """A box that some means and some scales are outside of."""
    d = mixture.means.shape[1]
    return SoftBox(np.quantile(mixture.means, 0.3, axis=0), np.quantile(mixture.means, 0.3, axis=0) + np.full(d, 0.5))


@pytest.fixture
def wide(mixture):
    d = mixture.means.shape[1]
    return SoftBox(np.full(d, -20.0), np.full(d, 20.0))


def test_box_is_that_of_the_points(rng):
    points = rng.normal(size=(30, 3))
    box = SoftBox.around(points)
    assert_allclose(box.lower, points.min(axis=0))
    assert_allclose(box.upper, points.max(axis=0))


def test_the_box_may_go_beyond_the_points():
    box = SoftBox.around(np.array([[0.0, -1.0], [4.0, 1.0]]), 0.5)
    assert_allclose(box, [[-2.0, -2.0], [6.0, 2.0]])


def test_there_is_no_penalty_inside(mixture, wide):
    value, gradient = wide.penalty_and_gradient(mixture)
    assert value == 0.0
    for part in gradient:
        assert_allclose(part, 0.0)


def test_penalty_and_its_gradient(mixture, tight):
    value, gradient = tight.penalty_and_gradient(mixture)
    assert value > 0
    assert value == pytest.approx(reference.soft_penalty(mixture.means, mixture.trils, *tight), rel=1e-10)
    to_means, to_trils = reference.gradient(
        lambda m, t: reference.soft_penalty(m, t, *tight), mixture.means, mixture.trils
    )
    assert reference.relative_error(gradient.means, to_means) < 1e-6
    assert reference.relative_error(gradient.trils, to_trils) < 1e-6
    assert_allclose(gradient.weights, 0.0)


@pytest.mark.parametrize(
    ("mean", "sd", "wanted"),
    [
        (0.0, 1.0, 0.0),
        (5.1, 1.0, 0.5),  # outside by 0.1, that is by τ times the width
        (-5.2, 1.0, 2.0),
        (0.0, 10.0 * 1e6**0.01, 0.5),
        (0.0, 1e-5 * 1e6**-0.03, 4.5),
    ],
)
def test_penalty_by_hand(mean, sd, wanted):
    """A box from −5 to 5: means within it, standard deviations from 1e-5 to 10."""
    mixture = Mixture(np.zeros(1), np.array([[mean]]), np.array([[[sd]]]))
    value, _ = SoftBox(np.array([-5.0]), np.array([5.0])).penalty_and_gradient(mixture)
    assert value == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_scales_are_those_of_the_marginals():
    """A component that is wide only because of a correlation is wide all the same."""
    tril = np.array([[1.0, 0.0], [30.0, 1e-3]])
    box = SoftBox(np.array([-5.0, -5.0]), np.array([5.0, 5.0]))
    assert box.penalty_and_gradient(Mixture(np.zeros(1), np.zeros((1, 2)), tril[None]))[0] > 0
