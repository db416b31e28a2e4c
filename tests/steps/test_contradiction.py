"""Low evaluations that a surrogate contradicts, and what they do then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from toy import cloud, normal, training_set

from vsbq.numerics.contours import POSTERIOR, contour_depth
from vsbq.steps.surrogate.contradiction import correct
from vsbq.steps.surrogate.shaped_data import ShapedData, SparseGP


def flat(height):
    """A surrogate that is as high everywhere."""
    return lambda u: np.full(len(u), height)


def high_beyond(edge, axis=0):
    """A surrogate that sees the posterior beyond an edge, and nothing else."""
    return lambda u: np.where(u[:, axis] > edge, 0.0, -50.0)


def nobody(training):
    return np.zeros(len(training), dtype=bool)


def test_low_evaluations_that_are_contradicted_get_a_say():
    depth = contour_depth(5.0, 2)
    points = np.arange(10.0).reshape(5, 2)
    values = np.array([0.0, -40.0, -40.0, -depth + 0.1, -40.0])
    guards = np.array([[20.0, 21.0], [22.0, 23.0]])
    training = training_set(points, values, [0.0, 0.0, 0.0, 0.0, 10.0], guards=guards)
    seen = dict(
        zip([*points[:, 0], 20.0, 22.0], [0.0, -1.0, -contour_depth(3.0, 2) - 0.1, -1.0, -1.0, -1.0, -9.0], strict=True)
    )
    none = np.zeros(5, dtype=bool)
    # Low and seen high; low but seen low; not low; within three standard deviations of high; then the guards.
    found = correct(training, none, lambda u: np.array([seen[x] for x in u[:, 0]]), SparseGP())
    assert found.overruled.tolist() == [False, True, False, False, False, True]
    assert not found.in_vain
    again = correct(found.training, found.overruled, lambda u: np.array([seen[x] for x in u[:, 0]]), SparseGP())
    assert again.in_vain
    assert_allclose(found.data.values, [0.0, -depth, -40.0, -depth + 0.1, -40.0, -depth])
    assert_allclose(found.training.points, np.vstack([points, guards[:1]]))
    assert_allclose(found.training.guards, guards[1:])
    before = ShapedData.shaped(training, SparseGP())
    assert_allclose(found.data.shaping[[1, 5]], 1.0)
    assert (found.data.shaping[[0, 2, 3, 4]] == before.shaping[[0, 2, 3, 4]]).all()
    assert (found.data.observed[:5] == before.observed).all()
    assert correct(training, none, lambda u: np.full(len(u), -50.0), SparseGP()) is None


def test_a_surrogate_that_is_right_contradicts_nobody(rng):
    points = cloud(rng, 200, spread=3.0)
    training = training_set(points, normal(points), guards=cloud(rng, 20) + 40.0)
    assert correct(training, nobody(training), normal, SparseGP()) is None
    assert correct(training, nobody(training), flat(-contour_depth(POSTERIOR, 2) - 1.0), SparseGP()) is None


def test_only_what_is_negligible_can_be_contradicted(rng):
    """A surrogate that is too high everywhere: those that matter have their own say already."""
    points = cloud(rng, 200, spread=3.0)
    training = training_set(points, normal(points))
    found = correct(training, nobody(training), flat(0.0), SparseGP())
    height = training.level.max() - contour_depth(SparseGP().shaping.depth, 2)
    assert_array_equal(found.overruled, training.values <= height)
    assert 0 < found.overruled.sum() < 200
    assert (found.data.values >= height)[found.overruled].all()
    assert found.training is training


def test_once_overruled_is_overruled_for_good(rng):
    points = cloud(rng, 200, spread=3.0)
    training = training_set(points, normal(points))
    first = correct(training, nobody(training), flat(0.0), SparseGP())
    again = correct(training, first.overruled, high_beyond(0.0), SparseGP())
    assert_array_equal(again.overruled, first.overruled)
    assert again.in_vain
    last_two = np.sort(points[first.overruled, 0])[-3]
    assert not correct(training, first.overruled, high_beyond(last_two), SparseGP()).in_vain


def test_a_noisy_evaluation_may_be_higher_than_it_looks(rng):
    points = cloud(rng, 50)
    low = training_set(points, np.where(np.arange(50) < 10, -40.0, 0.0))
    assert correct(low, nobody(low), flat(0.0), SparseGP()).overruled.sum() == 10
    noisy = replace(low, noise_sd=np.full(50, 20.0))
    assert correct(noisy, nobody(noisy), flat(0.0), SparseGP()) is None


def test_guards_join_one_by_one(rng):
    points, guards = cloud(rng, 50), cloud(rng, 30) + 4.0
    training = training_set(points, normal(points), guards=guards)
    found = correct(training, nobody(training), high_beyond(4.0), SparseGP())
    joined = guards[:, 0] > 4.0
    assert 0 < joined.sum() < 30
    assert_array_equal(found.training.points, np.vstack([points, guards[joined]]))
    assert_array_equal(found.training.guards, guards[~joined])
    assert len(found.overruled) == len(found.data.points) == 50 + joined.sum()
    assert found.overruled[50:].all()


def test_the_order_of_rows_does_not_matter(rng):
    points = cloud(rng, 100, spread=3.0)
    rows = rng.permutation(100)
    one, other = (training_set(points[r], normal(points[r])) for r in (np.arange(100), rows))
    first, second = (correct(case, nobody(case), high_beyond(0.0, axis=1), SparseGP()) for case in (one, other))
    assert_array_equal(second.overruled, first.overruled[rows])
    assert_allclose(second.data.noise(), first.data.noise()[rows])
