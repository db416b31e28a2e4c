"""The recorder: what it keeps, what it leaves alone, what it refuses; processes are in test_record_processes.py."""

from __future__ import annotations

import copy
import pickle
import sqlite3
import threading
import time
import warnings
from contextlib import closing
from decimal import Decimal

import numpy as np
import pytest
from scipy import optimize

from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning
from vsbq.evaluations import Evaluations
from vsbq.record import Recorder, RecorderError, evaluations_from, is_store, merge, read_store
from vsbq.record import file as record_file
from vsbq.record.location import network_drive

NAMES = ["a", "b"]
BOX = [(-5.0, 5.0), (-4.0, 6.0)]


def cost(x, shift=0.0):
    return 0.5 * float(np.sum((np.asarray(x) - shift) ** 2))


def cost_of_rows(x):
    return 0.5 * np.sum(x**2, axis=1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fits.db"


@pytest.fixture
def rec(path):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as recorder:
        yield recorder


def last(rec):
    """The evaluation that was recorded last."""
    stored = read_store(rec)
    sd = None if stored.log_density_sd is None else stored.log_density_sd[-1]
    prior = None if stored.log_prior is None else stored.log_prior[-1]
    return stored.points[-1].tolist(), stored.log_density[-1], sd, prior


# What is kept


def test_a_cost_is_kept_as_a_log_density(rec):
    before = time.time()
    assert rec.minimise(cost)([3.0, 4.0]) == 12.5
    stored = read_store(rec)
    np.testing.assert_array_equal(stored.points, [[3.0, 4.0]])
    assert stored.log_density.tolist() == [-12.5]
    assert stored.log_density_sd is None
    assert stored.log_prior is None
    assert stored.failures == (None,)
    assert stored.runs == (rec.run,)
    assert before - 1 <= stored.times[0] <= time.time() + 1
    assert stored.names == ("a", "b")
    assert stored.bounds == rec.bounds
    assert stored.plausible_bounds is None
    assert stored.tag == "v1"


def test_a_log_density_is_kept_as_it_is(rec):
    assert rec.maximise(lambda x: -7.0)([1.0, 2.0]) == -7.0
    assert last(rec)[1] == -7.0


def test_the_duration_is_kept(rec):
    rec.minimise(lambda x: time.sleep(0.03) or 1.0)([0.0, 0.0])
    rec.record([0.0, 0.0], 1.0)
    durations = read_store(rec).durations
    assert 0.03 <= durations[0] < 3
    assert np.isnan(durations[1])


def test_the_point_is_copied_before_the_objective_can_change_it(rec):
    def spoil(x):
        x[:] = 99.0
        return 1.0

    buffer = np.array([1.0, 2.0])
    rec.minimise(spoil)(buffer)
    assert buffer.tolist() == [99.0, 99.0]
    assert last(rec)[0] == [1.0, 2.0]


def test_arguments_are_passed_on_and_the_answer_is_the_same_object(rec):
    answer = (np.array(2.0), 0.5)
    seen = []
    f = rec.minimise(lambda x, *args, **kwargs: seen.append((x, args, kwargs)) or answer)
    x = np.zeros(2)
    assert f(x, "data", scale=3) is answer
    assert seen[0][0] is x
    assert seen[0][1:] == (("data",), {"scale": 3})
    assert rec.minimise(cost)(np.ones(2), shift=1.0) == 0.0


@pytest.mark.parametrize(
    "values",
    [
        [3.0, -np.inf, np.inf, 1e308, 5e-324, -0.0],
        [np.float32(1.5), 2, np.int8(3), np.array([4.0]), np.array(5.0), Decimal("0.5")],
    ],
)
def test_numbers_of_all_kinds(rec, values):
    for value in values:
        rec.maximise(lambda x, value=value: value)([0.0, 0.0])
    assert read_store(rec).log_density.tolist() == [float(np.asarray(value).reshape(())) for value in values]


def test_nan_is_kept_and_is_no_failure(rec):
    rec.minimise(lambda x: np.nan)([0.0, 0.0])
    stored = read_store(rec)
    assert np.isnan(stored.log_density).all()
    assert stored.failures == (None,)


# Noise and gradients


def test_noise_as_second_value(rec):
    assert rec.minimise(lambda x: (2.0, 0.3))([0.0, 0.0]) == (2.0, 0.3)
    assert last(rec)[1:3] == (-2.0, 0.3)


def test_a_gradient_is_no_noise(rec):
    best = optimize.minimize(rec.minimise(lambda x: (cost(x), np.asarray(x))), [2.0, 1.0], jac=True)
    assert best.success
    stored = read_store(rec)
    assert len(stored) == best.nfev
    assert stored.log_density_sd is None


@pytest.mark.parametrize(
    ("returns", "result", "value", "sd"),
    [
        ("value", np.array([2.0]), -2.0, None),
        ("value_and_sd", (2.0, np.array([0.1])), -2.0, 0.1),
        ("value_and_gradient", (2.0, np.array([0.1])), -2.0, None),
        ("value_and_gradient", (2.0, -0.1), -2.0, None),
    ],
)
def test_one_parameter_with_a_promise(path, returns, result, value, sd):
    with Recorder(path, names=["a"]) as rec:
        assert rec.minimise(lambda x: result, returns=returns)([1.0]) is result
        assert last(rec) == ([1.0], value, sd, None)


def test_one_parameter_without_a_promise_is_ambiguous(path):
    with Recorder(path, names=["a"]) as rec:
        with pytest.raises(RecorderError, match="value_and_gradient"):
            rec.minimise(lambda x: (2.0, np.array([0.1])))([1.0])
        with pytest.raises(RecorderError, match="negative"):
            rec.minimise(lambda x: (2.0, -0.1))([1.0])
        assert len(rec) == 0
        rec.minimise(lambda x: (2.0, 0.1))([1.0])
        assert last(rec)[2] == 0.1


@pytest.mark.parametrize("sd", [np.nan, np.inf])
def test_noise_that_is_not_finite_is_a_failure(rec, sd):
    rec.minimise(lambda x: (2.0, sd))([0.0, 0.0])
    assert "sd" in read_store(rec).failures[0]
    assert read_store(rec).log_density[0] == -2.0


# Batches


def test_a_batch_of_rows(rec, rng):
    x = rng.normal(size=(7, 2))
    np.testing.assert_array_equal(rec.minimise(cost_of_rows)(x), cost_of_rows(x))
    stored = read_store(rec)
    np.testing.assert_array_equal(stored.points, x)
    np.testing.assert_array_equal(stored.log_density, -cost_of_rows(x))


def test_a_batch_of_columns(rec, rng):
    x = rng.normal(size=(2, 7))
    with pytest.raises(RecorderError, match="batch='columns'"):
        rec.minimise(lambda x: cost_of_rows(x.T))(x)
    rec.minimise(lambda x: cost_of_rows(x.T), batch="columns")(x)
    np.testing.assert_array_equal(read_store(rec).points, x.T)


def test_vectorised_differential_evolution(rec):
    best = optimize.differential_evolution(
        rec.minimise(lambda x: cost_of_rows(x.T), batch="columns"),
        BOX,
        vectorized=True,
        updating="deferred",
        maxiter=4,
        rng=1,
        polish=False,
    )
    stored = read_store(rec)
    assert best.nfev == 5  # calls, of 30 points each
    assert len(stored) == 150
    np.testing.assert_allclose(stored.log_density, -cost_of_rows(stored.points))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("noise", [0.5, "each"])
def test_a_batch_with_noise(rec, n, noise):
    sd = np.arange(1.0, n + 1) if noise == "each" else noise
    rec.minimise(lambda x: (cost_of_rows(x), sd))(np.ones((n, 2)))
    stored = read_store(rec)
    assert stored.log_density.tolist() == [-1.0] * n
    assert stored.log_density_sd.tolist() == np.broadcast_to(sd, n).tolist()


def test_two_numbers_for_two_points_are_values(rec):
    rec.minimise(lambda x: (1.0, 2.0))(np.zeros((2, 2)))
    stored = read_store(rec)
    assert stored.log_density.tolist() == [-1.0, -2.0]
    assert stored.log_density_sd is None


def test_a_batch_with_gradients(rec):
    rec.minimise(lambda x: (cost_of_rows(x), x))(np.ones((3, 2)))
    assert read_store(rec).log_density_sd is None


def test_an_empty_batch(rec):
    assert rec.minimise(cost_of_rows)(np.empty((0, 2))).size == 0
    assert len(rec) == 0


def test_the_wrong_number_of_values(rec):
    with pytest.raises(RecorderError, match="3 numbers for 4 points"):
        rec.minimise(lambda x: np.zeros(3))(np.zeros((4, 2)))
    with pytest.raises(RecorderError, match="2 numbers for 1 point"):
        rec.minimise(lambda x: np.zeros(2))(np.zeros(2))


# Ways to call


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (([1.0, 2.0],), {}),
        ((np.array([1, 2]),), {}),
        ((np.array([1.0, 2.0], dtype=">f4"),), {}),
        (((1.0, 2.0), "more"), {"c": 3}),
        (({"b": 2.0, "a": 1.0, "c": 3.0},), {}),
        ((), {"b": 2.0, "a": 1.0, "c": 3.0}),
        ((1.0, 2.0), {}),
        ((1, np.float32(2.0), 3.0), {}),
    ],
)
def test_ways_to_give_one_point(rec, args, kwargs):
    assert rec.maximise(lambda *args, **kwargs: 5.0)(*args, **kwargs) == 5.0
    assert last(rec)[:2] == ([1.0, 2.0], 5.0)


