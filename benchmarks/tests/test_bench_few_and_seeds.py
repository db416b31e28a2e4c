"""The benchmarks of short traces and of the seed: which fits they are, what they call absurd, and what they count."""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from pathlib import Path

import pytest

from vsbq_bench.cases.cases import halves


def script(name):
    spec = importlib.util.spec_from_file_location(f"bench_{name}", Path(__file__).parents[1] / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def few():
    return script("few")


@pytest.fixture(scope="module")
def seeds():
    return script("seeds")


def test_there_are_two_hundred_different_short_fits(few):
    trials = list(few.trials())
    assert len(trials) == len(set(trials)) == 200
    for column, levels in ((1, few.OPTIMISERS), (2, few.LENGTHS), (3, few.NOISE)):
        counts = Counter(trial[column] for trial in trials)
        assert set(counts) == set(levels)
        assert min(counts.values()) > 25
    assert max(trial[2] for trial in trials) == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"widest": 3.5}, "too wide"),
        ({"widest": None}, "too wide"),
        ({"narrowest": 0.3}, "too narrow"),
        ({"beyond": 0.1}, "evidence that no evaluation supports"),
        ({"beyond": 2.0, "widest": 10.0}, "too wide, evidence that no evaluation supports"),
    ],
)
def test_what_is_absurd(few, change, words):
    fine = {"widest": 1.5, "narrowest": 0.5, "beyond": -3.0}
    assert few.absurd(fine | change) == words
    assert few.absurd({"error": "FitError: too few"}) == ""


def test_the_table_of_short_fits(few):
    line = {"noise": 0.0, "verdict": "trusted", "signed_error": 0.1, "log_evidence_sd": 0.1}
    good = line | {"widest": 1.0, "narrowest": 1.0, "beyond": -1.0}
    bad = good | {"noise": 1.0, "widest": 9.0, "signed_error": 1.0}
    rows = few.table([good, bad, bad | {"verdict": "rejected"}, {"noise": 3.0, "verdict": "refused"}]).splitlines()
    assert rows[2] == "| 0 | 1 | 0 | 0 | 0 of 1 | 100% |"
    assert rows[3] == "| 1 | 2 | 0 | 2 | 1 of 1 | 0% |"
    assert rows[4] == "| 3 | 1 | 1 | 0 | 0 of 0 | 0% |"
    assert rows[5] == "| all | 4 | 1 | 2 | 1 of 2 | 33% |"


@pytest.mark.slow
def test_a_short_fit_leaves_its_line_and_is_not_made_again(few, tmp_path, monkeypatch, capsys):
    results = tmp_path / "few.jsonl"
    for _ in range(2):
        monkeypatch.setattr("sys.argv", ["few.py", "--limit", "1", "--results", str(results)])
        few.main()
    first, second = (json.loads(row) for row in results.read_text().splitlines())
    assert first["trial"] != second["trial"]
    assert {"widest", "narrowest", "beyond", "commit"} <= set(first)
    monkeypatch.setattr("sys.argv", ["few.py", "--table", "--results", str(results)])
    few.main()
    assert "| all | 2 |" in capsys.readouterr().out


def test_cases_of_the_seeds_are_exact_and_long(seeds):
    for half in ("development", "validation"):
        found = seeds.cases(half)
        assert len(found) > 5
        for case in found:
            assert halves()[case.name] == half
            assert not case.noisy
            assert case.runs == "several"
            assert case.evaluations_per_dimension >= 300


def test_the_table_of_seeds(seeds):
    line = {"hard": False, "most": 1.0, "evidence_sd_of_seeds": 0.01, "stated_sd": 0.02}
    rows = seeds.table([line, line | {"most": 3.0}, {"hard": True, "error": "FitError"}]).splitlines()
    assert rows[2:] == ["| ordinary | 2 | 2.00 | 50% | 0.01 | 0.02 |"]
