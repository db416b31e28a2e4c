"""Where the density is not zero: edges of every shape, the user's own word, and cliffs of finite height."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from toy import Known, cloud, edges_at, normal, training_set

from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.errors import EvaluationsError
from vsbq.steps import support as support_module
from vsbq.steps.support import OUTSIDE, Support, Told, beyond_cliffs, find_support, learn_support


def cut(shape, d, rng, n=800):
    """Points of a normal, with those outside a shape as places of zero density."""
    points = cloud(rng, n, d)
    inside = shape(points)
    return training_set(points[inside], normal(points[inside]), zeros=points[~inside])


#: A shape, its dimension, and the same with its edge elsewhere.
SHAPES = {
    "a limit": (1, lambda x, e=0.0: x[:, 0] < 0.4 + e),
    "an interval": (1, lambda x, e=0.0: np.abs(x[:, 0] - 0.3) < 0.9 + e),
    "a plane": (2, lambda x, e=0.0: x[:, 0] + 0.5 * x[:, 1] < 0.4 + e),
    "a plane in five": (5, lambda x, e=0.0: x @ [1.0, -0.5, 0.3, 0.0, 0.2] < 0.3 + e),
    "a curve": (2, lambda x, e=0.0: x[:, 1] > 0.5 * x[:, 0] ** 2 - 0.8 - e),
    "an ellipse": (2, lambda x, e=0.0: (x[:, 0] - 0.3) ** 2 + 2 * x[:, 1] ** 2 < 1.5 + e),
    "a corner": (2, lambda x, e=0.0: (x[:, 0] + 0.3 * x[:, 1] < 0.5 + e) & (x[:, 1] - 0.3 * x[:, 0] > -0.7 - e)),
    "a box": (2, lambda x, e=0.0: (np.abs(x[:, 0]) < 1.0 + e) & (x[:, 1] > -0.5 - e)),
    "one side in three": (3, lambda x, e=0.0: x[:, 1] < 0.2 + e),
}


@pytest.fixture(params=SHAPES)
def learnt(request, rng):
    d, shape = SHAPES[request.param]
    return find_support(cut(shape, d, rng), None, rng), d, shape


def log_shares(support, u):
    """Log of the share of some points that is inside, for each draw of the edge."""
    return np.log(np.mean(np.exp(support.log_probabilities(u)), axis=0))


def test_the_mass_inside_is_right_within_what_the_edge_leaves_open(learnt, rng):
    support, d, shape = learnt
    u = rng.standard_normal((20_000, d))
    each = log_shares(support, u)
    off = abs(each.mean() - np.log(shape(u).mean()))
    assert off < 4 * each.std() + 0.005
    assert each.std() < 0.15
    assert not abs(each.mean() - np.log(shape(u, 0.7).mean())) < 4 * each.std() + 0.005  # the edge elsewhere


def test_points_are_on_the_right_side(learnt, rng):
    support, d, shape = learnt
    u = rng.standard_normal((5000, d))
    p = np.exp(support.log_probability(u))
    wrong = np.mean(support.inside(u) != shape(u))
    assert wrong < 0.01 + 3 * np.mean(np.minimum(p, 1 - p))  # it knows where it does not know
    assert np.mean(np.minimum(p, 1 - p)) < 0.05
    assert np.mean(support.inside(u) != ~shape(u)) > 0.9


def test_all_evaluations_of_zero_density_are_outside_and_the_others_inside(learnt, rng):
    support, d, shape = learnt
    again = cut(shape, d, np.random.default_rng(5), n=3000)
    assert np.mean(support.inside(again.points)) > 0.97
    near = (again.zeros**2).sum(axis=1) < 9
    assert np.mean(~support.inside(again.zeros[near])) > 0.95


# Limits of single parameters


def test_a_limit_is_between_the_last_with_density_and_the_first_without(rng):
    training = cut(SHAPES["a box"][1], 2, rng)
    support = find_support(training, None, rng)
    last, first = training.points[:, 0].max(), training.zeros[np.abs(training.zeros[:, 1]) < 0.4, 0]
    first = first[first > last].min()
    inner, outer = np.array([[last - 1e-6, 0.3]]), np.array([[first + 1e-6, 0.3]])
    assert_allclose(support.log_probability(inner), 0.0, atol=1e-3)
    assert support.log_probability(outer)[0] < -10
    # Every place between them is as probable.
    share = np.linspace(0.1, 0.9, 9)
    between = np.column_stack([last + share * (first - last), np.full(9, 0.3)])
    assert_allclose(np.exp(support.log_probability(between)), 1 - share, atol=0.02)


def test_a_side_without_zeros_is_open(rng):
    support = find_support(cut(SHAPES["a box"][1], 2, rng), None, rng)
    assert support.inside(np.array([[0.0, 40.0]])).all()
    assert not support.inside(np.array([[0.0, -40.0], [40.0, 0.0], [-40.0, 0.0]])).any()


def test_units_do_not_matter(rng):
    unit, seed = np.array([1e-3, 50.0]), int(rng.integers(2**31))
    for name in ("a plane", "a box"):
        training, u = cut(SHAPES[name][1], 2, np.random.default_rng(seed)), rng.standard_normal((2000, 2))
        scaled = replace(training, points=unit * training.points, zeros=unit * training.zeros)
        one, other = (find_support(case, None, np.random.default_rng(1)) for case in (training, scaled))
        p, q = np.exp(one.log_probability(u)), np.exp(other.log_probability(unit * u))
        assert np.mean(np.abs(p - q)) < 0.01
        assert p.std() > 0.3


# Nothing to learn


def test_without_zeros_there_is_no_edge(rng):
    points = cloud(rng, 100)
    assert find_support(training_set(points, normal(points)), None, rng) is None


def test_too_few_zeros_say_nothing(rng):
    """Two among the others, in two dimensions."""
    points = cloud(rng, 300)
    zeros = np.array([[0.1, 0.2], [-0.3, 0.4]])
    assert learn_support(points, normal(points), zeros, rng) is None


def test_zeros_far_from_the_posterior_say_nothing(rng):
    points = cloud(rng, 300)
    far = np.concatenate([40 + cloud(rng, 50), [[0.0, 0.0]] * 1])  # one among the others, so that no limit explains all
    assert learn_support(points, normal(points), far, rng) is None


def test_a_crowd_at_the_mode_does_not_hide_the_edge_around(rng, monkeypatch):
    """The evaluations of an optimiser that has converged are narrower than the posterior. In their own standard
    deviations the slanted edge is far away, in those of the posterior it is near."""
    turn = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    inside = np.append([0.6, 0.15] * rng.standard_normal((200, 2)), [[-3.0, 0.0], [3.0, 0.0]], axis=0) @ turn
    zeros = np.column_stack([rng.uniform(-0.5, 0.5, 60), rng.uniform(1.0, 1.4, 60)]) @ turn
    u = np.column_stack([rng.uniform(-2.0, 2.0, 500), rng.uniform(1.5, 4.0, 500)]) @ turn
    found = learn_support(inside, normal(inside), zeros, rng)
    assert found.inside(inside).all()
    assert np.mean(found.inside(u)) < 0.05
    monkeypatch.setattr(support_module, "REACH", 1.0)  # the control: no farther than the evaluations with density
    assert learn_support(inside, normal(inside), zeros, rng) is None


def test_zeros_scattered_among_the_others_are_no_edge(rng):
    points = cloud(rng, 600)
    found = learn_support(points[:500], normal(points[:500]), points[500:], rng)
    assert found is None or np.mean(found.inside(points[:500])) > 0.98


# Told


def left(x):
    return x[:, 0] < 0.4


def test_the_users_word_is_the_support(rng):
    points = cloud(rng, 300)
    points = points[left(points)]
    found = find_support(training_set(points, normal(points)), left, rng)
    u = cloud(rng, 500)
    assert_array_equal(found.log_probability(u), np.where(left(u), 0.0, OUTSIDE))
    assert_array_equal(found.inside(u), left(u))
    assert found.surfaces == ()


def test_the_user_is_asked_in_the_users_space(rng):
    """Of positive parameters, with logarithmic coordinates."""
    space = InferenceSpace(Bounds.parse([(0, None)], 1), np.full(1, 1e-9), np.zeros(1), np.ones(1))
    u = rng.normal(size=(200, 1))
    assert_array_equal(Told(lambda x: x[:, 0] < 2.0, space).inside(u), np.exp(u[:, 0]) < 2.0)


def test_zeros_that_the_user_knew_of_are_not_learnt_from(rng):
    points = cloud(rng, 800)
    inside = left(points)
    training = training_set(points[inside], normal(points[inside]), zeros=points[~inside])
    assert find_support(training, left, rng).surfaces == ()
    assert find_support(training, None, rng).surfaces != ()


def test_what_is_told_and_what_is_learnt_go_together(rng):
    def whole(x):
        return left(x) & (x[:, 1] + 0.5 * x[:, 0] > -0.5)

    training, u = cut(whole, 2, rng, n=1200), rng.standard_normal((10_000, 2))
    found = find_support(training, left, rng)
    assert len(found.surfaces) >= 1
    assert not found.inside(u[~left(u)]).any()
    each = log_shares(found, u)
    assert abs(each.mean() - np.log(whole(u).mean())) < 4 * each.std() + 0.005
    assert not abs(each.mean() - np.log(left(u).mean())) < 4 * each.std() + 0.005


def raises(x):
    raise KeyError("no such model")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raises, "raised KeyError.*no such model.*n booleans"),
        (lambda x: True, r"shape \(\).*n booleans"),
        (lambda x: np.ones((len(x), 1), dtype=bool), r"shape \(50, 1\)"),
        (lambda x: np.ones(3, dtype=bool), r"shape \(3,\).*for 50 points"),
        (lambda x: x[:, 0], "type float64"),
        (lambda x: ["yes"] * len(x), "type <U3"),
        (lambda x: x[:, 0] > 0, "finite log density have none, for example"),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused_in_words(answer, words, rng):
    points = cloud(rng, 50)
    with pytest.raises(EvaluationsError, match=words):
        find_support(training_set(points, normal(points)), answer, rng)


@pytest.mark.parametrize(
    "answer", [lambda x: [True] * len(x), lambda x: np.ones(len(x)), lambda x: np.ones(len(x), int)]
)
def test_ones_and_lists_are_answers(answer, rng):
    points = cloud(rng, 50)
    assert find_support(training_set(points, normal(points)), answer, rng).inside(points).all()


# The probabilities themselves


def test_probabilities_are_averaged_over_draws_and_multiplied_over_surfaces(rng):
    centre, root = rng.normal(size=2), rng.normal(size=(2, 2))
    surfaces = tuple(np.array([2.0, 1.0, -1.0, 0, 0, 0])[:, None] + 0.3 * rng.normal(size=(6, 64)) for _ in range(2))
    u = centre + rng.normal(size=(12_000, 2))  # more than are looked at together
    x = (u - centre) @ root
    phi = np.column_stack([np.ones(len(x)), x, x[:, 0] ** 2 / 2, x[:, 0] * x[:, 1] / 2, x[:, 1] ** 2 / 2])
    each = expit(phi @ surfaces[0]) * expit(phi @ surfaces[1])
    found = Support(centre, root, surfaces)
    assert_allclose(np.exp(found.log_probabilities(u)), each, rtol=1e-9)
    assert_allclose(np.exp(found.log_probability(u)), each.mean(axis=1), rtol=1e-9)
    assert_array_equal(found.inside(u), each.mean(axis=1) > 0.5)
    assert 0 < found.inside(u).sum() < len(u)


# Cliffs


def fallen(points, beyond, height=60.0):
    """A normal that falls beyond an edge, as far as a finite value can."""
    return training_set(points, normal(points) - height * beyond)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("kind", ["low", "hopeless"])
def test_a_cliff_is_found(kind, d, rng):
    """What is beyond it has finite values, or was dropped as hopeless."""
    points = cloud(rng, 800, d)
    beyond = points[:, 0] > 0.4
    training = fallen(points, beyond)
    if kind == "hopeless":
        training = training_set(points[~beyond], normal(points[~beyond]), low=points[beyond])
    found, support = beyond_cliffs(Known(normal, d=d), training, None, rng)
    u = rng.standard_normal((5000, d))
    p = np.exp(support.log_probability(u))
    assert np.mean(support.inside(u) != (u[:, 0] < 0.4)) < 0.01 + 3 * np.mean(np.minimum(p, 1 - p)) < 0.15
    assert found.points[:, 0].max() < 0.5
    # All that matters is kept, and what contradicted the surrogate is a place now.
    high = ~beyond & (normal(points) > -8)
    assert len(found) >= high.sum()
    assert len(found) + len(found.low) + len(found.zeros) == 800
    assert len(found.zeros) > 0.5 * beyond.sum()


@pytest.mark.parametrize("d", [1, 2])
def test_a_smooth_target_has_no_cliff(d, rng):
    points = cloud(rng, 800, d, spread=3.0)
    known = Known(normal, d=d)
    assert beyond_cliffs(known, fallen(points, np.zeros(800)), None, rng) is None
    # Nor where the surrogate is too high everywhere: the low ones are all around.
    high = Known(lambda u: 0.0 * u[:, 0], d=d)
    found = beyond_cliffs(high, fallen(points, np.zeros(800)), None, rng)
    assert found is None or found[1].inside(points[normal(points) > -5]).all()


def test_low_evaluations_scattered_among_the_others_are_no_cliff(rng):
    points = cloud(rng, 800)
    assert beyond_cliffs(Known(normal), fallen(points, np.arange(800) % 4 == 0), None, rng) is None


def test_a_surface_that_leaves_most_of_them_inside_is_no_cliff(rng):
    points = cloud(rng, 1200)
    edge = points[:, 0] + 0.3 * points[:, 1] > 1.6
    hole = (points**2).sum(axis=1) < 0.5
    assert beyond_cliffs(Known(normal), fallen(points, edge), None, rng) is not None
    assert beyond_cliffs(Known(normal), fallen(points, edge | (hole & (np.arange(1200) % 2 == 0))), None, rng) is None


def test_a_few_that_are_contradicted_are_no_cliff(rng):
    points = cloud(rng, 800)
    few = np.argsort(-points[:, 0] - 1e3 * (np.abs(points[:, 0] - 1.0) < 0.3))[:2]
    assert beyond_cliffs(Known(normal), fallen(points, np.isin(np.arange(800), few)), None, rng) is None


def test_noise_may_make_a_cliff(rng):
    """What could be high but for its noise contradicts nobody."""
    points = cloud(rng, 800)
    training = fallen(points, points[:, 0] > 0.4)
    assert beyond_cliffs(Known(normal), training, None, rng) is not None
    assert beyond_cliffs(Known(normal), replace(training, noise_sd=np.full(800, 30.0)), None, rng) is None


def test_what_the_support_explains_is_no_cliff(rng):
    points = cloud(rng, 800)
    training = fallen(points, points[:, 0] > 0.4)
    assert beyond_cliffs(Known(normal), training, edges_at(0.4, d=2), rng) is None
    assert beyond_cliffs(Known(normal), training, edges_at(1.0, d=2), rng) is not None


def test_what_was_told_stays_told(rng):
    points = cloud(rng, 1000)
    points = points[points[:, 1] < 1.0]
    training = fallen(points, points[:, 0] > 0.4)
    told = find_support(training, lambda x: x[:, 1] < 1.0, rng)
    _, support = beyond_cliffs(Known(normal), training, told, rng)
    assert support.told is told.told
    u = rng.standard_normal((2000, 2))
    assert not support.inside(u[u[:, 1] >= 1.0]).any()
    assert support.surfaces != ()


def test_zeros_are_outside_of_the_cliff_too(rng):
    points = cloud(rng, 1200)
    zero, beyond = points[:, 1] - 0.2 * points[:, 0] < -0.8, points[:, 0] + 0.2 * points[:, 1] > 0.6
    training = replace(fallen(points[~zero], beyond[~zero]), zeros=points[zero])
    support = find_support(training, None, rng)
    found, support = beyond_cliffs(Known(normal), training, support, rng)
    u = rng.standard_normal((5000, 2))
    inside = (u[:, 1] - 0.2 * u[:, 0] > -0.8) & (u[:, 0] + 0.2 * u[:, 1] < 0.6)
    assert np.mean(support.inside(u) != inside) < 0.05
    assert len(found.zeros) > zero.sum()


def test_a_surrogate_in_other_units_sees_the_same_cliff(rng):
    turn = np.array([[8.0, 1.0], [-2.0, 5.0]])
    shift, back = np.log(np.linalg.det(turn)), np.linalg.inv(turn)
    turned = Known(lambda v: normal(v @ back.T) - shift, turn=turn)
    forgetful = Known(lambda v: normal(v @ back.T) - shift - 9.0, turn=turn)
    points = cloud(rng, 800)
    training = fallen(points, points[:, 0] + 0.5 * points[:, 1] > 0.4)  # no limit of one parameter, which forgives
    one, other, none = (
        beyond_cliffs(known, training, None, np.random.default_rng(0)) for known in (Known(normal), turned, forgetful)
    )
    assert_array_equal(one[0].points, other[0].points)
    assert_array_equal(one[1].surfaces, other[1].surfaces)
    assert none is None


@pytest.mark.parametrize("d", [1, 2, 3])
def test_too_few_evaluations_with_density_tell_no_edge(rng, d):
    points = cloud(rng, 60, d)
    order = np.argsort(points[:, 0])
    inside, zeros = points[order[:d]], points[order[d:]]
    assert learn_support(inside, normal(inside), zeros, rng) is None
    inside, zeros = points[order[:30]], points[order[30:]]
    assert learn_support(inside, normal(inside), zeros, rng) is not None