def test_arrays_by_name_are_a_batch(rec):
    rec.maximise(lambda a, b: a + b)(a=np.arange(3.0), b=np.ones(3))
    np.testing.assert_array_equal(read_store(rec).points, [[0, 1], [1, 1], [2, 1]])


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        (([1.0, 2.0, 3.0],), {}, r"shape \(3,\)"),
        ((1.0,), {}, r"shape \(\)"),
        ((np.zeros((2, 2, 2)),), {}, "shape"),
        (("text",), {}, "can't be read as a point"),
        (([[1.0], [1.0, 2.0]],), {}, "can't be read as a point"),
        (({"a": 1.0},), {}, "without 'b'"),
        ((), {"a": 1.0, "x": 2.0}, "without 'b'.*'a' and 'x'"),
        ((), {}, "nothing"),
    ],
)
def test_calls_without_a_point_are_refused_before_the_objective_runs(rec, args, kwargs, words):
    calls = []
    with pytest.raises(RecorderError, match=words):
        rec.minimise(lambda *args, **kwargs: calls.append(1))(*args, **kwargs)
    assert calls == []
    assert len(rec) == 0


@pytest.mark.parametrize("result", ["1.0", {"loss": 1.0}, True, 1j, object(), (1.0, 2.0, 3.0), ([1.0], [1.0, [2.0]])])
def test_answers_that_are_no_numbers(rec, result):
    with pytest.raises(RecorderError, match="objective"):
        rec.minimise(lambda x: result)([0.0, 0.0])


