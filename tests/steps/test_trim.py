"""Step 1: what stays, what is merged, and what cannot change a bit of it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from vsbq.data.evaluations import Evaluations
from vsbq.errors import FitError
from vsbq.numerics.contours import contour_depth
from vsbq.steps.trim import GRID, Trim, trim_evaluations

INF = np.inf


def evaluations(points, values, **options):
    """With a plausible box of [−1, 1] inference space is the user's space, and the Jacobian is one."""
    d = np.shape(points)[1]
    return Evaluations(points, values, plausible_bounds=[(-1.0, 1.0)] * d, check_sign=False, **options)


def row_of(training, point):
    """The number of the training point at a point."""
    rows = np.flatnonzero((np.abs(training.points - point) < 1e-12).all(axis=1))
    assert len(rows) == 1
    return int(rows[0])


@pytest.fixture
def cloud(rng):
    """Points in the plane whose values are on the grid, so that they come back unchanged."""
    points = rng.normal(size=(60, 2))
    values = np.round(-0.5 * (points**2).sum(axis=1) / GRID) * GRID
    values[np.argmax(values)] = 0.0
    return points, values


# Gradients


def test_gradients_go_with_their_places(rng):
    """Through sorting, trimming and a change of coordinates."""
    places = rng.normal(size=(30, 2))
    places[7] *= 60  # hopeless
    one, other = 1e-8 * np.eye(2)
    points = np.concatenate([places, places + one, places + other])[rng.permutation(90)]
    given = evaluations(points, -0.5 * (points**2).sum(axis=1))
    training, info = trim_evaluations(given, Trim())
    assert (info.given, info.kept, info.steps, info.merged, info.trimmed) == (90, 29, 60, 0, 1)
    assert_allclose(training.gradients, -training.points, atol=1e-6)
    by = np.array([[2.0, 0.0], [0.7, 0.5]])
    turned, back = training.turned(by), np.linalg.inv(by)
    assert_allclose(turned.gradients, -turned.points @ back.T @ back, atol=1e-5)
    rows = np.arange(29) < 4
    assert_array_equal(training.without(rows, np.zeros(1, dtype=bool)).gradients, training.gradients[4:])
    plain, info = trim_evaluations(given, Trim(gradients=False))
    assert plain.gradients is None
    assert (info.kept, info.steps) == (87, 0)


# Which evaluations stay


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("n_sigma", [10.0, 20.0])
def test_the_threshold_is_that_of_the_table(d, n_sigma, rng):
    depth = reference.DEPTHS[d][0 if n_sigma == 10.0 else 1]
    points = rng.normal(size=(42, d))
    values = np.concatenate([[0.0], -rng.uniform(0, 5, 39), [-(depth - 0.02), -(depth + 0.02)]])
    training, info = trim_evaluations(evaluations(points, values), Trim(depth=n_sigma))
    assert info.trimmed == 1
    assert len(training) == info.kept == 41
    row_of(training, points[40])
    assert not (np.abs(training.points - points[41]) < 1e-12).all(axis=1).any()


def test_nothing_is_trimmed_from_a_shallow_set(cloud):
    training, info = trim_evaluations(evaluations(*cloud), Trim())
    assert info == (60, 60, 0, 0, 0, 0, 0)
    assert training.dimension == 2
    assert_array_equal(training.noise_sd, 0.0)


@pytest.mark.parametrize("confidence", [0.0, 1.96])
def test_noise_decides_by_confidence_bounds(confidence, rng):
    points = rng.normal(size=(400, 2))
    values, sd = -rng.uniform(0, 400, 400), rng.uniform(0.0, 30.0, 400)
    wanted = reference.kept(values, sd, contour_depth(20.0, 2), confidence)
    settings = Trim(confidence=confidence)
    training, info = trim_evaluations(evaluations(points, values, log_density_sd=sd), settings)
    assert 0 < info.trimmed == 400 - sum(wanted)
    order = np.lexsort(points[wanted].T[::-1])
    assert_allclose(training.points, points[wanted][order], atol=1e-12)
    assert_array_equal(training.noise_sd, sd[wanted][order])


