"""What is refused at the door, and that every refusal names the rows or parameters and the remedy."""

from __future__ import annotations

import time

import numpy as np
import pandas
import pytest

from vsbq.data import validation as door
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, rows_in_words

N, D = 60, 3


def sample(seed=0, n=N, d=D):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    return points, -0.5 * np.sum(points**2, axis=1)


def refused(words, *args, **options):
    with pytest.raises(EvaluationsError) as error:
        Evaluations(*args, **options)
    for word in words:
        assert word in str(error.value), str(error.value)
    assert str(error.value).endswith(".")


# Shapes and types


def test_exactly_one_sign_of_the_log_density():
    points, y = sample()
    refused(["none is given", "Pass log_density"], points)
    refused(["two are given", "neg_log_density if the values were minimised"], points, y, neg_log_density=-y)


@pytest.mark.parametrize(
    ("points", "y", "words"),
    [
        (np.zeros((3, 60)), np.zeros(60), ["points has 3 rows", "60 log densities", "looks transposed: pass points.T"]),
        (np.zeros((50, 3)), np.zeros(60), ["points has 50 rows", "Pass one log density for every row"]),
        (np.zeros(50), np.zeros(60), ["shape (50,)", "Reshape"]),
        (np.zeros((60, 3, 1)), np.zeros(60), ["shape (60, 3, 1)", "Reshape"]),
        (np.zeros((60, 3)), np.zeros((60, 2)), ["log_density", "shape (60, 2)", "Flatten"]),
        (np.zeros((60, 3)), np.zeros((1, 60)), ["log_density", "shape (1, 60)", "Flatten"]),
        (np.zeros((60, 3)), np.array(1.0), ["log_density", "shape ()"]),
        (np.zeros((0, 3)), np.zeros(0), ["empty", "(0, 3)", "Pass at least 20"]),
        (np.zeros((60, 0)), np.zeros(60), ["empty", "(60, 0)"]),
        ([], [], ["empty"]),
    ],
)
def test_shapes_are_refused(points, y, words):
    refused(words, points, y)


@pytest.mark.parametrize(
    ("convert", "words"),
    [
        (lambda a: a.astype(object), ["object", "dtype=float"]),
        (lambda a: a.astype(str), ["<U", "dtype=float"]),
        (lambda a: a.astype(complex), ["complex128", "dtype=float"]),
        (lambda a: a > 0, ["bool", "dtype=float"]),
        (lambda a: a.astype("datetime64[s]"), ["datetime64", "dtype=float"]),
        (lambda a: np.ma.masked_array(a, a > 0), ["masked array", ".filled(np.nan)", "nonfinite='drop'"]),
    ],
)
@pytest.mark.parametrize("argument", ["points", "log_density", "log_density_sd"])
def test_types_are_refused(argument, convert, words):
    points, y = sample()
    given = {"points": points, "log_density": y, "log_density_sd": np.ones(N)}
    given[argument] = convert(given[argument])
    refused([argument, *words], **given)


def test_ragged_lists_are_refused():
    refused(["points can't be read as an array", "Pass a NumPy array"], [[1.0, 2.0], [1.0]], [0.0, 1.0])


# Numbers that are not finite


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_points_must_be_finite(value):
    points, y = sample()
    points[[3, 17], [0, 2]] = value
    refused(["points has NaN or inf in 2 rows (rows 3 and 17)", "nonfinite='drop'"], points, y)
    refused(["rows 3 and 17", "nonfinite='drop'"], points, y, nonfinite="floor")
    kept = Evaluations(points, y, nonfinite="drop")
    assert len(kept) == N - 2
    assert kept.notes == ("Left out 2 rows with NaN or inf (rows 3 and 17).",)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_log_densities_must_be_numbers(value):
    points, y = sample()
    y[[1, 3, 5, 7, 9, 11, 13]] = value
    rows = "(rows 1, 3, 5, 7, 9 and 2 more)"
    refused([f"log density is NaN or +inf in 7 rows {rows}", "nonfinite='drop'", "nonfinite='floor'"], points, y)
    kept = Evaluations(points, y, nonfinite="drop")
    assert kept.notes == (f"Left out 7 rows with NaN or inf {rows}.",)
    np.testing.assert_array_equal(kept.points, np.delete(points, [1, 3, 5, 7, 9, 11, 13], axis=0))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_noise_must_be_finite(value):
    points, y = sample()
    sd = np.ones(N)
    sd[8] = value
    refused(["log_density_sd is NaN or inf in 1 row (row 8)", "nonfinite='drop'"], points, y, log_density_sd=sd)
    assert len(Evaluations(points, y, log_density_sd=sd, nonfinite="drop")) == N - 1


