"""What the surrogate is fitted to: noise, shaping, and how many inducing points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import cloud, normal, training_set, wavy

import reference
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.kernel import Hyperparameters
from vsbq.steps.surrogate.shaped_data import BESIDE, NUGGET, Learnt, ShapedData, Shaping, SparseGP


@pytest.fixture
def training(rng):
    points = cloud(rng, 50)
    return training_set(points, 3 * wavy(points), rng.uniform(0, 1, 50) * (rng.uniform(size=50) < 0.5))


def test_total_noise_is_that_of_the_evaluations_and_of_the_shaping(training):
    data, shape = ShapedData.shaped(training, SparseGP()), Shaping()
    below = training.level.max() - training.level
    curve = reference.shaping_sd(
        below, shape.threshold(training, training.level), shape.sd_min, shape.sd_med, shape.slope
    )
    observed = np.maximum(training.noise_sd**2, NUGGET)
    assert_allclose(data.noise(), observed + curve**2)
    assert_allclose(data.noise(np.log(3.0)), observed + 9 * curve**2)
    for got, wanted in zip(data.regression(np.log(3.0))[:3], (*data[:2], data.noise(np.log(3.0))), strict=True):
        assert_array_equal(got, wanted)


def test_the_threshold_of_shaping_is_deeper_where_few_noisy_evaluations_are_high(rng):
    depths = np.sort(rng.uniform(0, 200, 300))
    points = cloud(rng, 300)
    exact, shape = training_set(points, -depths), Shaping()
    noisy = replace(exact, noise_sd=np.ones(300))
    known = contour_depth(shape.depth, 2)
    assert shape.threshold(exact, exact.level) == known  # without noise the strength is learnt down to nothing
    sixtieth = depths[6 * shape.enough - 1] - depths[0]  # a quadratic of two parameters has six coefficients
    assert sixtieth > known
    assert_allclose(shape.threshold(noisy, noisy.level), sixtieth)
    many = replace(noisy, level=-depths / 100)
    assert shape.threshold(many, many.level) == known
    few = noisy.without(np.arange(300) >= 40, np.zeros(0, dtype=bool))
    assert_allclose(shape.threshold(few, few.level), depths[39] - depths[0])


def test_gradients_near_the_top_come_first_and_have_inducing_points_beside(rng):
    points = cloud(rng, 30)
    known = np.arange(30)[:, None] % 2 > 0
    sloped = replace(training_set(points, normal(points)), gradients=np.where(known, -points, np.nan))
    data, hyp = ShapedData.shaped(sloped, SparseGP()), Hyperparameters.unpack(reference.random_theta(rng, 2))
    fewer = data.fewer_gradients(6)
    kept = np.isfinite(fewer.gradients).all(axis=1)
    assert kept.sum() == 6
    assert normal(points)[kept].min() > normal(points)[known[:, 0] & ~kept].max()
    inducing, owner = fewer.candidates(hyp)
    assert len(inducing) == len(owner) == fewer.most_inducing == 30 + 12
    assert_array_equal(inducing[:30], points)
    off = np.abs(inducing - points[owner])[30:] / np.exp(hyp.log_scales)
    assert_allclose(np.sort(off, axis=1), np.tile([0.0, BESIDE], (12, 1)), atol=1e-12)
    assert_allclose(off.sum(axis=0), 6 * BESIDE)  # each axis alike
    assert set(owner[30:]) == set(np.flatnonzero(kept))
    turned = data.turned(np.array([[1.0, 0.0], [0.5, 1.0]]))
    assert_allclose((turned.gradients * turned.points).sum(axis=1), (data.gradients * points).sum(axis=1))


def test_levels_say_how_low_an_evaluation_is(training):
    """Not its own noisy value, unless that is asked for."""
    lucky = replace(training, values=training.values + np.linspace(0, 40, 50))
    assert_array_equal(ShapedData.shaped(lucky, SparseGP()).shaping, ShapedData.shaped(training, SparseGP()).shaping)
    by_value = ShapedData.curved(lucky, lucky.values, Shaping())
    assert (by_value.shaping != ShapedData.shaped(training, SparseGP()).shaping).any()
    assert_array_equal(by_value.values, lucky.values)


def test_lower_evaluations_count_less(training):
    order = np.argsort(-training.level)
    assert (np.diff(ShapedData.shaped(training, SparseGP()).shaping[order]) >= 0).all()


def test_a_constant_does_not_matter(training):
    moved = replace(training, values=training.values + 64.0, level=training.level + 64.0)
    assert_allclose(ShapedData.shaped(moved, SparseGP()).noise(), ShapedData.shaped(training, SparseGP()).noise())


def test_rows_can_be_taken(training):
    data, rows = ShapedData.shaped(training, SparseGP()), np.array([3, 1, 4, 1])
    assert data.gradients is data.take(rows).gradients is data.beside is None
    for part, whole in zip(data.take(rows)[:4], data[:4], strict=True):
        assert_array_equal(part, whole[rows])


def test_raised_evaluations_are_at_least_that_high_and_count_as_those_at_the_threshold(training):
    data, rows = ShapedData.shaped(training, SparseGP()), np.arange(50) < 20
    raised = data.raised(rows, -2.0, Shaping(sd_med=0.5))
    assert_array_equal(raised.values, np.where(rows, np.maximum(data.values, -2.0), data.values))
    assert_array_equal(raised.shaping, np.where(rows, 0.25, data.shaping))
    assert_array_equal(raised.observed, data.observed)
    assert (data.values[rows] < -2.0).any()


def test_low_evaluations_lose_weight_only_where_they_are_noisy():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    values = np.array([0.0, -contour_depth(3.0, 2), -2 * contour_depth(3.0, 2), -50.0])
    training = training_set(points, values, [2.0, 2.0, 2.0, 0.0])
    data = ShapedData.shaped(training, SparseGP())
    assert_allclose(data.observed, [4.0, 4.0, 4.0, 1e-5])
    assert_allclose(data.tempered(training, 1.0).observed, [4.0, 8.0, 20.0, 1e-5])
    assert_allclose(data.tempered(training, 0.0).observed, data.observed)
    assert_allclose(data.tempered(training, 1.0).shaping, data.shaping)


# What is learnt


def test_what_is_learnt_can_be_packed(rng):
    for shear in ([], [0.3, -0.4, 2.0]):
        theta = np.concatenate([reference.random_theta(rng, 3), [0.7], shear])
        learnt = Learnt.unpack(theta, 3)
        assert_array_equal(learnt.pack(), theta)
        assert learnt.strength == pytest.approx(np.exp(0.7))
        assert_array_equal(learnt.shear, shear)
        assert len(learnt.hyp.log_scales) == 3


def test_coordinates_take_up_those_before_them(rng):
    learnt = Learnt.unpack(np.concatenate([reference.random_theta(rng, 3), [0.7, 0.3, -0.4, 2.0]]), 3)
    assert_array_equal(learnt.coordinates, [[1, 0, 0], [0.3, 1, 0], [-0.4, 2.0, 1]])
    assert_array_equal(learnt._replace(shear=np.zeros(0)).coordinates, np.eye(3))
    x, y, z = learnt.hyp.mean_location
    assert_allclose(learnt.turned_hyp.mean_location, [x, y + 0.3 * x, z - 0.4 * x + 2 * y])
    assert_array_equal(learnt.turned_hyp.log_scales, learnt.hyp.log_scales)


def test_at_home_nothing_is_left_to_turn(rng):
    learnt = Learnt.unpack(np.concatenate([reference.random_theta(rng, 2), [0.7, 0.3]]), 2)
    home = learnt.at_home()
    assert_array_equal(home.coordinates, np.eye(2))
    assert_array_equal(home.turned_hyp.pack(), learnt.turned_hyp.pack())
    assert_array_equal(home.at_home().pack(), home.pack())
    assert len(home.pack()) == len(learnt.pack())


def test_turned_data_are_the_same_but_for_their_points(training, rng):
    data, by = ShapedData.shaped(training, SparseGP()), rng.normal(size=(2, 2))
    turned = data.turned(by)
    assert_allclose(turned.points, [by @ row for row in data.points])
    for one, other in zip(turned[1:], data[1:], strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("per_dimension", "most_per_dimension", "most", "d", "wanted"),
    [(150, 200, 1500, 2, (300, 400)), (150, 200, 1500, 20, (1500, 1500)), (150, 100, 1500, 2, (300, 300))],
)
def test_inducing_points_never_get_fewer(per_dimension, most_per_dimension, most, d, wanted):
    settings = SparseGP(
        inducing_per_dimension=per_dimension, max_inducing_per_dimension=most_per_dimension, max_inducing=most
    )
    assert (settings.first_inducing(d), settings.last_inducing(d)) == wanted
