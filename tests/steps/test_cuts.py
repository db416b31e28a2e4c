"""Where the evaluations end before the posterior does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy import Known, edges_at, normal

from vsbq.steps.cuts import Cut, find_cuts
from vsbq.steps.region import TrustedRegion

N = 40_000


def region_until(limit, **options):
    """Of a standard normal in the plane, trusted up to a limit of the first parameter."""
    known = Known(normal, lambda u: 4.0 * (u[:, 0] > limit))
    return TrustedRegion(known, np.full(2, -9.0), np.full(2, 9.0), **{"most_variance": 1.0, "most_mean": 1.0} | options)


def draws(rng, limit=np.inf):
    """Of the normal, of which nothing is left beyond the limit: points and weights."""
    u = rng.standard_normal((N, 2))
    inside = u[:, 0] <= limit
    return u, inside / inside.sum()


@pytest.mark.parametrize("limit", [-0.5, 0.0, 1.0])
def test_a_posterior_that_ends_where_trust_does_is_cut(limit, rng):
    assert find_cuts(*draws(rng, limit), region_until(limit)) == (Cut(0, 1),)


def test_the_side_is_the_one_on_which_it_ends(rng):
    u, weights = draws(rng, 0.5)
    known = Known(normal, lambda u: 4.0 * (u[:, 1] < -0.5))
    below = replace(region_until(9.0), surrogate=known)
    assert find_cuts(-u[:, ::-1], weights, below) == (Cut(1, -1),)


@pytest.mark.parametrize("limit", [3.0, 9.0])
def test_a_posterior_with_tails_is_not_cut(limit, rng):
    """Even if trust ends where next to nothing is left."""
    assert find_cuts(*draws(rng, limit), region_until(limit)) == ()


def test_an_end_within_the_trusted_region_is_no_cut(rng):
    """The density itself ends there, as far as the surrogate knows."""
    assert find_cuts(*draws(rng, 0.0), region_until(9.0)) == ()


def test_an_end_at_the_edge_of_the_support_is_no_cut(rng):
    """Beyond it there is nothing, whether or not the surrogate is trusted there."""
    points, weights = draws(rng, 0.0)
    assert find_cuts(points, weights, region_until(0.0, support=edges_at(0.0, d=2))) == ()
    assert find_cuts(points, weights, region_until(0.0, support=edges_at(9.0, d=2))) == (Cut(0, 1),)


def test_cuts_are_of_the_parameters_not_of_the_surrogates_coordinates(rng):
    turn = np.array([[0.0, 2.0], [-1.0, 0.0]])  # the first parameter becomes the second coordinate, turned round
    plain, weights = draws(rng, 0.0)
    known = Known(lambda u: normal(u @ np.linalg.inv(turn).T), lambda u: 4.0 * (u[:, 1] < 0.0), turn=turn)
    assert find_cuts(plain @ turn.T, weights, replace(region_until(9.0), surrogate=known)) == (Cut(0, 1),)


def test_equal_weights_of_fewer_draws_tell_the_same(rng):
    points, weights = draws(rng, 0.0)
    kept = points[weights > 0]
    assert find_cuts(kept, np.full(len(kept), 1 / len(kept)), region_until(0.0)) == (Cut(0, 1),)


def test_one_draw_that_has_all_the_weight_has_no_flank(rng):
    points, weights = draws(rng)[0], np.zeros(N)
    weights[0] = 1.0
    assert find_cuts(points, weights, region_until(-9.0)) == ()