def test_one_parameter_as_a_number_or_a_row_of_points(path):
    with Recorder(path, names=["a"]) as rec:
        best = optimize.minimize_scalar(rec.minimise(lambda x: (x - 2) ** 2))
        assert len(rec) == best.nfev
        rec.minimise(lambda x: x**2)(np.arange(4.0))
        assert len(rec) == best.nfev + 4


def test_complex_steps_are_passed_by(rec):
    f = rec.minimise(lambda x: np.sum(x**2))
    assert f(np.array([1.0, 1e-20j])) == pytest.approx(1.0)
    assert len(rec) == 0


def test_the_wrapped_function_looks_like_the_function(rec):
    cost.label = "mine"
    wrapped = rec.minimise(cost)
    assert wrapped.__name__ == "cost"
    assert wrapped.__wrapped__ is cost
    assert wrapped.label == "mine"
    assert not hasattr(wrapped, "other")
    assert "cost" in repr(wrapped)


# Failures


def test_an_exception_is_recorded_and_goes_on(rec):
    error = ValueError("singular matrix")

    def fail(x):
        raise error

    with pytest.raises(ValueError, match="singular matrix") as caught:
        rec.minimise(fail)([1.0, 2.0])
    assert caught.value is error
    stored = read_store(rec)
    assert stored.failures == ("ValueError: singular matrix",)
    assert np.isnan(stored.log_density[0])
    assert stored.points.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("words", ["\ud800 lone", "x" * 100_000, "null \0 byte"])
def test_odd_words_of_failures(rec, words):
    with pytest.raises(RuntimeError):
        rec.minimise(_raise(RuntimeError(words)))([1.0, 2.0])
    assert read_store(rec).failures[0].startswith("RuntimeError: ")
    assert len(read_store(rec).failures[0]) < 2000


def _raise(error):
    def fail(x):
        raise error

    return fail


def test_an_interrupt_is_no_failure_of_the_objective(rec):
    with pytest.raises(KeyboardInterrupt):
        rec.minimise(_raise(KeyboardInterrupt()))([1.0, 2.0])
    assert len(rec) == 0


def test_none_is_a_failure_and_is_passed_on(rec):
    assert rec.minimise(lambda x: None)([1.0, 2.0]) is None
    assert read_store(rec).failures == ("the objective returned None",)


def test_a_failure_that_can_not_be_recorded_does_not_hide_the_error(path, monkeypatch):
    with Recorder(path, names=NAMES) as rec:
        monkeypatch.setattr(rec._store, "add", _raise(RecorderError("the disk is full")))
        with pytest.raises(ValueError, match="mine") as caught:
            rec.minimise(_raise(ValueError("mine")))([1.0, 2.0])
    assert "disk is full" in caught.value.__notes__[0]


# The prior apart


def log_prior(x):
    return -0.25 * float(np.sum(np.asarray(x) ** 2))


def test_the_prior_is_kept_apart(rec):
    assert rec.minimise(cost, log_prior=log_prior)([2.0, 0.0]) == 3.0
    assert last(rec) == ([2.0, 0.0], -3.0, None, -1.0)
    assert rec.maximise(lambda x: -cost(x), log_prior=log_prior)([2.0, 0.0]) == -3.0
    assert last(rec) == ([2.0, 0.0], -3.0, None, -1.0)
    assert rec.minimise(lambda x: (cost(x), 0.5), log_prior=log_prior)([2.0, 0.0]) == (3.0, 0.5)
    assert last(rec) == ([2.0, 0.0], -3.0, 0.5, -1.0)


def test_the_prior_of_a_batch(rec):
    f = rec.minimise(cost_of_rows, log_prior=lambda x: -0.25 * np.sum(x**2, axis=1))
    np.testing.assert_allclose(f(np.array([[2.0, 0.0], [0.0, 4.0]])), [3.0, 12.0])
    assert read_store(rec).log_prior.tolist() == [-1.0, -4.0]


