"""The user's space and inference space, for every kind of bound."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import EDGE_OF_BOX, EDGE_OF_DISTANCE, InferenceSpace, WhitenedSpace, infer_space
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.mixture import Mixture, log_pdf

INF = np.inf
KINDS = {"open": (-INF, INF), "lower": (2.0, INF), "upper": (-INF, -1.0), "both": (-3.0, 5.0)}


def space_of(*pairs, centre=0.3, scale=1.7):
    lower, upper = np.array(pairs, dtype=float).T
    d = len(pairs)
    edge = np.where(np.isfinite(upper - lower), EDGE_OF_BOX * (upper - lower), np.where(np.isinf(lower * upper), 0, 0))
    edge = np.where(np.isfinite(lower) ^ np.isfinite(upper), EDGE_OF_DISTANCE, edge)
    return InferenceSpace(Bounds(lower, upper), edge, np.full(d, centre), np.full(d, scale))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def space(kind):
    return space_of(KINDS[kind])


@pytest.fixture
def mixed(rng):
    """Evaluations with one parameter of each kind."""
    points = np.column_stack(
        [rng.normal(size=200), 2 + rng.gamma(2.0, size=200), -1 - rng.gamma(2.0, size=200), rng.uniform(-3, 5, 200)]
    )
    values = -0.5 * ((points - points.mean(axis=0)) ** 2).sum(axis=1)
    return Evaluations(points, values, bounds=list(KINDS.values()))


# There and back


def test_there_and_back(space, rng):
    u = rng.uniform(-2.0, 2.0, (100, 1))
    assert_allclose(space.forward(space.inverse(u)), u, atol=1e-10)


def test_back_and_there(space, kind, rng):
    low, high = KINDS[kind]
    x = rng.uniform(max(low, -9.0), min(high, 9.0), (100, 1))
    assert_allclose(space.inverse(space.forward(x)), x, rtol=1e-12, atol=1e-12)


def test_columns_do_not_mix(rng):
    together = space_of(*KINDS.values())
    u = rng.normal(size=(20, 4))
    x = together.inverse(u)
    for i, pair in enumerate(KINDS.values()):
        assert_array_equal(x[:, [i]], space_of(pair).inverse(u[:, [i]]))
        assert_array_equal(together.forward(x)[:, [i]], space_of(pair).forward(x[:, [i]]))
    assert_allclose(
        together.log_jacobian(u),
        sum(space_of(pair).log_jacobian(u[:, [i]]) for i, pair in enumerate(KINDS.values())),
        rtol=1e-12,
    )


def test_both_directions_rise(space):
    u = np.linspace(-3.0, 3.0, 500)[:, None]
    x = space.inverse(u)
    assert (np.diff(x[:, 0]) > 0).all()
    assert (np.diff(space.forward(x)[:, 0]) > 0).all()


def test_the_user_never_sees_a_point_outside(space):
    u = np.linspace(-60.0, 60.0, 2001)[:, None]
    assert not space.bounds.outside(space.inverse(u)).any()


def test_open_parameters_are_only_scaled(rng):
    x = rng.normal(size=(10, 1))
    assert_allclose(space_of(KINDS["open"]).forward(x), (x - 0.3) / 1.7, rtol=1e-14)


# The Jacobian


def test_log_jacobian_is_the_slope_of_the_inverse(space, rng):
    u = rng.uniform(-1.5, 1.5, (100, 1))
    h = 1e-5
    slope = (space.inverse(u + h) - space.inverse(u - h)) / (2 * h)
    assert_allclose(space.log_jacobian(u), np.log(slope[:, 0]), atol=1e-6)


def test_densities_keep_their_mass(space):
    """∫ p(x) dx = 1 becomes ∫ p(x(u)) |dx/du| du = 1."""
    u = np.linspace(-8.0, 8.0, 20_001)[:, None]
    x = space.inverse(u)[:, 0]
    middle, width = x[len(x) // 2], 0.1
    log_p = -0.5 * ((x - middle) / width) ** 2 - np.log(width * np.sqrt(2 * np.pi))
    assert np.trapezoid(np.exp(log_p + space.log_jacobian(u)), u[:, 0]) == pytest.approx(1.0, abs=1e-6)
    assert np.trapezoid(np.exp(log_p), u[:, 0]) != pytest.approx(1.0, abs=1e-3)  # negative control


# Rotated coordinates


@pytest.fixture
def turn(rng):
    """An invertible matrix that turns and stretches."""
    return rng.normal(size=(4, 4)) + 2 * np.eye(4)


def test_rotated_coordinates(turn, rng):
    plain = space_of(*KINDS.values())
    space = WhitenedSpace(plain, turn)
    x = plain.inverse(rng.uniform(-1.5, 1.5, (50, 4)))
    assert_allclose(space.forward(x), plain.forward(x) @ turn.T, rtol=1e-12, atol=1e-12)
    assert_allclose(space.inverse(space.forward(x)), x, rtol=1e-9, atol=1e-9)


def test_jacobian_of_rotated_coordinates(turn, rng):
    plain = space_of(*KINDS.values())
    space = WhitenedSpace(plain, turn)
    h = 1e-5
    for u in plain.forward(plain.inverse(rng.uniform(-1.0, 1.0, (5, 4)))) @ turn.T:
        ahead, behind = (space.inverse(u + sign * h * np.eye(4)) for sign in (1, -1))
        wanted = np.linalg.slogdet((ahead - behind) / (2 * h))[1]
        assert space.log_jacobian(u[None])[0] == pytest.approx(wanted, abs=1e-5)


def test_a_mixture_before_the_rotation_is_the_same_density(turn, rng):
    plain = space_of(*KINDS.values())
    space = WhitenedSpace(plain, turn)
    mixture = Mixture(*reference.random_mixture(rng, 3, 4))
    back, unturned = space.plain, space.mixture_to_plain(mixture)
    assert back is plain
    u = rng.normal(size=(20, 4))
    x = space.inverse(np.clip(u, -1.5, 1.5))
    log_p = [log_pdf(q, s.forward(x)) - s.log_jacobian(s.forward(x)) for q, s in ((mixture, space), (unturned, back))]
    assert_allclose(log_p[0], log_p[1], rtol=1e-8, atol=1e-8)
    assert (np.triu(unturned.trils, 1) == 0).all()
    assert (np.einsum("kii->ki", unturned.trils) > 0).all()


def test_a_component_far_thinner_than_wide_is_unturned():
    """Its covariance is not positive definite as rounded numbers."""
    space = WhitenedSpace(space_of(KINDS["open"], KINDS["open"]), np.array([[1.0, 0.0], [1.0, 1.0]]))
    trils = np.array([[[1e-10, 0.0], [1.0, 1e-10]]])
    unturned = space.mixture_to_plain(Mixture(np.zeros(1), np.zeros((1, 2)), trils))
    assert_allclose(unturned.trils, [[[1e-10, 0.0], [1.0, 1e-10]]], rtol=1e-6)


def test_without_a_rotation_nothing_is_undone(rng):
    plain, mixture = space_of(*KINDS.values()), Mixture(*reference.random_mixture(rng, 3, 4))
    space, same = plain.plain, plain.mixture_to_plain(mixture)
    assert_allclose(space.forward(plain.inverse(mixture.means)), plain.forward(plain.inverse(mixture.means)))
    assert_allclose(same.trils, mixture.trils)


# The edges


@pytest.mark.parametrize("kind", ["lower", "upper", "both"])
def test_points_on_a_bound_are_finite(kind):
    space = space_of(KINDS[kind])
    on = np.array([[bound] for bound in KINDS[kind] if np.isfinite(bound)])
    u = space.forward(on)
    assert np.isfinite(u).all()
    assert np.isfinite(space.log_jacobian(u)).all()
    assert_allclose(space.inverse(u), on, atol=1.1 * space.edge[0])
    assert space.at_edge(on).all()


def test_both_edges_of_a_box_are_alike():
    space = space_of((0.0, 8.0), centre=0.0, scale=1.0)
    low, high = space.forward(np.array([[0.0], [8.0]]))[:, 0]
    assert low == -high
    assert low == pytest.approx(-5.9978, abs=1e-4)  # the probit of 1e-9


def test_points_inside_are_not_at_an_edge(space, kind):
    low, high = KINDS[kind]
    inside = np.array([[max(low, -9.0) + 1e-3], [min(high, 9.0) - 1e-3]])
    assert not space.at_edge(inside).any()


# The space of some evaluations


def test_the_plausible_box_becomes_the_unit_box(mixed):
    plausible = [(-1.0, 2.0), (2.5, 4.0), (-5.0, -1.5), (0.0, 1.0)]
    evaluations = Evaluations(mixed.points, mixed.log_density, bounds=list(KINDS.values()), plausible_bounds=plausible)
    corners = infer_space(evaluations).forward(np.array(plausible).T)
    assert_allclose(corners, [[-1.0] * 4, [1.0] * 4], atol=1e-12)


def test_without_a_plausible_box_the_high_density_points_fill_the_unit_box(mixed):
    space = infer_space(mixed)
    u = space.forward(mixed.points)
    value = mixed.log_density + space.log_jacobian(u)
    near = u[value >= value.max() - contour_depth(2.0, 4)]
    assert len(near) > 40
    assert_allclose(near.min(axis=0), -1.0, atol=1e-12)
    assert_allclose(near.max(axis=0), 1.0, atol=1e-12)


def test_few_high_density_points_are_joined_by_the_next_best(rng):
    points = rng.normal(size=(100, 2))
    spike = -1e4 * (points**2).sum(axis=1)  # next to nothing within two sigma of the best
    u = infer_space(Evaluations(points, spike)).forward(points)
    inside = (np.abs(u) <= 1 + 1e-12).all(axis=1)
    assert inside.sum() >= 21
    assert inside[np.argsort(-spike)[:21]].all()


def test_zero_densities_do_not_count(mixed):
    values = mixed.log_density.copy()
    values[np.argsort(values)[:50]] = -INF
    one, other = infer_space(mixed), infer_space(Evaluations(mixed.points, values, bounds=list(KINDS.values())))
    assert_allclose(other.centre, one.centre)
    assert_allclose(other.scale, one.scale)


def test_the_edge_of_a_one_sided_bound_has_the_units_of_the_points(rng):
    points = np.column_stack([rng.gamma(2.0, size=100), rng.normal(size=100)])
    values = -points[:, 0] - points[:, 1] ** 2
    for unit in (1.0, 1e-6, 1e6):
        scaled = Evaluations(points * [unit, 1.0], values, bounds=[(0, None), None])
        assert infer_space(scaled).edge[0] == pytest.approx(EDGE_OF_DISTANCE * unit * np.median(points[:, 0]))


@pytest.mark.parametrize("factor", [1e-8, 1e8])
def test_units_are_no_matter(mixed, factor):
    """Inference space is the same whatever the units of the user's space (open and two-sided parameters)."""
    columns = [0, 3]
    bounds = np.array(list(KINDS.values()))[columns]
    one = Evaluations(mixed.points[:, columns], mixed.log_density, bounds=bounds)
    other = Evaluations(factor * mixed.points[:, columns], mixed.log_density, bounds=factor * bounds)
    assert_allclose(
        infer_space(other).forward(other.points), infer_space(one).forward(one.points), rtol=1e-7, atol=1e-7
    )


