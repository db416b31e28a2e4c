"""What evaluations decide that are held out: blocks of neighbours, and the outermost ones on each side."""

from functools import partial

import numpy as np
import pytest

from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters, kernel
from vsbq.numerics.observations import Regression
from vsbq.numerics.subset import stratified_rows
from vsbq.steps.surrogate.calibration import MOST_ROWS, OUTERMOST, calibrate, cut_blocks

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


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_blocks_cover_the_better_points_once(rng):
    points = rng.uniform(-3, 3, (2000, 2))
    level = -(points**2).sum(axis=1) * 10
    blocks = cut_blocks(points, level, rng)
    held = np.concatenate([block.held for block in blocks])
    assert len(np.unique(held)) == len(held)
    assert level[held].min() > level.max() - 25  # the 6-sigma contour in two dimensions is 19.7 nats down
    assert all(np.isin(block.tested, block.held).all() for block in blocks)
    assert len(blocks) == 10
    assert cut_blocks(points[:14], level[:14], rng) == []


@pytest.mark.parametrize("passes", [0, 3])
def test_without_a_block_the_mean_is_that_of_a_fit_without_it(passes, rng):
    """And with the passes of the mean that is used, which a kernel that is too flat needs."""
    points, values = draw_function(rng, 1.0)
    hyp, noise = hyperparameters(1.0, output=0.1 if passes else 1.0), np.full(len(values), 0.01)
    inducing = points[::3].copy()
    data = Regression(points, values, noise)
    found = calibrate(hyp, inducing, data, LEVEL_SCALE * values, np.random.default_rng(0), passes)
    assert found.passes == passes
    again = np.random.default_rng(0)  # the same blocks
    rows = stratified_rows(points, LEVEL_SCALE * values, MOST_ROWS, again)
    blocks = cut_blocks(points[rows], LEVEL_SCALE * values[rows], again)
    assert len(found.without) == len(blocks)
    x = rng.uniform(-3, 3, (50, 2))

    def mean(kept):
        part = data.take(kept)[:3]
        factors = sgpr.with_residual_passes(hyp, sgpr.fit_factors(hyp, inducing, *part)[0], *part, passes)
        return sgpr.predict_mean(hyp, factors, x)

    for change, block in zip(found.without, blocks, strict=True):
        kept = np.delete(rows, block.held)
        expected = mean(kept) - mean(rows)
        np.testing.assert_allclose(kernel(x, inducing, hyp) @ change, expected, atol=1e-6)
        assert np.abs(expected).max() > 0.01


def test_too_few_points_for_blocks_say_nothing(rng):
    points = rng.uniform(-3, 3, (14, 2))
    found = calibrate(
        hyperparameters(1.0), points[::3].copy(), Regression(points, points[:, 0], np.ones(14)), points[:, 1], rng
    )
    assert found[:4] == (None, 0, 0.0, None)
    assert found.errors == ()


def test_fewer_points_are_held_out_in_fewer_blocks(rng):
    points = rng.uniform(-3, 3, (35, 2))
    found = calibrate(
        hyperparameters(1.0), points[::3].copy(), Regression(points, points[:, 0], np.ones(35)), points[:, 1], rng
    )
    assert 3 <= len(found.without) <= 7
    assert found.tested == pytest.approx(35 / 50)


@pytest.mark.parametrize(("signal", "wanted"), [(5.0, 3), (0.0, 0)])
def test_passes_help_where_the_prior_draws_too_much_and_not_where_there_is_only_noise(signal, wanted, rng):
    points = rng.uniform(-3, 3, (3000, 1))
    values = signal * np.sin(3 * points[:, 0]) + rng.standard_normal(3000)
    # Too narrow for the signal; too rough for its absence.
    hyp = Hyperparameters(np.log([0.3]), np.log(0.1 if signal else 3.0), 0.0, np.zeros(1), np.log([1e3]))
    data = Regression(points, values, np.ones(3000))
    inducing = np.linspace(-3, 3, 100)[:, None]
    for seed in range(3):
        blocks = partial(calibrate, hyp, inducing, data, np.zeros(3000), np.random.default_rng(seed))
        assert blocks(3).passes == wanted
        assert blocks(0).passes == 0


# Sides