def test_where_the_prior_is_zero_so_is_the_posterior(rec):
    f = rec.minimise(lambda x: np.nan, log_prior=lambda x: -np.inf)
    assert f([2.0, 0.0]) == np.inf
    assert last(rec)[1:] == (-np.inf, None, -np.inf)


def test_a_gradient_lacks_the_prior(rec):
    with pytest.raises(EvaluationsError, match="gradient"):
        rec.minimise(cost, log_prior=log_prior, returns="value_and_gradient")
    with pytest.raises(RecorderError, match="gradient"):
        rec.minimise(lambda x: (cost(x), np.zeros(2)), log_prior=log_prior)([1.0, 1.0])


# By hand


def test_ask_and_tell(rec, rng):
    x = rng.normal(size=(5, 2))
    rec.record(x, -cost_of_rows(x), sd=0.1, log_prior=np.full(5, -1.0))
    rec.record([0.0, 1.0], -0.5)
    rec.record({"a": 0.0, "b": 2.0}, np.nan)
    rec.record(list(x), list(-cost_of_rows(x)), list(np.ones(5)))
    stored = read_store(rec)
    assert len(stored) == 12
    np.testing.assert_array_equal(stored.log_density_sd, [0.1] * 5 + [np.nan] * 2 + [1.0] * 5)
    np.testing.assert_array_equal(stored.log_prior, [-1.0] * 5 + [np.nan] * 7)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (([0.0, 0.0, 0.0], 1.0), "shape"),
        (([0.0, 0.0], [1.0, 2.0]), "2 numbers for 1 point"),
        (([0.0, 0.0], 1.0, -1.0), "negative"),
        (([0.0, 0.0], "x"), "log_density"),
        (([0.0, 0.0], 1.0, None, "x"), "log_prior"),
    ],
)
def test_records_that_make_no_sense(rec, args, words):
    with pytest.raises(RecorderError, match=words):
        rec.record(*args)
    assert len(rec) == 0


# Progress


def test_length_best_and_words(rec):
    assert len(rec) == 0
    assert rec.best is None
    assert rec
    assert "no finite log density" in repr(rec)
    for value in (-3.0, -1.0, np.nan, np.inf, -np.inf, -2.0):
        rec.record([value, 0.5], value)
    assert len(rec) == 6
    assert rec.best.log_density == -1.0
    assert rec.best.point.tolist() == [-1.0, 0.5]
    assert "6 evaluations, best log density -1" in repr(rec)
    assert "tag 'v1'" in repr(rec)
    rec.close()
    assert "closed" in repr(rec)


def test_after_closing_nothing_is_evaluated(rec):
    f, calls = rec.minimise(lambda x: calls.append(1) or 1.0), []
    rec.close()
    with pytest.raises(RecorderError, match="closed"):
        f([0.0, 0.0])
    assert calls == []
    with pytest.raises(RecorderError, match="closed"):
        rec.record([0.0, 0.0], 1.0)
    rec.close()


def test_a_full_disk(rec):
    rec.record([0.0, 0.0], 0.0)
    rec._store.connect().execute("PRAGMA max_page_count = 20")  # as SQLite sees a disk without room
    with pytest.raises(RecorderError, match="disk is full"):
        _record_on(rec)
    kept = len(rec)
    assert kept > 10
    with pytest.raises(RecorderError, match="disk is full"):
        rec.record(np.zeros((1000, 2)), np.zeros(1000))
    assert len(rec) == kept
    rec._store.connect().execute("PRAGMA max_page_count = 100000")
    rec.record([-1.0, 0.0], 0.0)
    assert read_store(rec).points[:, 0].tolist() == [*range(kept), -1.0]


def _record_on(rec):
    for i in range(1, 10_000):
        rec.record([float(i), 0.0], 0.0)


# Going on with a file


def test_a_file_is_continued(path):
    for run in ("one", "two"):
        with Recorder(path, names=NAMES, bounds=BOX, tag="v1", run=run) as rec:
            rec.minimise(cost)([1.0, 1.0])
    assert read_store(path).runs == ("one", "two")
    with Recorder(path, tag="v1") as rec:
        assert rec.names == ("a", "b")
        assert rec.bounds.pair(1) == BOX[1]
        assert len(rec) == 2


