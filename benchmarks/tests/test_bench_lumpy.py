from math import log, sqrt
from pickle import dumps, loads

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, multivariate_normal, norm

from vsbq_bench.lumpy import lumpy


def parts(problem):
    mixture = problem.draw.__self__
    return mixture.weights, mixture.means, mixture.sds


def test_problem_conforms():
    problem = lumpy()
    draws = problem.draw(50, np.random.default_rng(0))
    assert (problem.name, problem.dimension, problem.bounds) == ("lumpy", 10, None)
    assert draws.shape == (50, 10)
    assert len(problem.names) == len(problem.plausible_bounds) == 10
    assert (problem.log_evidence, problem.log_evidence_sd) == (0.0, 0.0)
    assert_allclose(problem.log_density(draws), [problem.log_density(draw[None])[0] for draw in draws])
    assert_allclose(loads(dumps(problem)).log_density(draws), problem.log_density(draws), rtol=0)
    with pytest.raises(ValueError, match="read-only"):
        problem.plausible_bounds[0, 0] = 5.0


def test_mixture_follows_the_recipe():
    weights, means, sds = parts(lumpy())
    assert len(weights) == len(means) == len(sds) == 12
    assert_allclose(weights.sum(), 1)
    assert means.min() >= 0
    assert means.max() <= 1
    assert kstest(means.ravel(), "uniform").pvalue > 1e-4
    assert_allclose(np.sort(sds, axis=1), np.tile(np.linspace(0.2, 0.6, 10), (12, 1)))
    assert len(np.unique(sds, axis=0)) > 6  # every component has an order of its own
    assert_allclose(parts(lumpy(1))[2], 0.6)


def test_two_calls_give_one_target_and_dimensions_differ():
    assert_allclose(parts(lumpy())[1], parts(lumpy())[1], rtol=0)
    assert not np.allclose(parts(lumpy(3))[0], parts(lumpy(4))[0])
    assert lumpy(3).name != lumpy().name


def test_density_is_the_sum_of_its_components(rng):
    problem = lumpy()
    weights, means, sds = parts(problem)
    points = np.concatenate([problem.draw(20, rng), rng.uniform(-3, 4, (20, 10))])
    slow = sum(
        w * multivariate_normal(m, np.diag(s**2)).pdf(points) for w, m, s in zip(weights, means, sds, strict=True)
    )
    assert_allclose(problem.log_density(points), np.log(slow), rtol=1e-10)
    assert np.isfinite(problem.log_density(np.full((1, 10), 1e6))).all()


@pytest.mark.parametrize("dimension", [1, 2])
def test_density_integrates_to_one(dimension):
    problem = lumpy(dimension)
    line = np.linspace(-4, 5, 400)
    grid = np.stack(np.meshgrid(*[line] * dimension), axis=-1).reshape(-1, dimension)
    integral = np.exp(problem.log_density(grid)).sum() * (line[1] - line[0]) ** dimension
    assert_allclose(log(integral), problem.log_evidence, atol=1e-9)


def test_evidence_by_importance_sampling(rng):
    problem = lumpy()
    spread = 0.7
    points = 0.5 + spread * rng.standard_normal((100_000, 10))
    weights = np.exp(problem.log_density(points) - norm.logpdf(points, 0.5, spread).sum(axis=1))
    error = weights.std() / sqrt(len(weights))
    assert error < 0.02
    assert abs(weights.mean() - 1) < 4.5 * error


def test_draws_have_the_margins_of_the_density(rng):
    problem = lumpy()
    weights, means, sds = parts(problem)
    draws = problem.draw(10_000, rng)

    def cdf(x, i, shift=0.0):
        return norm.cdf(x[:, None] - shift, means[:, i], sds[:, i]) @ weights

    for i in range(10):
        assert kstest(draws[:, i], lambda x, i=i: cdf(x, i)).pvalue > 1e-5
    assert kstest(draws[:, 0], lambda x: cdf(x, 0, shift=0.05)).pvalue < 1e-5  # negative control
    low, high = problem.plausible_bounds.T
    assert np.mean(np.all((draws > low) & (draws < high), axis=1)) > 0.8


def test_draws_have_the_covariance_of_the_mixture(rng):
    problem = lumpy()
    weights, means, sds = parts(problem)
    centred = means - weights @ means
    truth = np.diag(weights @ sds**2) + (centred * weights[:, None]).T @ centred
    draws = problem.draw(20_000, rng) - weights @ means
    products = draws[:, :, None] * draws[:, None, :]
    errors = products.std(axis=0) / sqrt(len(draws))
    assert (abs(products.mean(axis=0) - truth) < 4.5 * errors).all()
    assert not (abs(products.mean(axis=0) - np.diag(np.diag(truth))) < 4.5 * errors).all()  # the lumps are seen


def test_no_dimension_is_refused():
    with pytest.raises(ValueError, match="got 0"):
        lumpy(0)
