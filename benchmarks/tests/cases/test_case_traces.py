"""Traces of the cases: every optimiser keeps to bounds and budget, follows its generator, and records all it sees."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import vsbq_bench.cases.shapes  # noqa: F401  which registers them
from vsbq_bench.cases import trace_store
from vsbq_bench.cases.cases import Case
from vsbq_bench.cases.optimisers import OPTIMISERS
from vsbq_bench.cases.subjects import SHAPES
from vsbq_bench.cases.trace_store import stored_trace
from vsbq_bench.cases.traces import BY_POINT, MOST_EVALUATIONS, _CaseRecorder, budget, case_trace, start_box
from vsbq_bench.problems import Problem

BUDGETS = {"bads": 45, "tpe": 60}
NEEDS = {"cma": "cma", "bads": "pybads", "tpe": "optuna"}


def in_a_corner():
    """A density that grows towards one corner of its box, is open in one coordinate, and is zero in one half."""
    return Problem(
        name="corner",
        dimension=2,
        log_density=lambda x: 3 * x[:, 0] - 0.5 * x[:, 1] ** 2 + np.where(x[:, 0] > 1, 0.0, -np.inf),
        bounds=np.array([[0.0, 2.0], [-1.0, np.inf]]),
        plausible_bounds=np.array([[0.5, 1.5], [0.0, 4.0]]),
        names=("a", "b"),
        log_evidence=0.0,
        log_evidence_sd=0.0,
        draw=lambda n, rng: rng.random((n, 2)),
    )


def made(optimiser, seed=0, problem=None, **changes):
    pytest.importorskip(NEEDS.get(optimiser, "scipy"))
    options = {"several": True, "evaluations": BUDGETS.get(optimiser, 150), "noise": 0.0, "box": "plausible", **changes}
    return case_trace(problem or in_a_corner(), np.random.default_rng(seed), optimiser=optimiser, **options)


@pytest.fixture(scope="module", params=OPTIMISERS)
def exact(request):
    return request.param, made(request.param)


def test_the_budget_is_used_and_bounds_hold(exact):
    optimiser, trace = exact
    low, high = in_a_corner().bounds.T
    assert trace.points.shape == (BUDGETS.get(optimiser, 150), 2)
    assert ((trace.points >= low) & (trace.points <= high)).all()
    assert trace.log_density_sd is None
    assert_array_equal(np.unique(trace.run), np.arange(trace.run.max() + 1))
    assert (np.diff(trace.run) >= 0).all()


def test_values_belong_to_their_points_and_zero_density_is_minus_infinity(exact):
    _, trace = exact
    assert_array_equal(trace.log_density, in_a_corner().log_density(trace.points))
    assert np.isneginf(trace.log_density).any()
    assert np.isfinite(trace.log_density).any()


def test_the_best_is_better_than_the_candidates(exact):
    _, trace = exact
    assert trace.log_density.max() > trace.log_density[:10].max()


def test_the_generator_decides_everything(exact):
    optimiser, trace = exact
    np.random.seed(7)  # noqa: NPY002  that it has no influence is the point
    before = np.random.get_state()  # noqa: NPY002
    again = made(optimiser)
    after = np.random.get_state()  # noqa: NPY002
    assert_array_equal(again.points, trace.points)
    assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    assert not np.array_equal(made(optimiser, seed=1).points, trace.points)


def test_nothing_is_printed(exact, capfd):
    made(exact[0], seed=2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("optimiser", OPTIMISERS)
@pytest.mark.parametrize("noise", [3.0, BY_POINT])
def test_noise_is_what_is_reported(optimiser, noise):
    problem = SHAPES["normal_2"].make()
    trace = made(optimiser, problem=problem, noise=noise, evaluations=BUDGETS.get(optimiser, 600))
    assert trace.log_density_sd is not None
    z = (trace.log_density - problem.log_density(trace.points)) / trace.log_density_sd
    assert abs(z.mean()) < 4.5 / np.sqrt(len(z))
    assert abs(z.std() - 1) < 4.5 / np.sqrt(2 * len(z))
    if noise == BY_POINT:
        logs = np.log(trace.log_density_sd)
        assert abs(logs.mean()) < 4.5 * 0.5 / np.sqrt(len(logs))
        assert len(np.unique(logs)) == len(logs)
    else:
        assert_array_equal(trace.log_density_sd, np.full(len(z), 3.0))


def test_an_optimiser_is_told_the_noise_of_its_last_evaluation():
    record = _CaseRecorder(in_a_corner(), BY_POINT, 100, np.random.default_rng(0))
    record.begin_run()
    told = []
    for x in np.linspace(1.1, 1.9, 9):
        record(np.array([[x, 0.0]]))
        told.append(record.noise_sd)
    assert_array_equal(record.trace().log_density_sd, told)


@pytest.mark.parametrize("optimiser", ["cma", "nelder_mead", "l_bfgs_b", "powell", "differential_evolution"])
def test_one_run_ends_before_the_budget(optimiser):
    one = made(optimiser, problem=SHAPES["half_normal_3"].make(), several=False, evaluations=5000)
    several = made(optimiser, problem=SHAPES["half_normal_3"].make(), evaluations=2000)
    assert one.run.max() == 0
    assert 60 < len(one.points) < 2000
    assert several.run.max() > 0
    assert len(several.points) == 2000


def test_finite_differences_are_recorded():
    trace = made("l_bfgs_b", problem=SHAPES["normal_2"].make(), several=False, evaluations=500)
    width = np.ptp(SHAPES["normal_2"].make().plausible_bounds, axis=1)
    steps = np.abs(np.diff(trace.points[40:], axis=0)) / width
    assert np.sum(np.isclose(steps.max(axis=1), 1e-8, rtol=0.1)) > 10


def test_boxes():
    problem = in_a_corner()
    low, high = problem.plausible_bounds.T
    for seed in range(20):
        narrow = start_box(problem, "narrow", np.random.default_rng(seed))
        np.testing.assert_allclose(narrow[:, 1] - narrow[:, 0], 0.1 * (high - low))
        assert ((narrow[:, 0] >= low - 1e-12) & (narrow[:, 1] <= high + 1e-12)).all()
        assert np.isfinite(problem.log_density(narrow.mean(axis=1)[None, :])).all()
    wide = start_box(problem, "wide", np.random.default_rng(0))
    np.testing.assert_allclose(wide, [[0.0, 2.0], [-1.0, 8.0]])  # cut at three bounds
    assert_array_equal(start_box(problem, "plausible", np.random.default_rng(0)), problem.plausible_bounds)


@pytest.mark.parametrize("box", ["narrow", "wide"])
def test_starts_lie_in_the_box(box):
    problem = SHAPES["normal_8"].make()
    trace = made("nelder_mead", problem=problem, box=box, several=False, evaluations=200)
    inside = start_box(problem, box, np.random.default_rng(0))
    first = trace.points[:160]
    assert ((first >= inside[:, 0]) & (first <= inside[:, 1])).all()


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"evaluations": 0}, "got 0 and 0"), ({"noise": -1.0}, "got 150 and -1"), ({"optimiser": "luck"}, "got 'luck'")],
)
def test_senseless_requests_are_refused(changes, word):
    with pytest.raises(ValueError, match=word):
        made(**{"optimiser": "random", **changes})


def test_budgets_are_limited():
    assert budget(2, "cma", 3000) == 6000
    assert budget(10, "cma", 3000) == MOST_EVALUATIONS
    assert budget(10, "bads", 100) == 600


CASE = Case(SHAPES["beta_4"], "nelder_mead", "several", 30, BY_POINT, "plausible", 3)


def test_a_stored_trace_is_read_and_not_made_again(tmp_path, monkeypatch):
    problem = CASE.subject.make()
    first = stored_trace(tmp_path, CASE, problem)
    assert len(list(tmp_path.iterdir())) == 1
    other = stored_trace(tmp_path, CASE._replace(seed=4), problem)
    assert not np.array_equal(other.points, first.points)
    monkeypatch.setattr(trace_store, "case_trace", None)
    again = stored_trace(tmp_path, CASE, problem)
    for name in ("points", "log_density", "log_density_sd", "run"):
        assert_array_equal(getattr(again, name), getattr(first, name))


def test_a_damaged_file_is_made_anew(tmp_path):
    problem = CASE.subject.make()
    first = stored_trace(tmp_path, CASE, problem)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:500])
    assert_array_equal(stored_trace(tmp_path, CASE, problem).points, first.points)