@pytest.mark.parametrize(
    ("changes", "mine", "theirs"),
    [
        ({"tag": "v2"}, "'v2'", "'v1'"),
        ({"tag": None}, "no tag", "'v1'"),
        ({"names": ["a", "c"]}, "'a' and 'c'", "'a' and 'b'"),
        ({"names": ["b", "a"]}, "'b' and 'a'", "'a' and 'b'"),
        ({"names": ["a", "b", "c"], "bounds": None, "plausible_bounds": None}, "3 parameters", "2 parameters"),
        ({"bounds": None}, r"\[-inf, inf\]", r"\[-5.0, 5.0\]"),
        ({"bounds": [(-5, 5), (-4, 7)]}, r"\[-4.0, 7.0\] of 'b'", r"\[-4.0, 6.0\] of 'b'"),
        ({"plausible_bounds": [(-1, 1), (-1, 2)]}, r"\[-1.0, 2.0\]", r"\[-1.0, 1.0\]"),
    ],
)
def test_a_file_of_another_problem_is_refused_and_both_are_named(path, changes, mine, theirs):
    same = {"names": NAMES, "bounds": BOX, "tag": "v1", "plausible_bounds": [(-1, 1), (-1, 1)]}
    Recorder(path, **same).close()
    before = path.read_bytes()
    with pytest.raises(RecorderError, match=f"{mine}.*{theirs}") as caught:
        Recorder(path, **(same | changes))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_plausible_bounds_may_come_later(path):
    Recorder(path, names=NAMES).close()
    with Recorder(path, names=NAMES, plausible_bounds=[(-1, 1), (-2, 2)]) as rec:
        assert rec.plausible_bounds.pair(1) == (-2.0, 2.0)
    with Recorder(path, names=NAMES) as rec:
        assert rec.plausible_bounds.pair(1) == (-2.0, 2.0)
    assert read_store(path).plausible_bounds.pair(0) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "names"),
        ({"names": "ab"}, "string"),
        ({"names": []}, "empty"),
        ({"names": ["a", "a"]}, "more than once"),
        ({"names": NAMES, "bounds": [(0, 1)]}, "bounds"),
        ({"names": NAMES, "bounds": [(1, 0), (0, 1)]}, "bounds"),
        ({"names": NAMES, "run": ""}, "run"),
    ],
)
def test_arguments_that_make_no_sense_leave_no_file(path, arguments, words):
    with pytest.raises(EvaluationsError, match=words):
        Recorder(path, **arguments)
    assert not path.exists()


@pytest.mark.parametrize("name", ["odd ?#%20 name.db", "ünïcode✓.db", "'quotes\".db", "-dash", "file:x.db"])
def test_odd_file_names(tmp_path, name):
    with Recorder(tmp_path / name, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert len(read_store(tmp_path / name)) == 1


def test_odd_names_and_tags(path):
    names = ["α; DROP TABLE evaluation", "'\""]
    with Recorder(path, names=names, tag="t'\n✓") as rec:
        rec.record([0.0, 0.0], 1.0)
    assert read_store(path).names == tuple(names)
    assert read_store(path).tag == "t'\n✓"
    with pytest.raises(VsbqError, match="Unicode"):
        Recorder(path.with_name("x.db"), names=["\ud800"])
    assert not path.with_name("x.db").exists()


# Copies, threads


def test_copies_share_the_file(rec):
    f = rec.minimise(cost)
    for copied in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), copy.copy(f)):
        copied([1.0, 1.0])
    assert len(rec) == 3
    assert set(read_store(rec).runs) == {rec.run}
    other = pickle.loads(pickle.dumps(rec))
    other.close()
    f([1.0, 1.0])
    assert len(rec) == 4
    with pytest.raises(RecorderError, match="closed"):
        other.record([0.0, 0.0], 1.0)


def test_threads(rec):
    f = rec.minimise(cost)

    def work(worker):
        for i in range(200):
            f(np.array([worker, i], dtype=float))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    points = read_store(rec).points
    assert {tuple(point) for point in points.tolist()} == {(w, i) for w in range(4) for i in range(200)}
    assert len(points) == 800


# Real optimisers


@pytest.mark.parametrize("method", ["Nelder-Mead", "L-BFGS-B", "Powell", "BFGS", "trust-constr"])
def test_scipy_minimize(path, method):
    with Recorder(path, names=NAMES, bounds=[(None, None)] * 2) as rec:
        wrapped = optimize.minimize(rec.minimise(cost), [2.0, -1.0], args=(0.5,), method=method)
        bare = optimize.minimize(cost, [2.0, -1.0], args=(0.5,), method=method)
        assert len(rec) == wrapped.nfev == bare.nfev
        np.testing.assert_array_equal(wrapped.x, bare.x)
        assert rec.best.log_density >= -wrapped.fun
    stored = read_store(path)
    np.testing.assert_array_equal(stored.log_density, [-cost(x, 0.5) for x in stored.points])
    assert len(np.unique(stored.points, axis=0)) > 5


def test_scipy_with_a_gradient_of_its_own(rec):
    best = optimize.minimize(rec.minimise(cost), [2.0, -1.0], jac=lambda x: x, method="L-BFGS-B", bounds=BOX)
    assert len(rec) == best.nfev