def test_all_that_is_not_finite_is_named_at_once():
    points, y = sample()
    points[2], y[4] = np.nan, np.nan
    refused(["points has NaN or inf in 1 row (row 2)", "NaN or +inf in 1 row (row 4)"], points, y)


def test_zero_density_is_kept_as_knowledge():
    points, y = sample()
    y[[6, 7]] = -np.inf
    kept = Evaluations(points, y)
    assert len(kept) == N
    assert kept.notes == ("Kept 2 log densities of -inf, as knowledge that the density is zero there (rows 6 and 7).",)
    assert len(Evaluations(points, y, nonfinite="drop")) == N - 2


def test_floor_counts_failures_as_zero_density():
    points, y = sample()
    sd = np.ones(N)
    y[[6, 7]] = sd[6] = np.nan
    ev = Evaluations(points, y, log_density_sd=sd, nonfinite="floor")
    assert np.isneginf(ev.log_density[[6, 7]]).all()
    assert ev.log_density_sd[6] == 0.0
    assert "Counted 2 log densities of NaN as failed, that is as -inf (rows 6 and 7)." in ev.notes
    y[9] = np.inf
    refused(["NaN or +inf in 1 row (row 9)", "nonfinite='drop'"], points, y, nonfinite="floor")


# Bounds, noise, names, policies


def test_points_outside_the_bounds():
    points, y = sample()
    points[[5, 9], [1, 2]] = 50.0
    options = {"bounds": [(-9, 9)] * 3, "names": ["a", "b", "c"]}
    words = ["2 points outside the hard bounds of 'b' and 'c' (rows 5 and 9)", "Widen the bounds", "outside='drop'"]
    refused(words, points, y, **options)
    kept = Evaluations(points, y, **options, outside="drop")
    assert len(kept) == N - 2
    assert kept.notes == ("Left out 2 points outside the hard bounds of 'b' and 'c' (rows 5 and 9).",)


def test_rows_keep_the_user_s_numbers_after_rows_were_dropped():
    points, y = sample()
    y[[0, 1]], points[10] = np.nan, 50.0
    refused(["(row 10)"], points, y, bounds=[(-9, 9)] * 3, nonfinite="drop")
    points[10] = points[12]
    refused(["rows 10 and 12"], points, y, nonfinite="drop")


def test_noise_is_not_negative_and_has_the_right_length():
    points, y = sample()
    sd = np.ones(N)
    sd[[2, 3]] = -1
    refused(
        ["2 of log_density_sd are negative (rows 2 and 3)", "Pass standard deviations"], points, y, log_density_sd=sd
    )
    refused(["log_density_sd has 3 values for 60", "Pass one number"], points, y, log_density_sd=[1, 2, 3])


@pytest.mark.parametrize(
    "plausible", [[(-1, 1), (-10, 1), (-1, 1)], [(-1, 1), (-1, 10), (-1, 1)], {"a": (-1, 1), "c": (-1, 1)}]
)
def test_plausible_bounds_lie_inside_the_hard_ones(plausible):
    points, y = sample()
    words = [
        "plausible_bounds of 'b' must be finite and within the hard bounds [-9, 9]",
        "Give two finite numbers inside",
    ]
    refused(words, points, y, names=["a", "b", "c"], bounds=[(-9, 9)] * 3, plausible_bounds=plausible)


def test_plausible_bounds_are_named_in_their_errors():
    points, y = sample()
    refused(["plausible_bounds of 'x1'", "lower < upper"], points, y, plausible_bounds=[(1, 0)] * 3)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b"], ["2 names for 3 columns", "Pass one name for each"]),
        (["a", "b", "b"], ["'b' more than once", "its own name"]),
        (["a", "", "b"], ["not empty"]),
        ("abc", ["is the string 'abc'", "Pass ['abc']"]),
    ],
)
def test_names_are_checked(names, words):
    refused(words, *sample(), names=names)


