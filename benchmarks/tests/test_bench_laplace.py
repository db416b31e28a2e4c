from math import log, pi, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import beta, gamma, kstest, norm

from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import infer_space
from vsbq_bench.methods._space import InferenceTarget, space_of
from vsbq_bench.methods.laplace import laplace
from vsbq_bench.problems import Problem, two_moons
from vsbq_bench.task import Target, Task
from vsbq_bench.traces import Trace


def problem_of(log_density, plausible, bounds=None, log_evidence=0.0):
    plausible = np.array(plausible, dtype=float)
    return Problem(
        name="made_up",
        dimension=len(plausible),
        log_density=log_density,
        bounds=None if bounds is None else np.array(bounds, dtype=float),
        plausible_bounds=plausible,
        names=tuple(f"x{i}" for i in range(len(plausible))),
        log_evidence=log_evidence,
        log_evidence_sd=0.0,
        draw=lambda n, rng: np.zeros((n, len(plausible))),
    )


def task_of(problem, rng, *, noise_sd=0.0, n=400, draws=1000):
    points = rng.uniform(*problem.plausible_bounds.T, (n, problem.dimension))
    values = problem.log_density(points) + noise_sd * rng.standard_normal(n)
    sd = np.full(n, noise_sd) if noise_sd > 0 else None
    return Task(
        problem=problem,
        trace=Trace(points, values, sd, np.arange(n) // 100),
        noise_sd=noise_sd,
        target=Target(problem, noise_sd, rng),
        rng=rng,
        draws=draws,
    )


COVARIANCE = np.array([[2.0, 1.2, 0.0], [1.2, 1.0, -0.2], [0.0, -0.2, 0.25]])
CENTRE = np.array([1.0, -2.0, 0.5])


def correlated_normal():
    precision = np.linalg.inv(COVARIANCE)

    def log_density(x):
        return 7.0 - 0.5 * np.einsum("ni,ij,nj->n", x - CENTRE, precision, x - CENTRE)

    evidence = 7.0 + 1.5 * log(2 * pi) + 0.5 * np.linalg.slogdet(COVARIANCE)[1]
    return problem_of(log_density, [(-4, 4), (-5, 2), (-2, 2)], log_evidence=float(evidence))


@pytest.mark.parametrize("noise_sd", [0.0, 5.0])
def test_laplace_is_exact_on_a_normal_whatever_the_noise_of_the_trace(noise_sd, rng):
    problem = correlated_normal()
    task = task_of(problem, rng, noise_sd=noise_sd, draws=20_000)
    answer = laplace(task)
    assert_allclose(answer.log_evidence, problem.log_evidence, atol=1e-5)
    assert_allclose(answer.details["map"], CENTRE, atol=1e-4)
    assert task.target.evaluations == 0  # the noisy target is not asked
    assert answer.details["optimisation_evaluations"] > 20
    assert answer.details["hessian_evaluations"] > 9
    whitened = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (answer.draws - CENTRE).T)
    assert_allclose(np.cov(whitened), np.eye(3), atol=4.5 * sqrt(2 / 20_000))
    for row in whitened:
        assert kstest(row, "norm").pvalue > 1e-4
    assert kstest(whitened[0] + 0.1, "norm").pvalue < 1e-4  # negative control


def bounded_normal():
    """Normal in inference space: a probit-normal, a shifted log-normal below and one above a bound."""

    def log_density(x):
        v = norm.ppf(x[:, 0] / 2)
        probit = norm.logpdf(v, 0.5, 0.7) - norm.logpdf(v) - log(2)
        low, high = x[:, 1] - 1, 5 - x[:, 2]
        return probit + norm.logpdf(np.log(low), 0.3, 0.4) - np.log(low) + norm.logpdf(np.log(high)) - np.log(high)

    bounds = [(0, 2), (1, np.inf), (-np.inf, 5)]
    return problem_of(log_density, [(0.3, 1.9), (1.5, 4), (0, 4.8)], bounds)