def test_cma_fmin2(path):
    cma = pytest.importorskip("cma")
    with Recorder(path, names=NAMES, bounds=BOX) as rec:
        options = {"verbose": -9, "seed": 3, "maxfevals": 200, "bounds": [[-5, -4], [5, 6]]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _, es = cma.fmin2(rec.minimise(cost), [1.0, 1.0], 0.5, options)
        assert len(rec) == es.countevals
    made = evaluations_from(path)
    np.testing.assert_allclose(made.log_density, [-cost(x) for x in made.points])


def test_cma_ask_and_tell(rec):
    cma = pytest.importorskip("cma")
    es = cma.CMAEvolutionStrategy([1.0, 1.0], 0.5, {"verbose": -9, "seed": 3})
    for _ in range(5):
        points = es.ask()
        costs = [cost(x) for x in points]
        es.tell(points, costs)
        rec.record(points, -np.array(costs))
    assert len(rec) == es.countevals
    assert rec.best.log_density == -es.result.fbest


def test_bayes_opt_calls_by_name(rec):
    bayes_opt = pytest.importorskip("bayes_opt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = bayes_opt.BayesianOptimization(
            f=rec.maximise(lambda a, b: -cost([a, b])),
            pbounds={"b": BOX[1], "a": BOX[0]},
            random_state=1,
            verbose=0,
        )
        optimizer.maximize(init_points=4, n_iter=2)
    stored = read_store(rec)
    assert len(stored) == len(optimizer.res) == 6
    found = [[result["params"]["a"], result["params"]["b"]] for result in optimizer.res]
    np.testing.assert_allclose(stored.points, found)
    np.testing.assert_allclose(stored.log_density, [result["target"] for result in optimizer.res])


# To evaluations


def fill(rec, n=60, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 2))
    rec.minimise(cost_of_rows)(x)
    return x


def test_evaluations(path):
    with Recorder(path, names=NAMES, bounds=BOX, plausible_bounds=[(-1, 1), (-2, 2)]) as rec:
        x = fill(rec)
        made = evaluations_from(rec)
    assert isinstance(made, Evaluations)
    np.testing.assert_array_equal(made.points, x)
    np.testing.assert_array_equal(made.log_density, -cost_of_rows(x))
    assert made.names == ("a", "b")
    assert made.bounds.pair(0) == BOX[0]
    assert made.plausible_bounds.pair(1) == (-2.0, 2.0)
    assert made.log_density_sd is None
    assert made.notes == ()
    other = evaluations_from(path, bounds=[(-9, 9)] * 2, plausible_bounds=[(-3, 3)] * 2)
    assert other.bounds.pair(0) == (-9.0, 9.0)
    assert other.plausible_bounds.pair(0) == (-3.0, 3.0)


def test_failed_evaluations_are_left_out_with_a_note(rec):
    fill(rec)
    rec.record([0.1, 0.1], np.nan)
    rec.record([0.2, 0.2], -np.inf)
    with pytest.raises(ValueError, match="singular"):
        rec.minimise(_raise(ValueError("singular")))([0.3, 0.3])
    made = evaluations_from(rec)
    assert len(made) == 61
    assert np.isneginf(made.log_density).sum() == 1
    assert "Left out 2 evaluations that failed or gave NaN (first: ValueError: singular)." in made.notes
    assert np.isneginf(evaluations_from(rec, nonfinite="floor").log_density).sum() == 3
    assert len(evaluations_from(rec, nonfinite="drop")) == 60
    with pytest.raises(EvaluationsError, match="not finite"):
        evaluations_from(rec, nonfinite="raise")


def test_points_outside_the_bounds(rec):
    fill(rec)
    rec.record([9.0, 0.0], -np.inf)
    made = evaluations_from(rec)
    assert len(made) == 60
    assert "Left out 1 evaluation of zero density outside the hard bounds." in made.notes
    rec.record([8.0, 0.0], -30.0)
    with pytest.raises(EvaluationsError, match="outside"):
        evaluations_from(rec)
    assert len(evaluations_from(rec, outside="drop")) == 60


def test_runs_are_chosen_by_name(path):
    for i, run in enumerate(("one", "two", "three")):
        with Recorder(path, names=NAMES, run=run) as rec:
            fill(rec, seed=i)
    assert len(evaluations_from(path)) == 180
    assert len(evaluations_from(path, runs="two")) == 60
    made = evaluations_from(path, runs=["one", "three"])
    assert len(made) == 120
    assert any("120 of 180" in note for note in made.notes)
    with pytest.raises(RecorderError, match=r"'four'.*'one', 'two' and 'three'"):
        evaluations_from(path, runs=["four"])


def test_noise_reaches_the_evaluations(rec):
    rec.minimise(lambda x: (cost_of_rows(x), 0.3))(np.random.default_rng(0).normal(size=(40, 2)))
    np.testing.assert_array_equal(evaluations_from(rec).log_density_sd, 0.3)
    fill(rec, n=20, seed=1)
    made = evaluations_from(rec)
    assert made.log_density_sd.tolist() == [0.3] * 40 + [0.0] * 20
    assert any("20 evaluations without a noise sd" in note for note in made.notes)


def test_the_prior_reaches_the_evaluations(rec):
    f = rec.minimise(cost_of_rows, log_prior=lambda x: -0.25 * np.sum(x**2, axis=1))
    x = np.random.default_rng(0).normal(size=(40, 2))
    f(x)
    rec.record([0.0, 0.0], np.nan)
    made = Evaluations.from_recorder(rec)
    np.testing.assert_allclose(made.log_prior, -0.25 * np.sum(x**2, axis=1))
    np.testing.assert_allclose(made.log_density, -0.75 * np.sum(x**2, axis=1))
    np.testing.assert_allclose(made.log_likelihood, -0.5 * np.sum(x**2, axis=1))


