"""What the evaluations leave open: sisters, their coordinates, and levels under noise."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import QUIET, cloud, training_set, wavy

from vsbq.numerics import exact
from vsbq.steps.surrogate import SparseGP, fit_sparse_gp, sisters
from vsbq.steps.surrogate.fit import fit_proposal
from vsbq.steps.surrogate.learning import weak_prior
from vsbq.steps.surrogate.shaped_data import Level, ShapedData
from vsbq.steps.surrogate.sisters import learn_sisters, with_levels

GP = SparseGP(inducing_per_dimension=30, coarse=(Level(150, 20, 100, 2),), fine=Level(200, 25, 20, 1))

#: Of a narrow ridge along the diagonal.
SLANT = np.array([[1.0, 0.9], [0.0, 0.3]])


def slanted(n, rng, covariance, spread=1.5):
    """Evaluations of a normal with some covariance."""
    d = len(covariance)
    points = cloud(rng, n, d, spread) @ np.linalg.cholesky(covariance).T
    return training_set(points, -0.5 * np.einsum("ni,ij,nj->n", points, np.linalg.inv(covariance), points))


def ridge(n, rng, noise=0.0):
    """Along the diagonal, with a wave along and across it that no quadratic is."""
    straight = cloud(rng, n)
    return training_set(straight @ SLANT, wavy(straight) + noise * rng.standard_normal(n), noise)


# Sisters


def means_of(sisters, points, training, settings=GP):
    """The mean of each as a log density of the plain coordinates."""
    pool, found = np.arange(len(training)), []
    for proposal in sisters:
        fitted = fit_proposal(proposal, pool, settings.first_inducing(training.dimension), settings)
        there = proposal.training.space.from_plain(points)
        found.append(fitted.mean(there) - proposal.training.space.log_jacobian(there))
    return np.array(found)


def differ(n, rng, noise=0.0):
    """Root mean square difference of two sisters over the posterior, and the error of their average."""
    points = cloud(rng, n)
    training = training_set(points, wavy(points) + noise * rng.standard_normal(n), noise)
    new = rng.standard_normal((300, 2))
    means = means_of(learn_sisters(training, GP, rng, QUIET), new, training)
    gap = np.sqrt(np.mean((means[0] - means[1]) ** 2))
    return gap, np.sqrt(np.mean((means.mean(axis=0) - wavy(new)) ** 2))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_sisters_agree_where_evaluations_are_many_and_not_where_they_are_few(noise, rng):
    few, many = (np.array([differ(n, rng, noise) for _ in range(4)]).T for n in (16, 400))
    assert many[0].mean() < 0.1
    assert few[0].mean() > 5 * many[0].mean()
    error = np.log(few[1] / few[0]).std(ddof=1) / np.sqrt(4)
    assert np.log(few[1] / few[0]).mean() < np.log(3.0) + 4 * error  # something like what they are wrong by


def test_there_are_two_and_they_are_of_the_same_density(rng):
    training = ridge(400, rng)
    sisters = learn_sisters(training, GP, rng, QUIET)
    assert len(sisters) == 2
    for proposal in sisters:
        there = proposal.training
        assert_allclose(there.space.inverse(there.points), training.points, atol=1e-9)
        assert_allclose(there.values - there.space.log_jacobian(there.points), training.values, atol=1e-9)
        assert_array_equal(proposal.learnt.coordinates, np.eye(2))
    one, other = (proposal.training.points for proposal in sisters)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("sisters", [1, 2])
def test_the_surrogate_knows_what_its_sisters_leave_open(sisters, rng):
    """Error bars with sisters are no smaller, and cover what the surrogates differ by."""
    points = cloud(rng, 40)
    surrogate, _, _ = fit_sparse_gp(training_set(points, wavy(points)), replace(GP, sisters=sisters), rng, QUIET)
    assert len(surrogate.sisters) == sisters
    u = surrogate.space.from_plain(rng.standard_normal((100, 2)))
    alone = replace(surrogate, sisters=())
    means = surrogate.means(u)
    assert_allclose(surrogate.variance(u) - alone.variance(u), means.var(axis=0, ddof=1), atol=1e-9)
    assert means.std(axis=0).max() > 1e-3


def test_a_surrogate_has_one_sister_unless_others_are_asked_for(rng):
    points = cloud(rng, 40)
    counts = [
        len(fit_sparse_gp(training_set(points, wavy(points)), gp, np.random.default_rng(0), QUIET)[0].sisters)
        for gp in (GP, replace(GP, sisters=0))
    ]
    assert counts == [1, 0]


def test_levels_of_sisters_are_those_of_the_surrogate(rng, monkeypatch):
    """Values of all are of the same density: their means agree where evaluations are many."""
    monkeypatch.setattr(sisters, "MOST_LOSS", np.inf)  # in coordinates of its own
    training = ridge(500, rng)
    surrogate, turned, _ = fit_sparse_gp(training, GP, rng, QUIET)
    high = turned.level > turned.level.max() - 4
    means = surrogate.means(turned.points[high])
    assert_allclose(means, np.broadcast_to(turned.values[high], means.shape), atol=0.3)
    shifts = [sister.shift for sister in surrogate.sisters]
    assert max(np.abs(shifts)) > 0.5  # which they would not without it


# Coordinates


CORRELATED = np.array([[1.0, 0.98, 0.0], [0.98, 1.0, 0.0], [0.0, 0.0, 1.0]]) * np.outer([1, 5, 0.2], [1, 5, 0.2])


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_coordinates_of_a_correlated_normal_are_found_in_any_order(order, rng):
    """In the surrogate's own coordinates its mean, a quadratic along the axes, is the normal."""
    covariance = CORRELATED[np.ix_(order, order)]
    training = slanted(300, rng, covariance)
    _, turned, told = fit_sparse_gp(training, GP, rng, QUIET)
    there = turned.space.rotation @ covariance @ turned.space.rotation.T
    sd = np.sqrt(np.diag(there))
    correlation = there / np.outer(sd, sd) - np.eye(3)
    assert np.abs(correlation).max() < 0.3
    assert told.rotated
    assert told.miss < 0.05


