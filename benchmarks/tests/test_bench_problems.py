from math import erf, log, pi, sqrt
from pathlib import Path
from pickle import dumps, loads

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import kstest, vonmises

from truth_marks import needs_truth
from vsbq.cli import two_moons as demonstrated
from vsbq_bench.catalogue import PROBLEMS
from vsbq_bench.problems import SYNTHETIC, rosenbrock_gaussian, two_moons

OBSERVER = pytest.param("observer", marks=needs_truth("observer_simulated"))
TRUTH = Path(__file__).resolve().parents[3] / "shared" / "truth"  # beside some checkouts only
BOXES = {"two_moons": [(-2.5, 2.5), (-2.5, 2.5)], "banana": [(-6.0, 6.0), (-8.0, 40.0)], "gaussian": [(-9.0, 9.0)] * 2}


def integrate(density, box, nodes=800):
    """Trapezoid rule on a plane; the densities vanish on the edges of their boxes."""
    (low1, high1), (low2, high2) = box
    # an offset keeps the nodes off the origin, where the angle of two moons is undefined
    x1, x2 = np.linspace(low1, high1, nodes) + 1e-3, np.linspace(low2, high2, nodes)
    values = [density(np.column_stack([np.full(nodes, x), x2])) for x in x1]
    return float(np.sum(values)) * (x1[1] - x1[0]) * (x2[1] - x2[0])


def moments(problem, powers, n=20_000, seed=0):
    draws = problem.draw(n, np.random.default_rng(seed))
    values = np.prod(draws ** np.asarray(powers), axis=1)
    return values.mean(), values.std() / sqrt(n)


def agree(estimate, error, truth):
    return abs(estimate - truth) < 4.5 * error


@pytest.mark.parametrize("name", [*(n for n in PROBLEMS if n != "observer"), OBSERVER])
def test_problem_conforms(name):
    problem = PROBLEMS[name]()
    rng = np.random.default_rng(0)
    draws = problem.draw(50, rng)
    assert problem.name.removesuffix("_simulated") == name
    assert draws.shape == (50, problem.dimension)
    assert problem.log_density(draws).shape == (50,)
    assert problem.plausible_bounds.shape == (problem.dimension, 2)
    assert (problem.plausible_bounds[:, 0] < problem.plausible_bounds[:, 1]).all()
    assert len(problem.names) == problem.dimension
    assert problem.bounds is None or ((draws >= problem.bounds[:, 0]) & (draws <= problem.bounds[:, 1])).all()
    assert problem.draw_prior is None or problem.draw_prior(50, rng).shape == draws.shape
    row_by_row = [problem.log_density(draw[None])[0] for draw in draws]
    assert_allclose(problem.log_density(draws), row_by_row)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_draws_depend_on_the_generator_alone(name):
    problem = SYNTHETIC[name]()
    first, again = (problem.draw(10, np.random.default_rng(3)) for _ in range(2))
    assert_allclose(first, again, rtol=0)
    assert not np.allclose(first, problem.draw(10, np.random.default_rng(4)))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_problem_survives_a_trip_to_another_process(name):
    problem = SYNTHETIC[name]()
    points = problem.draw(5, np.random.default_rng(0))
    copy = loads(dumps(problem))
    assert_allclose(copy.log_density(points), problem.log_density(points))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_plausible_box_cannot_be_changed(name):
    with pytest.raises(ValueError, match="read-only"):
        SYNTHETIC[name]().plausible_bounds[0, 0] = 5.0


def test_two_moons_evidence_by_quadrature():
    problem = two_moons()
    integral = integrate(lambda x: np.exp(problem.log_density(x)), BOXES["two_moons"])
    assert_allclose(log(integral), problem.log_evidence, atol=1e-8)
    assert_allclose(problem.log_evidence, 6.16576117, atol=1e-8)


def test_two_moons_is_the_one_of_the_demonstration(rng):
    points, problem = np.vstack([rng.normal(size=(200, 2)), np.zeros((1, 2))]), two_moons()
    assert_allclose(demonstrated.log_density(points), problem.log_density(points), rtol=1e-12)
    assert demonstrated.log_evidence() == pytest.approx(problem.log_evidence, rel=1e-12)
    draws = problem.draw(20_000, rng)
    assert np.mean(draws[:, 0] > 0) == pytest.approx(demonstrated.RIGHT_SHARE, abs=0.02)


def test_two_moons_is_finite_at_the_origin():
    assert np.isfinite(two_moons().log_density(np.zeros((1, 2)))).all()