def test_priors_that_some_evaluations_lack(rec):
    fill(rec)
    rec.record([0.5, 0.5], -1.0, log_prior=-0.5)
    made = evaluations_from(rec)
    assert made.log_prior is None
    assert "Left out the log prior, which 60 evaluations don't have." in made.notes


def test_no_evaluations_yet(rec):
    with pytest.raises(RecorderError, match="no evaluations yet"):
        evaluations_from(rec)
    assert read_store(rec).points.shape == (0, 2)
    assert repr(read_store(rec)) == "StoredEvaluations(0 evaluations of 0 runs, 0 failed, parameters 'a' and 'b')"


# Merging


@pytest.fixture
def machines(tmp_path):
    """The files of three machines, the third of which went on with a copy of the first one's file."""
    paths = [tmp_path / f"machine{i}.db" for i in range(3)]
    for i, path in enumerate(paths[:2]):
        with Recorder(path, names=NAMES, bounds=BOX, tag="v1", run=f"machine {i}") as rec:
            fill(rec, seed=i)
            rec.record([0.0, 0.0], 0.0, sd=0.5, log_prior=-2.0)
            with pytest.raises(ValueError, match="broken"):
                rec.minimise(_raise(ValueError("broken")))([1.0, 1.0])
    paths[2].write_bytes(paths[0].read_bytes())
    with Recorder(paths[2], names=NAMES, bounds=BOX, tag="v1", run="machine 2") as rec:
        fill(rec, n=10, seed=2)
    return paths


def test_files_become_one(machines, tmp_path):
    before = [path.read_bytes() for path in machines]
    target = tmp_path / "all.db"
    done = merge(machines, target)
    assert (done.path, done.added, done.total) == (target, 134, 134)
    assert [path.read_bytes() for path in machines] == before
    together = read_store(target)
    for path in machines:
        stored = read_store(path)
        for run in set(stored.runs):
            rows = np.array([name == run for name in stored.runs])
            there = np.array([name == run for name in together.runs])
            for column in ("points", "log_density", "log_density_sd", "times", "durations"):
                np.testing.assert_array_equal(
                    np.full(len(rows), np.nan)[rows]
                    if getattr(stored, column) is None
                    else getattr(stored, column)[rows],
                    getattr(together, column)[there],
                )
    assert together.failures.count("ValueError: broken") == 2
    assert np.nansum(together.log_prior) == -4.0


def test_merging_again_adds_nothing(machines, tmp_path):
    target = tmp_path / "all.db"
    merge(machines[0], target)
    assert merge(machines[0], target).added == 0
    assert merge([*machines, target], target).added == 72
    assert merge([*machines, target], target).added == 0
    with Recorder(machines[1], tag="v1") as rec:
        rec.record([1.0, 2.0], -1.0)
        assert merge(machines, target).added == 1


def test_other_problems_are_not_merged(machines, tmp_path):
    other = tmp_path / "other.db"
    with Recorder(other, names=NAMES, bounds=BOX, tag="v2") as rec:
        rec.record([0.0, 0.0], 1.0)
    target = tmp_path / "all.db"
    with pytest.raises(RecorderError, match=r"machine0.db' holds the tag 'v1', but '.*other.db' holds the tag 'v2'"):
        merge([*machines, other], target)
    assert not target.exists()
    with pytest.raises(RecorderError, match="'v2'"):
        merge(machines, other)
    assert len(read_store(other)) == 1


def test_merging_needs_files(machines, tmp_path):
    target = tmp_path / "all.db"
    with pytest.raises(RecorderError, match="empty"):
        merge([], target)
    with pytest.raises(RecorderError, match="no file"):
        merge([machines[0], tmp_path / "missing.db"], target)
    assert not target.exists()
    target.write_text("my notes")
    with pytest.raises(RecorderError, match="not a file of a recorder"):
        merge(machines, target)
    assert target.read_text() == "my notes"


# Files that are not ours, damaged, from the future, or in odd places


def foreign(path, kind):
    if kind == "text":
        path.write_text("theta,cost\n" * 500)
    elif kind == "empty":
        path.touch()
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA journal_mode = {kind}")
            connection.execute("CREATE TABLE evaluation (x)")
            connection.commit()


@pytest.mark.parametrize("kind", ["text", "empty", "wal", "delete"])
def test_a_file_that_is_not_ours_is_refused_and_not_touched(path, kind):
    foreign(path, kind)
    before, entries = path.read_bytes(), sorted(path.parent.iterdir())
    assert not is_store(path)
    for use in (lambda: Recorder(path, names=NAMES), lambda: read_store(path), lambda: merge([path], path)):
        with pytest.raises(RecorderError, match="not a file of a recorder"):
            use()
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == entries


def test_a_newer_format_is_refused(path):
    Recorder(path, names=NAMES).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    assert is_store(path)
    for use in (lambda: Recorder(path, names=NAMES), lambda: read_store(path)):
        with pytest.raises(RecorderError, match=r"format version 7.*Upgrade"):
            use()


