"""Surfaces between points with density and without: their number, their form, their sharpness."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_expit

from vsbq.steps import edges
from vsbq.steps.edges import features, find_surfaces


def probability(surfaces, x):
    """To be inside, averaged over the draws."""
    each = sum(log_expit(features(x) @ surface) for surface in surfaces)
    return np.exp(each).mean(axis=1)


def found_for(inside, x, rng):
    kept = inside(x)
    return find_surfaces(x[kept], x[~kept], rng)


def half(x):
    return x @ np.linspace(1.0, 0.3, x.shape[1]) < 0.5


def ball(x):
    return (x**2).sum(axis=1) < 1.6 * x.shape[1]


def wedge(x):
    return (x[:, 0] + 0.4 * x[:, 1] < 0.6) & (x[:, 1] - 0.5 * x[:, 0] < 0.7)


def orthant(x):
    return (x + 0.2 * np.roll(x, 1, axis=1) < 0.5).all(axis=1)


FORMS = {"half": (half, 3), "ball": (ball, 3), "wedge": (wedge, 2), "orthant": (orthant, 3)}


@pytest.mark.parametrize("name", FORMS)
def test_the_edge_is_found(name, rng):
    inside, d = FORMS[name]
    surfaces, left = found_for(inside, 1.3 * rng.standard_normal((900, d)), rng)
    x = rng.standard_normal((4000, d))
    seen = probability(surfaces, x)
    assert left <= 2
    assert np.mean((seen > 0.5) != inside(x)) < 0.04
    assert abs(seen.mean() - inside(x).mean()) < 0.02
    assert np.mean((seen > 0.5) != half(-x)) > 0.1  # another edge is not that close


@pytest.mark.parametrize("name", ["wedge", "orthant"])
def test_an_optimiser_that_ends_at_the_edge_pulls_no_surface_off(name, rng):
    """Most evaluations are next to the corner, at distances down to a millionth; the far ones must still be right."""
    inside, d = FORMS[name]
    near = _corner(name, d) + rng.standard_normal((900, d)) * 10.0 ** rng.uniform(-6, 0.3, (900, 1))
    surfaces, left = found_for(inside, near, rng)
    x = rng.standard_normal((4000, d))
    assert left <= 5
    assert np.mean((probability(surfaces, x) > 0.5) != inside(x)) < 0.04


def _corner(name, d):
    """Where all planes of an edge meet."""
    if name == "wedge":
        return np.linalg.solve([[1.0, 0.4], [-0.5, 1.0]], [0.6, 0.7])
    return np.linalg.solve(np.eye(d) + 0.2 * np.roll(np.eye(d), -1, axis=1), np.full(d, 0.5))


def test_one_sharpness_would_not_do(rng, monkeypatch):
    """The control of the test above."""
    monkeypatch.setattr(edges, "SHARPNESS", edges.SHARPNESS[:1])
    with pytest.raises(AssertionError):
        test_an_optimiser_that_ends_at_the_edge_pulls_no_surface_off("orthant", rng)


def test_failed_calls_among_the_others_make_no_surface(rng):
    x = rng.standard_normal((600, 2))
    failed = rng.uniform(size=600) < 0.02
    surfaces, left = find_surfaces(x[~failed], x[failed], rng)
    assert surfaces == []
    assert left == failed.sum()


def test_failed_calls_beside_an_edge_stay_within(rng):
    x = 1.3 * rng.standard_normal((800, 2))
    failed = rng.uniform(size=800) < 0.02
    kept = half(x) & ~failed
    surfaces, left = find_surfaces(x[kept], x[~kept], rng)
    y = rng.standard_normal((4000, 2))
    assert 0.5 * (failed & half(x)).sum() <= left <= (failed & half(x)).sum()
    assert np.mean((probability(surfaces, y) > 0.5) != half(y)) < 0.04


def test_too_few_points_without_density_say_nothing(rng):
    x = rng.standard_normal((300, 3))
    assert find_surfaces(x, x[:3] + 10.0, rng)[0] == []
