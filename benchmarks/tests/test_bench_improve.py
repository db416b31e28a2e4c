"""The benchmark of improve: which trials it takes, what it counts, and that what is done is not done again."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vsbq_bench.cases.place import find_place
from vsbq_bench.parallel import append_lines
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
    sizes = {find_place(trial.place).problem.dimension for trial, _ in chosen}
    assert min(sizes) == 2
    assert max(sizes) == 12


def test_the_validation_half_has_enough_trials(improve):
    """Sixty that are not trusted are wanted of 2 to 12 parameters, and more than a third of all is not."""
    count = Counter(noise for _, noise in improve.trials("validation"))
    assert set(count) == set(improve.NOISE)
    assert sum(count.values()) >= 3 * 60
    assert min(count.values()) >= 60


def line(method, verdict, usable, budget=None, calls=0):
    about = {"trial": "a", "half": "development", "noise": 0.0, "mmtv": 0.03, "floor": 0.02}
    return about | {"method": method, "verdict": verdict, "usable": usable, "budget": budget, "calls": calls}


def test_the_table_counts_what_was_repaired(improve):
    lines = [line("before", "doubtful", False)]
    for method, verdict, usable in (("suggested", "trusted", True), ("posterior_draws", "trusted", False)):
        lines += [line(method, verdict, usable, budget, 10) for budget in improve.BUDGETS]
    rows = improve.table(lines).splitlines()
    assert rows[2] == "| development | 0 | 0 |  | 1 | 0 | 0 | 0 | 0 | 1.5 | 0 |"
    assert rows[3] == "| development | 0 | 10 D | suggested | 1 | 1 | 1 | 1 | 0 | 1.5 | 10 |"
    assert rows[4] == "| development | 0 | 10 D | posterior draws | 1 | 0 | 1 | 0 | 1 | 1.5 | 10 |"
    assert len(improve.table(lines[:1]).splitlines()) == 2  # half of the methods are no comparison


def test_it_ends_when_there_are_enough_that_are_not_trusted(improve, tmp_path):
    path = tmp_path / "lines.jsonl"
    append_lines(path, [line("before", "doubtful", False), line("before", "trusted", True)])
    for fits, full in ((1, {0.0}), (2, set()), (None, set())):
        assert improve.enough(SimpleNamespace(lines=path, half="development", fits=fits)) == full
    assert improve.enough(SimpleNamespace(lines=path, half="validation", fits=1)) == set()


def test_the_model_is_one_of_a_user(improve):
    problem = two_moons()
    x = problem.draw(1, np.random.default_rng(0))[0]
    truth = float(problem.log_density(x[None])[0])
    assert improve.model_of(problem, 0.0, 1)(x) == truth
    value, sd = improve.model_of(problem, 3.0, 1)(x)
    assert sd == 3.0
    assert 0 < abs(value - truth) < 15
