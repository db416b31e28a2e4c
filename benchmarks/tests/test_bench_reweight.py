"""The benchmark of reweight: what counts as better, and that each kind of sabotage gets its turn."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from vsbq_bench.trust.population import half_of
from vsbq_bench.trust.sabotage import SABOTAGES

SCRIPT = Path(__file__).parents[1] / "reweight.py"


@pytest.fixture(scope="module")
def reweight():
    spec = importlib.util.spec_from_file_location("bench_reweight", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(sabotage="offset", **more):
    about = {"trial": f"{sabotage} {len(more)}", "half": "development", "sabotage": sabotage, "verdict": "doubtful"}
    return about | more


def corrected(before, after, cannot=False):
    return line(cannot=cannot, error_before=before, error_after=after, floor=0.1)


def test_errors_are_multiples_of_what_makes_a_posterior_unusable(reweight):
    assert reweight.largest(0.5, 0.02, 0.0) == 0.5
    assert reweight.largest(0.0, 0.4, 0.0) == pytest.approx(2.0)
    assert reweight.largest(0.0, 0.0, 0.5) == pytest.approx(2.0)
    assert reweight.largest(np.inf, 0.0, 0.0) == np.inf


def test_outcomes(reweight):
    assert reweight.outcome(corrected(2.0, 0.5)) == "better"
    assert reweight.outcome(corrected(0.5, 2.0)) == "worse"
    assert reweight.outcome(corrected(0.05, 0.06)) == "better"  # as good as draws of the truth
    assert reweight.outcome(corrected(None, 2.0)) == "better"  # null is infinite
    assert reweight.outcome(corrected(0.5, 2.0, cannot=True)) == "cannot"
    assert reweight.outcome(line()) is None
    rows = reweight.table([corrected(2.0, 0.5), corrected(0.5, 2.0)]).splitlines()
    assert "| development | offset | 2 | 1 | 0 | 1 |" in rows


def test_every_kind_gets_its_turn_and_no_more(reweight):
    first = next(reweight.missing([], "development"))
    assert half_of(first) == "development"
    assert first.sabotage == next(iter(SABOTAGES))
    done = [corrected(2.0, 0.5) | {"sabotage": first.sabotage, "trial": str(k)} for k in range(reweight.PER_KIND)]
    following = list(reweight.missing(done, "development"))
    assert {trial.sabotage for trial in following} == set(SABOTAGES) - {first.sabotage}
    trusted = [line(first.sabotage, trial=first.name)]
    assert first not in list(reweight.missing(trusted, "development"))