@pytest.mark.parametrize("turn", [False, True])
def test_coordinates_are_learnt_only_if_that_is_asked_for(turn, rng):
    """Otherwise they are plain."""
    training = slanted(300, rng, CORRELATED)
    one, other = (p.training.space for p in learn_sisters(training, replace(GP, turn=turn), rng, QUIET))
    moved = [np.abs(space.from_plain(np.eye(3)) - np.eye(3)).max() for space in (one, other)]
    assert (max(moved) == 0) == (not turn)
    assert (min(moved) > 0.1) == turn


@pytest.mark.parametrize("lost", [False, True])
def test_a_sister_that_has_got_lost_starts_where_the_other_one_is(lost, rng, monkeypatch):
    begun = []

    def spied(training, start, rows, *more):
        begun.append((training, start, rows))
        return learn(training, start, rows, *more)

    learn = sisters._learn
    monkeypatch.setattr(sisters, "_learn", spied)
    monkeypatch.setattr(sisters, "MOST_LOSS", -np.inf if lost else np.inf)
    first, second = learn_sisters(ridge(300, rng), GP, np.random.default_rng(0), QUIET)
    assert len(begun) == (3 if lost else 2)
    assert [start for _, start, _ in begun[:2]] == [None, None]
    if lost:
        training, start, rows = begun[2]
        assert training is first.training
        assert start is first.learnt
        assert any(rows is part for _, _, part in begun[:2])
    assert (first.learnt.pack() != second.learnt.pack()).any()  # of another part of the evaluations


def test_one_dimension_has_nothing_to_turn(rng):
    points = cloud(rng, 80, d=1)
    surrogate, _, _ = fit_sparse_gp(training_set(points, wavy(points)), GP, rng, QUIET)
    new = rng.standard_normal((50, 1))
    assert_allclose(surrogate.predict(new).mean, wavy(new), atol=0.05)


# Levels under noise


def test_exact_evaluations_are_left_as_they_are(rng):
    training = ridge(100, rng)
    assert with_levels(training, GP, rng).training is training


def test_levels_lose_their_noise(rng):
    points = cloud(rng, 400)
    training = training_set(points, wavy(points) + rng.standard_normal(400), 1.0)
    found = with_levels(training, GP, rng).training
    high = wavy(points) > -5
    assert np.std((found.level - wavy(points))[high]) < 0.5 * np.std((training.level - wavy(points))[high])
    assert_array_equal(found.values, training.values)


def test_an_exact_gp_learns_from_the_subset(rng):
    points = cloud(rng, 150)
    training, gp = training_set(points, wavy(points)), replace(GP, exact_points=1000)
    found = with_levels(training, gp, np.random.default_rng(0)).learnt
    data = ShapedData.shaped(training, gp)
    prior = weak_prior(data, training.level, gp, np.random.default_rng(0))
    before, after = (
        prior.maximise(exact.evidence_and_gradient, data, learnt, 0, 1.0).value for learnt in (prior.start, found)
    )
    assert after > before + 1.0


def test_noise_can_be_shaped_by_the_values_themselves(rng):
    """As published; it is the same as long as the levels are the values."""
    points = cloud(rng, 100)
    training = training_set(points, wavy(points))
    sunk = replace(training, level=training.level - 100.0 * (points[:, 0] > 0))

    def learnt(case, by_value):
        return with_levels(case, GP, np.random.default_rng(0), by_value=by_value).learnt.pack()

    assert_array_equal(learnt(training, True), learnt(training, False))
    assert np.abs(learnt(sunk, True) - learnt(sunk, False)).max() > 0.01