def test_confidence_bounds_by_hand(rng):
    """Top lower bound is 0 − 1.96·1; what is noisy stays longer."""
    depth = contour_depth(20.0, 2)
    points = rng.normal(size=(33, 2))
    values = np.concatenate([np.zeros(1), np.full(29, -3.0), [-depth - 1.0, -depth - 4.0, -depth - 4.0]])
    sd = np.concatenate([np.ones(30), [0.0, 0.0, 2.0]])
    training, info = trim_evaluations(evaluations(points, values, log_density_sd=sd), Trim())
    assert info.trimmed == 1
    row_of(training, points[30])
    row_of(training, points[32])


def test_the_places_of_hopeless_evaluations_are_kept(rng):
    points = np.concatenate([rng.normal(size=(100, 2)), rng.normal(size=(30, 2)) + 2])
    values = np.concatenate([-rng.uniform(0, 5, 100), np.full(30, -1e8)])
    values[0] = 0.0
    training, info = trim_evaluations(evaluations(points, values), Trim())
    assert info.trimmed == len(training.low) == 30
    assert_allclose(training.low, points[100:][np.lexsort(points[100:].T[::-1])], atol=1e-12)
    assert len(training) == 100
    assert training.zeros.shape == (0, 2)
    assert trim_evaluations(evaluations(points[:100], values[:100]), Trim())[0].low.shape == (0, 2)


def test_the_jacobian_counts(rng):
    """A density that is flat in a box is not flat in inference space, where the corners are far below the centre."""
    points = rng.uniform(-1, 1, (50, 2))
    flat = -1e-3 * (points**2).sum(axis=1)
    training, _ = trim_evaluations(Evaluations(points, flat, bounds=[(-1, 1)] * 2, check_sign=False), Trim())
    wanted = training.space.log_jacobian(training.points)
    assert np.ptp(wanted) > 1.0
    assert_allclose(training.values + training.offset - wanted, flat[np.lexsort(points.T[::-1])], atol=1e-6)


def test_too_few_left_is_said_in_words(rng):
    points = rng.normal(size=(30, 2))
    values = np.concatenate([[0.0], -1e5 - rng.uniform(0, 1, 29)])
    with pytest.raises(FitError, match=r"Only 1 evaluation within .* 203 nats"):
        trim_evaluations(evaluations(points, values), Trim())


def test_points_on_a_bound_are_counted(rng):
    points = rng.uniform(0, 1, (50, 2))
    points[3, 0], points[7, 1], points[9] = 0.0, 1.0, [0.0, 1.0]
    values = -((points - 0.5) ** 2).sum(axis=1)
    training, info = trim_evaluations(Evaluations(points, values, bounds=[(0, 1)] * 2, check_sign=False), Trim())
    assert info.at_edge == 3
    assert np.isfinite(training.points).all()
    assert np.isfinite(training.values).all()


# Duplicates


def test_noisy_duplicates_are_averaged_by_inverse_variance(cloud):
    points, values = cloud
    points = np.concatenate([points, [[0.25, 0.5]] * 2])
    values = np.concatenate([values, [-1.0, -2.0]])
    sd = np.concatenate([np.full(60, 0.1), [1.0, 0.5]])
    training, info = trim_evaluations(evaluations(points, values, log_density_sd=sd), Trim())
    row = row_of(training, [0.25, 0.5])
    assert info.merged == 1
    assert training.values[row] == pytest.approx(-(1.0 * 1 + 2.0 * 4) / 5)
    assert training.noise_sd[row] == pytest.approx(1 / np.sqrt(5))


def test_three_equal_noises_are_a_plain_average(cloud):
    points, values = cloud
    points = np.concatenate([points, [[0.25, 0.5]] * 3])
    values = np.concatenate([values, [-1.0, -2.0, -4.5]])
    training, info = trim_evaluations(evaluations(points, values, log_density_sd=0.6), Trim())
    row = row_of(training, [0.25, 0.5])
    assert info.merged == 2
    assert training.values[row] == pytest.approx(-2.5)
    assert training.noise_sd[row] == pytest.approx(0.6 / np.sqrt(3))


def test_an_exact_evaluation_wins_over_noisy_ones(cloud):
    points, values = cloud
    points = np.concatenate([points, [[0.25, 0.5]] * 3])
    values = np.concatenate([values, [-7.0, -1.5, -3.0]])
    sd = np.concatenate([np.full(60, 0.1), [1e-3, 0.0, 2.0]])
    training, info = trim_evaluations(evaluations(points, values, log_density_sd=sd), Trim())
    row = row_of(training, [0.25, 0.5])
    assert info.merged == 2
    assert training.values[row] == -1.5
    assert training.noise_sd[row] == 0.0


