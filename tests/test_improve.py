"""From doubtful to trusted: what is called, what is kept, when it ends and what it says."""

from __future__ import annotations

import logging
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest

import vsbq
from improve_cases import FAST, NOISE, RIGHT, TRUE_SD, KillsOnce, log_normal, noisy, one_side
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning
from vsbq.improve.advice import advise
from vsbq.improve.calls import evaluate, in_turn
from vsbq.improve.ledger import Known, Ledger, noise_of
from vsbq.improve.loop import _check, _Loop, _Plan
from vsbq.improve.settled import settled
from vsbq.io.record import read_store
from vsbq.posterior.diagnosis import Diagnosis, Finding
from vsbq.posterior.improvement import ImprovementStep
from vsbq.progress import CountedProgress


@pytest.fixture(scope="module")
def cut():
    post = one_side()
    assert post.verdict != "trusted"
    return post


@pytest.fixture(scope="module")
def doubtful():
    post = noisy()
    assert "unsure" in [finding.name for finding in post.diagnose().reasons]
    return post


def improve(post, f, calls, **options):
    return post.improve(f, calls, **{"settings": FAST, "rng": 2, "progress": False} | options)


def quietly(*arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VsbqWarning)
        return improve(*arguments, **options)


class Called(list):
    """Keeps the points that it is called for."""

    def __call__(self, x):
        self.append(x.copy())
        return log_normal(x)


def test_a_cut_posterior_becomes_trusted(cut):
    called = Called()
    post = improve(cut, called, 60)
    assert post.verdict == "trusted"
    assert abs(post.log_evidence) < 0.1 < abs(cut.log_evidence)
    assert abs(post.marginal("a").sd() / TRUE_SD - 1) < 0.1 < abs(cut.marginal("a").sd() / TRUE_SD - 1)
    steps = post.improvement.steps
    assert steps[0][:3] == (0, 0, cut.verdict)
    assert steps[-1].calls == len(called) == post.improvement.calls <= 60
    assert all(one.calls < other.calls for one, other in pairwise(steps))
    assert post.improvement.ended == f"Trusted after {len(called)} calls."
    assert post.improvement.advice == ""
    assert post.diagnose().finding("moved").number < 0.1
    assert "calls: log evidence" in str(post.improvement)
    assert post.improvement.to_dict()["steps"][-1]["verdict"] == "trusted"
    np.testing.assert_array_equal(np.array(called), post.evaluations.points[-len(called) :])


def loop_of(post, batch=10):
    plan = _Plan(log_density=log_normal, max_calls=90, batch=batch, log_density_sd=None, settings=None, seed=0)
    return _Loop(plan, Ledger(post, None), in_turn, CountedProgress(90, False))


def test_a_posterior_that_still_moves_is_not_trusted(cut):
    trusted = replace(cut, diagnosis=Diagnosis("trusted", ()))
    better = quietly(cut, log_normal, 60)
    assert [finding.level for finding in settled(trusted, trusted, 10)] == ["trusted", "trusted"]
    moved, evidence = settled(trusted, better, 10)
    assert moved.level != "trusted"
    assert evidence.number == pytest.approx(abs(better.log_evidence - cut.log_evidence))
    assert "with the last 10 calls" in moved.message


def test_a_move_is_that_of_a_whole_batch(cut):
    loop = loop_of(replace(cut, diagnosis=Diagnosis("trusted", ())), batch=6)
    loop.seen = [(0, cut)]
    others = [replace(cut) for _ in range(4)]
    for post, values, earliest in zip(others, (6, 6, 2, 1), (0, 6, 6, 6), strict=True):
        found = loop._tested(post, values).diagnose().finding("moved")
        assert loop.seen[0][0] == earliest
        assert f"{loop.seen[-1][0] - earliest} calls" in found.message


def test_a_trusted_posterior_is_not_called_for(cut):
    trusted = replace(cut, diagnosis=Diagnosis("trusted", ()))
    called = Called()
    post = improve(trusted, called, 10)
    assert not called
    assert post.improvement.ended == "Trusted after 0 calls."


def test_the_calls_are_used_up_and_no_more(doubtful):
    called = Called()
    with pytest.warns(VsbqWarning, match=r"Still .* after 14 calls, which is all there were\. .*It would take"):
        post = improve(doubtful, called, 14, batch=6, log_density_sd=NOISE)
    assert len(called) == 14
    assert [step.calls for step in post.improvement.steps] == [0, 6, 12, 14]
    assert "less noise than 3 nats" in post.improvement.advice
    assert "start_ensemble" in post.improvement.advice


