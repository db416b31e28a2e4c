from math import log, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, multivariate_normal, norm

from vsbq_bench.methods.bbvi import FLOOR, BbviSettings, Diagonal, Full, MixtureOfGaussians, _Adam, bbvi
from vsbq_bench.problems import Problem
from vsbq_bench.task import Target, Task
from vsbq_bench.traces import Trace

FAMILIES = [Diagonal(2), Full(2), MixtureOfGaussians(2, 3)]
SETTINGS = BbviSettings(family="diagonal")


def some_parameters(family, rng, replicas=1):
    size = family.start(1, SETTINGS, rng).shape[1]
    return 0.5 * rng.standard_normal((replicas, size))


def problem_of(log_density, dimension=2, bounds=None, plausible=(-3.0, 3.0)):
    return Problem(
        name="made_up",
        dimension=dimension,
        log_density=log_density,
        bounds=bounds,
        plausible_bounds=np.tile(plausible, (dimension, 1)),
        names=tuple(f"x{i}" for i in range(dimension)),
        log_evidence=0.0,
        log_evidence_sd=0.0,
        draw=lambda n, rng: np.zeros((n, dimension)),
    )


def task_of(problem, rng, *, budget=2000, noise_sd=0.0, draws=2000):
    points = rng.uniform(*problem.plausible_bounds.T, (budget, problem.dimension))
    return Task(
        problem=problem,
        trace=Trace(points, np.zeros(budget), None, np.zeros(budget, dtype=int)),
        noise_sd=noise_sd,
        target=Target(problem, noise_sd, rng),
        rng=rng,
        draws=draws,
    )


def by_hand(family, theta, u):
    """log q from SciPy's normals."""
    d = family.dimension
    if isinstance(family, MixtureOfGaussians):
        k = family.components
        means, log_sigma, log_lambda, eta = np.split(theta, [k * d, k * d + k, k * d + k + d])
        weights = np.exp(eta) / np.exp(eta).sum()
        scales = np.exp(log_sigma[:, None] + log_lambda)
        parts = [
            w * norm.pdf(u, m, s).prod(axis=1) for w, m, s in zip(weights, means.reshape(k, d), scales, strict=True)
        ]
        return np.log(sum(parts))
    factor = np.diag(np.exp(theta[d : 2 * d]))
    if isinstance(family, Full):
        unit = np.eye(d)
        unit[np.tril_indices(d, -1)] = theta[2 * d :]
        factor = factor @ unit
    return multivariate_normal(theta[:d], factor @ factor.T).logpdf(u)


@pytest.mark.parametrize("family", [*FAMILIES, Full(4), MixtureOfGaussians(3, 1)])
def test_log_density_of_the_family(family, rng):
    theta = some_parameters(family, rng, replicas=3)
    u = rng.standard_normal((3, 7, family.dimension))
    expected = [by_hand(family, *pair) for pair in zip(theta, u, strict=True)]
    assert_allclose(family.score(theta, u).log_q, expected, rtol=1e-10)