def test_exact_duplicates_are_one(cloud):
    points, values = cloud
    training, info = trim_evaluations(evaluations(np.tile(points, (3, 1)), np.tile(values, 3)), Trim())
    assert (info.given, info.merged, len(training)) == (180, 120, 60)
    single, _ = trim_evaluations(evaluations(points, values), Trim())
    assert_array_equal(training.points, single.points)
    assert_array_equal(training.values, single.values)


# Zero densities


@pytest.mark.parametrize("sd", [None, 0.5])
def test_zero_densities_are_places_and_no_values(cloud, sd):
    """Nothing stands in for them: the rest is as it would be without them."""
    points, values = cloud
    zero = np.argsort(values)[:5]
    with_them = values.copy()
    with_them[zero] = -INF
    training, info = trim_evaluations(evaluations(points, with_them, log_density_sd=sd), Trim())
    assert (info.zero_density, info.trimmed, info.kept, len(training)) == (5, 0, 55, 55)
    assert_allclose(training.zeros, points[zero][np.lexsort(points[zero].T[::-1])], atol=1e-12)
    assert np.isfinite(training.values).all()
    rest = np.setdiff1d(np.arange(60), zero)
    without, _ = trim_evaluations(evaluations(points[rest], values[rest], log_density_sd=sd), Trim())
    for name in ("points", "values", "noise_sd", "level", "low"):
        assert_array_equal(getattr(training, name), getattr(without, name))


def test_a_hopeless_zero_is_a_zero(cloud):
    points, values = cloud
    training, info = trim_evaluations(evaluations(np.vstack([points, [[9.0, 9.0]]]), np.append(values, -INF)), Trim())
    assert (len(training.low), len(training.zeros), info.trimmed) == (0, 1, 0)


def test_evaluations_can_become_places_of_zero_density(awkward, rng):
    points, values, sd, options = awkward
    training, _ = trim_evaluations(Evaluations(points, values, log_density_sd=sd, **options), Trim())
    assert min(len(training.low), len(training.zeros)) > 2
    out, low = rng.uniform(size=len(training)) < 0.3, rng.uniform(size=len(training.low)) < 0.5
    rest = training.without(out, low)
    for name in ("points", "values", "noise_sd", "level"):
        assert_array_equal(getattr(rest, name), getattr(training, name)[~out])
    assert_array_equal(rest.low, training.low[~low])
    assert_array_equal(rest.zeros, np.concatenate([training.zeros, training.points[out], training.low[low]]))
    assert (rest.offset, rest.space) == (training.offset, training.space)
    assert training.without(np.zeros_like(out), np.zeros_like(low)) is training


# What cannot change a bit


@pytest.fixture
def awkward(rng):
    """Noise, duplicates, zero densities, bounds of every kind, evaluations that are trimmed."""
    points = np.column_stack(
        [rng.normal(size=300), rng.gamma(2.0, size=300), -rng.gamma(2.0, size=300), rng.uniform(0, 1, 300)]
    )
    points[280:] = points[240:260] = points[:20]
    values = -0.5 * ((points - 0.5) ** 2).sum(axis=1) - 500.0 * (rng.uniform(size=300) < 0.1)
    values[270:275] = -INF
    sd = rng.uniform(0.1, 1.0, 300)
    return points, values, sd, {"bounds": [None, (0, None), (None, 0), (0, 1)], "check_sign": False}


def test_the_order_of_rows_does_not_change_a_bit(awkward, rng):
    points, values, sd, options = awkward
    one, info = trim_evaluations(Evaluations(points, values, log_density_sd=sd, **options), Trim())
    assert min(info.trimmed, info.merged, info.zero_density) > 0
    for _ in range(3):
        rows = rng.permutation(len(points))
        other, same = trim_evaluations(
            Evaluations(points[rows], values[rows], log_density_sd=sd[rows], **options), Trim()
        )
        assert same == info
        for name in ("points", "values", "noise_sd", "offset", "low", "zeros"):
            assert_array_equal(getattr(other, name), getattr(one, name))


