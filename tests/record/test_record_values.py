"""What a recorder keeps of a call: values, noise, gradients, batches, failures, the prior."""

from __future__ import annotations

import time
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize

from recording import BOX, NAMES, cost, cost_of_rows, last, raising
from vsbq.errors import EvaluationsError
from vsbq.io.record import Recorder, RecorderError, read_store

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


@pytest.mark.parametrize(
    "huge", [10**400, 10**5000, Fraction(10**400, 3), Decimal("1e400"), np.longdouble("1e400"), [10**400]], ids=type
)
def test_numbers_beyond_float64_are_infinite(rec, huge):
    assert rec.minimise(lambda x: huge)([0.0, 0.0]) is huge
    assert last(rec)[1] == -np.inf
    rec.maximise(lambda x: huge)([0.0, 0.0])
    assert last(rec)[1] == np.inf
    rec.minimise(lambda x: 1.0, log_prior=lambda x: np.negative(huge))([0.0, 0.0])
    assert last(rec)[1:] == (-np.inf, None, -np.inf)
    rec.maximise(lambda x: np.inf, log_prior=lambda x: -np.inf)([0.0, 0.0])
    assert last(rec)[1] == -np.inf
    rec.minimise(lambda x: (1.0, huge), returns="value_and_sd")([0.0, 0.0])
    assert read_store(rec).failures[-1] == "the sd of the noise is inf"


@pytest.mark.parametrize("value", [True, np.True_, "1.5", ["1.5"], np.array(["1.5"], dtype=object), b"1", 1j, object()])
def test_what_is_no_number_is_refused(rec, value):
    with pytest.raises(RecorderError, match="can't be read as real numbers"):
        rec.minimise(lambda x: value)([0.0, 0.0])
    assert len(rec) == 0


@pytest.mark.parametrize("huge", [10**400, 10**5000, Fraction(10**400), np.longdouble("1e400")], ids=type)
def test_points_beyond_float64_are_refused_before_the_call(rec, huge):
    calls = []
    f = rec.minimise(lambda *x, **named: calls.append(x) or 1.0)
    for args, named in (([[huge, 1.0]], {}), ([huge, 1.0], {}), ([], {"a": huge, "b": 1.0})):
        with pytest.raises(RecorderError, match=r"can't be read as a point \(.*(too large|overflow)"):
            f(*args, **named)
    assert calls == []


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
        rec.minimise(raising(RuntimeError(words)))([1.0, 2.0])
    assert read_store(rec).failures[0].startswith("RuntimeError: ")
    assert len(read_store(rec).failures[0]) < 2000


def test_an_interrupt_is_no_failure_of_the_objective(rec):
    with pytest.raises(KeyboardInterrupt):
        rec.minimise(raising(KeyboardInterrupt()))([1.0, 2.0])
    assert len(rec) == 0


def test_none_is_a_failure_and_is_passed_on(rec):
    assert rec.minimise(lambda x: None)([1.0, 2.0]) is None
    assert read_store(rec).failures == ("the objective returned None",)


def test_a_failure_that_can_not_be_recorded_does_not_hide_the_error(path, monkeypatch):
    with Recorder(path, names=NAMES) as rec:
        monkeypatch.setattr(rec._store, "add", raising(RecorderError("the disk is full")))
        with pytest.raises(ValueError, match="mine") as caught:
            rec.minimise(raising(ValueError("mine")))([1.0, 2.0])
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
