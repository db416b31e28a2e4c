"""Shapes: draws, log density and evidence belong together, each checked by another way to the same number."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import vsbq_bench.cases.shapes  # noqa: F401  which registers them
from vsbq_bench.cases.subjects import KINDS, SHAPES

EVERY = sorted(SHAPES)
FLAT = ("flat_top_2", "normal_2", "two_far_modes", "ring_2", "crescent_2")
LARGEST_Z = 4.5
MOVES = 25


@pytest.fixture(scope="module")
def problems():
    return {name: subject.make() for name, subject in SHAPES.items()}


def test_there_are_many_kinds():
    assert len(SHAPES) >= 22
    assert {subject.kind for subject in SHAPES.values()} <= set(KINDS)
    assert len({subject.kind for subject in SHAPES.values()}) >= 10
    assert not any(subject.science for subject in SHAPES.values())


@pytest.mark.parametrize("name", EVERY)
def test_a_shape_is_a_sound_problem(name, problems, rng):
    problem = problems[name]
    box = problem.plausible_bounds
    draws = problem.draw(2000, rng)
    assert problem.name == name
    assert draws.shape == (2000, problem.dimension)
    assert len(problem.names) == problem.dimension
    assert np.isfinite(problem.log_density(draws)).all()
    assert (box[:, 0] < box[:, 1]).all()
    assert ((draws > box[:, 0]) & (draws < box[:, 1])).mean() > 0.85
    again = SHAPES[name].make()
    np.testing.assert_array_equal(again.log_density(draws), problem.log_density(draws))
    np.testing.assert_array_equal(again.plausible_bounds, box)


@pytest.mark.parametrize("name", [name for name in EVERY if SHAPES[name].kind == "bounded" or name == "log_normal_3"])
def test_bounds_are_where_the_density_ends(name, problems):
    problem = problems[name]
    middle = problem.plausible_bounds.mean(axis=1)
    finite = 0
    for i, sides in enumerate(problem.bounds):
        for side, beyond in zip(sides, (-1e-6, 1e-6), strict=True):
            if np.isfinite(side):
                at, outside = middle.copy(), middle.copy()
                at[i], outside[i] = side, side + beyond * max(1.0, abs(side))
                values = problem.log_density(np.array([at, outside]))
                assert np.isfinite(values[0]) or name in ("beta_4", "log_normal_3")  # theirs may fall to zero there
                assert values[0] < np.inf
                assert np.isneginf(values[1])
                finite += 1
    assert finite


def shuffled(problem, temper, rng, n=6000):
    """Exact draws before and after Metropolis moves along differences of other draws."""
    pool = problem.draw(4 * n, rng)
    before = problem.draw(n, rng)
    x, value = before.copy(), temper * problem.log_density(before)
    for _ in range(MOVES):
        a, b = rng.integers(len(pool), size=(2, n))
        step = np.exp(rng.uniform(-3.5, 0.5, (n, 1))) / np.sqrt(problem.dimension)
        there = x + step * (pool[a] - pool[b])
        proposed = temper * problem.log_density(there)
        go = np.log(rng.random(n)) < proposed - value
        x[go], value[go] = there[go], proposed[go]
    return before, x


def largest_z(problem, before, after):
    """The largest change of a mean, in standard errors: bounded functions of single coordinates and of the density."""
    middle, spread = np.median(before, axis=0), np.quantile(before, 0.8, axis=0) - np.quantile(before, 0.2, axis=0)
    top = np.quantile(problem.log_density(before), 0.8)

    def features(x):
        z = (x - middle) / spread
        depth = np.tanh((problem.log_density(x) - top) / problem.dimension)
        return np.column_stack([np.tanh(z), np.tanh(z**2), depth])

    change = features(after) - features(before)
    error = change.std(axis=0) / np.sqrt(len(change))
    return np.max(np.abs(change.mean(axis=0)) / np.where(error > 0, error, np.inf))


@pytest.mark.parametrize("name", EVERY)
def test_draws_are_those_of_the_density(name, problems, rng):
    """Moves that leave the density as it is leave its draws as they are."""
    problem = problems[name]
    assert largest_z(problem, *shuffled(problem, 1.0, rng)) < LARGEST_Z


@pytest.mark.parametrize("name", [name for name in EVERY if name != "uniform_3"])
def test_draws_of_another_density_would_be_noticed(name, problems, rng):
    problem = problems[name]
    assert largest_z(problem, *shuffled(problem, 1.5, rng)) > LARGEST_Z


@pytest.mark.parametrize("name", FLAT)
def test_evidence_by_a_grid(name, problems, rng):
    problem = problems[name]
    draws = problem.draw(20_000, rng)
    low, high = draws.min(axis=0), draws.max(axis=0)
    axes = [np.linspace(a - 0.3 * (b - a), b + 0.3 * (b - a), 1500) for a, b in zip(low, high, strict=True)]
    total = 0.0
    for rows in np.split(axes[0], 50):
        points = np.stack(np.meshgrid(rows, axes[1]), axis=-1).reshape(-1, 2)
        total += np.exp(problem.log_density(points) - problem.log_evidence).sum()
    cell = (axes[0][1] - axes[0][0]) * (axes[1][1] - axes[1][0])
    assert abs(total * cell - 1) < 1e-6


def test_evidence_of_one_parameter(problems):
    problem = problems["one_parameter"]
    low, high = problem.plausible_bounds[0]
    x = np.linspace(low - 5 * (high - low), high + 5 * (high - low), 20_001)
    total = np.exp(problem.log_density(x[:, None]) - problem.log_evidence).sum() * (x[1] - x[0])
    assert abs(total - 1) < 1e-6


def test_evidence_of_the_disc_by_a_polar_grid():
    from vsbq_bench.cases.shapes.edges import disc

    shape = disc((0.6, 0.5), 0.5)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    r, w = (nodes + 1) / 2, weights / 2
    angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    x = np.stack([np.outer(r, np.cos(angle)), np.outer(r, np.sin(angle))], axis=-1).reshape(-1, 2)
    density = np.exp(shape.log_density(x)).reshape(60, 200)
    total = (density.mean(axis=1) * 2 * np.pi * r * w).sum()
    assert abs(total - 1) < 1e-6
    assert np.isneginf(shape.log_density(np.array([[0.8, 0.61]]))).all()


def local_normal(draws, rng):
    """A normal around one of the draws, a little narrower than the third of the draws that is nearest to it."""
    scaled = draws / draws.std(axis=0)
    nearest = len(draws) // 3
    best, closest = np.inf, None
    for centre in scaled[rng.integers(len(scaled), size=20)]:
        far = ((scaled - centre) ** 2).sum(axis=1)
        around = np.argpartition(far, nearest)[:nearest]
        if far[around].max() < best:
            best, closest = far[around].max(), around
    near = draws[closest]
    return multivariate_normal(near.mean(axis=0), 0.7 * np.atleast_2d(np.cov(near, rowvar=False)))


@pytest.mark.parametrize("name", EVERY)
def test_evidence_by_a_local_normal(name, problems, rng):
    """Over draws of p, the mean of g / p where p is not small is the share of g there, if p has the right constant."""
    problem = problems[name]
    first = problem.draw(20_000, rng)
    g = local_normal(first, rng)
    small = np.quantile(problem.log_density(first), 0.05) - 1e-9
    draws = problem.draw(40_000, rng)
    value = problem.log_density(draws)
    ratio = np.where(value > small, np.exp(g.logpdf(draws) - value + problem.log_evidence), 0.0)
    inside = problem.log_density(g.rvs(40_000, random_state=rng).reshape(40_000, -1)) > small
    error = np.hypot(ratio.std(), inside.std()) / np.sqrt(40_000)
    assert abs(ratio.mean() - inside.mean()) < LARGEST_Z * error
    assert abs(1.3 * ratio.mean() - inside.mean()) > LARGEST_Z * error  # a constant off by 0.26 would be noticed
