"""Bounds in every form that people have them in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds as ScipyBounds

from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, VsbqError

INF = np.inf


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [
        (None, [-INF, -INF], [INF, INF]),
        ([(0, 1), (2, 3)], [0, 2], [1, 3]),
        (((0, 1), (2, 3)), [0, 2], [1, 3]),
        (np.array([[0, 1], [2, 3]]), [0, 2], [1, 3]),
        ([(None, 1), (2, None)], [-INF, 2], [1, INF]),
        ([(-INF, 1), None], [-INF, -INF], [1, INF]),
        (ScipyBounds([0, 2], [1, INF]), [0, 2], [1, INF]),
        (ScipyBounds(0, 1), [0, 0], [1, 1]),
        ({"b": (2, None)}, [-INF, 2], [INF, INF]),
        ({"b": (2, 3), "a": [0, 1]}, [0, 2], [1, 3]),
        ({"a": None}, [-INF, -INF], [INF, INF]),
        (Bounds(np.array([0.0, 2.0]), np.array([1.0, 3.0])), [0, 2], [1, 3]),
    ],
)
def test_every_form_is_read(value, lower, upper):
    bounds = Bounds.parse(value, 2, ("a", "b"))
    np.testing.assert_array_equal(bounds.lower, lower)
    np.testing.assert_array_equal(bounds.upper, upper)
    assert bounds.lower.dtype == bounds.upper.dtype == np.float64


@pytest.mark.parametrize("value", [(0, 1), [0, 1], np.array([0, 1]), [(0, 1)], np.array([[0, 1]]), {"x1": (0, 1)}])
def test_one_parameter_may_have_a_bare_pair(value):
    bounds = Bounds.parse(value, 1)
    assert bounds.pair(0) == (0.0, 1.0)


def test_one_parameter_with_an_open_side():
    assert Bounds.parse((None, 5), 1).pair(0) == (-INF, 5.0)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([(0, 1), (3, 2)], ["bounds of 'b'", "lower < upper", "(3, 2)", "Swap"]),
        ([(0, 1), (2, 2)], ["'b'", "(2, 2)", "leave its column out"]),
        ([(0, 1), (INF, INF)], ["'b'", "lower < upper"]),
        ([(np.nan, 1), (2, 3)], ["'a'", "NaN", "Use None or an infinity"]),
        ([(0, 1)], ["1 parameters, but there are 2", "'a' and 'b'", "Give one pair"]),
        ([(0, 1)] * 3, ["3 parameters, but there are 2"]),
        (ScipyBounds([0, 0, 0], [1, 1, 1]), ["3 parameters, but there are 2"]),
        (Bounds(np.zeros(3), np.ones(3)), ["3 parameters, but there are 2"]),
        ({"c": (0, 1)}, ["names 'c'", "'a' and 'b'", "Use these names"]),
        ([(0, 1), (2, 3, 4)], ["'b' must be a pair", "(2, 3, 4)", "with None where a side is open"]),
        ([(0, 1), "23"], ["'b' must be a pair", "'23'"]),
        ([(0, 1), (0, "one")], ["'b' must be a pair"]),
        ([(0, 1), 7], ["'b' must be a pair"]),
        ((0, 1), ["'a' must be a pair", "Give one pair for every parameter"]),
        ("ab", ["can't be read from 'ab'", "Give one pair"]),
        (np.array(7.0), ["can't be read from array(7.)", "Give one pair"]),
    ],
)
def test_errors_name_parameter_and_remedy(value, words):
    with pytest.raises(EvaluationsError) as error:
        Bounds.parse(value, 2, ("a", "b"))
    assert isinstance(error.value, ValueError)
    assert isinstance(error.value, VsbqError)
    for word in words:
        assert word in str(error.value)


def test_lower_and_upper_rows_look_transposed():
    with pytest.raises(EvaluationsError, match=r"looks transposed.*np\.transpose"):
        Bounds.parse(np.array([[0, 0, 0], [1, 1, 1]]), 3)


# Two parameters: two pairs and (lower, upper) look the same


@pytest.mark.parametrize("value", [([-9, -8], [9, 8]), [[-9, -8], [9, 8]], np.array([[-9, -8], [9, 8]])])
def test_lower_and_upper_of_two_parameters_that_cannot_be_pairs(value):
    with pytest.raises(EvaluationsError, match=r"bounds of 'b' must.*\(9, 8\).*Two rows of two.*np\.transpose"):
        Bounds.parse(value, 2, ("a", "b"))


def test_a_tuple_of_two_vectors_is_ambiguous():
    for value in (([-9, 8], [-8, 9]), (np.array([-9, 8]), np.array([-8, 9]))):
        with pytest.raises(EvaluationsError, match=r"two ways.*\[\(-9\.0, 8\.0\), \(-8\.0, 9\.0\)\].*np\.transpose"):
            Bounds.parse(value, 2, ("a", "b"))


@pytest.mark.parametrize(
    "value", [((-9, 8), (-8, 9)), [[-9, 8], [-8, 9]], [(-9, 8), (-8, 9)], np.array([[-9, 8], [-8, 9]])]
)
def test_what_is_written_as_pairs_is_read_as_pairs(value):
    assert Bounds.parse(value, 2) == Bounds(np.array([-9.0, -8.0]), np.array([8.0, 9.0]))


def test_a_tuple_of_two_vectors_that_can_only_be_pairs_is_read():
    assert Bounds.parse(([0, 1], [0, 2]), 2) == Bounds(np.zeros(2), np.array([1.0, 2.0]))


def test_points_show_that_vectors_were_meant(rng):
    points = rng.uniform([-5, -3], [5, 8], (60, 2))
    values = -0.5 * (points**2).sum(axis=1)
    for bounds in ([[-5, -3], [5, 8]], np.array([[-5, -3], [5, 8]])):  # in order as pairs, too
        with pytest.raises(EvaluationsError, match=r"read as a pair.*'x1' \(-5, -3\).*np\.transpose"):
            Evaluations(points, values, bounds=bounds)
        with pytest.raises(EvaluationsError, match="read as a pair"):
            Evaluations(points, values, bounds=bounds, outside="drop")
    right = Evaluations(points, values, bounds=np.transpose([[-5, -3], [5, 8]]))
    assert right.bounds == Bounds(np.array([-5.0, -3.0]), np.array([5.0, 8.0]))
    with pytest.raises(EvaluationsError, match="outside the hard bounds"):  # outside of both
        Evaluations(points, values, bounds=[[-5, -3], [5, 6]])
    with pytest.raises(EvaluationsError, match="outside the hard bounds"):  # nobody writes a dict by mistake
        Evaluations(points, values, bounds={"x1": (-5, -3), "x2": (5, 8)})


def test_the_label_is_the_argument_that_messages_name():
    with pytest.raises(EvaluationsError, match="plausible_bounds of 'x1'"):
        Bounds.parse((1, 0), 1, label="plausible_bounds")


@pytest.mark.parametrize(("lower", "upper"), [([0.0, 1.0], [1.0]), ([1.0], [0.0]), ([[0.0]], [[1.0]])])
def test_direct_construction_is_checked_as_well(lower, upper):
    with pytest.raises((EvaluationsError, TypeError)):  # a TypeError where shapes are checked
        Bounds(np.array(lower), np.array(upper))


def test_arrays_are_copies_and_read_only():
    lower = np.zeros(2)
    bounds = Bounds(lower, np.ones(2))
    lower[0] = 5.0
    assert bounds.lower[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        bounds.lower[0] = 5.0
    with pytest.raises(AttributeError):
        bounds.lower = lower


def test_kind_outside_and_repr():
    bounds = Bounds.parse([None, (0, None), (None, 1), (0, 1)], 4)
    assert bounds.kind == ("open", "lower", "upper", "both")
    assert len(bounds) == bounds.dimension == 4
    assert repr(bounds) == "Bounds([-inf, inf], [0, inf], [-inf, 1], [0, 1])"
    points = np.array([[9.0, 0.0, 1.0, 1.0], [9.0, -0.1, 1.1, 1.1]])
    np.testing.assert_array_equal(bounds.outside(points), [[False] * 4, [False, True, True, True]])


def test_equal_bounds_are_equal_and_hash_alike():
    one, same, other = Bounds.parse((0, 1), 1), Bounds.parse([(0, 1)], 1), Bounds.parse((0, 2), 1)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != "bounds"


def test_parsing_a_parsed_value_changes_nothing():
    rng = np.random.default_rng(0)
    for _ in range(50):
        d = int(rng.integers(1, 7))
        low = np.where(rng.random(d) < 0.3, -INF, rng.normal(size=d))
        high = np.where(rng.random(d) < 0.3, INF, np.where(np.isfinite(low), low, 0) + rng.uniform(0.1, 5, d))
        bounds = Bounds.parse(np.column_stack([low, high]), d)
        names = [f"x{i + 1}" for i in range(d)]
        by_name = {name: bounds.pair(i) for i, name in enumerate(names)}
        forms = [bounds, ScipyBounds(low, high), by_name, list(by_name.values())]
        assert all(Bounds.parse(form, d, names) == bounds for form in forms)