TURNED = np.array([[0.8, 0.6], [-0.5, 2.0]])


@pytest.mark.parametrize("axes", [np.eye(2), TURNED], ids=["straight", "turned"])
@pytest.mark.parametrize("passes", [0, 3])
def test_the_outermost_are_predicted_by_a_fit_without_them(axes, passes, rng):
    points, values = draw_function(rng, 1.0)
    hyp, noise, inducing = hyperparameters(1.0), np.full(len(values), 0.01), points[::3].copy()
    found = calibrate(hyp, inducing, Regression(points, values, noise), LEVEL_SCALE * values, rng, passes, axes)

    def fitted(rows):
        return sgpr.fit_factors(hyp, inducing, points[rows], values[rows], noise[rows])[0]

    assert [len(part) for part in found.sides] == [4, 4, 4, 4]
    for axis, end, error, distance in zip(*found.sides, strict=True):
        along = points @ axis
        assert end == pytest.approx(along.max())
        outer = along >= np.sort(along)[-round(OUTERMOST * len(values))]
        residual = values[outer] - sgpr.predict_mean(hyp, fitted(~outer), points[outer])
        assert error**2 == pytest.approx(residual.mean() ** 2 + 0.01 / outer.sum())
        assert distance == pytest.approx(along[outer].mean() - along[~outer].max())
        assert error > 0.01
    for direction in (*axes, *-axes):
        assert (np.abs(found.sides.axes - direction).max(axis=1) == 0).sum() == 1


def test_only_the_better_evaluations_have_sides(rng):
    points, values = draw_function(rng, 1.0)
    level = np.where(points[:, 0] > 1.0, -1e3, 0.0)
    data = Regression(points, values, np.full(len(values), 0.01))
    found = calibrate(hyperparameters(1.0), points[::3].copy(), data, level, rng, 0, np.eye(2)).sides
    near = points[points[:, 0] <= 1.0]
    np.testing.assert_allclose(found.ends, [*near.max(axis=0), *-near.min(axis=0)])


def test_no_axes_have_no_sides_and_too_few_blocks_do(rng):
    points, values = draw_function(rng, 1.0, n=14)
    data = Regression(points, values, np.full(14, 0.01))
    found = [calibrate(hyperparameters(1.0), points[::3].copy(), data, values, rng, 0, axes) for axes in (None, TURNED)]
    assert found[0].sides is None
    assert found[1].without is None
    assert found[1].sides.errors.min() > 0


# Above the top


def hill(rng, reach, n=200):
    """A quadratic, evaluated up to some distance from its top."""
    points = rng.uniform(-3, 3, (4 * n, 2))
    points = points[np.hypot(*points.T) > reach][:n]
    return points, -0.5 * (points**2).sum(axis=1)


def test_above_the_top_a_surrogate_is_believed_as_far_as_it_foretells_the_highest(rng):
    points, values = hill(rng, 1.0)
    right = hyperparameters(1.0)._replace(
        log_output=np.log(0.01), mean_top=0.0, mean_location=np.zeros(2), mean_log_widths=np.zeros(2)
    )
    wrong = right._replace(mean_log_widths=np.full(2, 1.0))
    noise = np.full(len(values), 1e-4)
    good, bad = (
        calibrate(hyp, points[::3].copy(), Regression(points, values, noise), values, rng) for hyp in (right, wrong)
    )
    assert good.rise > 1.0
    assert good.rise > 4 * bad.rise > 0


def test_the_belief_above_the_top_is_an_error_of_curvature(rng):
    """h nats above the others and missed by e: until e (x/h)² is one nat."""
    points, values = hill(rng, 1.0)
    hyp, noise, inducing = hyperparameters(1.0), np.full(len(values), 0.01), points[::3].copy()
    found = calibrate(hyp, inducing, Regression(points, values, noise), values, rng)
    high = values >= np.sort(values)[-round(OUTERMOST * len(values))]
    factors = sgpr.fit_factors(hyp, inducing, points[~high], values[~high], noise[~high])[0]
    residual = values[high] - sgpr.predict_mean(hyp, factors, points[high])
    error = np.sqrt(np.mean(residual**2) + 0.01 / high.sum())
    assert found.rise == pytest.approx((values[high].mean() - values[~high].max()) / np.sqrt(error))
