import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest

from vsbq_bench.spline_prior import SplineTrapezoid

BOUNDS = np.array([[-1.0, 4.0], [0.01, 0.5]])
PLAUSIBLE = np.array([[0.0, 1.5], [0.05, 0.25]])
PRIOR = SplineTrapezoid(BOUNDS, PLAUSIBLE)


def marginal(column, nodes=20_001):
    """Nodes over one coordinate's range and its density there, the other coordinate held on its plateau."""
    x = np.linspace(*BOUNDS[column], nodes)
    points = np.tile(PLAUSIBLE.mean(axis=1), (nodes, 1))
    points[:, column] = x
    density = np.exp(PRIOR.log_density(points))
    return x, density / np.trapezoid(density, x)


def test_density_is_normalised():
    x, y = (np.linspace(*bounds, 601) for bounds in BOUNDS)
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(PRIOR.log_density(points)).reshape(601, 601)
    assert_allclose(np.trapezoid(np.trapezoid(density, y, axis=1), x), 1, atol=1e-5)


@pytest.mark.parametrize("column", [0, 1])
def test_draws_follow_the_density(rng, column):
    x, density = marginal(column)
    cdf = np.append(0.0, np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(x)))
    draws = PRIOR.draw(4000, rng)
    assert kstest(draws[:, column], lambda z: np.interp(z, x, cdf)).pvalue > 1e-4
    # the test can see a ramp that is missing: the plateau alone is another distribution
    assert kstest(rng.uniform(*PLAUSIBLE[column], 4000), lambda z: np.interp(z, x, cdf)).pvalue < 1e-4


def test_columns_are_independent(rng):
    draws = PRIOR.draw(4000, rng)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4 / np.sqrt(4000)


def test_ramps_are_smoothsteps_between_plateau_and_bounds():
    x = np.array([-1 + 0.25, 0.0, 1.0, 1.5, 4 - 0.5])
    height = PRIOR.log_density(np.column_stack([x, np.full(5, 0.1)]))
    height = np.exp(height - height[2])
    assert_allclose(height, [0.15625, 1, 1, 1, 0.104], rtol=1e-12)  # 3z² - 2z³ at z = 1/4 and 1/5


@pytest.mark.parametrize("point", [(-1.0, 0.1), (4.0, 0.1), (-1.1, 0.1), (4.1, 0.1), (1.0, 0.0), (1.0, 0.51)])
def test_density_vanishes_on_and_outside_the_bounds(point):
    assert_array_equal(PRIOR.log_density(np.array([point, (1.0, 0.1)])) == -np.inf, [True, False])
