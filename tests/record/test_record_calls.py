"""Ways to call a recorder, from one point by name to real optimisers, and what it says meanwhile."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest
from scipy import optimize

from recording import BOX, NAMES, cost, cost_of_rows, last
from vsbq.io.record import Recorder, RecorderError, evaluations_from, read_store

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
