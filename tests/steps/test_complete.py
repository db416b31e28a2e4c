"""A surrogate of some evaluations that is completed with all of them is that of all of them."""

from __future__ import annotations

import numpy as np
import pytest

import vsbq
from large_cases import trace
from vsbq.large.sums import total_sums
from vsbq.large.tables import ArrayTable
from vsbq.numerics import observations, sgpr
from vsbq.numerics.observations import Regression
from vsbq.progress import Progress
from vsbq.steps.surrogate import SparseGP, fit_sparse_gp
from vsbq.steps.surrogate.complete import Rows, complete, recipe_of, sums_of
from vsbq.steps.surrogate.shaped_data import ShapedData
from vsbq.steps.trim import Trim, trim_evaluations


def completed(points, values, sd, rows, factor=1.0):
    """A surrogate of some rows, the same completed with all, and the training set of all in its coordinates."""
    some = vsbq.Evaluations(points[rows], values[rows], log_density_sd=None if sd is None else sd[rows])
    training, _ = trim_evaluations(some, Trim())
    settings = SparseGP()
    surrogate, turned, told = fit_sparse_gp(training, settings, np.random.default_rng(0), Progress(1, False))
    recipe = recipe_of(surrogate, turned, told, settings, Trim())
    total = total_sums(recipe, ArrayTable(points, values, sd), factor, 10**6, None)
    return surrogate, recipe, total, complete(surrogate, told, recipe, total)[0]


def test_all_evaluations_give_the_surrogate_of_all_evaluations():
    """Completed with the sample itself, it is what it was; with all of them, what the slow way gives."""
    points, values = trace(3000)
    values = values + 0.3 * np.sin(5 * points[:, 0])
    rows = np.append(np.argmax(values), np.flatnonzero(np.arange(3000) % 5 == 0))
    rows = np.unique(rows)
    again = completed(points[rows], values[rows], None, np.arange(len(rows)))
    u = np.random.default_rng(1).standard_normal((50, 2))
    np.testing.assert_allclose(again[3].mean(u), again[0].mean(u), atol=1e-6)
    surrogate, recipe, total, whole = completed(points, values, None, rows)
    assert total.rows == 3000
    everything, _ = trim_evaluations(vsbq.Evaluations(points, values), Trim())
    space = surrogate.space
    moved = space.forward(everything.space.inverse(everything.points))
    turned = everything.__class__(
        *(space, moved, values_in(everything, space, moved), everything.noise_sd, everything.offset),
        level=values_in(everything, space, moved),
        low=moved[:0],
        zeros=moved[:0],
    )
    data = ShapedData.shaped(turned, recipe.settings)
    regression = data.regression(recipe.parts[0].log_strength)
    plain = observations.fit_factors(surrogate.hyp, surrogate.inducing, regression)[0]
    agree(plain, surrogate, whole, surrogate.passes, regression, u)
    (before,), (after,) = surrogate.sisters, whole.sisters
    noise = data.noise(recipe.parts[1].log_strength)
    regression = Regression(data.points @ before.turn.T, data.values - before.shift, noise)
    plain = observations.fit_factors(before.hyp, before.posterior.inducing, regression)[0]
    agree(plain, before, after, recipe.settings.residual_passes, regression, u @ before.turn.T)


def agree(plain, before, after, passes, regression, u):
    """After completion the mean is that of the slow way, and it was not before."""
    slow = observations.with_residual_passes(before.hyp, plain, regression, passes)
    wanted = sgpr.predict_mean(before.hyp, slow, u)
    means = [
        sgpr.predict_mean(one.hyp, one.factors if hasattr(one, "factors") else one.posterior, u)
        for one in (before, after)
    ]
    off = np.abs(means[0] - wanted).max()
    assert off > 1e-4
    np.testing.assert_allclose(means[1], wanted, atol=0.01 * off)


def values_in(training, space, u):
    plain = training.values - training.space.log_jacobian(training.points)
    return plain + space.log_jacobian(u)


def test_under_noise_all_evaluations_leave_less_doubt():
    points, values = trace(20_000, noise=1.0)
    sd = np.ones(20_000)
    surrogate, _, total, whole = completed(points, values, sd, np.arange(0, 20_000, 40))
    assert total.rows > 19_000
    u = np.random.default_rng(1).standard_normal((200, 2))
    truth = -0.5 * (u**2).sum(axis=1)

    def error(one):
        missed = one.mean(one.space.from_plain(one.space.plain.forward(u))) - truth
        return np.std(missed)

    few, many = error(surrogate), error(whole)
    assert many < 0.7 * few


def test_blocks_of_any_size_add_up_to_the_same():
    """A handful of noisy evaluations can't tell where the shaping begins: the surrogate does."""
    points, values = trace(2000, noise=1.0)
    _, recipe, _, _ = completed(points, values, np.ones(2000), np.arange(0, 2000, 4))
    rows = Rows(points, values, np.ones(2000))
    blocks = [Rows(*(column[k : k + 20] for column in rows)) for k in range(0, 2000, 20)]
    whole, pieces = sums_of(recipe, [rows]), sums_of(recipe, blocks)
    assert pieces.rows == whole.rows
    assert pieces.parts[0].log_noise == pytest.approx(whole.parts[0].log_noise, rel=1e-9)
    np.testing.assert_allclose(pieces.parts[0].projection, whole.parts[0].projection, rtol=1e-6, atol=1e-6)


def test_noise_that_is_given_is_multiplied_and_noise_that_is_not_is_set():
    points, values = trace(2000)
    rows = np.arange(0, 2000, 4)
    _, recipe, wanted, _ = completed(points, values, np.ones(2000), rows)
    for sd, factor in [(np.full(2000, 0.5), 2.0), (None, -1.0)]:
        total = total_sums(recipe, ArrayTable(points, values, sd), factor, 10**6, None)
        assert total.parts[0].log_noise == pytest.approx(wanted.parts[0].log_noise)
    other = total_sums(recipe, ArrayTable(points, values, np.ones(2000)), 2.0, 10**6, None)
    assert other.parts[0].log_noise > wanted.parts[0].log_noise + 100


def test_hopeless_rows_and_those_of_zero_density_are_left_out():
    points, values = trace(2000)
    _, recipe, total, _ = completed(points, values, None, np.arange(0, 2000, 4))
    more = np.concatenate([values, [-1e6, -np.inf]])
    again = total_sums(recipe, ArrayTable(np.concatenate([points, points[:2]]), more), 1.0, 10**6, None)
    assert again.rows == total.rows
    assert again.parts[0].residual_square == pytest.approx(total.parts[0].residual_square)


def test_rows_beyond_a_cliff_are_left_out_where_there_are_cliffs():
    """The surrogate was fitted without them and sees the posterior go on; without cliffs they are evaluations."""
    points, values = trace(2000)
    surrogate, recipe, _, _ = completed(points, values, None, np.arange(0, 2000, 4))
    fallen = Rows(points, np.where(points[:, 0] > 1, values - 50, values), np.zeros(2000))
    high = int(np.sum((points[:, 0] > 1) & (values > -3)))
    with_cliffs = recipe._replace(cliffs=True, levels=surrogate)
    every, kept = sums_of(recipe, [fallen]), sums_of(with_cliffs, [fallen])
    assert high > 50
    assert every.rows - kept.rows >= high