@pytest.mark.parametrize("shift", [7.0, -123.456, 4096.0])
def test_a_constant_does_not_change_a_bit_but_the_offset(awkward, shift):
    points, values, sd, options = awkward
    one, info = trim_evaluations(Evaluations(points, values, log_density_sd=sd, **options), Trim())
    other, same = trim_evaluations(Evaluations(points, values + shift, log_density_sd=sd, **options), Trim())
    assert same == info
    assert other.offset == pytest.approx(one.offset + shift, abs=1e-9)
    for name in ("points", "values", "noise_sd", "low", "zeros"):
        assert_array_equal(getattr(other, name), getattr(one, name))


def test_a_constant_does_not_change_the_space_of_points_that_tie(rng):
    """On a ring the log densities are equal but for their last bits, and a constant rounds these away."""
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    ring = 3.0 * np.column_stack([np.cos(angle), np.sin(angle)])
    points = np.concatenate([0.1 * rng.normal(size=(15, 2)), ring, 10.0 * rng.normal(size=(50, 2))])
    values = -5.0 * (points**2).sum(axis=1)
    one, other = (trim_evaluations(Evaluations(points, values + c), Trim(depth=60.0))[0] for c in (0.0, 4000.0))
    assert_array_equal(other.space.scale, one.space.scale)
    assert_array_equal(other.points, one.points)


def test_values_and_offset_give_back_the_log_density(awkward):
    points, values, _, options = awkward
    points, values = points[:240], values[:240]  # without duplicates
    training, _ = trim_evaluations(Evaluations(points, values, **options), Trim(depth=40.0))
    order = np.lexsort(points.T[::-1])
    given = values[order] + training.space.log_jacobian(training.points)
    assert_allclose(training.values + training.offset, given, atol=GRID)


def test_the_training_set_is_in_the_order_of_the_points(awkward):
    points, values, sd, options = awkward
    training, _ = trim_evaluations(Evaluations(points, values, log_density_sd=sd, **options), Trim())
    assert_array_equal(np.lexsort(training.points.T[::-1]), np.arange(len(training)))


def test_turned_evaluations_are_the_same_density(awkward, rng):
    """Once, and turned again."""
    points, values, sd, options = awkward
    training, _ = trim_evaluations(Evaluations(points, values, log_density_sd=sd, **options), Trim())
    density = training.values - training.space.log_jacobian(training.points)
    once = training.turned(rng.normal(size=(4, 4)) + 2 * np.eye(4))
    for turned in (once, once.turned(rng.normal(size=(4, 4)) + 2 * np.eye(4))):
        for name in ("points", "low", "zeros"):
            there, here = turned.space.inverse(getattr(turned, name)), training.space.inverse(getattr(training, name))
            assert_allclose(there, here, rtol=1e-7, atol=1e-9)
        assert_allclose(turned.values - turned.space.log_jacobian(turned.points), density, rtol=1e-9, atol=1e-7)
        assert_allclose(turned.level - turned.values, training.level - training.values, atol=1e-9)
        assert_array_equal(turned.noise_sd, training.noise_sd)
        assert turned.offset == training.offset
        assert turned.space.plain is training.space
        assert np.abs(turned.points - training.points).max() > 0.1


def test_copies_of_a_noisy_evaluation_are_one():
    rng = np.random.default_rng(3)
    points = rng.standard_normal((50, 2))
    values = -0.5 * (points**2).sum(axis=1) + rng.standard_normal(50)
    once = Evaluations(points, values, log_density_sd=1.0)
    again = np.append(np.arange(50), np.repeat(np.arange(10), 7))
    copied = Evaluations(points[again], values[again], log_density_sd=1.0)
    one, _ = trim_evaluations(once, Trim())
    other, info = trim_evaluations(copied, Trim())
    np.testing.assert_array_equal(other.noise_sd, one.noise_sd)
    np.testing.assert_array_equal(other.values, one.values)
    assert info.merged == 70
    # A control: evaluations of the same point with other values are more information.
    fresh = values[again] + np.append(np.zeros(50), rng.standard_normal(70))
    more, _ = trim_evaluations(Evaluations(points[again], fresh, log_density_sd=1.0), Trim())
    assert more.noise_sd.min() == pytest.approx(1 / np.sqrt(8))


def test_a_density_that_is_zero_everywhere_is_refused():
    points = np.repeat(np.arange(12.0), 2)[:, None]
    values = np.where(np.arange(24) % 2, -np.inf, -points[:, 0])
    twice = Evaluations(np.tile(points, (2, 1)), np.tile(values, 2), log_density_sd=1.0)
    with pytest.raises(FitError, match="zero everywhere"):
        trim_evaluations(twice, Trim())