# Bounds of any width


@pytest.mark.parametrize("width", [1e1, 1e4, 1e7, 1e9, 1e12, 1e17, 1e100, 1e308])
def test_wide_bounds_keep_the_evaluations_apart(width, rng):
    points = rng.gamma(4.0, 0.3, (200, 1))
    for bounds in ([(0.0, width)], [(-width, width)]):
        space = infer_space(Evaluations(points, -points[:, 0], bounds=bounds))
        u = space.forward(points)
        assert not space.at_edge(points).any()
        assert np.isfinite(u).all()
        assert_allclose(space.inverse(u), points, rtol=1e-8)
        assert np.isfinite(space.log_jacobian(u)).all()
        assert space.bounds.pair(0) == bounds[0]


def test_a_far_bound_changes_nothing(rng):
    points = rng.normal(size=(100, 2))
    values = -0.5 * (points**2).sum(axis=1)
    far = infer_space(Evaluations(points, values, bounds=[(-1e7, 1e7), (None, 1e9)]))
    none = infer_space(Evaluations(points, values))
    assert_array_equal(far.forward(points), none.forward(points))
    assert_array_equal(far.log_jacobian(points), none.log_jacobian(points))
    assert far.inverse(np.full((1, 2), 1e12)).max() == 1e9  # still never outside
    near = infer_space(Evaluations(points, values, bounds=[(-1e2, 1e2), (None, 1e2)]))  # a control
    assert np.abs(near.forward(points) - none.forward(points)).max() > 1e-4


def test_points_on_a_bound_do_not_drag_their_neighbours(rng):
    """Half of the points on the bound, the others much closer to it than to the other bound."""
    points = np.where(rng.uniform(size=(200, 1)) < 0.5, 0.0, 1e-12 * rng.gamma(4.0, size=(200, 1)))
    points[-1] = 0.3  # so that the other bound counts
    space = infer_space(Evaluations(points, -1e12 * points[:, 0], bounds=[(0.0, 1.0)]))
    assert int(space.at_edge(points).sum()) == int((points == 0).sum())


def test_a_space_of_some_parameters(rng):
    points = np.abs(rng.normal(size=(100, 3)))
    space = infer_space(Evaluations(points, -points.sum(axis=1), bounds=[(0, 1e9), (0, 9), (-1e9, None)]))
    some = space.columns([2, 0])
    assert_array_equal(some.forward(points[:, [2, 0]]), space.forward(points)[:, [2, 0]])
    assert some.bounds.pair(0) == (-1e9, INF)
