"""The study of verdicts: its population and halves, the sabotages, how thresholds are chosen, and the tables."""

from __future__ import annotations

import json

import numpy as np
import pytest

from vsbq.posterior.diagnosis.thresholds import Thresholds
from vsbq_bench.cases.cases import halves
from vsbq_bench.traces import Trace
from vsbq_bench.trust import study
from vsbq_bench.trust.choose import _balanced, choose, in_words, table_of
from vsbq_bench.trust.judge import judge
from vsbq_bench.trust.population import PAPER, Trial, half_of, population
from vsbq_bench.trust.sabotage import SABOTAGES
from vsbq_bench.trust.study import read_study, run_study, run_trial, unseen_share
from vsbq_bench.trust.table import confusion, missed, refresh_trust, summary
from vsbq_bench.zoo import ZOO


@pytest.fixture
def trace(rng):
    problem = ZOO["half_bounded"]()
    points = np.concatenate([problem.draw(300, rng), np.abs(problem.draw(300, rng)) * [2, -2, 2]])
    return problem, Trace(points, problem.log_density(points), None, np.repeat([0, 1, 2], 200))


def test_the_population_is_large_fixed_and_in_halves():
    trials = population()
    assert len(trials) >= 400
    assert len({trial.name for trial in trials}) == len(trials)
    kinds = {trial.sabotage for trial in trials}
    assert kinds == set(SABOTAGES)
    for kind in kinds:
        own = [half_of(trial) for trial in trials if trial.sabotage == kind]
        assert 0.25 < own.count("development") / len(own) < 0.75
    zoo = [trial for trial in trials if trial.place not in PAPER]
    assert all(half_of(trial) == halves()[trial.place] for trial in zoo)  # judged where nothing else was chosen


