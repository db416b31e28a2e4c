"""Steps of finite differences: which evaluations are, what gradients they give, and when they are not believed."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import approx_fprime, minimize

from vsbq.data.differences import find_gradients
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import infer_space

CENTRE = np.array([0.4, -1.0, 2.0])


def log_density(x):
    return float(-0.5 * ((x - CENTRE) ** 2).sum() - 0.1 * np.cos(x).sum() - 100.0)


def differences(places, step=1.5e-8, sides=(1.0,), function=log_density):
    """Each place and its steps, as an optimiser would leave them."""
    d = places.shape[1]
    steps = [side * step * e for e in np.eye(d) for side in sides]
    points = np.concatenate([np.vstack([x, x + np.array(steps)]) for x in places])
    return points, np.array([function(x) for x in points])


@pytest.fixture
def places(rng):
    return CENTRE + rng.normal(size=(40, 3))


def true_gradients(found, function=log_density):
    """In inference coordinates, by differences over a step that is a compromise between two errors."""
    space = infer_space(found)
    u = space.forward(found.points)

    def there(v):
        return function(space.inverse(v[None])[0]) + float(space.log_jacobian(v[None])[0])

    return np.array([approx_fprime(v, there, 1e-6) for v in u])


@pytest.mark.parametrize("sides", [(1.0,), (-1.0,), (1.0, -1.0)], ids=["forward", "backward", "central"])
@pytest.mark.parametrize("step", [1e-8, 1e-6])
def test_a_place_and_its_steps_are_one_with_a_gradient(step, sides, places):
    points, values = differences(places, step, sides)
    found = find_gradients(Evaluations(points, values))
    assert found.steps == len(points) - 40
    assert_array_equal(np.sort(found.evaluations.points, axis=0), np.sort(places, axis=0))
    assert_allclose(found.gradients, true_gradients(found.evaluations), atol=1e-4)


def test_bounds_bend_the_gradient(rng):
    """Two-sided, one-sided on either side, and with steps inwards."""
    bounds = [(0.0, 1.0), (0.0, np.inf), (-np.inf, 3.0), (-np.inf, np.inf)]
    places = rng.uniform(0.1, 0.9, (60, 4))

    def function(x):
        return float(-8 * ((x - 0.4) ** 2).sum())

    points, values = differences(places, function=function)
    found = find_gradients(Evaluations(points, values, bounds=bounds))
    assert len(found.gradients) == 60
    assert_allclose(found.gradients, true_gradients(found.evaluations, function), atol=1e-4)


def test_the_order_of_rows_does_not_matter(places, rng):
    points, values = differences(places)
    found = find_gradients(Evaluations(points, values))
    rows = rng.permutation(len(points))
    other = find_gradients(Evaluations(points[rows], values[rows]))
    one, two = (np.lexsort(part.evaluations.points.T) for part in (found, other))
    assert_array_equal(found.evaluations.points[one], other.evaluations.points[two])
    assert_array_equal(found.gradients[one], other.gradients[two])


def test_places_without_steps_have_no_gradient(places, rng):
    """As those of a line search, or of another optimiser."""
    points, values = differences(places)
    more = CENTRE + rng.normal(size=(30, 3))
    every = np.concatenate([points, more]), np.concatenate([values, [log_density(x) for x in more]])
    found = find_gradients(Evaluations(*every))
    assert found.steps == 120
    assert np.isfinite(found.gradients).all(axis=1).sum() == 40
    assert np.isnan(found.gradients).all(axis=1).sum() == 30


def test_what_scipy_leaves_behind_is_recognised(rng):
    """L-BFGS-B and BFGS, which also evaluates without a gradient; from several starts."""
    for method in ("L-BFGS-B", "BFGS"):
        seen = []
        for _ in range(4):
            minimize(
                lambda x, seen=seen: (seen.append(x.copy()), -log_density(x))[1], 4 * rng.normal(size=3), method=method
            )
        points = np.unique(np.array(seen), axis=0)
        found = find_gradients(Evaluations(points, [log_density(x) for x in points]))
        known = np.isfinite(found.gradients).all(axis=1)
        assert found.steps == 3 * known.sum() > 0.6 * len(points)


@pytest.mark.parametrize(
    "case", ["no steps", "one parameter is missing", "large steps", "one dimension", "stated noise"]
)
def test_other_evaluations_have_none(case, places, rng):
    points, values = differences(places, step=0.1 if case == "large steps" else 1.5e-8)
    options = {"log_density_sd": 0.5} if case == "stated noise" else {}
    if case == "no steps":
        points = rng.normal(size=(160, 3))
    if case == "one parameter is missing":
        points, values = (part.reshape(40, 4, -1)[:, :3].reshape(120, -1) for part in (points, values))
    if case == "one dimension":
        points = points[:, :1] + rng.normal(size=(160, 1))
    assert find_gradients(Evaluations(points, values.ravel(), check_sign=False, **options)) is None


@pytest.mark.parametrize("sd", [1e-7, 1e-3, 1.0])
def test_noise_gives_no_gradient(sd, places, rng):
    """Not even that of a solver's tolerance: over a step of 1e-8 it is huge. Without it the same places have one."""
    points, values = differences(places)
    assert find_gradients(Evaluations(points, values)) is not None
    assert find_gradients(Evaluations(points, values + sd * rng.normal(size=len(values)))) is None


def test_another_value_at_the_same_place_is_noise(places):
    points, values = differences(places)
    again = np.concatenate([points, points[:1]]), np.append(values, values[0] + 0.001)
    assert find_gradients(Evaluations(*again)) is None
    copied = find_gradients(Evaluations(again[0], np.append(values, values[0])))
    assert copied.steps == 120


def test_a_step_of_zero_density_is_none(places):
    """The place keeps its value."""
    points, values = differences(places)
    values[1] = -np.inf
    found = find_gradients(Evaluations(points, values))
    row = np.flatnonzero((found.evaluations.points == places[0]).all(axis=1))
    assert len(row) == 1
    assert np.isnan(found.gradients[row]).all()
