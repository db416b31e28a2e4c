"""Step 2 as a whole: what the sparse GP predicts, in which coordinates, and with how many inducing points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import QUIET, cloud, normal, training_set, wavy

from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import WhitenedSpace
from vsbq.errors import FitError
from vsbq.numerics.contours import POSTERIOR, SURROUNDINGS, contour_depth
from vsbq.steps.surrogate import SparseGP, fit_sparse_gp
from vsbq.steps.surrogate import fit as fit_module
from vsbq.steps.surrogate.fit import candidates, fit_all, high_density_miss, settled
from vsbq.steps.surrogate.learning import weak_prior
from vsbq.steps.surrogate.shaped_data import Level, ShapedData
from vsbq.steps.surrogate.sisters import Proposal
from vsbq.steps.trim import Trim, trim_evaluations

SMALL = SparseGP(inducing_per_dimension=30, max_inducing_per_dimension=40, fine=Level(400, 20, 100, 2), turn=False)


def fitted(points, values, settings=SMALL, seed=0, noise_sd=None, **more):
    training = training_set(points, values, noise_sd, **more)
    return fit_sparse_gp(training, settings, np.random.default_rng(seed), QUIET)


# What it predicts


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_held_out_values_are_predicted_within_the_stated_sd(noise, rng):
    points = cloud(rng, 400)
    values = wavy(points) + noise * rng.standard_normal(400)
    surrogate, _, _ = fitted(points, values, noise_sd=noise)
    new = cloud(rng, 500, spread=1.0)
    found = surrogate.predict(new)
    off = (found.mean - wavy(new)) / np.hypot(found.sd, 1e-3)  # a thousandth of a nat matters to nobody
    assert np.mean(off**2) < 4  # errors go together, and are not 500 independent ones
    assert np.sqrt(np.mean((found.mean - wavy(new)) ** 2)) < (0.3 if noise else 0.02)
    assert found.sd.mean() < (0.5 if noise else 0.05)
    assert not np.mean(((found.mean - wavy(new) - 1.0) / np.hypot(found.sd, 1e-3)) ** 2) < 4


def test_a_normal_is_the_mean_function_and_needs_little_more(rng):
    points = cloud(rng, 200)
    surrogate, _, told = fitted(points, normal(points))
    new = cloud(rng, 200)
    assert_allclose(surrogate.mean(new), normal(new), atol=0.02)
    assert told.miss < 0.01


def test_gradients_tell_what_values_cannot(rng):
    """Errors of three surrogates of thirty places each, as shares of those without gradients: .02 to .73 in five."""
    ratios = []
    for _ in range(3):
        points, new = cloud(rng, 30), cloud(rng, 300, spread=1.0)
        errors = []
        for gradients in (-points + np.cos(2 * points), None):  # of `wavy`
            training = replace(training_set(points, wavy(points)), gradients=gradients)
            surrogate, _, _ = fit_sparse_gp(training, SparseGP(turn=False), np.random.default_rng(0), QUIET)
            errors.append(np.sqrt(np.mean((surrogate.mean(new) - wavy(new)) ** 2)))
        ratios.append(errors[0] / errors[1])
    assert np.exp(np.mean(np.log(ratios))) < 0.5


# Coordinates


def test_the_training_set_comes_back_in_the_surrogates_coordinates(rng):
    """A narrow diagonal ridge, which turned coordinates explain better."""
    points = cloud(rng, 300) @ np.array([[1.0, 0.95], [0.0, 0.31]])
    values = -20 * (points[:, 0] - points[:, 1]) ** 2 - 0.5 * points.sum(axis=1) ** 2 + 0.3 * np.sin(points.sum(axis=1))
    training = training_set(points, values, offset=5.0)
    surrogate, turned, told = fit_sparse_gp(training, replace(SMALL, turn=True), rng, QUIET)
    assert surrogate.space is turned.space
    assert told.rotated == isinstance(turned.space, WhitenedSpace)
    assert_allclose(turned.space.inverse(turned.points), points, atol=1e-9)
    assert_allclose(turned.values - turned.space.log_jacobian(turned.points), values, atol=1e-9)
    assert_allclose(surrogate.predict(points).mean[values > -5], values[values > -5] + 5.0, atol=0.3)


def test_inducing_points_are_evaluations(rng):
    points = cloud(rng, 300)
    surrogate, training, told = fitted(points, wavy(points))
    assert told.inducing == len(surrogate.inducing) <= 80
    gap = np.abs(surrogate.inducing[:, None] - training.points).max(axis=2).min(axis=1)
    assert_array_equal(gap, 0.0)


def test_levels_lose_their_noise(rng):
    points = cloud(rng, 400)
    values = wavy(points) + rng.standard_normal(400)
    _, training, _ = fitted(points, values, noise_sd=1.0)
    assert_array_equal(training.values, values)
    high = wavy(points) > -5
    assert np.std((training.level - wavy(points))[high]) < 0.5 * np.std((values - wavy(points))[high])
    exact = fitted(points, wavy(points))[1]
    assert_array_equal(exact.level, exact.values)


def test_the_final_surrogate_takes_the_noise_off_the_levels(rng):
    """Whatever the levels were before."""
    points = cloud(rng, 200)
    training = training_set(points, wavy(points) + rng.standard_normal(200), 1.0)
    data = ShapedData.shaped(training, SMALL)
    learnt = weak_prior(data, training.level, SMALL, rng).start
    fitted = fit_all(learnt, points[:40], data.regression(0.0), 0)
    _, after = settled(fit_module.tested(Proposal(training, learnt), fitted, 40, rng))
    high = wavy(points) > -5
    assert np.std((after.level - wavy(points))[high]) < 0.6 * np.std((training.level - wavy(points))[high])


# How many inducing points


def rough(x):
    return normal(x) + np.sin(5 * x).sum(axis=1)


def test_more_inducing_points_where_the_miss_is_large(rng):
    points = cloud(rng, 400, spread=1.2)
    few = replace(SMALL, inducing_per_dimension=10, max_inducing_per_dimension=40, finest=Level(400, 40, 50, 2))
    _, _, easy = fitted(points, normal(points), few)
    _, _, hard = fitted(points, rough(points), few)
    assert easy.inducing <= 20
    assert hard.inducing >= 40
    _, _, stopped = fitted(points, rough(points), replace(few, max_inducing_per_dimension=10))
    assert stopped.inducing == 20
    assert stopped.miss > max(hard.miss, 0.1)


def test_no_more_inducing_points_than_evaluations(rng):
    points = cloud(rng, 30)
    surrogate, _, told = fitted(points, rough(points), SparseGP(turn=False))
    assert told.inducing <= 30
    assert np.isfinite(surrogate.mean(points)).all()


def test_the_miss_is_what_noise_does_not_explain(rng):
    points = np.repeat(cloud(rng, 2000, spread=0.3), 2, axis=0)
    noise = np.tile([1.0, -1.0], 2000)  # with a mean square of one, as it is said to have
    training = replace(training_set(points, normal(points) + noise, 1.0), level=normal(points))
    assert high_density_miss(training, normal) == 0
    # The mean square of 4000 residuals has a standard error, two of which are forgiven.
    forgiven = 2 * np.sqrt(2 / 4000)
    assert high_density_miss(training, lambda u: normal(u) + 0.5) == pytest.approx(np.sqrt(0.25 - forgiven))
    assert high_density_miss(training, lambda u: normal(u) + 0.1) == 0


def test_a_miss_far_below_the_top_is_none(rng):
    points = cloud(rng, 400)
    training, below = training_set(points, normal(points)), normal(points).max() - contour_depth(POSTERIOR, 2)
    assert high_density_miss(training, lambda u: normal(u) - 9 * (normal(u) < below)) == 0
    assert high_density_miss(training, lambda u: normal(u) - 9) == pytest.approx(9)


def test_inducing_points_of_many_evaluations_are_looked_for_among_high_ones_and_others(rng):
    points = np.concatenate([cloud(rng, 900, spread=30.0), cloud(rng, 100, spread=0.5)])
    training, gp = training_set(points, normal(points)), replace(SMALL, max_candidates=100)
    rows = candidates(training, gp, rng)
    high = normal(points[rows]) > -contour_depth(SURROUNDINGS, 2)
    assert len(rows) == len(np.unique(rows)) <= 100
    assert 40 <= high.sum() <= 70
    assert_array_equal(candidates(training, SMALL, rng), np.arange(1000))


@pytest.mark.parametrize(
    ("wave", "noise", "per_dimension", "levels"),
    [(0.0, 0.0, 60, 0), (1.0, 0.0, 60, 1), (0.0, 1.0, 60, 2), (0.0, 0.0, 100, 1)],
    ids=["neither", "missed", "noisy", "few"],
)
def test_learning_goes_on_where_evaluations_are_missed_noisy_or_few(
    wave, noise, per_dimension, levels, rng, monkeypatch
):
    """Under noise for the surrogate and for its sister; few are those of which both learn from some of the same."""
    learnt, points = [], cloud(rng, 300)
    learn = fit_module.learn_finer

    def spied(proposal, level, *rest, **more):
        learnt.append(level)
        return learn(proposal, level, *rest, **more)

    monkeypatch.setattr(fit_module, "learn_finer", spied)
    values = normal(points) + wave * np.sin(5 * points).sum(axis=1) + noise * rng.standard_normal(300)
    coarse = (Level(per_dimension, 10, 60, 2),)
    fitted(points, values, replace(SMALL, tolerable_miss=0.2, coarse=coarse), noise_sd=noise)
    assert learnt[:levels] == [SMALL.fine] * levels
    assert bool(learnt) == bool(levels)


# What does not matter


def test_a_constant_changes_nothing_but_the_offset(rng):
    points = cloud(rng, 80)
    one, _, told = fitted(points, wavy(points))
    other, _, same = fitted(points, wavy(points), offset=512.0)
    assert told == same
    assert_array_equal(one.hyp.pack(), other.hyp.pack())
    assert_array_equal(one.mean(points), other.mean(points))
    assert_array_equal(other.predict(points).mean, one.predict(points).mean + 512.0)


def test_the_order_of_rows_does_not_matter(rng):
    points = cloud(rng, 80)
    values = np.round(wavy(points), 3)
    found = []
    for rows in (np.arange(80), rng.permutation(80)):
        training, _ = trim_evaluations(Evaluations(points[rows], values[rows] + 8.0 * (rows[0] > 0)), Trim())
        found.append(fit_sparse_gp(training, SMALL, np.random.default_rng(1), QUIET)[0])
    assert_array_equal(found[0].hyp.pack(), found[1].hyp.pack())
    assert_array_equal(found[0].factors.weights, found[1].factors.weights)


def test_the_same_seed_gives_the_same_surrogate(rng):
    points, some = cloud(rng, 80), replace(SMALL, coarse=(Level(20, 10, 30, 1),))
    one, other, another = (fitted(points, wavy(points), some, seed)[0].hyp.pack() for seed in (3, 3, 4))
    assert_array_equal(one, other)
    assert (one != another).any()  # another subset is learnt from


# Trouble, in words


def test_a_kernel_matrix_without_factors_is_said_in_words(rng):
    points = cloud(rng, 50)
    training = training_set(points, wavy(points))
    data = ShapedData.shaped(training, SMALL)
    learnt = weak_prior(data, training.level, SMALL, rng).start
    regression = data.regression(learnt.log_strength)
    assert np.isfinite(fit_all(learnt, points[:20], regression, 0).bound)
    with pytest.raises(FitError, match="cannot be factorised"):
        fit_all(learnt._replace(hyp=learnt.hyp._replace(log_output=np.nan)), points[:20], regression, 0)
