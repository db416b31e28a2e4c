"""Where the surrogate is believed, and that nothing leaves from there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from toy import Known, cloud, normal, one_normal, training_set

import reference
from vsbq.numerics.em import effective_size
from vsbq.steps.region import MOST_LEAK, MOST_RISE, TrustedRegion


def region(mean=normal, variance=lambda u: np.zeros(len(u)), **options):
    """A box of ±2 in the plane."""
    limits = {"most_variance": 1.0, "most_mean": 1.0} | options
    return TrustedRegion(Known(mean, variance), np.full(2, -2.0), np.full(2, 2.0), **limits)


# How far it reaches


def test_the_box_is_that_of_the_evaluations(rng):
    points = cloud(rng, 300)
    found = TrustedRegion.around(Known(normal), training_set(points, normal(points)))
    assert_array_equal(found.lower, points.min(axis=0))
    assert_array_equal(found.upper, points.max(axis=0))


@pytest.mark.parametrize(("sd", "slack"), [(0.0, 1.0), (0.1, 1.3), (2.0, 7.0)])
def test_doubt_near_the_top_says_how_much_doubt_is_usual(sd, slack, rng):
    points = cloud(rng, 300)
    training = training_set(points, normal(points))
    found = TrustedRegion.around(Known(normal, lambda u: np.full(len(u), sd**2)), training)
    assert found.most_variance == pytest.approx(slack**2)
    assert found.most_mean == pytest.approx(training.level.max() + slack)


def test_doubt_far_from_the_top_does_not_count(rng):
    points = cloud(rng, 3000)
    low = normal(points) < np.sort(normal(points))[-200]
    training = training_set(points, normal(points))
    edge = normal(points[~low]).min()
    found = TrustedRegion.around(Known(normal, lambda u: np.where(normal(u) < edge, 100.0, 0.0)), training)
    assert found.most_variance == pytest.approx(1.0)


@pytest.mark.parametrize(("doubt", "rise"), [(1.0, MOST_RISE), (5.0, MOST_RISE), (5.01, 0.0)])
def test_error_bars_that_were_far_too_small_raise_nothing(doubt, rise, rng):
    points = cloud(rng, 50)
    known = replace(Known(normal), overconfidence=doubt)
    assert TrustedRegion.around(known, training_set(points, normal(points))).most_rise == rise


def test_zero_densities_are_kept_apart_from_the_others(rng):
    points = cloud(rng, 50)
    zeros = points[:7]
    found = TrustedRegion.around(Known(normal), training_set(points, normal(points), zeros=zeros))
    assert_array_equal(found.zeros, zeros)
    assert_array_equal(found.seen, points[7:])


# The density that is expected there


def test_the_expected_density_by_hand():
    u = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.1, 0.0], [-1.0, 0.0], [0.0, -1.0]])
    means, variances = [-1.0, -2.0, -3.0, 0.0, 1.1, -4.0], [0.0, 0.5, 4.0, 0.0, 0.0, 4.1]

    def of(numbers):
        return lambda x: np.array([numbers[int(np.flatnonzero((u == row).all(axis=1))[0])] for row in x])

    found = region(of(means), of(variances), most_variance=4.0).log_density(u)
    # As it is; raised by half its variance; by no more than a nat; outside; too high; too uncertain.
    assert_allclose(found, [-1.0, -1.75, -2.0, np.nan, np.nan, np.nan])


def test_the_mean_alone_is_cheap():
    known = region()
    u = np.random.default_rng(0).uniform(-3, 3, (200, 2))
    assert_array_equal(known.claimed_mean(u), known.log_density(u))
    assert len(known.surrogate.asked) == 1
    assert known.surrogate.asked[0] == known.in_box(u).sum() < 200


# Mass outside


def test_share_outside_is_that_of_the_normal(rng):
    inside = (1 - 2 * stats.norm.sf(2.0)) ** 2
    shares = [region().share_outside(one_normal([0, 0], [1, 1]), rng) for _ in range(30)]
    assert reference.agree(shares, 1 - inside)
    assert not reference.agree(shares, 1.2 * (1 - inside))


def test_a_mixture_that_leaves_is_noticed_and_one_that_comes_back_is_not(rng):
    within, out = one_normal([0, 0], [0.5, 0.5]), one_normal([1.5, 0], [0.5, 0.5])
    assert region().share_outside(out, rng) > 2 * MOST_LEAK
    assert region().grows_outside(within, out, rng)
    assert not region().grows_outside(out, within, rng)
    assert not region().grows_outside(within, within, rng)
    gone = one_normal([9.0, 0], [0.5, 0.5])
    assert not region().grows_outside(gone, gone, rng)  # it was there before


@pytest.mark.parametrize("where", ["too uncertain", "too high"])
def test_mass_leaves_to_where_the_surrogate_guesses_too(where, rng):
    right = {"too uncertain": region(variance=lambda u: 4.0 * (u[:, 0] > 0)), "too high": region(lambda u: 9 * u[:, 0])}
    left, both = one_normal([-1.0, 0.0], [0.2, 0.2]), one_normal([0.0, 0.0], [0.2, 0.2])
    assert right[where].grows_outside(left, both, rng)
    assert not region().grows_outside(left, both, rng)


# Weighted draws


def test_weights_sum_to_one_and_none_is_outside(rng):
    half = region(variance=lambda u: 4.0 * (u[:, 0] > 0.5), mean=lambda u: normal(u) + 3 * (u[:, 1] > 1))
    u, weights = half.weighted_draws(one_normal([0, 0], [1.5, 1.5]), 5000, rng)
    assert len(u) == len(weights) > 500
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()
    assert half.in_box(u).all()
    assert (u[:, 0] <= 0.5).all()
    assert (half.surrogate.mean(u) <= 1.0).all()
    assert np.isfinite(half.log_density(u)).all()


def test_weighted_draws_are_those_of_the_surrogate(rng):
    """A normal cut at two standard deviations, from a proposal that is wider and off."""
    moments = []
    for _ in range(12):
        u, weights = region().weighted_draws(one_normal([0.5, 0.0], [1.4, 1.4]), 4000, rng)
        moments.append([weights @ u[:, 0], weights @ u[:, 0] ** 2])
        assert effective_size(weights) > 400
    first, second = np.transpose(moments)
    cut = stats.truncnorm(-2, 2)
    assert reference.agree(first, 0.0)
    assert reference.agree(second, cut.var())
    assert not reference.agree(second, 1.0)


def test_a_constant_changes_no_weight(rng):
    seed = int(rng.integers(2**31))
    one, other = (
        region(lambda u, c=c: normal(u) + c, most_mean=1.0 + c).weighted_draws(
            one_normal([0, 0], [1, 1]), 2000, np.random.default_rng(seed)
        )
        for c in (0.0, 512.0)
    )
    assert_array_equal(one[0], other[0])
    assert_allclose(one[1], other[1], rtol=1e-9)


def test_no_draw_inside_gives_none(rng):
    u, weights = region().weighted_draws(one_normal([50.0, 0.0], [1, 1]), 100, rng)
    assert u.shape == (0, 2)
    assert weights.shape == (0,)


def test_nothing_is_left_where_everything_is_a_guess(rng):
    u, weights = region(variance=lambda u: np.full(len(u), 9.0)).weighted_draws(one_normal([0, 0], [1, 1]), 1000, rng)
    assert len(u) == len(weights) == 0


# Near zeros


def test_points_nearer_to_zeros_by_hand():
    seen, zeros = np.array([[0.0, 0.0], [0.0, 2.0], [-1.0, 1.0]]), np.array([[1.0, 1.0]])
    near = region(seen=seen, zeros=zeros).nearer_to_zeros(np.array([[0.9, 1.0], [0.0, 0.1], [1.0, 1.0], [-1.0, 1.0]]))
    assert near.tolist() == [True, False, True, False]


@pytest.mark.parametrize("zeros", [None, np.empty((0, 2))])
def test_without_zeros_nothing_is_near_them(zeros, rng):
    u = cloud(rng, 10)
    assert not region(seen=u, zeros=zeros).nearer_to_zeros(u + 1.0).any()


def test_units_do_not_matter_to_what_is_near(rng):
    seen, zeros, u, unit = cloud(rng, 60), cloud(rng, 30) + 1.0, cloud(rng, 400), np.array([1e-3, 50.0])
    one = region(seen=seen, zeros=zeros).nearer_to_zeros(u)
    other = region(seen=unit * seen, zeros=unit * zeros).nearer_to_zeros(unit * u)
    assert 20 < one.sum() < 380
    assert_array_equal(one, other)