def test_two_moons_draws_follow_their_polar_law():
    draws = two_moons().draw(20_000, np.random.default_rng(1))
    angle, radius = np.arctan2(draws[:, 1], draws[:, 0]), np.hypot(*draws.T)

    def angle_cdf(t):  # the left moon is centred at pi, so shift both to one branch and start at -pi
        left = vonmises.cdf(t, 8, loc=pi) - vonmises.cdf(-pi, 8, loc=pi)
        return vonmises.cdf(t, 8) / 3 + 2 * left / 3

    def radius_cdf(r):  # ∫ s exp(-50 (s - R)²) ds by parts
        centre, sd = 1 / sqrt(2), 0.1
        normal = np.vectorize(lambda x: (1 + erf((x - centre) / sd / sqrt(2))) / 2)
        bump = np.exp(-0.5 * ((0 - centre) / sd) ** 2) - np.exp(-0.5 * ((r - centre) / sd) ** 2)
        part = sd**2 * bump + centre * sd * sqrt(2 * pi) * (normal(r) - normal(0.0))
        return part / (sd**2 * np.exp(-25) + centre * sd * sqrt(2 * pi))

    assert kstest(angle, angle_cdf).pvalue > 1e-4
    assert kstest(radius, radius_cdf).pvalue > 1e-4
    assert kstest(radius, lambda r: radius_cdf(r + 0.005)).pvalue < 1e-4  # negative control: the r in front matters


@pytest.mark.parametrize("powers", [(1, 0), (0, 1), (2, 0), (0, 2), (1, 2)])
def test_two_moons_draws_have_the_moments_of_the_density(powers):
    problem = two_moons()
    weighted = integrate(
        lambda x: np.exp(problem.log_density(x)) * np.prod(x ** np.asarray(powers), axis=1), BOXES["two_moons"]
    )
    estimate, error = moments(problem, powers)
    assert agree(estimate, error, weighted / np.exp(problem.log_evidence))
    assert not agree(estimate, error, weighted / np.exp(problem.log_evidence) + 0.1)


@pytest.mark.parametrize("dimension", [4, 6, 10])
def test_rosenbrock_evidence_by_quadrature(dimension):
    problem = rosenbrock_gaussian(dimension)
    rest = problem.log_density(np.zeros((1, dimension)))[0]

    def one_pair(first):  # all other coordinates at 0
        def density(x):
            points = np.zeros((len(x), dimension))
            points[:, first : first + 2] = x
            return np.exp(problem.log_density(points) - rest)

        return density

    # the density is a product over pairs, so its integral is the product of conditional ones
    banana = log(integrate(one_pair(0), BOXES["banana"]))
    gaussian = log(integrate(one_pair(dimension - 2), BOXES["gaussian"]))
    assert_allclose(rest + (dimension - 2) / 2 * banana + gaussian, problem.log_evidence, atol=1e-8)


def test_rosenbrock_evidence_is_the_published_one_to_its_accuracy():
    # The published -6.82230902 comes from an adaptive quadrature and is low by 3e-5.
    assert_allclose(rosenbrock_gaussian().log_evidence, -6.82230902, atol=5e-5)
    assert_allclose(rosenbrock_gaussian().log_evidence, -6.82227934, atol=1e-8)


@pytest.mark.parametrize("powers", [(1, 0), (0, 1), (2, 0), (0, 2), (1, 1), (2, 1)])
@pytest.mark.parametrize("pair", [0, 1])
def test_rosenbrock_draws_have_the_moments_of_the_density(powers, pair):
    def banana(x):
        return np.exp(-((x[:, 0] ** 2 - x[:, 1]) ** 2) - (x[:, 0] - 1) ** 2 / 100 - (x**2).sum(axis=1) / 18)

    weighted = integrate(lambda x: banana(x) * np.prod(x ** np.asarray(powers), axis=1), BOXES["banana"])
    truth = weighted / integrate(banana, BOXES["banana"])
    estimate, error = moments(rosenbrock_gaussian(), (0,) * 2 * pair + powers + (0,) * (4 - 2 * pair))
    assert agree(estimate, error, truth)
    assert not agree(estimate, error, 1.1 * truth + 0.2)


def test_rosenbrock_gaussian_pair_has_variance_nine_tenths():
    draws = rosenbrock_gaussian(8).draw(20_000, np.random.default_rng(0))[:, -2:]
    for column in draws.T:
        assert kstest(column / sqrt(0.9), "norm").pvalue > 1e-4
    assert_allclose(np.corrcoef(draws, rowvar=False)[0, 1], 0, atol=4.5 / sqrt(20_000))


@pytest.mark.parametrize("dimension", [2, 5, 0])
def test_rosenbrock_refuses_dimensions_without_a_meaning(dimension):
    with pytest.raises(ValueError, match=f"got {dimension}"):
        rosenbrock_gaussian(dimension)


@pytest.mark.parametrize(("name", "file"), [("two_moons", "two_moons"), ("rosenbrock_gaussian", "rosenbrock")])
def test_reference_draws_agree(name, file):
    path = TRUTH / f"{file}.npz"
    if not path.exists():
        pytest.skip("no reference draws beside this checkout")
    problem = SYNTHETIC[name]()
    with np.load(path) as truth:
        samples, log_evidence = truth["samples"].astype(float), float(truth["log_Z"])
    assert_allclose(problem.log_evidence, log_evidence, atol=5e-5)
    draws = problem.draw(len(samples), np.random.default_rng(0))
    for ours, theirs in zip(draws.T, samples.T, strict=True):
        assert kstest(ours, theirs).pvalue > 1e-4
