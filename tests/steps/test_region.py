"""Where the surrogate is believed, and that nothing leaves from there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from toy import Known, cloud, edges_at, normal, one_normal, training_set

import reference
from vsbq.numerics.em import effective_size
from vsbq.steps.region import DOUBLINGS, MOST_LEAK, MOST_RISE, Stray, TrustedRegion


def region(mean=normal, variance=lambda u: np.zeros(len(u)), **options):
    """A box of ±2 in the plane."""
    limits = {"most_variance": 1.0, "most_mean": 1.0} | options
    return TrustedRegion(Known(mean, variance), np.full(2, -2.0), np.full(2, 2.0), **limits)


# The density


@pytest.mark.parametrize(("noisy", "rise"), [(False, 0.3), (True, 0.1)])
def test_noise_of_the_evaluations_makes_no_mass(noisy, rise):
    """Only what they leave open counts as uncertainty of the density."""
    model = Known(normal, lambda u: np.full(len(u), 0.6), noise_of=lambda u: np.full(len(u), 0.4))
    found = TrustedRegion(model, np.full(2, -2.0), np.full(2, 2.0), most_variance=1.0, most_mean=1.0, noisy=noisy)
    u = np.array([[0.0, 0.0], [1.0, -1.0]])
    assert_allclose(found.log_density(u), normal(u) + rise)


def test_evaluations_tell_whether_they_are_noisy(rng):
    points = cloud(rng, 300)
    for noise in (None, 1.0):
        training = training_set(points, normal(points), noise)
        assert TrustedRegion.around(Known(normal), training).noisy == (noise is not None)


# How far it reaches


def test_the_box_goes_half_of_the_range_beyond_the_evaluations(rng):
    points = cloud(rng, 300)
    low, high = points.min(axis=0), points.max(axis=0)
    model = Known(normal, open_trends=lambda u: 10.0 * ((u < low) | (u > high)).any(axis=1)[None])
    found = TrustedRegion.around(model, training_set(points, normal(points)))
    assert_allclose(found.lower, low - 0.5 * (high - low))
    assert_allclose(found.upper, high + 0.5 * (high - low))
    just, far = found.upper - 1e-9, found.upper + 1e-9
    assert np.isfinite(found.log_density(just[None]))
    assert np.isnan(found.log_density(far[None]))


@pytest.mark.parametrize("unknown", ["trend", "variance"])
def test_the_box_is_wider_on_a_side_where_the_surrogate_and_its_trend_are_known(unknown, rng):
    points = cloud(rng, 300)
    low, high = points.min(axis=0), points.max(axis=0)

    def doubt(u):
        """More than the slack, but for places to the left, and there from ten ranges on."""
        left = (
            (u[:, 0] < low[0])
            & (u[:, 0] > low[0] - 10.0 * (high[0] - low[0]))
            & (u[:, 1] > low[1])
            & (u[:, 1] < high[1])
        )
        inside = ((u >= low) & (u <= high)).all(axis=1)
        return np.where(left | inside, 0.0, 9.0)

    known = {"open_trends": lambda u: np.zeros((1, len(u)))}
    how = {"open_trends": lambda u: doubt(u)[None]} if unknown == "trend" else known | {"variance_of": doubt}
    found = TrustedRegion.around(Known(normal, **how), training_set(points, normal(points)))
    half = 0.5 * (high - low)
    assert_allclose([found.lower[1], *found.upper], [(low - half)[1], *(high + half)])
    assert low[0] - 20 * half[0] < found.lower[0] < low[0] - 9 * half[0]


def test_a_model_that_says_nothing_of_its_trend_is_believed_no_farther(rng):
    points = cloud(rng, 300)
    found = TrustedRegion.around(Known(normal), training_set(points, normal(points)))
    assert_allclose(found.upper - found.lower, 2.0 * np.ptp(points, axis=0))


def test_the_box_ends_somewhere(rng):
    points = cloud(rng, 300)
    training = training_set(points, normal(points))
    found = TrustedRegion.around(Known(normal, open_trends=lambda u: np.zeros((1, len(u)))), training)
    assert (found.upper - found.lower > 2**DOUBLINGS * np.ptp(points, axis=0)).all()
    assert (found.upper - found.lower < 2 ** (DOUBLINGS + 2) * np.ptp(points, axis=0)).all()


@pytest.mark.parametrize(
    ("sd", "prior", "wanted"), [(0.0, 1.0, 0.05), (0.0, 40.0, 2.0), (0.1, 1.0, 0.14), (0.0, 1e-4, 0.01)]
)
def test_a_share_of_what_is_unknown_far_away_is_a_guess(sd, prior, wanted, rng):
    points = cloud(rng, 300)
    known = replace(Known(normal, lambda u: np.full(len(u), sd**2)), prior_variance=prior)
    found = TrustedRegion.around(known, training_set(points, normal(points)))
    assert found.guessed_variance == pytest.approx(wanted)


@pytest.mark.parametrize(("sd", "slack"), [(0.0, 1.0), (0.1, 1.3), (2.0, 7.0)])
def test_doubt_near_the_top_says_how_much_doubt_is_usual(sd, slack, rng):
    points = cloud(rng, 300)
    training = training_set(points, normal(points))
    found = TrustedRegion.around(Known(normal, lambda u: np.full(len(u), sd**2)), training)
    assert found.most_variance == pytest.approx(slack**2)
    assert found.most_mean == pytest.approx(training.level.max() + slack)


def test_nothing_rises_beyond_an_edge_that_was_learnt(rng):
    """The surrogate foretells its highest evaluations, but an edge may be why none is higher."""
    points = cloud(rng, 300)
    training, known = training_set(points, normal(points)), replace(Known(normal), rise=20.0)
    learnt = edges_at(0.0, d=2)
    for support, rise in ((None, 20.0), (replace(learnt, surfaces=()), 20.0), (learnt, 1.0)):
        found = TrustedRegion.around(known, training, support)
        assert found.most_mean == pytest.approx(training.level.max() + rise)


def test_doubt_far_from_the_top_does_not_count(rng):
    points = cloud(rng, 3000)
    low = normal(points) < np.sort(normal(points))[-200]
    training = training_set(points, normal(points))
    edge = normal(points[~low]).min()
    found = TrustedRegion.around(Known(normal, lambda u: np.where(normal(u) < edge, 100.0, 0.0)), training)
    assert found.most_variance == pytest.approx(1.0)


def test_what_is_expected_rises_above_the_mean_by_a_nat_at_the_most(rng):
    points = cloud(rng, 50)
    assert TrustedRegion.around(Known(normal), training_set(points, normal(points))).most_rise == MOST_RISE == 1.0


def test_the_support_comes_along(rng):
    points, support = cloud(rng, 50), edges_at(0.0, d=2)
    assert TrustedRegion.around(Known(normal), training_set(points, normal(points)), support).support is support
    assert TrustedRegion.around(Known(normal), training_set(points, normal(points))).support is None


def test_zeros_that_no_edge_keeps_out_are_stray(rng):
    points, zeros = cloud(rng, 50), np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 1.0]])
    training = training_set(points, normal(points), zeros=zeros)
    found = TrustedRegion.around(Known(normal), training).stray
    assert_array_equal(found.zeros, zeros)
    assert_array_equal(found.others, points)
    kept = TrustedRegion.around(Known(normal), training, edges_at(0.0, d=2)).stray
    assert_array_equal(kept.zeros, zeros[1:2])
    assert TrustedRegion.around(Known(normal), training, edges_at(-3.0, d=2)).stray is None
    for support in (None, edges_at(0.0, d=2)):
        assert TrustedRegion.around(Known(normal), training_set(points, normal(points)), support).stray is None


def test_strays_are_asked_about_in_plain_coordinates(rng):
    points, zeros = cloud(rng, 50), np.array([[1.0, 0.0], [-1.0, 0.0]])
    turned = training_set(points, normal(points), zeros=zeros).turned(np.array([[0.0, 2.0], [-1.0, 0.0]]))
    found = TrustedRegion.around(Known(normal), turned, edges_at(0.0, d=2)).stray
    assert_allclose(found.zeros, [[0.0, 1.0]])
    assert_array_equal(found.others, turned.points)


def test_what_is_nearer_to_a_stray_zero_is_measured_in_the_spread_of_the_others(rng):
    others, zeros, u = cloud(rng, 30), cloud(rng, 5), cloud(rng, 200)
    unit = others.std(axis=0)
    slow = [
        min(np.hypot(*((row - z) / unit)) for z in zeros) < min(np.hypot(*((row - o) / unit)) for o in others)
        for row in u
    ]
    assert_array_equal(Stray(zeros, others).nearer(u), slow)
    assert 5 < np.sum(slow) < 100
    scale = np.array([1e3, 1e-3])
    assert_array_equal(Stray(scale * zeros, scale * others).nearer(scale * u), slow)
    flat = others * [1.0, 0.0]  # no spread is no unit
    assert Stray(zeros, flat).nearer(zeros).all()


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


# Within a support


def test_the_density_is_that_of_the_surrogate_times_the_probability_of_the_support(rng):
    limits, u = np.linspace(-0.5, 0.5, 64), rng.uniform(-2, 2, (200, 2))
    cut = region(variance=lambda u: np.full(len(u), 0.4), support=edges_at(limits, d=2, steep=3.0))
    inside = np.array([np.mean(1 / (1 + np.exp(-3.0 * (limits - x)))) for x in u[:, 0]])
    assert_allclose(cut.log_support(u), np.log(inside), atol=1e-9)
    assert_allclose(cut.claimed_mean(u), normal(u) + np.log(inside), atol=1e-9)
    assert_allclose(cut.log_density(u), normal(u) + 0.2 + np.log(inside), atol=1e-9)
    assert_array_equal(region().log_support(u), 0.0)


def test_beyond_the_edge_is_within_the_region():
    """There is no density, and that is known."""
    u = np.array([[1.0, 0.0]])
    found = region(support=edges_at(0.0, d=2)).log_density(u)
    assert found[0] < -500


def test_too_high_is_said_of_the_surrogate_not_of_its_support():
    """A surrogate that claims too much beyond the edge is not trusted there either."""
    high = region(lambda u: normal(u) + 9.0, support=edges_at(0.0, d=2))
    assert np.isnan(high.log_density(np.array([[1.0, 0.0], [-1.0, 0.0]]))).all()


def test_the_support_is_asked_in_plain_coordinates(rng):
    turn = np.array([[0.0, 2.0], [-1.0, 0.0]])  # the first coordinate becomes the second, turned round
    cut = replace(region(support=edges_at(0.0, d=2)), surrogate=replace(Known(normal), turn=turn))
    plain = rng.uniform(-1, 1, (100, 2))
    found = cut.log_support(plain @ turn.T) > np.log(0.5)
    assert_array_equal(found, plain[:, 0] < 0)
    assert 20 < found.sum() < 80


def test_weighted_draws_end_at_the_edge(rng):
    """Half of a normal cut at two standard deviations."""
    moments = []
    for _ in range(12):
        u, weights = region(support=edges_at(0.0, d=2)).weighted_draws(one_normal([0, 0], [1.4, 1.4]), 4000, rng)
        moments.append([weights @ u[:, 0], weights @ u[:, 1]])
        assert weights[u[:, 0] > 0.01].sum() < 1e-9
    first, second = np.transpose(moments)
    assert reference.agree(first, stats.truncnorm(-2, 0).mean())
    assert reference.agree(second, 0.0)
    assert not reference.agree(first, stats.truncnorm(-2, 0).mean() + 0.05)
