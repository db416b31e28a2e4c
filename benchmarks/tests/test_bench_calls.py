"""The benchmark of accuracy against calls: traces that go on, counted calls, tables, and jobs in processes."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vsbq_bench.parallel import append_lines, in_processes

SCRIPT = Path(__file__).parents[1] / "calls.py"


@pytest.fixture(scope="module")
def calls():
    spec = importlib.util.spec_from_file_location("bench_calls", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_a_dozen_models_and_all_of_the_development_half(calls):
    from vsbq_bench.cases.cases import all_cases, halves

    developed = {case.subject.name for case in all_cases() if halves()[case.name] == "development"}
    assert len(calls.MODELS) >= 12
    assert set(calls.MODELS) <= developed


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_more_of_the_optimiser_is_the_same_trace_gone_on(calls, noise):
    problem = calls.problem_of("michaelis_menten")
    short, long = (calls.trace_of(problem, noise, more) for more in (0, 20))
    assert len(long.points) == len(short.points) + 20
    np.testing.assert_array_equal(long.points[: len(short.points)], short.points)
    np.testing.assert_array_equal(long.log_density[: len(short.points)], short.log_density)


def test_the_best_of_a_trace_are_distinct_and_the_highest_first(calls):
    trace = SimpleNamespace(
        points=np.array([[0.0], [1.0], [1.0], [2.0], [3.0]]), log_density=np.array([-3.0, -1.0, -1.0, -np.inf, -2.0])
    )
    np.testing.assert_array_equal(calls.best_of(trace), [1, 4, 0])


def test_the_control_makes_the_calls_that_it_counts(calls):
    problem = calls.problem_of("three_near_modes")
    model = calls.Model(problem, 3.0, 1)
    value, sd = model(problem.draw(1, np.random.default_rng(0))[0])
    assert (model.calls, sd) == (1, 3.0)
    assert math.isfinite(value)


def line(method, budget, ratio, **more):
    about = {"model": "a", "noise": 0.0, "method": method, "seed": 0, "budget": budget, "calls": budget}
    return about | {"mmtv": 0.02 * ratio, "floor": 0.02, "gskl": 0.01, "delta_lml": 0.1} | more


def test_table_and_figure_are_of_the_lines(calls, tmp_path):
    lines = [line("improve", budget, 10 / (1 + budget)) for budget in calls.BUDGETS]
    lines += [line("pyvbmc", 30, 20.0, gskl=None), {"method": "pyvbmc", "noise": 0.0, "error": "broke", "seed": 1}]
    rows = calls.table(lines).splitlines()
    assert rows[2] == "| 0 | improve | 0 D | 1 | 10 | 0.1 | 0.01 | 0 | 0 |"
    assert rows[-1] == "| 0 | pyvbmc | 30 D | 1 | 20 | 0.1 | inf | 0 | 1 |"
    calls.draw(lines, tmp_path / "calls.png")
    assert (tmp_path / "calls.png").stat().st_size > 1000


def test_a_method_that_fails_has_a_line_that_says_why(calls, monkeypatch):
    def broken(problem, noise, seed):
        raise ValueError("no such thing")

    monkeypatch.setitem(calls.METHODS, "improve", broken)
    (found,) = calls.run(("wald", 0.0, "improve", 0))
    assert found["error"] == "ValueError: no such thing"


def test_jobs_in_processes_are_those_of_one(tmp_path):
    jobs = [-3, 1, -2]
    assert list(in_processes(abs, jobs, 1)) == [(-3, 3), (1, 1), (-2, 2)]
    assert sorted(in_processes(abs, jobs, 2)) == [(-3, 3), (-2, 2), (1, 1)]


def test_lines_go_on_after_one_that_was_cut(tmp_path):
    path = tmp_path / "deep" / "lines.jsonl"
    append_lines(path, [{"a": 1.0}])
    with path.open("a") as out:
        out.write('{"a": 2')
    append_lines(path, [{"a": float("inf")}])
    assert [json.loads(row) for row in path.read_text().splitlines()] == [{"a": 1.0}, {"a": None}]