def test_laplace_is_exact_where_a_bounded_target_is_normal_in_inference_space(rng):
    problem = bounded_normal()
    answer = laplace(task_of(problem, rng, draws=5000))
    assert_allclose(answer.log_evidence, 0.0, atol=1e-5)
    assert_allclose(answer.details["map"], [2 * norm.cdf(0.5), 1 + np.exp(0.3), 4.0], atol=1e-3)
    probit = norm.ppf(answer.draws[:, 0] / 2)
    assert kstest((probit - 0.5) / 0.7, "norm").pvalue > 1e-4
    assert kstest((np.log(answer.draws[:, 1] - 1) - 0.3) / 0.4, "norm").pvalue > 1e-4
    assert kstest(np.log(5 - answer.draws[:, 2]), "norm").pvalue > 1e-4
    assert kstest(np.log(5 - answer.draws[:, 2]) + 0.2, "norm").pvalue < 1e-4  # negative control


@pytest.mark.parametrize(
    ("law", "bounds", "plausible"),
    [
        (beta(2, 5), (0, 1), (0.1, 0.5)),
        (beta(1, 2), (0, 1), (0.1, 0.9)),
        (gamma(2), (0, np.inf), (0.5, 4)),
        (norm(3, 2), (-np.inf, np.inf), (0, 4)),
    ],
)
def test_density_of_inference_space_integrates_to_the_same_evidence(law, bounds, plausible, rng):
    problem = problem_of(lambda x: law.logpdf(x[:, 0]), [plausible], [bounds])
    target = InferenceTarget(Target(problem, 0.0, rng), space_of(problem))

    def density(u):
        return float(np.exp(target(np.array([[u]]))[0]))

    assert_allclose(quad(density, -30, 30, points=(-1, 0, 1), limit=200)[0], 1.0, atol=1e-5)
    # and so does every part of it: the median splits it in halves
    middle = target.space.forward(np.array([[law.median()]]))[0, 0]
    assert_allclose(quad(density, -30, middle, limit=200)[0], 0.5, atol=1e-5)


def test_plausible_box_becomes_the_unit_box():
    problem = bounded_normal()
    space = space_of(problem)
    assert_allclose(space.forward(problem.plausible_bounds.T.copy()), [[-1] * 3, [1] * 3])


def test_space_agrees_with_that_of_the_evaluations(rng):
    problem = problem_of(lambda x: -(x**2).sum(axis=1), [(0.2, 0.5), (-3, 1)], [(0, 1), (-np.inf, np.inf)])
    points = rng.uniform(0.1, 0.9, (30, 2))
    evaluations = Evaluations(
        points, problem.log_density(points), bounds=problem.bounds, plausible_bounds=problem.plausible_bounds
    )
    theirs = infer_space(evaluations)
    assert_allclose(space_of(problem).forward(points), theirs.forward(points), rtol=1e-12)


def test_failed_evaluations_count_as_zero_density(rng):
    problem = problem_of(lambda x: np.where(x[:, 0] > 0, np.nan, -(x[:, 0] ** 2)), [(-2, 2)])
    target = InferenceTarget(Target(problem, 0.0, rng), space_of(problem))
    assert_allclose(target(np.array([[-0.5], [0.5]])), [-1 + log(2), -np.inf])
    assert target.failures == 1


def test_laplace_finds_the_higher_of_two_modes(rng):
    answer = laplace(task_of(two_moons(), rng))
    assert_allclose(answer.details["map"], [-1 / sqrt(2), 0], atol=1e-4)
    # by hand: curvature 1 / 0.1² along the radius and κ / R² across
    by_hand = 8 + log(2 / 3) + log(2 * pi) - 0.5 * log(100 * 16)
    assert_allclose(answer.log_evidence, by_hand, atol=1e-3)


def test_laplace_refuses_a_ridge(rng):
    problem = problem_of(lambda x: -(x[:, 0] ** 2), [(-1, 1), (-1, 1)])
    with pytest.raises(RuntimeError, match="not positive definite"):
        laplace(task_of(problem, rng, n=1))


def test_laplace_refuses_a_trace_without_a_finite_value(rng):
    problem = problem_of(lambda x: np.full(len(x), -np.inf), [(-1, 1)])
    with pytest.raises(FloatingPointError, match="no point of the trace"):
        laplace(task_of(problem, rng))
