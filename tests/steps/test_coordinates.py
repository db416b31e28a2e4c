"""Plain or whitened coordinates: how they are made, and that held-out evaluations decide."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import QUIET, cloud, normal, training_set, wavy

from vsbq.data.transform import InferenceSpace, WhitenedSpace
from vsbq.numerics import exact
from vsbq.steps.surrogate.coordinates import COORDINATE_GAIN, Contest, first_attempt, prepared, whitening
from vsbq.steps.surrogate.learning import better_rows
from vsbq.steps.surrogate.shaped_data import ShapedData, SparseGP

GP = SparseGP(trial_points_per_dimension=150, trial_inducing_per_dimension=20, rounds=2)

#: Of a narrow ridge along the diagonal.
SLANT = np.array([[1.0, 0.9], [0.0, 0.3]])


def ridge(n, rng, noise=0.0):
    """Along the diagonal, with a wave along and across it that no quadratic is."""
    straight = cloud(rng, n)
    values = normal(straight) + 0.5 * np.sin(2 * straight).sum(axis=1)
    return training_set(straight @ SLANT, values + noise * rng.standard_normal(n), noise)


def straight(n, rng, noise=0.0):
    points = cloud(rng, n)
    return training_set(points, wavy(points) + noise * rng.standard_normal(n), noise)


def stripes(n, rng, noise=0.0):
    """Points along the diagonal, but a wave along one axis: turned coordinates would mix it with the calm one."""
    points = cloud(rng, n) @ np.array([[1.0, 0.7], [0.0, 0.7]])
    values = -0.1 * (points**2).sum(axis=1) + np.sin(4 * points[:, 0])
    return training_set(points, values + noise * rng.standard_normal(n), noise)


# Whitening


def test_whitened_points_are_white():
    training = ridge(800, np.random.default_rng(0))
    turn = whitening(training, np.random.default_rng(1))
    rows = better_rows(training.points, training.level, 3.0, np.random.default_rng(1))
    assert_allclose(np.cov((training.points[rows] @ turn.T).T), np.eye(2), atol=1e-9)
    assert abs(np.corrcoef(training.points[rows].T)[0, 1]) > 0.8


def test_axes_are_turned_no_more_than_needed(rng):
    """The symmetric root: what is white already stays."""
    points = cloud(rng, 60)
    points -= points.mean(axis=0)
    points = np.linalg.solve(np.linalg.cholesky(np.cov(points.T)), points.T).T
    turn = whitening(training_set(points, 1e-6 * normal(points)), rng)
    assert_allclose(turn, np.eye(2), atol=1e-9)
    slanted = whitening(ridge(300, rng), rng)
    assert_allclose(slanted, slanted.T, atol=1e-9)
    assert np.linalg.eigvalsh(slanted).min() > 0


def test_points_on_a_line_can_be_whitened(rng):
    points = cloud(rng, 50)[:, :1] * [1.0, 2.0]
    turn = whitening(training_set(points, normal(points)), rng)
    assert np.isfinite(turn).all()
    assert np.linalg.matrix_rank(turn, tol=1e-12) == 2


# The first attempt


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_coordinates_are_turned_where_that_helps_and_not_where_it_hurts(noise, rng):
    turned = first_attempt(ridge(300, rng, noise), GP, rng, QUIET)
    assert isinstance(turned.training.space, WhitenedSpace)
    plain = first_attempt(stripes(300, rng, noise), GP, rng, QUIET)
    assert isinstance(plain.training.space, InferenceSpace)


def test_turned_coordinates_are_the_same_density(rng):
    training = ridge(300, rng)
    turned = first_attempt(training, GP, rng, QUIET).training
    assert_allclose(turned.space.inverse(turned.points), training.points, atol=1e-9)
    density = turned.values - turned.space.log_jacobian(turned.points)
    assert_allclose(density, training.values - training.space.log_jacobian(training.points), atol=1e-9)


def test_nothing_is_contested_where_there_is_no_choice(rng):
    points = cloud(rng, 80, d=1)
    for training, settings in ((training_set(points, wavy(points)), GP), (ridge(80, rng), replace(GP, whiten=False))):
        found = first_attempt(training, settings, rng, QUIET)
        assert found.training is training
        assert found.score == -np.inf


# The contest


@pytest.fixture
def entered(rng):
    """The same evaluations of a slanted ridge in plain and in whitened coordinates."""
    training = ridge(400, rng)
    rows = np.arange(300)
    plain = prepared(training, rows, GP, rng)
    contest = Contest.on(plain, GP, rng)
    turned = prepared(training.whitened(whitening(training, rng)), rows, GP, rng)
    return contest, plain, contest.enter(plain, QUIET), contest.enter(turned, QUIET)


def test_the_better_coordinates_score_higher(entered):
    _, _, plain, turned = entered
    assert turned.score > plain.score + COORDINATE_GAIN


def test_all_who_enter_predict_the_same_blocks(entered):
    contest, first, plain, _ = entered
    assert len(contest.rows) == len(contest.noise) == len(np.unique(contest.rows)) <= 300
    held = np.concatenate([block.held for block in contest.blocks])
    assert len(np.unique(held)) == len(held) > 0
    assert held.max() < len(contest.rows)
    assert contest.enter(first, QUIET).score == plain.score


def test_an_attempt_takes_the_noise_off_the_levels(rng):
    training = straight(400, rng, noise=1.0)
    truth = wavy(training.points)
    contest = Contest.on(prepared(training, np.arange(300), GP, rng), GP, rng)
    found = contest.enter(prepared(training, np.arange(300), GP, rng), QUIET).training
    high = truth > -5
    assert np.std((found.level - truth)[high]) < 0.5 * np.std((training.level - truth)[high])
    assert_array_equal(found.values, training.values)


# Preparation


def test_exact_evaluations_are_left_as_they_are(rng):
    training = straight(100, rng)
    found = prepared(training, np.arange(100), GP, rng)
    assert found.training is training
    assert_array_equal(found.learnt.pack(), found.prior.start.pack())


def test_an_exact_gp_learns_from_the_subset(rng):
    training = straight(150, rng)
    rows = np.arange(0, 150, 2)
    found = prepared(training, rows, GP, rng, learn=True)
    data = ShapedData.shaped(training, GP).take(rows)
    before, after = (
        found.prior.maximise(exact.evidence_and_gradient, data, learnt, 0, 1.0).value
        for learnt in (found.prior.start, found.learnt)
    )
    assert after > before + 1.0


def test_noise_can_be_shaped_by_the_values_themselves(rng):
    """As published; it is the same as long as the levels are the values."""
    training = straight(100, rng)
    sunk = replace(training, level=training.level - 100.0 * (training.points[:, 0] > 0))

    def learnt(case, by_value):
        return prepared(case, np.arange(100), GP, np.random.default_rng(0), learn=True, by_value=by_value).learnt.pack()

    assert_array_equal(learnt(training, True), learnt(training, False))
    assert np.abs(learnt(sunk, True) - learnt(sunk, False)).max() > 0.01
