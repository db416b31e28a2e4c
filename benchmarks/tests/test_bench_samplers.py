import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad

from vsbq_bench.methods import samplers
from vsbq_bench.methods.samplers import BoxMap, dynesty_sampler, emcee_sampler
from vsbq_bench.problems import Problem
from vsbq_bench.task import Target, Task
from vsbq_bench.traces import Trace

MEAN, SD = np.array([0.3, 1.5]), np.array([0.1, 0.7])
LOG_EVIDENCE = 2.0 + np.log(2 * np.pi) + np.log(SD).sum()


def log_normal_density(x):
    return 2.0 - 0.5 * (((x - MEAN) / SD) ** 2).sum(axis=1)


def draw(n, rng):
    return MEAN + SD * rng.standard_normal((n, 2))


def problem(bounds=None):
    return Problem(
        name="normal",
        dimension=2,
        log_density=log_normal_density,
        bounds=bounds,
        plausible_bounds=np.array([[0.0, 1.0], [0.5, 3.0]]),
        names=("a", "b"),
        log_evidence=LOG_EVIDENCE,
        log_evidence_sd=0.0,
        draw=draw,
    )


def task(seed=0, noise=0.0, bounds=None):
    rng = np.random.default_rng([seed, 7])
    points = draw(400, rng)
    if bounds is not None:
        points = points[((points > bounds[:, 0]) & (points < bounds[:, 1])).all(axis=1)]
    values = log_normal_density(points) + noise * rng.standard_normal(len(points))
    trace = Trace(points, values, np.full(len(points), noise) if noise else None, np.zeros(len(points), dtype=np.int64))
    given = problem(bounds)
    return Task(problem=given, trace=trace, noise_sd=noise, target=Target(given, noise, rng), rng=rng, draws=2000)


@pytest.fixture
def short(monkeypatch):
    """Runs of a second or two."""
    monkeypatch.setattr(samplers, "EFFECTIVE_DRAWS", 1000)
    monkeypatch.setattr(samplers, "EFFECTIVE_SAMPLES", 800)
    monkeypatch.setattr(samplers, "LIVE_POINTS", 100)


def check_moments(draws, effective, factor=1.0):
    """Mean and variance within 4.5 standard errors of what so many independent draws would have."""
    assert np.all(np.abs(draws.mean(axis=0) - MEAN) < 4.5 * SD / np.sqrt(effective))
    assert np.all(np.abs(draws.var(axis=0) / (factor * SD**2) - 1) < 4.5 * np.sqrt(2 / effective))


def test_emcee_draws_a_normal(short):
    pytest.importorskip("emcee")
    given = task(noise=3.0)  # the trace's noise is not the sampler's
    answer = emcee_sampler(given)
    assert answer.draws.shape == (2000, 2)
    assert answer.log_evidence is None
    assert answer.details["long_enough"]
    assert given.target.evaluations == 0
    assert answer.details["evaluations"] >= answer.details["steps"] * answer.details["walkers"]
    check_moments(answer.draws, 500)
    with pytest.raises(AssertionError):
        check_moments(answer.draws, 500, factor=1.6)


def test_emcee_respects_bounds(short):
    pytest.importorskip("emcee")
    bounds = np.array([[0.3, np.inf], [-np.inf, np.inf]])
    answer = emcee_sampler(task(bounds=bounds))
    assert answer.draws[:, 0].min() > 0.3
    half_normal = 0.3 + 0.1 * np.sqrt(2 / np.pi)
    assert abs(answer.draws[:, 0].mean() - half_normal) < 4.5 * 0.06 / np.sqrt(500)


def test_emcee_stops_at_its_budget(monkeypatch):
    pytest.importorskip("emcee")
    monkeypatch.setattr(samplers, "EFFECTIVE_DRAWS", 10**9)
    monkeypatch.setattr(samplers, "MOST_TRACES", 30)
    given = task()
    answer = emcee_sampler(given)
    assert not answer.details["long_enough"]
    assert 0.99 * 30 * given.budget < answer.details["evaluations"] <= 30 * given.budget + 32


@pytest.mark.parametrize("package", ["emcee", "dynesty"])
def test_random_numbers_come_from_the_generator_alone(short, monkeypatch, package):
    pytest.importorskip(package)
    monkeypatch.setattr(samplers, "LIVE_POINTS", 20)
    monkeypatch.setattr(samplers, "EFFECTIVE_SAMPLES", 30)
    monkeypatch.setattr(samplers, "EFFECTIVE_DRAWS", 100)
    method = {"emcee": emcee_sampler, "dynesty": dynesty_sampler}[package]
    first = method(task()).draws
    np.random.seed(1)  # noqa: NPY002
    state = np.random.get_state()  # noqa: NPY002
    assert_array_equal(first, method(task()).draws)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(state[1], after[1])
    assert state[2] == after[2]
    assert not np.array_equal(first, method(task(seed=1)).draws)


def test_dynesty_gives_evidence_and_draws(short, capfd):
    pytest.importorskip("dynesty")
    given = task(noise=3.0)
    answer = dynesty_sampler(given)
    assert answer.log_evidence_sd < 0.4
    assert abs(answer.log_evidence - LOG_EVIDENCE) < 4 * answer.log_evidence_sd
    assert answer.draws.shape == (2000, 2)
    assert answer.details["evaluations"] > 1000
    assert given.target.evaluations == 0
    check_moments(answer.draws, 500)
    assert capfd.readouterr() == ("", "")


def test_dynesty_within_bounds(short):
    pytest.importorskip("dynesty")
    bounds = np.array([[0.3, np.inf], [-4.0, 6.0]])
    answer = dynesty_sampler(task(bounds=bounds))
    assert abs(answer.log_evidence - (LOG_EVIDENCE - np.log(2))) < 4 * answer.log_evidence_sd
    assert answer.draws[:, 0].min() > 0.3


KINDS = {"open": (-np.inf, np.inf), "lower": (-1.0, np.inf), "upper": (-np.inf, 4.0), "both": (-1.0, 4.0)}


@pytest.mark.parametrize("kind", KINDS)
def test_box_map_has_the_density_it_says(kind):
    low, high = KINDS[kind]
    box = BoxMap(np.array([low]), np.array([high]), np.array([1.0]), np.array([0.5]))
    total = quad(lambda x: float(np.exp(box.log_density(np.array([[x]]))[0])), low, high)[0]
    assert_allclose(total, 1.0, atol=1e-6)
    p = np.linspace(0.02, 0.98, 25)[:, None]
    step = 1e-6
    slope = (box.quantile(p + step) - box.quantile(p - step))[:, 0] / (2 * step)
    assert_allclose(-np.log(slope), box.log_density(box.quantile(p)), atol=1e-6)


def test_box_map_of_a_problem_is_centred_on_its_plausible_box():
    box = BoxMap.of(problem())
    assert_allclose(box.quantile(np.full((1, 2), 0.5)), [[0.5, 1.75]])
    bounded = BoxMap.of(problem(np.array([[-1.0, 1.0], [0.0, np.inf]])))
    assert_allclose(bounded.quantile(np.full((1, 2), 0.5)), [[0.0, 1.75]])
    assert_allclose(bounded.quantile(np.array([[0.0, 0.0], [1.0, 1.0]]))[:, 0], [-1.0, 1.0], atol=1e-9)