def test_unknown_policies_are_refused():
    rows = door.read_rows(*sample(), None)
    with pytest.raises(
        EvaluationsError, match=r"nonfinite='ignore' is not known. Use one of 'raise', 'drop' and 'floor'"
    ):
        door.apply_nonfinite(rows, "ignore")
    with pytest.raises(EvaluationsError, match=r"outside='ignore' is not known. Use one of 'raise' and 'drop'"):
        door.apply_outside(rows, Bounds.parse(None, D), ("a", "b", "c"), "ignore")


# Nothing to learn from, or contradictions


@pytest.mark.parametrize(("n", "d", "needed"), [(19, 1, 20), (19, 4, 20), (29, 6, 30)])
def test_too_few_evaluations(n, d, needed):
    refused([f"There are {n} evaluations", f"at least {needed}", "Add evaluations"], *sample(n=n, d=d))
    assert len(Evaluations(*sample(n=needed, d=d))) == needed


def test_too_few_finite_evaluations():
    points, y = sample()
    y[15:] = -np.inf
    refused(["Only 15 of 60 evaluations have a finite log density", "at least 20"], points, y)


def test_constant_columns_are_named():
    points, y = sample()
    points[:, 1] = 2.5
    refused(["'b' (2.5) is constant", "leave its column out"], points, y, names=["a", "b", "c"])


@pytest.mark.parametrize("copy", [lambda x: x, lambda x: 3 - 2e5 * x, lambda x: 1e-8 * x + 7])
def test_copied_columns_are_named(copy):
    points, y = sample()
    points[:, 2] = copy(points[:, 0])
    refused(["'a' and 'c' carry the same numbers", "Leave one of them out"], points, y, names=["a", "b", "c"])


def test_a_shared_outlier_does_not_make_columns_copies():
    points, y = sample()
    points[0] = 1e12
    Evaluations(points, y)


def test_line_searches_that_went_astray_do_not_make_columns_copies():
    points, y = sample()
    away = 10.0 ** np.linspace(3, 15, N // 3)
    points[: len(away)] = np.outer(away, [1.0, 0.3, -2.0])
    Evaluations(points, y)


def test_equal_log_densities_say_nothing():
    points, _ = sample()
    refused(["All 60 finite log densities equal 4", "Check that the right column"], points, np.full(N, 4.0))


@pytest.mark.parametrize("noise", [None, 0.0])
def test_duplicates_that_disagree(noise):
    points, y = sample()
    points[[20, 30]] = points[10]
    points[41] = points[40]
    y[30], y[20], y[41] = y[10], y[10] + 0.02, -np.inf
    words = ["2 pairs of rows", "(rows 10 and 20; 40 and 41)", "Pass log_density_sd", "keep only one row"]
    refused(words, points, y, log_density_sd=noise)


def test_many_duplicates_that_disagree_are_cut_short():
    points, y = sample()
    points[30:] = points[:30]
    exact = np.zeros(N)
    refused(["(rows 0 and 30; 1 and 31; 2 and 32; 3 and 33; 4 and 34, and 25 more)"], points, y, log_density_sd=exact)


def test_duplicates_that_disagree_as_a_rule_are_noisy():
    points, y = sample()
    points[50:] = points[:10]
    assert Evaluations(points, y).log_density_sd is None  # the fit finds out how noisy they are
    y[52:] = y[2:10]  # most of them agree, so that the others are mistakes
    refused(["2 pairs of rows"], points, y)


def test_duplicates_that_agree_or_are_noisy_are_fine():
    points, y = sample()
    points[20], y[20] = points[10], y[10] + 0.005
    points[21], y[[11, 21]] = points[11], -np.inf
    assert len(Evaluations(points, y)) == N
    y[20] = y[10] + 5
    assert len(Evaluations(points, y, log_density_sd=1.0)) == N
    sd = np.zeros(N)
    sd[20] = 1.0
    assert len(Evaluations(points, y, log_density_sd=sd)) == N


def test_negated_values_are_refused_unless_told_otherwise():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(400, 2)) * np.geomspace(5, 0.01, 400)[:, None]
    y = -0.5 * np.sum(points**2, axis=1)
    Evaluations(points, y)
    Evaluations(points, neg_log_density=-y)
    refused(["look negated", "neg_log_density=", "check_sign=False"], points, -y)
    assert len(Evaluations(points, -y, check_sign=False)) == 400


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([3], "(row 3)"),
        ([3, 17], "(rows 3 and 17)"),
        ([1, 2, 3, 4, 5], "(rows 1, 2, 3, 4 and 5)"),
        (list(range(8)), "(rows 0, 1, 2, 3, 4 and 3 more)"),
    ],
)
def test_rows_in_words(rows, words):
    assert rows_in_words(rows) == words