@pytest.mark.parametrize("kind", SABOTAGES)
def test_a_sabotage_changes_what_it_says_and_follows_from_the_generator(kind, trace):
    problem, before = trace
    after, again = (SABOTAGES[kind].change(problem, before, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(after.log_density, again.log_density)
    assert len(after.points) == len(after.log_density) == len(after.run) >= 24
    same = len(after.points) == len(before.points) and np.array_equal(after.log_density, before.log_density)
    assert same == (kind in {"none", "thinned to 300 D"})  # a short trace has no more to lose


def test_one_side_and_the_top(trace):
    problem, before = trace
    side = SABOTAGES["one side"].change(problem, before, np.random.default_rng(3))
    widths = np.ptp(side.points, axis=0) / np.ptp(before.points, axis=0)
    assert widths.min() < 0.9
    top = SABOTAGES["top two nats"].change(problem, before, np.random.default_rng(3))
    assert np.ptp(top.log_density) <= 2.0


def line(usable, verdict="trusted", half="development", sabotage="none", **numbers):
    scores = {"delta_lml": 0.1, "mmtv": 0.05 if usable else 0.5, "gskl": 0.01}
    about = {"trial": f"a / {sabotage}", "sabotage": sabotage, "half": half, "unseen": 0.0, "diagnosis_share": 0.03}
    about |= {"place": "a"}
    return {**about, **scores, "usable": usable, "verdict": verdict, "numbers": numbers, "reasons": []}


def separable(rng):
    """Fits of 40 cases that `sisters` tells apart and `unsure` does not."""
    lines = [line(True, sisters=float(x), unsure=float(u)) for x, u in rng.uniform(0.01, 0.1, (120, 2))]
    lines += [line(False, sisters=float(x), unsure=float(u)) for x, u in rng.uniform([0.3, 0.01], [1, 0.1], (80, 2))]
    return [one | {"place": f"case {k % 40}"} for k, one in enumerate(lines)]


def test_thresholds_separate_what_can_be_separated(rng):
    lines = separable(rng)
    found = choose(lines)
    usual, whole, alone = found.thresholds["sisters"]
    assert 0.01 < usual < 0.1 < alone < 0.3
    assert whole == alone
    assert found.thresholds["unsure"][1] > 0.2
    assert found.caught == found.lines[0] == 1.0
    assert found.doubted == found.refused == found.lines[1] == found.lines[2] == 0.0
    assert "100.0% of the unusable fits are doubted" in in_words(found)
    assert "rejected: float = " in in_words(found)
    assert choose(lines) == found


def test_what_nothing_tells_apart_is_not_told_apart(rng):
    lines = [one | {"usable": bool(usable)} for one, usable in zip(separable(rng), rng.random(200) < 0.5, strict=True)]
    found = choose(lines)  # the negative control of the rule: judged without their own case, fits are told by chance
    assert found.caught - found.doubted < 0.35  # 4 standard errors of two shares of about 100 fits, and a bit


def test_promises_are_balanced():
    usable = np.repeat([True, False], [25, 20])
    sums = np.concatenate([np.linspace(1, 2, 25), np.linspace(1.8, 4, 20)])
    limit = _balanced(sums, usable)
    missed, doubted = np.mean(sums[~usable] < limit), np.mean(sums[usable] >= limit)
    assert max(missed / 0.05, doubted / 0.12) <= 2.0
    assert _balanced(np.array([1.0, 2.0, np.inf]), np.array([True, False, False])) == 1.5


def test_small_shares_are_bad_and_the_validation_half_is_refused():
    unseen = line(False, mixture=0.5) | {"unseen": 0.5}
    table = table_of([line(True, mixture=0.9), line(False, mixture=0.001), line(False, input=1.0), unseen])
    column = table.numbers[:, table.names.index("mixture")]
    assert column[1] > column[0]
    assert np.isnan(column[2])
    assert table.usable.tolist() == [True, False, False]
    assert table.anyway.tolist() == [False, False, True]
    with pytest.raises(AssertionError, match="development half only"):
        choose([line(True, half="validation")])


@pytest.mark.parametrize(
    ("numbers", "reasons", "wanted"),
    [
        ({"sisters": 0.01, "too few": 0.1}, [], "trusted"),
        ({"sisters": 0.4, "too few": 0.1}, [], "doubtful"),
        ({"sisters": 0.2, "too few": 0.6}, [], "doubtful"),
        ({"sisters": 0.2, "too few": 0.1}, [], "trusted"),
        ({"sisters": 0.01, "mixture": 1e-9}, [], "rejected"),
        ({"sisters": 0.2, "too few": 0.1, "together": 9.0}, [], "trusted"),  # the sum is that of these thresholds
        ({"sisters": None}, [], "trusted"),
        ({"sisters": None}, ["sisters"], "doubtful"),
        ({"refinement": None}, ["refinement"], "doubtful"),
        ({"refinement": 1.0}, ["refinement"], "rejected"),
    ],
)
def test_verdicts_follow_from_the_numbers_of_a_line(numbers, reasons, wanted):
    limits = Thresholds(sisters=(0.1, 0.5, 0.3), too_few=(0.1, 2.0, 1.0), mixture=(0.9, 0.01, 0.01), rejected=2.0)
    given = {**line(True, "refused"), "numbers": numbers, "reasons": reasons}
    assert judge(given, limits)["verdict"] == wanted
    assert judge({"verdict": "refused"})["verdict"] == "refused"


def test_tables_count_and_name_what_was_missed(tmp_path):
    lines = [line(True), line(True, "doubtful"), line(False, "rejected", sabotage="offset"), line(False)]
    table = confusion(lines)
    assert "| **all** | 1 | 1 | 0 | 1 | 0 | 1 | 0 |" in table
    assert "Of those that are not, 1 (50%)" in summary(lines)
    assert "beyond the limit in MMTV" in missed(lines)
    assert missed(lines[:1]) == "None."
    page = tmp_path / "page.md"
    page.write_text("Above\n<!-- begin: trust -->\nold\n<!-- end: trust -->\nBelow\n", encoding="utf-8")
    refresh_trust(page, [line(True, sisters=0.0), line(False, sisters=9.0)])
    text = page.read_text(encoding="utf-8")
    assert "old" not in text
    assert "The development half" in text
    assert text.endswith("<!-- end: trust -->\nBelow\n")


def test_mass_that_nobody_has_seen(rng):
    truth = np.concatenate([rng.normal(size=(500, 2)), rng.normal(size=(500, 2)) + 100])
    assert unseen_share(truth, truth[::2]) == 0.0
    assert unseen_share(truth, truth[:500]) == 0.5


def test_a_study_goes_on_where_it_stopped(tmp_path, monkeypatch):
    trials = (Trial("half_bounded", "thinned to 30 D"), Trial("half_bounded", "first 30 D"))
    monkeypatch.setattr(study, "population", lambda: trials)
    monkeypatch.setattr(study, "run_trial", lambda trial, cache: {"trial": trial.name, "x": float("inf")})
    lines = tmp_path / "lines.jsonl"
    assert len(list(run_study(lines, tmp_path, limit=1))) == 1
    with lines.open("a") as out:
        out.write('{"trial": "cut sho')
    assert [one["trial"] for one in run_study(lines, tmp_path)] == [trials[1].name]
    assert [one["x"] for one in read_study(lines)] == [None, None]


@pytest.mark.slow
def test_several_processes_make_the_same_lines(tmp_path, monkeypatch):
    trials = (Trial("half_bounded", "thinned to 30 D"), Trial("half_bounded", "first 30 D"))
    monkeypatch.setattr(study, "population", lambda: trials)
    one, two = (
        {line["trial"]: line["numbers"] for line in run_study(tmp_path / f"{k}.jsonl", tmp_path, processes=k)}
        for k in (1, 2)
    )
    assert one == two
    assert len(one) == 2


def test_a_trial_has_verdict_and_scores(tmp_path):
    found = run_trial(Trial("half_bounded", "thinned to 30 D"), tmp_path)
    assert found["verdict"] in {"trusted", "doubtful", "rejected"}
    assert found["usable"] in {True, False}
    assert set(found["numbers"]) >= {"cut off", "sisters", "evidence"}
    json.dumps(study._short(found), allow_nan=False)
