"""The benchmark of improve: which trials it takes, what it counts, and that what is done is not done again."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from vsbq_bench.problems import two_moons
from vsbq_bench.trust.population import half_of

SCRIPT = Path(__file__).parents[1] / "improve.py"


@pytest.fixture(scope="module")
def improve():
    spec = importlib.util.spec_from_file_location("bench_improve", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_trials_have_true_values_and_few_parameters(improve):
    chosen = list(improve.trials("development"))
    assert chosen
    assert {trial.sabotage for trial, _ in chosen} <= set(improve.COVERAGE)
    assert {half_of(trial) for trial, _ in chosen} == {"development"}
    assert {noise for _, noise in chosen} == set(improve.NOISE)


def line(method, verdict, usable, budget=None, calls=0):
    about = {"trial": "a", "half": "development", "noise": 0.0}
    return about | {"method": method, "verdict": verdict, "usable": usable, "budget": budget, "calls": calls}


def test_the_table_counts_what_was_repaired(improve):
    lines = [line("before", "doubtful", False)]
    for method, verdict in (("suggested", "trusted"), ("posterior_draws", "doubtful")):
        lines += [line(method, verdict, True, budget, 10) for budget in improve.BUDGETS]
    rows = improve.table(lines).splitlines()
    assert rows[2] == "| development | 0 | 0 |  | 1 | 0 | 0 | 0 | 0 |"
    assert rows[3] == "| development | 0 | 10 D | suggested | 1 | 1 | 1 | 0 | 10 |"
    assert rows[4] == "| development | 0 | 10 D | posterior draws | 1 | 1 | 0 | 0 | 10 |"
    assert len(improve.table(lines[:1]).splitlines()) == 2  # half of the methods are no comparison


def test_the_model_is_one_of_a_user(improve):
    problem = two_moons()
    x = problem.draw(1, np.random.default_rng(0))[0]
    truth = float(problem.log_density(x[None])[0])
    assert improve.model_of(problem, 0.0, 1)(x) == truth
    value, sd = improve.model_of(problem, 3.0, 1)(x)
    assert sd == 3.0
    assert 0 < abs(value - truth) < 15