# Far too many columns, and rows that are paired by position though their labels differ


@pytest.mark.parametrize("kind", ["array", "names", "frame", "columns"])
def test_a_million_columns_are_refused_at_once(kind):
    n, many = 20, 1_000_000
    points, y = np.zeros((n, many)), np.arange(float(n))
    calls = {
        "array": lambda: Evaluations(points, y),
        "names": lambda: Evaluations(points, y, names=[f"p{i}" for i in range(many)]),
        "frame": lambda: Evaluations(pandas.DataFrame(points), y),
        "columns": lambda: Evaluations.from_dataframe(pandas.DataFrame(points), log_density=None),
    }
    started = time.process_time()
    with pytest.raises(EvaluationsError, match=r"has 1000000 columns.*more than 1000 can't be fitted.*\.T if it is"):
        calls[kind]()
    assert time.process_time() - started < 10


def test_as_many_columns_as_allowed_are_counted():
    frame = pandas.DataFrame(np.random.default_rng(0).normal(size=(20, 999))).rename(columns=str)
    frame["lp"] = -0.5 * (frame**2).sum(axis=1)
    with pytest.raises(EvaluationsError, match="999 parameters need at least 4995"):
        Evaluations.from_dataframe(frame, log_density="lp")


def labelled():
    points, y = sample()
    frame = pandas.DataFrame(points, columns=["a", "b", "c"], index=[f"run {i}" for i in range(N)])
    return frame, pandas.Series(y, index=frame.index)


@pytest.mark.parametrize("role", ["log_density", "neg_log_density", "log_density_sd", "log_prior"])
def test_rows_in_another_order_are_refused(role):
    frame, y = labelled()
    values = {"log_density": y} if role != "neg_log_density" else {"neg_log_density": -y}
    values |= {} if role in values else {role: pandas.Series(np.full(N, 0.5), index=frame.index)}
    assert len(Evaluations(frame, **values)) == N
    shuffled = values | {role: values[role].iloc[::-1]}
    words = rf"points and {role} have the same row labels in another order \(in 60 rows: row 0 is 'run 0' and 'run 59'"
    with pytest.raises(EvaluationsError, match=words + rf".*Pass {role}\.loc\[points\.index\].*{role}\.to_numpy\(\)"):
        Evaluations(frame, **shuffled)
    by_label = shuffled | {role: shuffled[role].loc[frame.index]}
    np.testing.assert_array_equal(Evaluations(frame, **by_label).log_density, y)
    assert len(Evaluations(frame, **shuffled | {role: shuffled[role].to_numpy()})) == N


def test_other_row_labels_are_refused():
    frame, y = labelled()
    with pytest.raises(EvaluationsError, match=r"different row labels \(in 60 rows: row 0 is .run 0. and 0,"):
        Evaluations(frame, y.reset_index(drop=True))
    with pytest.raises(EvaluationsError, match="log_density and log_prior have different row labels"):
        Evaluations(frame.to_numpy(), y, log_prior=pandas.Series(np.zeros(N)))
    with pytest.raises(EvaluationsError, match=r"59 log densities"):
        Evaluations(frame, y.iloc[:-1])


def test_labels_that_agree_are_fine():
    frame, y = labelled()
    numbers = frame.reset_index(drop=True)
    same = y.set_axis(np.arange(N).astype(np.int32))  # of another type, with the same labels
    assert len(Evaluations(numbers, same)) == len(Evaluations(numbers, list(y))) == N
    pairs = pandas.MultiIndex.from_product([range(6), range(10)])
    assert len(Evaluations(frame.set_axis(pairs), y.set_axis(pairs))) == N