@pytest.mark.parametrize("family", [*FAMILIES, Full(4), MixtureOfGaussians(3, 1)])
def test_score_is_the_derivative_of_the_log_density(family, rng):
    theta = some_parameters(family, rng, replicas=2)
    u = rng.standard_normal((2, 5, family.dimension))
    weights = rng.standard_normal((2, 5))
    score = family.score(theta, u).weighted_score(weights)
    for p in range(theta.shape[1]):
        step = 1e-5 * np.eye(theta.shape[1])[p]
        up, down = (family.score(theta + sign * step, u).log_q for sign in (1, -1))
        assert_allclose(score[:, p], (weights * (up - down)).sum(axis=1) / 2e-5, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_follow_the_family(family, rng):
    theta = some_parameters(family, rng, replicas=2)
    draws = family.draw(theta, 20_000, rng)
    for row, u in zip(theta, draws, strict=True):
        # E exp(a·u − log q) against a normal law n: the mean of n / q over q is 1 if the draws are those of q
        narrow = norm.logpdf(u, u.mean(axis=0), 0.3 * u.std(axis=0)).sum(axis=1)
        ratio = np.exp(narrow - by_hand(family, row, u))
        assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / np.sqrt(len(u))
    wrong = np.exp(narrow - by_hand(family, row + 0.3, u))  # negative control
    assert abs(wrong.mean() - 1) > 4.5 * wrong.std() / np.sqrt(len(u))


PRECISION = np.array([[2.0, 0.8], [0.8, 1.0]])
MEAN = np.array([0.3, -0.2])


def log_normal_target(x):
    return 3.0 - 0.5 * np.einsum("ni,ij,nj->n", x - MEAN, PRECISION, x - MEAN)


def elbo_by_quadrature(family, theta, grid, cell):
    log_q = family.score(theta, grid[None]).log_q[0]
    return float((np.exp(log_q) * (log_normal_target(grid) - log_q)).sum() * cell)


@pytest.mark.parametrize("baseline", [0.0, 4.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_score_estimator_has_the_mean_of_the_exact_gradient(family, baseline, rng):
    theta = some_parameters(family, rng)
    axis = np.linspace(-14, 14, 281)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    steps = 1e-4 * np.eye(theta.shape[1])
    exact = [
        (elbo_by_quadrature(family, theta + h, grid, 0.01) - elbo_by_quadrature(family, theta - h, grid, 0.01)) / 2e-4
        for h in steps
    ]
    replicas = np.repeat(theta, 400, axis=0)
    u = family.draw(replicas, 100, rng)
    scored = family.score(replicas, u)
    ratio = log_normal_target(u.reshape(-1, 2)).reshape(400, 100) - scored.log_q
    estimates = scored.weighted_score((ratio - baseline) / 100)
    error = estimates.std(axis=0) / np.sqrt(400)
    assert (np.abs(estimates.mean(axis=0) - exact) < 4.5 * error + 1e-6).all()
    without_entropy = scored.weighted_score((ratio + scored.log_q - baseline) / 100).mean(axis=0)  # negative control
    assert (np.abs(without_entropy - exact) > 4.5 * error).any()


@pytest.mark.parametrize("family", ["full", "mixture"])
def test_bbvi_reaches_the_evidence_of_a_normal(family, rng):
    task = task_of(problem_of(log_normal_target), rng, budget=8000)
    settings = BbviSettings(
        family=family, components=2, learning_rates=(0.02, 1e-5), samples=(200,), initial_scale=0.1, elbo_draws=2000
    )
    answer = bbvi(task, settings)
    log_evidence = 3.0 + log(2 * pi) - 0.5 * np.linalg.slogdet(PRECISION)[1]
    # the mixture has no correlations of its own, and two components make up for little of that
    gap = 0.0 if family == "full" else 0.5 * log(1 / (1 - 0.64 / 2))
    assert log_evidence - gap - 0.1 < answer.log_evidence < log_evidence + 4 * answer.log_evidence_sd
    assert answer.details["best"] == 0  # a rate of 1e-5 gets nowhere
    assert answer.details["grid_elbo"][1] < log_evidence - 1
    assert answer.draws.shape == (2000, 2)
    assert_allclose(answer.draws.mean(axis=0), MEAN, atol=0.3)


def test_bbvi_counts_its_evaluations_and_keeps_to_the_budget(rng):
    task = task_of(problem_of(log_normal_target), rng, budget=100)
    settings = BbviSettings(family="diagonal", budget_factor=3, samples=(1, 10), elbo_draws=50)
    answer = bbvi(task, settings)
    assert answer.details["optimisation_evaluations"] == 4 * 300  # 2 rates, 2 numbers of draws
    assert answer.details["elbo_evaluations"] == 5 * 50  # the grid, and the winner once more
    assert task.target.evaluations == 4 * 300 + 5 * 50
    assert answer.details["grid"] == [[0.01, 1], [0.001, 1], [0.01, 10], [0.001, 10]]
    assert set(answer.seconds) == {"optimisation_1", "optimisation_10", "elbo", "draws"}


def test_bbvi_averages_the_noise_of_the_target(rng):
    task = task_of(problem_of(log_normal_target), rng, budget=4000, noise_sd=3.0)
    settings = BbviSettings(
        family="diagonal", learning_rates=(0.02,), samples=(200,), initial_scale=0.2, elbo_draws=4000
    )
    answer = bbvi(task, settings)
    best = 3.0 + log(2 * pi) - 0.5 * np.log(np.diag(PRECISION)).sum()  # of independent normals
    assert answer.log_evidence_sd > 3 / np.sqrt(4000)
    assert best - 0.3 < answer.log_evidence < best + 4 * answer.log_evidence_sd


def test_bbvi_finds_a_bounded_target_of_its_own_family(rng):
    def log_density(x):  # probit-normal
        v = norm.ppf(x[:, 0])
        return norm.logpdf(v, 0.3, 0.5) - norm.logpdf(v)

    problem = problem_of(log_density, 1, np.array([[0.0, 1.0]]), (0.2, 0.8))
    settings = BbviSettings(family="diagonal", learning_rates=(0.02,), samples=(100,), initial_scale=0.1)
    answer = bbvi(task_of(problem, rng, budget=3000), settings)
    assert abs(answer.log_evidence) < 0.02
    assert_allclose(norm.ppf(answer.draws).mean(), 0.3, atol=0.15)
    assert ((answer.draws > 0) & (answer.draws < 1)).all()


def test_bbvi_stays_finite_where_the_density_is_zero_or_fails(rng):
    def log_density(x):
        value = log_normal_target(x)
        value[x[:, 0] > 0.5] = -np.inf
        value[x[:, 1] > 0.5] = np.nan
        return value

    settings = BbviSettings(family="full", samples=(10,), initial_scale=0.3, elbo_draws=200)
    answer = bbvi(task_of(problem_of(log_density), rng, budget=200), settings)
    assert np.isfinite(answer.draws).all()
    assert all(np.isfinite(value) and value > FLOOR for value in answer.details["grid_elbo"])
    assert answer.details["failed_evaluations"] > 0


def test_bbvi_says_so_when_it_diverges(rng):
    task = task_of(problem_of(lambda x: np.full(len(x), np.inf)), rng, budget=50)
    with pytest.raises(FloatingPointError, match="diverged"):
        bbvi(task, BbviSettings(family="diagonal", samples=(10,), elbo_draws=10))


def test_bbvi_depends_on_the_generator_alone():
    settings = BbviSettings(family="mixture", components=3, samples=(10,), elbo_draws=100)
    first, again, other = (
        bbvi(task_of(problem_of(log_normal_target), np.random.default_rng(seed), budget=50), settings).draws
        for seed in (1, 1, 2)
    )
    assert_allclose(first, again, rtol=0)
    assert not np.allclose(first, other)


def test_the_default_is_the_grid_of_the_paper():
    settings = BbviSettings(family="diagonal")
    assert settings.learning_rates == (0.01, 0.001)
    assert settings.samples == (1, 10, 100)
    assert settings.budget_factor == 10


def test_start_is_narrow_and_at_the_origin(rng):
    for family in FAMILIES:
        draws = family.draw(family.start(2, SETTINGS, rng), 2000, rng)
        for column in draws.reshape(-1, 2).T:
            assert kstest(column / 1e-3, "norm").pvalue > 1e-4


def test_adam_takes_its_textbook_steps(rng):
    theta, gradients = np.zeros((2, 3)), rng.standard_normal((4, 2, 3))
    rates = np.array([[0.1], [0.01]])
    adam = _Adam(theta, rates)
    expected, first, second = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))
    for t, gradient in enumerate(gradients, start=1):
        adam.ascend(gradient)
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        expected = expected + rates * (first / (1 - 0.9**t)) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        assert_allclose(theta, expected, rtol=1e-10)
