import logging
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import minimize

from vsbq_bench.problems import SYNTHETIC, Problem, two_moons
from vsbq_bench.traces import bads_trace, cma_trace

pytest.importorskip("cma")


def steep_in_a_corner():
    """A density that grows towards one corner of its box, is open in one coordinate, and is zero in one half."""

    def log_density(x):
        with np.errstate(divide="ignore"):
            return 3 * x[:, 0] - 0.5 * x[:, 1] ** 2 + np.where(x[:, 0] > 1, 0.0, -np.inf)

    return Problem(
        name="corner",
        dimension=2,
        log_density=log_density,
        bounds=np.array([[0.0, 2.0], [-1.0, np.inf]]),
        plausible_bounds=np.array([[0.5, 1.5], [0.0, 4.0]]),
        names=("a", "b"),
        log_evidence=0.0,
        log_evidence_sd=0.0,
        draw=lambda n, rng: rng.random((n, 2)),
    )


@pytest.fixture(scope="module", params=SYNTHETIC)
def solved(request):
    problem = SYNTHETIC[request.param]()
    return problem, cma_trace(problem, np.random.default_rng(0))


def test_default_budget_is_used_exactly(solved):
    problem, trace = solved
    budget = 3000 * problem.dimension
    assert trace.points.shape == (budget, problem.dimension)
    assert trace.log_density.shape == trace.run.shape == (budget,)
    assert trace.log_density_sd is None


@pytest.mark.parametrize("evaluations", [1, 39, 40, 41, 700])
def test_any_budget_is_used_exactly(evaluations):
    trace = cma_trace(two_moons(), np.random.default_rng(0), evaluations=evaluations)
    longer = cma_trace(two_moons(), np.random.default_rng(0), evaluations=evaluations + 50)
    assert len(trace.points) == len(trace.log_density) == len(trace.run) == evaluations
    assert_array_equal(trace.points, longer.points[:evaluations])


def test_values_belong_to_their_points(solved):
    problem, trace = solved
    np.testing.assert_allclose(trace.log_density, problem.log_density(trace.points), rtol=1e-12)


def test_runs_are_counted_and_start_with_candidates_in_the_plausible_box(solved):
    problem, trace = solved
    assert_array_equal(np.unique(trace.run), np.arange(trace.run.max() + 1))
    assert (np.diff(trace.run) >= 0).all()
    low, high = problem.plausible_bounds.T
    for run in range(trace.run.max()):
        candidates = trace.points[trace.run == run][: 20 * problem.dimension]
        assert ((candidates >= low) & (candidates <= high)).all()


def test_best_point_is_the_mode(solved):
    problem, trace = solved
    best = trace.points[np.argmax(trace.log_density)]
    polished = minimize(lambda x: -problem.log_density(x[None])[0], best, method="BFGS")
    assert -polished.fun - trace.log_density.max() < 0.01


def test_every_whole_run_converges(solved):
    problem, trace = solved
    for run in range(trace.run.max()):
        last = trace.points[trace.run == run][-1]
        polished = minimize(lambda x: -problem.log_density(x[None])[0], last, method="BFGS")
        assert -polished.fun - problem.log_density(last[None])[0] < 0.5


def test_trace_covers_the_bulk_of_the_posterior(solved):
    problem, trace = solved
    near = trace.points[trace.log_density > trace.log_density.max() - 60]
    low, high = np.quantile(problem.draw(20_000, np.random.default_rng(1)), [0.01, 0.99], axis=0)
    assert (near.min(axis=0) < low).all()
    assert (near.max(axis=0) > high).all()


@pytest.mark.parametrize("seed", range(3))
def test_both_moons_are_seen(seed):
    problem = two_moons()
    trace = cma_trace(problem, np.random.default_rng(seed))
    for side in (-1, 1):
        seen = trace.log_density[side * trace.points[:, 0] > 0]
        top = problem.log_density(np.array([[side / np.sqrt(2), 0.0]]))[0]
        assert top - seen.max() < 0.1


