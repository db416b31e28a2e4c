from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.stats import kstest, lognorm, norm, truncnorm

from vsbq_bench.lotka_volterra import BOUNDS, HARES, LYNXES, NAMES, PLAUSIBLE_BOUNDS, draw_prior, log_density

# Posterior means and standard deviations by MCMC, rounded
MEANS = np.array([0.55, 0.028, 0.80, 0.024, 34.0, 5.9, 0.25, 0.25])
SDS = np.array([0.064, 0.0042, 0.091, 0.0035, 2.9, 0.53, 0.043, 0.044])
PRIOR = [
    *(truncnorm(-mean / sd, np.inf, mean, sd) for mean, sd in [(1, 0.5), (0.05, 0.05)] * 2),
    *[lognorm(1, scale=10)] * 2,
    *[lognorm(1, scale=np.exp(-1))] * 2,
]


def slow(point):
    """Prior and likelihood by the book, with an adaptive solver for the populations themselves."""
    alpha, beta, gamma, delta, u0, v0, *sds = point
    path = solve_ivp(
        lambda t, z: [(alpha - beta * z[1]) * z[0], (delta * z[0] - gamma) * z[1]],
        (0, 20),
        [u0, v0],
        method="DOP853",
        t_eval=np.arange(21.0),
        rtol=1e-11,
        atol=1e-11,
    ).y
    total = sum(law.logpdf(value) for law, value in zip(PRIOR, point, strict=True))
    for pelts, expected, sd in zip((HARES, LYNXES), path, sds, strict=True):
        total += lognorm(sd, scale=expected).logpdf(pelts).sum()
    return total


def test_density_over_the_posterior_is_that_of_a_tight_solver(rng):
    points = np.abs(MEANS + SDS * rng.standard_normal((30, 8)))
    fast, exact = log_density(points), np.array([slow(point) for point in points])
    near = exact > exact.max() - 60
    assert near.sum() > 10
    assert_allclose(fast[near], exact[near], rtol=0, atol=1e-4)
    assert_allclose(fast, exact, rtol=1e-5)


def test_density_over_the_prior_is_that_of_a_tight_solver(rng):
    points = draw_prior(25, rng)
    assert_allclose(log_density(points), [slow(point) for point in points], rtol=1e-4, atol=1e-3)


def test_density_is_high_at_the_posterior_means():
    best = log_density(MEANS[None])[0]
    for i in range(8):
        for factor in (0.6, 1.6):
            moved = MEANS.copy()
            moved[i] *= factor
            assert log_density(moved[None])[0] < best - 1
    assert best > log_density(draw_prior(200, np.random.default_rng(0))).max() + 5


def test_density_of_a_row_does_not_depend_on_the_others(rng):
    points = np.concatenate([draw_prior(8, rng), MEANS * rng.uniform(0.9, 1.1, (8, 8))])
    assert_allclose(log_density(points), [log_density(point[None])[0] for point in points], rtol=1e-9)
    assert log_density(points[:0]).shape == (0,)


def test_density_does_not_depend_on_where_a_block_ends(rng):
    points = MEANS * rng.uniform(0.9, 1.1, (2100, 8))
    assert_allclose(log_density(points)[2040:], log_density(points[2040:]), rtol=1e-9)


def test_absurd_parameters_have_a_low_density_without_a_word(rng):
    one = np.eye(8, dtype=bool)
    extremes = [
        np.where(one, 1e300, MEANS),
        np.where(one, 1e-300, MEANS),
        np.full((1, 8), 1e300),
        np.full((1, 8), 1e-300),
    ]
    points = np.concatenate([10 ** rng.uniform(-8, 8, (100, 8)), *extremes])
    values = log_density(points)
    assert not np.isnan(values).any()
    assert values.max() < log_density(MEANS[None])[0]


@pytest.mark.parametrize("bad", [0.0, -0.1, np.inf, -np.inf, np.nan])
def test_outside_is_minus_infinity(bad):
    assert (log_density(np.where(np.eye(8, dtype=bool), bad, MEANS)) == -np.inf).all()


def test_prior_draws_follow_the_prior(rng):
    draws = draw_prior(5_000, rng)
    assert draws.shape == (5_000, 8)
    assert (draws > 0).all()
    for column, law in zip(draws.T, PRIOR, strict=True):
        assert kstest(column, law.cdf).pvalue > 1e-5
    assert kstest(draws[:, 1], norm(0.05, 0.05).cdf).pvalue < 1e-5  # negative control: the cut at zero matters
    correlations = np.corrcoef(norm.ppf([law.cdf(x) for law, x in zip(PRIOR, draws.T, strict=True)]))
    assert abs(correlations - np.eye(8)).max() < 4.5 / sqrt(5_000)


def test_boxes():
    assert len(NAMES) == len(BOUNDS) == 8
    assert_allclose(BOUNDS, np.tile([0, np.inf], (8, 1)))
    for (low, high), law in zip(PLAUSIBLE_BOUNDS, PRIOR, strict=True):
        assert_allclose(law.cdf([low, high]), norm.cdf([-1, 1]))
    with pytest.raises(ValueError, match="read-only"):
        PLAUSIBLE_BOUNDS[0, 0] = 5.0


def test_pelts_are_those_of_the_case_study():
    assert (len(HARES), len(LYNXES)) == (21, 21)
    assert (HARES[0], HARES[-1], LYNXES[0], LYNXES[-1]) == (30.0, 24.7, 4.0, 8.6)
    assert_allclose([np.mean(HARES), np.mean(LYNXES)], [34.08, 20.17], atol=0.005)