def test_marks_of_the_format(path):
    with Recorder(path, names=NAMES) as rec:
        rec.record([1.5, -2.0], -1.0)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA application_id").fetchone()[0] == int.from_bytes(b"VSBQ")
            assert connection.execute("PRAGMA user_version").fetchone() == (1,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            ((point, value),) = connection.execute("SELECT point, log_density FROM evaluation").fetchall()
    assert np.frombuffer(point, "<f8").tolist() == [1.5, -2.0]
    assert value == -1.0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE evaluation SET point = x'00' WHERE number = 3",
        "UPDATE evaluation SET point = 'text' WHERE number = 3",
        "UPDATE evaluation SET log_density = 'text' WHERE number = 3",
        "UPDATE evaluation SET failure = x'ff' WHERE number = 3",
        "UPDATE parameter SET lower = 'text'",
        "UPDATE parameter SET lower = 1e9, upper = 0",
        "UPDATE parameter SET name = x'ff' WHERE position = 0",
        "UPDATE problem SET tag = x'ff'",
        "DELETE FROM problem",
        "DELETE FROM parameter",
        "DROP TABLE evaluation",
        "DROP TABLE problem",
        "UPDATE writer SET run = x'00'",
    ],
)
def test_files_that_someone_has_changed(path, change):
    with Recorder(path, names=NAMES) as rec:
        fill(rec, n=10)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(RecorderError, match=r"fits\.db"):
        read_store(path)


def test_flipped_bytes_and_files_cut_short_are_an_error_or_harmless(path, rng):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as rec:
        fill(rec, n=300)
    good, refused = path.read_bytes(), []
    for i in range(150):
        broken = bytearray(good)
        if i % 5 == 0:
            del broken[int(rng.integers(len(broken))) :]
        else:
            for place in rng.integers(len(broken), size=8):
                broken[place] ^= int(rng.integers(1, 256))
        target = path.with_name(f"broken{i}.db")
        target.write_bytes(broken)
        try:
            assert read_store(target).points.shape[1] == 2
        except VsbqError as error:
            refused.append(target.name in str(error))
    assert all(refused)
    assert len(refused) > 30


@pytest.mark.parametrize("missing", [1, 100, 4000, 5000])
def test_a_file_cut_short_never_passes_for_a_whole_one(path, missing):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as rec:
        fill(rec, n=300)
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(RecorderError, match=r"fits\.db"):
        read_store(path)


def test_places_where_no_file_can_be(tmp_path, path):
    with pytest.raises(RecorderError, match="folder"):
        Recorder(tmp_path, names=NAMES)
    with pytest.raises(RecorderError, match="no folder"):
        Recorder(tmp_path / "missing" / "fits.db", names=NAMES)
    with pytest.raises(RecorderError, match="null"):
        Recorder("a\0b", names=NAMES)
    with pytest.raises(RecorderError, match="no file"):
        read_store(path)
    assert not is_store(path)
    assert not is_store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_links_are_not_possible(path, monkeypatch):
    monkeypatch.setattr(record_file.os, "link", _refuse_link)
    with Recorder(path, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    assert len(read_store(path)) == 1


def _refuse_link(*_):
    raise PermissionError("no links here")


def test_a_network_drive_gets_an_ordinary_journal_and_a_warning(path, monkeypatch):
    monkeypatch.setattr(record_file, "network_drive", lambda path: "a network drive (nfs4)")
    with pytest.warns(VsbqWarning, match=r"nfs4.*vsbq\.record\.merge"):
        rec = Recorder(path, names=NAMES)
    with rec:
        fill(rec, n=30)
        rec.record([0.0, 0.0], 1.0)
        assert [entry.name for entry in path.parent.iterdir()] == ["fits.db"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert len(read_store(path)) == 31


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home {home} nfs4 rw 0 0
tmpfs {home}/local tmpfs rw 0 0
//server/share {home}/with\\040blank cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"), [(".", "nfs4"), ("local", None), ("local/deep", None), ("with blank", "cifs"), ("..", None)]
)
def test_network_drives_are_known_by_their_mounts(tmp_path, folder, kind):
    home = tmp_path / "home"
    (home / folder).mkdir(parents=True, exist_ok=True)
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(home=home))
    found = network_drive(home / folder / "fits.db", mounts)
    assert found == (f"a network drive ({kind})" if kind else None)
    assert network_drive(home / "fits.db", tmp_path / "nothing") is None


def test_reading_where_nothing_can_be_written(path, monkeypatch):
    with Recorder(path, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    real, modes = record_file.open_file, []

    def open_file(path, mode):
        modes.append(mode)
        if mode == "ro":  # as in a folder without permission to write, which the tests may not be able to make
            path = path.with_name("missing.db")
        return real(path, mode)

    monkeypatch.setattr(record_file, "open_file", open_file)
    assert len(read_store(path)) == 1
    assert modes[-2:] == ["ro", "ro&immutable=1"]
    path.with_name("fits.db-wal").write_bytes(b"x")
    with pytest.raises(RecorderError, match="can be written"):
        read_store(path)