def test_generator_decides_everything():
    np.random.seed(1)  # noqa: NPY002  that it has no influence is the point
    first = cma_trace(two_moons(), np.random.default_rng(5), evaluations=1500, noise_sd=1.0)
    np.random.seed(2)  # noqa: NPY002
    again = cma_trace(two_moons(), np.random.default_rng(5), evaluations=1500, noise_sd=1.0)
    other = cma_trace(two_moons(), np.random.default_rng(6), evaluations=1500, noise_sd=1.0)
    assert_array_equal(first.points, again.points)
    assert_array_equal(first.log_density, again.log_density)
    assert not np.array_equal(first.points, other.points)


@pytest.mark.parametrize("noise_sd", [0.0, 1.0])
def test_global_random_state_is_left_alone(noise_sd):
    before = np.random.get_state()  # noqa: NPY002
    cma_trace(two_moons(), np.random.default_rng(0), evaluations=1500, noise_sd=noise_sd)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]


def test_nothing_is_printed_or_written(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    cma_trace(two_moons(), np.random.default_rng(0), evaluations=1500)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr().out == ""


@pytest.fixture(scope="module")
def noisy():
    return cma_trace(two_moons(), np.random.default_rng(0), noise_sd=3.0)


def test_noise_has_the_stated_standard_deviation(noisy):
    noise = noisy.log_density - two_moons().log_density(noisy.points)
    assert_array_equal(noisy.log_density_sd, np.full(6000, 3.0))
    assert abs(noise.mean()) < 4.5 * 3 / np.sqrt(6000)
    assert abs(noise.std() - 3) < 4.5 * 3 / np.sqrt(2 * 6000)


def test_noise_does_not_shrink_the_search_onto_a_point(noisy):
    posterior = two_moons().draw(20_000, np.random.default_rng(1))
    one_moon = posterior[posterior[:, 0] > 0].std(axis=0)
    for run in np.unique(noisy.run):
        assert (noisy.points[noisy.run == run][-500:].std(axis=0) > 0.5 * one_moon).all()


def test_noise_handler_evaluates_again_and_all_is_kept(noisy):
    exact = cma_trace(two_moons(), np.random.default_rng(0), evaluations=1000)
    assert again(exact) == 0
    assert 0.2 < again(noisy) < 0.35  # 2 + 6 / 20 of a generation of 6


def again(trace):
    """The share of points that are all but equal to one of the ten before them."""
    steps = [np.abs(trace.points[10:] - trace.points[10 - i : -i]).max(axis=1) for i in range(1, 11)]
    return np.mean(np.min(steps, axis=0) < 1e-5)


def test_tolerance_makes_runs_shorter():
    long, short = (cma_trace(two_moons(), np.random.default_rng(0), tolerance=t) for t in (None, 0.1))
    assert short.run.max() > 1.5 * long.run.max()
    top = two_moons().log_density(np.array([[-1 / np.sqrt(2), 0.0]]))[0]
    assert top - long.log_density.max() < 1e-9


def test_bounds_hold_and_zero_density_is_no_obstacle():
    problem = steep_in_a_corner()
    trace = cma_trace(problem, np.random.default_rng(0), evaluations=2000)
    assert problem.bounds is not None
    assert ((trace.points >= problem.bounds[:, 0]) & (trace.points <= problem.bounds[:, 1])).all()
    assert np.isneginf(trace.log_density).any()
    np.testing.assert_allclose(trace.points[np.argmax(trace.log_density)], [2.0, 0.0], atol=1e-3)


@pytest.mark.parametrize(("evaluations", "noise_sd"), [(0, 0.0), (100, -1.0)])
def test_senseless_requests_are_refused(evaluations, noise_sd):
    with pytest.raises(ValueError, match=f"got {evaluations} and {noise_sd}"):
        cma_trace(two_moons(), np.random.default_rng(0), evaluations=evaluations, noise_sd=noise_sd)


# BADS


@pytest.fixture(scope="module", params=[0.0, 2.0])
def searched(request):
    pytest.importorskip("pybads")
    return bads_trace(two_moons(), np.random.default_rng(0), evaluations=250, noise_sd=request.param), request.param


def test_bads_uses_the_budget_exactly_and_counts_runs(searched):
    trace, noise_sd = searched
    assert trace.points.shape == (250, 2)
    assert trace.log_density.shape == trace.run.shape == (250,)
    assert_array_equal(np.unique(trace.run), np.arange(trace.run.max() + 1))
    assert (np.diff(trace.run) >= 0).all()
    assert trace.run.max() >= 1 or noise_sd > 0
    for run in range(trace.run.max() + 1):
        assert (np.abs(trace.points[trace.run == run][:40]) <= 1).all()


def test_bads_values_belong_to_their_points(searched):
    trace, noise_sd = searched
    noise = trace.log_density - two_moons().log_density(trace.points)
    if noise_sd == 0:
        assert trace.log_density_sd is None
        np.testing.assert_allclose(noise, 0.0, atol=1e-12)
    else:
        assert_array_equal(trace.log_density_sd, np.full(250, noise_sd))
        assert abs(noise.mean()) < 4.5 * noise_sd / np.sqrt(250)
        assert abs(noise.std() - noise_sd) < 4.5 * noise_sd / np.sqrt(2 * 250)


def test_bads_starts_at_the_best_candidate_and_climbs(searched):
    trace, noise_sd = searched
    points, values = trace.points[trace.run == 0], trace.log_density[trace.run == 0]
    best = points[np.argmax(values[:40])]
    np.testing.assert_allclose(points[40], best, atol=0.01)  # BADS puts its start on a mesh
    mode = np.array([[np.sign(best[0]) / np.sqrt(2), 0.0]])
    top, reached = two_moons().log_density(mode)[0], two_moons().log_density(points[40:]).max()
    assert top - reached < (0.1 if noise_sd == 0 else 1.0)


def test_bads_generator_decides_everything_and_the_rest_is_left_alone(tmp_path, monkeypatch, capfd):
    pytest.importorskip("pybads")
    monkeypatch.chdir(tmp_path)
    state, handlers = np.random.get_state(), list(logging.getLogger().handlers)  # noqa: NPY002
    first = bads_trace(two_moons(), np.random.default_rng(5), evaluations=120, noise_sd=1.0)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(state[1], after[1])
    assert state[2:] == after[2:]
    assert logging.getLogger().handlers == handlers
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
    np.random.seed(2)  # noqa: NPY002  that it has no influence is the point
    longer = bads_trace(two_moons(), np.random.default_rng(5), evaluations=150, noise_sd=1.0)
    other = bads_trace(two_moons(), np.random.default_rng(6), evaluations=120, noise_sd=1.0)
    assert_array_equal(first.points, longer.points[:120])
    assert_array_equal(first.log_density, longer.log_density[:120])
    assert not np.array_equal(first.points, other.points)


def test_bads_bounds_hold_and_zero_density_is_no_obstacle():
    pytest.importorskip("pybads")
    problem = steep_in_a_corner()
    trace = bads_trace(problem, np.random.default_rng(0), evaluations=250)
    assert problem.bounds is not None
    assert ((trace.points >= problem.bounds[:, 0]) & (trace.points <= problem.bounds[:, 1])).all()
    assert np.isneginf(trace.log_density[trace.run == 0][40:]).any()
    assert trace.log_density.max() > 5.9


def test_bads_looks_on_where_no_candidate_has_density():
    pytest.importorskip("pybads")
    problem = replace(two_moons(), log_density=lambda x: np.where(np.hypot(*x.T) < 0.1, 0.0, -np.inf))
    trace = bads_trace(problem, np.random.default_rng(0), evaluations=400)
    found = [np.isfinite(trace.log_density[trace.run == run][:40]).any() for run in range(trace.run.max())]
    assert_array_equal(np.bincount(trace.run)[:-1] > 40, found)
    assert set(found) == {True, False}


def test_bads_refuses_senseless_requests():
    with pytest.raises(ValueError, match="got 0 and 0"):
        bads_trace(two_moons(), np.random.default_rng(0), evaluations=0)
