"""Steps 2 and 3 as published."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import QUIET, cloud, normal, normal_surrogate, training_set, wavy

import reference
from vsbq.data.transform import InferenceSpace
from vsbq.settings import MixtureStep, SurrogateStep
from vsbq.steps.published import PublishedGP, PublishedMixture
from vsbq.steps.region import TrustedRegion

GP = PublishedGP(inducing_per_dimension=20, rounds=2)
MIXTURE = PublishedMixture(components=4, steps=150, elbo_draws=20_000)


def test_they_are_steps():
    assert isinstance(GP, SurrogateStep)
    assert isinstance(MIXTURE, MixtureStep)


@pytest.fixture
def case(rng):
    points = cloud(rng, 250)
    return training_set(points, wavy(points), offset=4.0, low=cloud(rng, 10) + 9.0, zeros=cloud(rng, 5) - 9.0)


def test_held_out_values_are_predicted(case, rng):
    surrogate, training, told = GP.fit(case, rng, QUIET)
    new = cloud(rng, 300, spread=1.0)
    found = surrogate.predict(new)
    assert np.sqrt(np.mean((found.mean - 4.0 - wavy(new)) ** 2)) < 0.1
    assert np.mean((found.mean - 4.0 - wavy(new)) ** 2 / np.hypot(found.sd, 1e-2) ** 2) < 4
    assert surrogate.offset == training.offset == 4.0
    assert told.miss < 0.1


def test_nothing_is_turned_and_nobody_joins(case, rng):
    surrogate, training, told = GP.fit(case, rng, QUIET)
    assert isinstance(surrogate.space, InferenceSpace)
    assert not told.rotated
    assert_array_equal(training.points, case.points)
    assert_array_equal(training.values, case.values)
    assert_array_equal(training.low, case.low)
    assert_array_equal(training.zeros, case.zeros)
    assert surrogate.sisters == ()
    assert told.shaping_strength == pytest.approx(1.0)  # the shaping noise is what the paper says
    assert told.inducing == len(surrogate.inducing) <= 40


def test_levels_of_noisy_values_lose_their_noise(rng):
    points = cloud(rng, 250)
    noise = rng.standard_normal(250)
    _, training, _ = GP.fit(training_set(points, wavy(points) + noise, 1.0), rng, QUIET)
    high = wavy(points) > -5
    assert np.std((training.level - wavy(points))[high]) < 0.6 * np.std(noise[high])


def test_few_evaluations_are_enough(rng):
    points = cloud(rng, 25)
    surrogate, _, told = PublishedGP().fit(training_set(points, normal(points)), rng, QUIET)
    assert told.inducing <= 25
    assert_allclose(surrogate.mean(points), normal(points), atol=0.3)


# The mixture


@pytest.fixture
def around(rng):
    points = cloud(rng, 250)
    training = training_set(points, normal(points), offset=4.0)
    return TrustedRegion.around(normal_surrogate(2, offset=4.0), training), training


def test_a_normal_is_found(around, rng):
    mixture, found, told = MIXTURE.fit(*around, rng, QUIET)
    mean, cov = reference.mixture_moments(mixture.weights, mixture.means, mixture.trils)
    assert_allclose(mean, 0.0, atol=0.1)
    assert_allclose(cov, np.eye(2), atol=0.2)
    evidence = np.log(2 * np.pi)
    assert evidence - 0.1 < found.value < evidence + 4 * found.monte_carlo_error + 1e-3
    assert told.components == len(mixture.means) <= 4
    best = max(value for _, value in told.starts)
    assert best == pytest.approx(found.value + 4.0, abs=0.05)  # the starts are told with the offset


def test_components_share_their_diagonal_scales(around, rng):
    trils = MIXTURE.fit(*around, rng, QUIET)[0].trils
    assert_allclose(trils[:, 1, 0], 0.0)
    assert_allclose(trils[:, 1, 1] / trils[:, 0, 0], trils[0, 1, 1] / trils[0, 0, 0])
    assert MIXTURE.shape.components(7) == 4


def test_it_goes_on_from_an_earlier_mixture(around, rng):
    first, found, _ = MIXTURE.fit(*around, rng, QUIET)
    _, again, told = PublishedMixture(components=4, steps=30).fit(*around, rng, QUIET, first)
    assert told.starts[0][0] == "earlier posterior"
    assert again.value > found.value - 0.05
