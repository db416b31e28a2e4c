"""Hyperparameters: priors that hold for any evaluations, and learning that never makes things worse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import QUIET, cloud, normal, training_set, wavy

import reference
import vsbq.steps.surrogate.learning as learning_module
from vsbq.numerics import exact, sgpr
from vsbq.numerics.contours import POSTERIOR, contour_depth
from vsbq.numerics.inducing import greedy_inducing
from vsbq.numerics.kernel import mean
from vsbq.steps.surrogate.learning import (
    MOST_SHEAR,
    Learning,
    _objective,
    better_rows,
    bound_at,
    learn_sparse,
    weak_prior,
)
from vsbq.steps.surrogate.shaped_data import Learnt, Level, ShapedData, Shaping, SparseGP

GP = SparseGP()


def shaped(points, values, noise_sd=None):
    return ShapedData.shaped(training_set(points, values, noise_sd), GP)


def prior_of(points, values, noise_sd=None, seed=0, *, turn=False):
    return weak_prior(shaped(points, values, noise_sd), values, GP, np.random.default_rng(seed), turn=turn)


# The better points


def test_the_better_rows_are_within_the_contour(rng):
    points = cloud(rng, 2000)
    rows = better_rows(points, normal(points), POSTERIOR, rng)
    assert len(np.unique(rows)) == len(rows) <= 140
    assert (normal(points[rows]) >= normal(points).max() - contour_depth(POSTERIOR, 2)).all()


def test_at_least_ten_for_each_dimension(rng):
    points = 50 * cloud(rng, 200)
    rows = better_rows(points, normal(points), POSTERIOR, rng)
    assert (normal(points) > normal(points).max() - contour_depth(POSTERIOR, 2)).sum() < 20
    assert_array_equal(np.sort(rows), np.sort(np.argsort(-normal(points))[:20]))


def test_a_crowd_at_the_mode_does_not_hide_how_wide_the_rest_is(rng):
    """As an optimiser leaves its evaluations."""
    points = np.concatenate([1e-3 * rng.standard_normal((3000, 2)), cloud(rng, 300, spread=1.0)])
    rows = better_rows(points, normal(points), POSTERIOR, rng)
    assert points[rows].std() > 2 * points.std()
    assert points[rows].std() == pytest.approx(1.0, abs=0.3)


# The prior


DEGENERATE = {
    "as usual": lambda x, y: (x, y),
    "all at one coordinate": lambda x, y: (x * [1.0, 0.0] + [0.0, 3.0], y),
    "one value": lambda x, y: (x, 0 * y),
    "one value, one coordinate": lambda x, y: (x * [0.0, 1.0], 0 * y),
    "three points": lambda x, y: (x[:3], y[:3]),
    "far away": lambda x, y: (x + 1e6, y),
    "huge range": lambda x, y: (1e8 * x, y),
    "tiny range": lambda x, y: (1e-8 * x, y),
    "a spike": lambda x, y: (x, y - 190.0 * (np.arange(len(y)) > 0)),
    "a valley": lambda x, y: (x, -y),
    "on a line": lambda x, y: (x[:, :1] * [1.0, 1.0], y),
}


@pytest.mark.parametrize("turn", [False, True], ids=["straight", "turned"])
@pytest.mark.parametrize("noise", [0.0, 1e3])
@pytest.mark.parametrize("name", DEGENERATE)
def test_limits_are_ordered_whatever_the_evaluations_are(name, noise, turn, rng):
    points = cloud(rng, 60)
    points, values = DEGENERATE[name](points, wavy(points))
    prior = prior_of(points, values, noise, turn=turn).packed
    for part in prior:
        assert np.isfinite(part).all()
    assert (prior.lower <= prior.upper).all()
    assert (np.delete(prior.lower < prior.upper, 8)).all()  # the shaping strength may be fixed
    assert (prior.sd > 0).all()
    start = prior_of(points, values, noise, turn=turn).start.pack()
    assert len(start) == 9 + turn
    assert (start >= prior.lower).all()
    assert (start <= prior.upper).all()


def test_a_quadratic_is_where_learning_starts(rng):
    points = cloud(rng, 300)
    values = 3.0 - 0.5 * (((points - [0.4, -0.2]) / [0.8, 1.5]) ** 2).sum(axis=1)
    start = prior_of(points, values).start.hyp
    assert_allclose(start.mean_location, [0.4, -0.2], atol=0.01)
    assert_allclose(np.exp(start.mean_log_widths), [0.8, 1.5], rtol=0.01)
    assert_allclose(mean(points, start), values, atol=0.02)
    assert np.exp(start.log_output) >= 0.1  # and there is a kernel all the same


def test_units_move_the_prior_and_change_nothing_else(rng):
    points, unit = cloud(rng, 300), np.array([100.0, 0.01])
    one, other = prior_of(points, wavy(points)), prior_of(unit * points, wavy(points))
    assert_allclose(other.start.hyp.log_scales, one.start.hyp.log_scales + np.log(unit), atol=1e-6)
    assert_allclose(other.start.hyp.mean_location, unit * one.start.hyp.mean_location, rtol=1e-4)
    assert other.start.hyp.log_output == pytest.approx(one.start.hyp.log_output, abs=1e-6)


def test_a_constant_moves_the_top_and_nothing_else(rng):
    points = cloud(rng, 100)
    one, other = prior_of(points, wavy(points)).packed, prior_of(points, wavy(points) - 64.0).packed
    moved = np.zeros(9)
    moved[3] = -64.0  # two scales, the output, the top
    for a, b in ((one.mean, other.mean), (one.lower, other.lower), (one.upper, other.upper)):
        assert_allclose(b - a, moved, atol=1e-7)
    assert_allclose(one.sd, other.sd, rtol=1e-7)


@pytest.mark.parametrize(
    ("strengths", "exact", "noise", "wanted"),
    [
        ((0.1, 10.0), 0.001, 1.0, (0.1, 10.0)),
        ((0.1, 10.0), 0.001, 0.0, (0.001, 10.0)),
        ((1.0, 1.0), 1.0, 0.0, (1.0, 1.0)),
        ((0.1, 10.0), 1.0, 0.0, (0.1, 10.0)),
    ],
)
def test_the_shaping_strength_stays_within_its_limits(strengths, exact, noise, wanted, rng):
    """Of which the lower one is lower where no noise hides a misfit."""
    points = cloud(rng, 60)
    gp = replace(GP, shaping=Shaping(strengths=strengths, exact_strength=exact))
    data = ShapedData.shaped(training_set(points, wavy(points), noise), gp)
    prior = weak_prior(data, wavy(points), gp, rng).packed
    assert_allclose(np.exp([prior.lower[-1], prior.upper[-1]]), wanted)


def test_the_kernel_cannot_vanish_where_noise_may_hide_it(rng):
    points = cloud(rng, 100)
    least = [np.exp(prior_of(points, normal(points), noise).packed.lower[2]) for noise in (0.0, 1.0, 1e6)]
    assert least[0] == pytest.approx(1e-3)
    assert least[1] == pytest.approx(0.25)
    assert least[2] <= np.ptp(normal(points)) + 1.001


def test_a_coordinate_follows_another_in_units_of_their_spread(rng):
    points, unit = cloud(rng, 300, d=3), np.array([100.0, 1.0, 0.01])
    one, other = (prior_of(x, wavy(points), turn=True).packed for x in (points, unit * points))
    assert_allclose(one.mean[12:], 0.0)
    assert_allclose(one.sd[12:], 1.0, rtol=0.3)
    assert_allclose(one.upper[12:], MOST_SHEAR * one.sd[12:])
    assert_allclose(one.lower[12:], -MOST_SHEAR * one.sd[12:])
    # Rows of what is below the diagonal: (1, 0), (2, 0), (2, 1).
    assert_allclose(other.sd[12:], one.sd[12:] * [1e-2, 1e-4, 1e-2], rtol=1e-6)


# The objective


BOUNDS = {
    "sparse": lambda: bound_at(np.arange(0, 60, 4), sgpr.Workspace(15 * 60)),
    "exact": lambda: exact.evidence_and_gradient,
    "sloped": lambda: bound_at(np.arange(0, 72, 4), sgpr.Workspace(1)),
}


@pytest.fixture
def somewhere(rng):
    """Evaluations, and numbers to learn that are not where learning starts."""
    points = cloud(rng, 60, d=3)
    data = shaped(points, wavy(points) + 0.3 * rng.standard_normal(60), 0.3)
    theta = prior_of(points, wavy(points), 0.3, turn=True).start.pack() + 0.2 * rng.standard_normal(15)
    return data, theta


def sloped(data):
    """The same with gradients at two points of three, and candidates beside some points."""
    known = np.arange(60)[:, None] % 3 > 0
    return data._replace(gradients=np.where(known, -data.points, np.nan), beside=data.points[:12] + 0.3)


@pytest.mark.parametrize("bound", BOUNDS)
def test_gradient_by_everything_that_is_learnt(bound, somewhere):
    data, theta = somewhere
    data = sloped(data) if bound == "sloped" else data
    objective, step = _objective(BOUNDS[bound](), data, 3), 1e-5
    wanted = [(objective(theta + e)[0] - objective(theta - e)[0]) / (2 * step) for e in step * np.eye(len(theta))]
    got, nearby = objective(theta)[1], objective(theta + 1e-4)[1]
    assert len(got) == len(theta) == 15
    for part in (slice(0, 3), slice(3, 5), slice(5, 8), slice(8, 11), slice(11, 12), slice(12, 15)):
        assert reference.relative_error(got[part], wanted[part]) < 1e-6
    assert reference.relative_error(nearby[12:], wanted[12:]) > 1e-6  # negative control: the check can fail


@pytest.mark.parametrize("bound", BOUNDS)
def test_turned_coordinates_are_those_of_points_turned_by_hand(bound, somewhere):
    data, theta = somewhere
    learnt = Learnt.unpack(theta, 3)
    b = learnt.coordinates
    turned = data._replace(points=data.points @ b.T)
    if bound == "sloped":
        data = sloped(data)
        slopes = data.gradients @ np.linalg.inv(b)
        turned = turned._replace(gradients=slopes, beside=data.beside @ b.T)
    there = learnt.hyp._replace(mean_location=b @ learnt.hyp.mean_location)
    straight = np.concatenate([there.pack(), [learnt.log_strength]])
    value, _ = _objective(BOUNDS[bound](), data, 3)(theta)
    assert value == pytest.approx(_objective(BOUNDS[bound](), turned, 3)(straight)[0], rel=1e-9)
    assert abs(value - _objective(BOUNDS[bound](), data, 3)(theta[:12])[0]) > 0.1  # else it says little


# The learning set


def test_a_level_counts_inducing_points_per_dimension(rng):
    data = shaped(points := cloud(rng, 100), wavy(points))
    found = Learning.at(Level(500, 15, 7, 2), data)
    assert found.data is data
    assert (found.inducing, found.steps, found.rounds) == (30, 7, 2)


def test_no_more_inducing_points_than_evaluations_to_learn_from(rng):
    data = shaped(points := cloud(rng, 12), wavy(points))
    assert Learning.at(Level(500, 15, 7, 2), data).inducing == 12


# Learning


def value_at(learning, prior, learnt):
    """The bound times the prior at what is learnt, with greedy inducing points there."""
    data, count, *_ = learning
    rows = greedy_inducing(learnt.hyp, data.points, data.noise(learnt.log_strength), count)
    bound = bound_at(rows, sgpr.Workspace(count * len(data.points)))
    return prior.maximise(bound, data, learnt, 0, 1.0).value


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_learning_never_ends_below_its_start(noise, rng):
    points = cloud(rng, 200)
    values = wavy(points) + noise * rng.standard_normal(200)
    learning, prior = Learning(shaped(points, values, noise), 25), prior_of(points, values, noise)
    for start in (prior.start, prior.start._replace(hyp=prior.start.hyp._replace(log_output=3.0))):
        found = learn_sparse(learning, prior, start, QUIET)
        assert found.bounds[0] >= value_at(learning, prior, start)
        assert found.bounds[0] > value_at(learning, prior, start)  # there was something to learn


def test_what_was_learnt_is_that_of_the_best_round(rng, monkeypatch):
    """Inducing points are chosen anew in every round, and a later round may be worse."""
    monkeypatch.setattr(learning_module, "LEAST_ROUND", -np.inf)
    for _ in range(3):
        points = cloud(rng, 80)
        learning, prior = Learning(shaped(points, wavy(points)), 15), prior_of(points, wavy(points))
        found = learn_sparse(learning, prior, prior.start, QUIET)
        best = int(np.argmax(found.bounds)) + 1
        again = learn_sparse(learning._replace(rounds=best), prior, prior.start, QUIET)
        assert len(found.bounds) == learning.rounds
        assert again.bounds == found.bounds[:best]
        assert_array_equal(again.learnt.pack(), found.learnt.pack())


@pytest.mark.parametrize("turn", [False, True], ids=["straight", "turned"])
def test_what_was_learnt_is_within_the_limits(turn, rng):
    data, prior = shaped(points := cloud(rng, 150), wavy(points)), prior_of(points, wavy(points), turn=turn)
    theta = learn_sparse(Learning(data, 20), prior, prior.start, QUIET).learnt.pack()
    assert (theta >= prior.packed.lower - 1e-9).all()
    assert (theta <= prior.packed.upper + 1e-9).all()


@pytest.mark.parametrize(("rounds", "gain", "wanted"), [(1, 1.0, 1), (3, np.inf, 2), (3, -np.inf, 3)])
def test_rounds_end_when_they_bring_nothing(rounds, gain, wanted, rng, monkeypatch):
    data, prior = shaped(points := cloud(rng, 80), wavy(points)), prior_of(points, wavy(points))
    monkeypatch.setattr(learning_module, "LEAST_ROUND", gain)
    learning = Learning(data, 10, rounds=rounds)
    assert len(learn_sparse(learning, prior, prior.start, QUIET).bounds) == wanted


def test_a_round_takes_no_more_steps_than_its_level_allows(rng):
    data, prior = shaped(points := cloud(rng, 80), wavy(points)), prior_of(points, wavy(points))
    short, long = (
        learn_sparse(Learning(data, 10, steps, 1), prior, prior.start, QUIET).bounds[0] for steps in (2, 100)
    )
    assert long > short + 1


def test_more_inducing_points_give_a_higher_bound(rng):
    data, prior = shaped(points := cloud(rng, 150), wavy(points)), prior_of(points, wavy(points))
    few, many = (max(learn_sparse(Learning(data, m), prior, prior.start, QUIET).bounds) for m in (5, 40))
    assert many > few + 10


def test_coordinates_are_learnt_where_they_explain_more(rng):
    """Waves along a slanted direction: with it as a coordinate, one length scale is short and the other is long."""
    points = cloud(rng, 250)
    values = normal(points) + np.sin(3 * (points[:, 1] - 0.8 * points[:, 0]))
    found = {}
    for turn in (False, True):
        prior = prior_of(points, values, turn=turn)
        found[turn] = learn_sparse(Learning(shaped(points, values), 60), prior, prior.start, QUIET)
    assert found[True].learnt.shear == pytest.approx([-0.8], abs=0.05)
    assert max(found[True].bounds) > max(found[False].bounds) + 10
