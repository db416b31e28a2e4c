"""Where the mixture starts, and an earlier mixture in new coordinates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from toy import cloud, normal, training_set, two_modes

import reference
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace, WhitenedSpace
from vsbq.numerics.families import SharedDiagonal
from vsbq.numerics.mixture import Mixture, is_degenerate, log_pdf, sample
from vsbq.steps.mixture import VariationalMixture
from vsbq.steps.mixture.starts import moved, starts

POLICY = VariationalMixture(base_components=6, components_per_dimension=1)


def proper(mixture):
    """Weights that sum to one, finite parameters, and no flat component."""
    finite = all(np.isfinite(part).all() for part in mixture)
    return finite and mixture.weights.sum() == pytest.approx(1.0) and not is_degenerate(mixture)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_both_starts_are_proper_mixtures_among_the_evaluations(d, rng):
    points = cloud(rng, 300, d)
    found = starts(training_set(points, normal(points)), POLICY, rng)
    assert list(found) == ["best points", "high-density region"]
    for mixture in found.values():
        assert proper(mixture)
        assert 1 <= len(mixture.means) <= POLICY.components(d)
        assert (mixture.means > points.min(axis=0)).all()
        assert (mixture.means < points.max(axis=0)).all()


DEGENERATE = {
    "few": lambda x: (x[:4], normal(x[:4])),
    "one value": lambda x: (x, np.zeros(len(x))),
    "one place and a few": lambda x: (np.where(np.arange(len(x))[:, None] < 290, 0.1, x), normal(x)),
    "a spike": lambda x: (x, np.where(np.arange(len(x)) == 7, 0.0, -150.0)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_any_evaluations_give_proper_starts(name, rng):
    points, values = DEGENERATE[name](cloud(rng, 300))
    for mixture in starts(training_set(points, values), POLICY, rng).values():
        assert proper(mixture)


@pytest.mark.parametrize(("rise", "least", "most"), [(0.5, 0.3, 0.9), (4.0, 0.9, 1.0)])
def test_one_start_is_at_the_best_points_and_one_is_spread(rise, least, most, rng):
    """And where it is spread, what is higher has more of the mass."""
    mode = np.array([2.0, 0.0])
    points = np.concatenate([cloud(rng, 300, spread=0.5) + mode, cloud(rng, 300, spread=0.5) - mode])
    values = two_modes(points) + rise * (points[:, 0] > 0)
    both = VariationalMixture(base_components=6, components_per_dimension=1, spread_depth=5.0)
    narrow, spread = starts(training_set(points, values), both, rng).values()
    assert (narrow.means[:, 0] > 0).all()
    assert least < spread.weights[spread.means[:, 0] > 0].sum() < most
    drawn = sample(spread, 4000, rng)
    assert drawn[drawn[:, 0] > 0].std(axis=0) == pytest.approx([0.5, 0.5], rel=0.5)


def test_levels_say_which_points_are_high(rng):
    """Not values that are high by luck."""
    points = cloud(rng, 300)
    training = training_set(points, normal(points))
    lucky = replace(training, values=training.values + 50.0 * (points[:, 0] > 2))
    for one, other in zip(
        *(starts(case, POLICY, np.random.default_rng(0)).values() for case in (training, lucky)), strict=True
    ):
        assert_array_equal(one.means, other.means)


def test_an_earlier_mixture_takes_the_place_of_the_first_start(rng):
    points = cloud(rng, 300)
    earlier = Mixture(*reference.random_mixture(rng, 3, 2))
    found = starts(training_set(points, normal(points)), POLICY, rng, earlier)
    assert list(found) == ["earlier posterior", "high-density region"]
    assert_allclose(found["earlier posterior"].means, earlier.means)
    assert_allclose(found["earlier posterior"].trils, earlier.trils, atol=1e-12)
    shared = replace(POLICY, family=SharedDiagonal)
    trils = starts(training_set(points, normal(points)), shared, rng, earlier)["earlier posterior"].trils
    assert_allclose(trils[:, 1, 0], 0.0)


# Other coordinates


def space(d, rng, rotation=None, bounds=None):
    plain = InferenceSpace(Bounds.parse(bounds, d), np.zeros(d), rng.normal(size=d), np.exp(rng.normal(size=d)))
    return plain if rotation is None else WhitenedSpace(plain, rotation)


@pytest.mark.parametrize("bounds", [None, [(0, None), (0, 1), (None, None)]])
@pytest.mark.parametrize("turned", [(False, False), (False, True)])
def test_a_moved_mixture_is_the_same_density(bounds, turned, rng):
    here, there = (space(3, rng, np.eye(3) + 0.3 * rng.normal(size=(3, 3)) if one else None, bounds) for one in turned)
    mixture = Mixture(*reference.random_mixture(rng, 3, 3))
    other = moved(mixture, here, there)
    x = here.inverse((rng.uniform(-2, 2, (50, 3)) - here.centre) / here.scale)  # not at the bounds
    one, same = (log_pdf(m, s.forward(x)) - s.log_jacobian(s.forward(x)) for m, s in ((mixture, here), (other, there)))
    assert_allclose(same, one, atol=1e-6)
    assert np.abs(other.means - mixture.means).max() > 0.1


def test_other_bounds_bend_the_coordinates_otherwise(rng):
    mixture = Mixture(*reference.random_mixture(rng, 2, 2))
    assert moved(mixture, space(2, rng), space(2, rng, bounds=[(0, None), (None, None)])) is None