def test_failures_are_data(cut, tmp_path):
    path, called = tmp_path / "calls.db", Called()

    def odd(x):
        value, number = called(x), len(called)
        if number == 2:
            raise ValueError("no convergence")
        return {3: np.nan, 4: np.inf, 5: -np.inf, 6: None, 7: (value, np.nan)}.get(number, value)

    post = quietly(cut, odd, 12, batch=12, record=path)
    stored = read_store(path)
    np.testing.assert_array_equal(stored.points, called)
    assert [words for words in stored.failures if words] == [
        "ValueError: no convergence",
        "the log density is nan",
        "the log density is inf",
        "ValueError: log_density returned None",
        "the sd of the noise is nan",
    ]
    assert post.improvement.steps[-1][:2] == (12, 5)
    assert len(post.evaluations) == len(cut.evaluations) + 7
    assert np.isneginf(post.evaluations.log_density).sum() == 1


def test_a_failed_point_is_not_asked_for_again(cut):
    called = Called()

    def right_fails(x):
        called(x)
        if x[0] > RIGHT:
            raise RuntimeError("too far right")
        return log_normal(x)

    post = quietly(cut, right_fails, 20, batch=10)
    assert post.improvement.steps[-1].failed > 0
    assert len({x.tobytes() for x in called}) == len(called)


def test_a_model_that_always_fails_is_an_error(cut, tmp_path):
    def broken(x):
        raise KeyError("rate")

    with pytest.raises(VsbqError, match=r"All 5 calls of log_density failed. The first: KeyError: 'rate'"):
        improve(cut, broken, 20, batch=5, record=tmp_path / "calls.db")
    assert len(read_store(tmp_path / "calls.db")) == 5


def test_an_interrupt_loses_nothing(doubtful, tmp_path):
    called, path = Called(), tmp_path / "calls.db"

    def interrupted(x):
        if len(called) == 7:
            raise KeyboardInterrupt
        return called(x), NOISE

    with pytest.raises(KeyboardInterrupt):
        improve(doubtful, interrupted, 12, batch=5, record=path)
    assert len(read_store(path)) == 7
    post = quietly(doubtful, lambda x: (called(x), NOISE), 12, batch=5, record=path)
    assert [step.calls for step in post.improvement.steps] == [0, 2, 7, 12]  # its last batch is a test again
    stored = read_store(path)
    assert len(called) == len(stored) == len({x.tobytes() for x in stored.points}) == 12
    assert set(stored.runs) == {"improve"}
    again = quietly(post, lambda x: (called(x), NOISE), 5, batch=5, record=path)
    assert again.improvement.steps[-1].calls == 5  # what the posterior knows is no call of this improvement


def test_the_file_of_the_optimiser_will_do(doubtful, tmp_path):
    given = doubtful.evaluations
    with vsbq.Recorder(tmp_path / "fits.db", names=given.names) as rec:
        rec.record(given.points, given.log_density, sd=given.log_density_sd)
        rec.record([[50.0, 50.0]], [np.nan])  # a failure of the optimiser's
        post = quietly(doubtful, lambda x: (log_normal(x), NOISE), 4, batch=4, record=rec)
        assert post.improvement.calls == 4
        assert len(rec) == len(given) + 5


def test_the_record_of_another_problem_is_refused(cut, tmp_path):
    other = vsbq.Recorder(tmp_path / "other.db", names=["rate", "b"])
    with pytest.raises(EvaluationsError, match="recorder is of rate, b, the posterior of a, b"):
        improve(cut, log_normal, 5, record=other)
    vsbq.Recorder(tmp_path / "bounded.db", names=["a", "b"], bounds=[(-9, 9), None]).close()
    with pytest.raises(VsbqError, match="bounds"):
        improve(cut, log_normal, 5, record=tmp_path / "bounded.db")


def test_threads_and_processes_give_what_one_gives(doubtful):
    def values(**options):
        post = quietly(doubtful, noisy_log_normal, 6, batch=3, **options)
        return sorted(map(tuple, post.evaluations.points[-6:].tolist()))

    alone = values()
    with ThreadPoolExecutor(3) as threads:
        assert values(executor=threads) == alone
    assert values(workers=2) == alone


def noisy_log_normal(x):
    return log_normal(x), NOISE


def test_an_executor_that_can_not_take_the_function_says_so(cut):
    # Not forked: another test of this process may have left threads.
    with (
        ProcessPoolExecutor(1, get_context("spawn")) as processes,
        pytest.raises(VsbqError, match=r"All 2 calls .*[Pp]ickl"),
    ):
        improve(cut, lambda x: 0.0, 4, batch=2, executor=processes)
    with pytest.raises(VsbqError, match="takes no calls"):
        improve(cut, log_normal, 4, executor=processes)


