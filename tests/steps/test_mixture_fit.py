"""Step 3 as a whole: the mixture that is fitted to a surrogate, and its ELBO."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from exact_gp import ExactGPStep
from numpy.testing import assert_allclose, assert_array_equal
from toy import QUIET, cloud, normal, normal_surrogate, one_normal, training_set, two_modes

import reference
from vsbq.numerics.families import SharedDiagonal
from vsbq.numerics.mixture import Mixture, sample
from vsbq.steps.mixture import VariationalMixture, fit_variational
from vsbq.steps.mixture.elbo import elbo
from vsbq.steps.region import TrustedRegion

POLICY = VariationalMixture(
    base_components=3,
    components_per_dimension=1,
    first=(64, 20),
    adapt=((2000, 10), (4000, 10)),
    then=(256, 20),
    elbo_draws=20_000,
)

EVIDENCE = np.log(2 * np.pi)  # of the standard normal in the plane


def normal_case(rng, offset=0.0, n=300):
    points = cloud(rng, n)
    training = training_set(points, normal(points), offset=offset)
    return TrustedRegion.around(normal_surrogate(2, offset=offset), training), training


def modes_case(rng):
    mode = np.array([2.0, 0.0])
    points = np.concatenate([cloud(rng, 60, spread=0.8) + mode, cloud(rng, 60, spread=0.8) - mode])
    model, training, _ = ExactGPStep().fit(training_set(points, two_modes(points)), rng, QUIET)
    return TrustedRegion.around(model, training), training


@pytest.mark.parametrize("family", [POLICY.family, SharedDiagonal])
def test_a_normal_is_found(family, rng):
    mixture, found, told = fit_variational(*normal_case(rng), replace(POLICY, family=family), rng, QUIET)
    mean, cov = reference.mixture_moments(mixture.weights, mixture.means, mixture.trils)
    assert_allclose(mean, 0.0, atol=0.05)
    assert_allclose(cov, np.eye(2), atol=0.1)
    assert EVIDENCE - 0.02 < found.value < EVIDENCE + 4 * found.monte_carlo_error + 1e-4
    assert len(told.starts) == 2
    assert told.components == len(mixture.means)


def test_two_modes_have_half_the_mass_each(rng):
    region, training = modes_case(rng)
    mixture, found, _ = fit_variational(region, training, POLICY, rng, QUIET)
    draws = sample(mixture, 20_000, rng)
    assert np.mean(draws[:, 0] > 0) == pytest.approx(0.5, abs=0.1)
    assert_allclose(draws[draws[:, 0] > 0].mean(axis=0), [2.0, 0.0], atol=0.1)
    assert_allclose(draws[draws[:, 0] > 0].std(axis=0), [0.5, 0.5], rtol=0.15)
    assert abs(found.value) < 0.15


def test_there_are_no_more_components_than_allowed(rng):
    mixture, _, told = fit_variational(*normal_case(rng), replace(POLICY, max_components=2), rng, QUIET)
    assert len(mixture.means) == told.components <= 2
    assert mixture.weights.sum() == pytest.approx(1.0)


def test_the_elbo_is_that_of_the_mixture_on_fresh_draws(rng):
    region, training = modes_case(rng)
    mixture, found, _ = fit_variational(region, training, POLICY, rng, QUIET)
    again = elbo(mixture, region.surrogate, np.random.default_rng(99), 50_000)
    # The higher of three was kept, hence one error more.
    assert abs(found.value - again.value) < 5 * np.hypot(found.monte_carlo_error, again.monte_carlo_error)
    assert found.sd == pytest.approx(again.sd)


def test_the_result_is_no_worse_than_its_starts(rng):
    region, training = modes_case(rng)
    _, found, told = fit_variational(region, training, POLICY, rng, QUIET)
    assert found.value + region.surrogate.offset > max(value for _, value in told.starts) - 0.1


def test_a_constant_is_told_in_the_starts_and_changes_nothing_else(rng):
    seed = int(rng.integers(2**31))
    one, other = (
        fit_variational(*normal_case(np.random.default_rng(seed), c), POLICY, np.random.default_rng(1), QUIET)
        for c in (0.0, 512.0)
    )
    assert one[1] == other[1]
    assert_array_equal(one[0].means, other[0].means)
    for (_, before), (_, after) in zip(one[2].starts, other[2].starts, strict=True):
        assert after == pytest.approx(before + 512.0)


@pytest.mark.parametrize("adapt", [POLICY.adapt, ()], ids=["adapted", "climbed only"])
def test_no_mass_leaks_to_where_nothing_was_evaluated(adapt, rng):
    """Evaluations of a slice of a normal: the surrogate goes on beyond them, the mixture may not follow far."""
    points = cloud(rng, 2000)
    points = points[(points[:, 0] < -0.8) & (points[:, 0] > -2.0)]
    training = training_set(points, normal(points))
    region = TrustedRegion.around(normal_surrogate(2), training)
    share = region.share_outside(one_normal([0, 0], [1, 1]), rng)
    assert share > 0.25
    mixture, _, _ = fit_variational(region, training, replace(POLICY, adapt=adapt), rng, QUIET)
    assert region.share_outside(mixture, rng) < 0.4 * share
    assert mixture.weights.sum() == pytest.approx(1.0)


def test_it_goes_on_from_an_earlier_mixture(rng):
    region, training = normal_case(rng)
    earlier = Mixture(*reference.random_mixture(rng, 2, 2))
    _, found, told = fit_variational(region, training, POLICY, rng, QUIET, earlier=earlier)
    assert [name for name, _ in told.starts] == ["earlier posterior", "high-density region"]
    assert found.value > EVIDENCE - 0.02


def test_a_shared_diagonal_stays_one(rng):
    region, training = modes_case(rng)
    trils = fit_variational(region, training, replace(POLICY, family=SharedDiagonal), rng, QUIET)[0].trils
    assert_allclose(trils[:, 1, 0], 0.0)
    assert_allclose(trils[:, 1, 1] / trils[:, 0, 0], trils[0, 1, 1] / trils[0, 0, 0])


def test_the_same_seed_gives_the_same_mixture(rng):
    case, quick = normal_case(rng), replace(POLICY, adapt=((1000, 5),), then=(64, 5))
    one, other, another = (fit_variational(*case, quick, np.random.default_rng(s), QUIET)[0].means for s in (1, 1, 2))
    assert_array_equal(one, other)
    assert one.shape != another.shape or (one != another).any()
