"""Representative subsets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vsbq.numerics.subset import STRATA, _spread, cluster_centres, nearest_rows, spread_rows, stratified_rows


@pytest.fixture
def trace(rng):
    """Points that pile up at the top, as an optimiser leaves them."""
    points = rng.normal(size=(1000, 3)) * rng.uniform(0.01, 3.0, (1000, 1))
    return points, -0.5 * (points**2).sum(axis=1)


@pytest.mark.parametrize("count", [5, 23, 100, 250, 990, 999])
def test_rows_are_distinct_and_as_many_as_asked(trace, count, rng):
    rows = stratified_rows(*trace, count, rng)
    assert len(rows) == len(np.unique(rows)) == count
    assert rows.min() >= 0
    assert rows.max() < 1000


@pytest.mark.parametrize("count", [1000, 2000])
def test_all_rows_if_there_are_no_more(trace, count, rng):
    assert_array_equal(stratified_rows(*trace, count, rng), np.arange(1000))
    assert_array_equal(spread_rows(trace[0], count, rng), np.arange(1000))


def test_every_stratum_is_represented(trace, rng):
    points, values = trace
    rows = stratified_rows(points, values, 100, rng)
    rank = np.empty(1000, dtype=int)
    rank[np.argsort(-values)] = np.arange(1000)
    edges = np.round(np.array(STRATA) * 1000)
    count, _ = np.histogram(rank[rows], edges)
    assert_array_equal(count, 20)
    assert_array_equal(edges[[0, -1]], [0, 1000])


def test_what_a_small_stratum_lacks_comes_from_the_others(trace, rng):
    points, values = trace
    rows = stratified_rows(points, values, 600, rng)  # 120 each, but the top stratum has only 100
    rank = np.argsort(np.argsort(-values, kind="stable"), kind="stable")
    assert np.isin(np.flatnonzero(rank < 100), rows).all()
    assert len(rows) == 600


def test_copies_make_room_for_others(rng):
    points = np.repeat(rng.normal(size=(40, 2)), 10, axis=0)
    rows = stratified_rows(points, -(points**2).sum(axis=1), 30, rng)
    assert len(rows) == len(np.unique(rows))
    assert len(np.unique(points[rows], axis=0)) > 25


def test_the_same_generator_gives_the_same_rows(trace):
    one, again, other = (stratified_rows(*trace, 100, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert_array_equal(one, again)
    assert not np.array_equal(one, other)


def test_a_constant_in_the_values_is_no_matter(trace):
    points, values = trace
    one, other = (stratified_rows(points, values + shift, 100, np.random.default_rng(3)) for shift in (0.0, 64.0))
    assert_array_equal(one, other)


def test_spread_rows_do_not_follow_the_crowd(rng):
    crowd = np.concatenate([0.01 * rng.normal(size=(900, 2)), rng.uniform(-3, 3, (100, 2))])
    rows = spread_rows(crowd, 50, rng)
    assert len(rows) == len(np.unique(rows)) == 50
    assert (rows >= 900).mean() > 0.8  # a random choice would have 10 %


def test_spread_rows_do_not_know_the_units(trace):
    one, other = (
        spread_rows(trace[0] * units, 40, np.random.default_rng(5)) for units in (1.0, np.array([1, 8, 1024.0]))
    )
    assert_array_equal(one, other)


def test_spread_rows_of_equal_points(rng):
    assert len(spread_rows(np.ones((20, 2)), 5, rng)) == 1


def test_clusters_that_are_plain_to_see(rng):
    truth = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
    points = np.repeat(truth, 50, axis=0) + 0.1 * rng.normal(size=(200, 2))
    centres, label = cluster_centres(points, 4, rng)
    assert len(centres) == 4
    assert_allclose(centres[label], np.repeat(truth, 50, axis=0), atol=0.2)


def test_no_cluster_is_empty(trace, rng):
    points = np.repeat(trace[0][:30], 5, axis=0)
    centres, label = cluster_centres(points, 60, rng)
    assert len(centres) <= 30
    assert_array_equal(np.unique(label), np.arange(len(centres)))


def test_a_column_without_spread_is_no_matter(trace, rng):
    points = trace[0].copy()
    points[:, 1] = 7.0
    centres, _ = cluster_centres(points, 5, rng)
    assert_allclose(centres[:, 1], 7.0)


def test_nearest_rows(trace, rng):
    points = trace[0]
    targets = rng.normal(size=(20, 3))
    wanted = [int(np.argmin(((points - target) ** 2).sum(axis=1))) for target in targets]
    assert nearest_rows(points, targets).tolist() == wanted
    assert_array_equal(nearest_rows(points, points[:10]), np.arange(10))


def slow_spread(scaled, first, jumps):
    """The obvious twin: all squared distances anew for each row."""
    rows = [first]
    for jump in jumps[1:]:
        distance = ((scaled[:, None] - scaled[rows]) ** 2).sum(axis=2).min(axis=1)
        rows.append(int(np.searchsorted(np.cumsum(distance), jump * distance.sum(), side="right")))
    return rows


def test_products_choose_what_differences_choose(trace, rng):
    points, jumps = trace[0], rng.uniform(size=60)
    for scaled in (points, np.repeat(points[:500], 2, axis=0), 1e-9 * points + 5):
        fast, sure = _spread(scaled, 17, jumps, exact=False)
        slow = slow_spread(scaled, 17, jumps)
        exact, always = _spread(scaled, 17, jumps, exact=True)
        assert always
        assert_array_equal(exact, slow)
        assert not sure or list(fast) == slow
    assert _spread(points, 17, jumps, exact=False)[1]


def test_where_products_round_too_much_differences_are_taken(rng):
    """A cloud far smaller than the distance to a point that is far away."""
    points = np.concatenate([1e-9 * rng.normal(size=(50, 2)), [[1.0, 1.0]]])
    assert not _spread(points, 50, rng.uniform(size=20), exact=False)[1]
    assert len(spread_rows(points, 20, rng)) == 20