@pytest.mark.parametrize("always", [False, True])
def test_a_killed_process_costs_one_call(cut, tmp_path, always):
    record, model = tmp_path / "calls.db", KillsOnce(tmp_path, always)
    post = quietly(cut, model, 6, batch=6, workers=2, record=record)
    stored = read_store(record)
    killed = sum(words is not None for words in stored.failures)
    deadly = int((stored.points[:, 0] > RIGHT).sum())
    assert 0 < deadly < len(stored) == 6
    assert killed == (deadly if always else 0)
    assert post.improvement.steps[1].failed == killed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_calls": 0}, "max_calls is 0"),
        ({"batch": 0}, "batch is 0"),
        ({"workers": 0}, "workers is 0"),
        ({"log_density_sd": -1.0}, "not negative"),
        ({"executor": 3}, "executor is a int"),
        ({"executor": SimpleNamespace(submit=print, asynchronous=True)}, "not asynchronous"),
        ({"executor": SimpleNamespace(submit=print), "workers": 2}, "Pass executor alone"),
    ],
)
def test_bad_arguments_are_refused_before_a_call(cut, options, words):
    with pytest.raises(EvaluationsError, match=words):
        cut.improve(**{"log_density": log_normal, "max_calls": 10} | options)


def test_what_is_no_function_and_no_number_is_refused(cut):
    for given, words in (((3.0, 10), "must be a function"), ((log_normal, 2.5), r"max_calls is 2\.5")):
        with pytest.raises(EvaluationsError, match=words):
            _check(cut, *given, None)


def test_a_compact_posterior_is_refused(cut, tmp_path):
    compact = vsbq.load(cut.save(tmp_path / "small.npz", compact=True))
    with pytest.raises(VsbqError, match="compact"):
        compact.improve(log_normal, 10)


def test_noise_has_to_be_told(doubtful, cut):
    with pytest.raises(VsbqError, match=r"earlier evaluations are noisy.*Return \(value, sd\)"):
        improve(doubtful, log_normal, 4, batch=4)
    mixed = Known(np.zeros((2, 2)), np.zeros(2), np.array([0.5, np.nan]))
    with pytest.raises(VsbqError, match="other evaluations are noisy"):
        noise_of(mixed, cut, None)
    np.testing.assert_array_equal(noise_of(mixed, cut, 2.0), [0.5, 2.0])
    assert noise_of(mixed._replace(sd=np.full(2, np.nan)), cut, None) is None


def test_it_stops_where_nothing_is_gained(cut):
    loop = loop_of(cut)
    flat = ImprovementStep(0, 0, "doubtful", 0.0, 0.4, ("unsure", "evidence"))
    loop.steps = [flat._replace(calls=10 * k) for k in range(3)]
    assert not loop._nothing_gained()
    loop.steps.append(flat._replace(calls=30, log_evidence_sd=0.39))
    assert loop._nothing_gained()
    for better in ({"log_evidence_sd": 0.3}, {"reasons": ("unsure",)}, {"verdict": "trusted"}):
        loop.steps[-1] = flat._replace(**better)
        assert not loop._nothing_gained()


def test_a_batch_of_failures_ends_it(cut):
    called = Called()

    def breaks_later(x):
        called(x)
        return log_normal(x) if len(called) < 3 else np.nan

    post = quietly(cut, breaks_later, 30, batch=2)
    assert post.verdict == "trusted" or post.improvement.ended == "Stopped after 4 calls: all of the last batch failed."


def test_the_advice_follows_the_findings(cut):
    def advice(*names, sds=(1.0, 1.0)):
        found = [Finding(name, "doubtful", 1.0, 0.5, "words.") for name in names]
        steps = [ImprovementStep(10 * i, 0, "doubtful", 0.0, sd, names) for i, sd in enumerate(sds)]
        return advise(replace(cut, diagnosis=Diagnosis.of(found)), steps)

    assert advise(replace(cut, diagnosis=Diagnosis("trusted", ())), ()) == ""
    assert "another parametrisation" in advice("sisters", "bound")
    assert "('sisters' and 'bound')" in advice("sisters", "bound")
    assert "other starts ('modes')" in advice("modes")
    assert "more calls" in advice("beyond", sds=(1.0, 0.5))
    assert "other starts ('beyond')" in advice("beyond")
    assert "values that are as stated ('input'" in advice("input")
    assert "more calls, since the last ones still moved the posterior ('moved')" in advice("moved")
    assert all("mass_matrix()" in advice(name) for name in ("beyond", "modes", "sisters", "input"))


def test_an_answer_is_the_value_and_its_sd():
    x = np.array([0.5, 1.0])
    assert evaluate(lambda x: np.float32(2.0), x, "")[:2] == (2.0, None)
    assert evaluate(lambda x: (2.0, 0.5), x, "")[:2] == (2.0, 0.5)
    assert evaluate(lambda x: x.fill(0.0) or 1.0, x, "").value == 1.0
    np.testing.assert_array_equal(x, [0.5, 1.0])
    assert "read" in evaluate(lambda x: "high", x, "").failure


def test_progress_tells_the_calls_left(doubtful, caplog):
    with caplog.at_level(logging.INFO, "vsbq"):
        quietly(doubtful, noisy_log_normal, 3, batch=3)
    assert "2 calls left" in caplog.text
