"""What is accepted and how it is kept; what is refused is in test_validation.py."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.tags import read_tag
from vsbq.errors import EvaluationsError

N, D = 60, 3


def sample(seed=0, n=N, d=D):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d))
    return points, -0.5 * np.sum(points**2, axis=1)


class Table:
    """The least that a data frame can do."""

    def __init__(self, **columns):
        self._columns = {name: np.asarray(values) for name, values in columns.items()}
        self.columns = list(columns)

    def __getitem__(self, name):
        return Column(self._columns[name])

    def __array__(self, dtype=None, copy=None):
        return np.column_stack(list(self._columns.values()))


class Column:
    def __init__(self, values):
        self._values = values

    def to_numpy(self):
        return self._values


# What is accepted


def test_plain_arrays():
    points, y = sample()
    ev = Evaluations(points, y)
    np.testing.assert_array_equal(ev.points, points)
    np.testing.assert_array_equal(ev.log_density, y)
    assert ev.log_density_sd is None
    assert ev.plausible_bounds is None
    assert ev.names == ("x1", "x2", "x3")
    assert ev.notes == ()
    assert len(ev) == N
    assert ev.dimension == D
    assert ev.bounds.kind == ("open",) * 3


def test_arrays_are_copied_contiguous_and_read_only():
    points, y = sample()
    sd = np.full(N, 0.1)
    ev = Evaluations(np.asfortranarray(points), y, log_density_sd=sd)
    for given, kept in ((points, ev.points), (y, ev.log_density), (sd, ev.log_density_sd)):
        assert kept.dtype == np.float64
        assert kept.flags.c_contiguous
        assert not np.shares_memory(given, kept)
        with pytest.raises(ValueError, match="read-only"):
            kept[0] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        ev.points = points


@pytest.mark.parametrize("convert", [np.float32, np.int64, np.longdouble, list, np.uint8])
def test_number_types_are_converted(convert):
    points = np.random.default_rng(0).integers(0, 100, (N, D))
    y = 200 - np.abs(points - 50).max(axis=1)
    if convert is list:
        ev = Evaluations(points.tolist(), y.tolist())
    else:
        ev = Evaluations(points.astype(convert), y.astype(convert))
    np.testing.assert_array_equal(ev.points, points)
    np.testing.assert_array_equal(ev.log_density, y)


def test_shapes_that_mean_the_same():
    points, y = sample(d=1)
    flat = Evaluations(points[:, 0], y)
    column = Evaluations(points, y[:, None], log_density_sd=np.ones((N, 1)))
    np.testing.assert_array_equal(flat.points, column.points)
    np.testing.assert_array_equal(flat.log_density, column.log_density)
    np.testing.assert_array_equal(column.log_density_sd, np.ones(N))


def test_neg_log_density_is_the_other_sign():
    points, y = sample()
    np.testing.assert_array_equal(Evaluations(points, neg_log_density=-y).log_density, y)


def test_one_noise_for_all():
    points, y = sample()
    np.testing.assert_array_equal(Evaluations(points, y, log_density_sd=2).log_density_sd, np.full(N, 2.0))


def test_bounds_by_name_and_points_on_a_bound():
    points, y = sample()
    points[4, 1] = 0.0
    points[:, 1] = np.abs(points[:, 1])
    ev = Evaluations(
        points, y, names=["a", "b", "c"], bounds={"b": (0, None)}, plausible_bounds=[(-1, 1), (0, 2), (-1, 1)]
    )
    assert ev.bounds.kind == ("open", "lower", "open")
    assert ev.plausible_bounds.pair(1) == (0.0, 2.0)


def test_repr_is_one_helpful_line():
    points, y = sample()
    text = repr(Evaluations(points, y, names=["a", "b", "c"], log_density_sd=0.5))
    assert text == (
        f"Evaluations(60 points, best log density {y.max():.6g}, noise sd up to 0.5, parameters 'a', 'b' and 'c')"
    )
    assert "noise-free" in repr(Evaluations(points, y))


def test_pickle_and_replace_keep_everything():
    points, y = sample()
    ev = Evaluations(points, y, bounds=[(-9, 9)] * 3, log_density_sd=0.1)
    again = pickle.loads(pickle.dumps(ev))
    np.testing.assert_array_equal(again.points, ev.points)
    shifted = dataclasses.replace(ev, log_density=ev.log_density + 1)
    np.testing.assert_array_equal(shifted.log_density, y + 1)
    assert shifted.bounds == ev.bounds


# Data frames


def frame():
    points, y = sample()
    return Table(a=points[:, 0], b=points[:, 1], run=["first"] * N, lp=y, sd=np.full(N, 0.1), nlp=-y)


def test_columns_of_a_data_frame():
    points, y = sample()
    ev = Evaluations.from_dataframe(frame(), log_density="lp", log_density_sd="sd", params=["b", "a"])
    assert ev.names == ("b", "a")
    np.testing.assert_array_equal(ev.points, points[:, [1, 0]])
    np.testing.assert_array_equal(ev.log_density, y)
    np.testing.assert_array_equal(ev.log_density_sd, np.full(N, 0.1))


def test_parameters_are_by_default_the_other_numeric_columns():
    table = frame()
    table.columns.remove("lp")
    ev = Evaluations.from_dataframe(table, neg_log_density="nlp", log_density_sd="sd", bounds={"a": (-9, 9)})
    assert ev.names == ("a", "b")
    assert ev.notes == ("Left out 'run', which hold no numbers.",)
    assert ev.bounds.kind == ("both", "open")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"log_density": "lq"}, "no column 'lq'.*Use one of 'a', 'b', 'run'"),
        ({"log_density": "lp", "params": ["a", "c"]}, "no column 'c'"),
        ({"log_density": "lp", "params": ["a", "run"]}, "column 'run' holds values of type <U5"),
        ({"log_density": "lp", "params": []}, "No numeric column.*params="),
        ({"params": ["a"]}, "Which column.*neg_log_density=.*'nlp'"),
    ],
)
def test_data_frames_that_are_refused(options, words):
    with pytest.raises(EvaluationsError, match=words):
        Evaluations.from_dataframe(frame(), **options)


def test_points_may_be_a_data_frame_with_names():
    points, y = sample()
    ev = Evaluations(Table(mu=points[:, 0], sigma=points[:, 1]), y)
    assert ev.names == ("mu", "sigma")


def test_a_data_frame_without_values_is_pointed_to_its_reader():
    pd = pytest.importorskip("pandas")
    points, _ = sample()
    with pytest.raises(EvaluationsError, match="from_dataframe"):
        Evaluations(pd.DataFrame(points))


def test_pandas():
    pd = pytest.importorskip("pandas")
    points, y = sample()
    df = pd.DataFrame(points, columns=["a", "b", "c"]).assign(lp=y, state="done")
    assert Evaluations.from_dataframe(df, log_density="lp").names == ("a", "b", "c")
    assert Evaluations(df[["a", "b"]], df["lp"]).names == ("a", "b")


# Taking and joining


@pytest.mark.parametrize("rows", [[3, 1], np.array([3, 1]), slice(0, 9, 2), np.arange(N) < 4, []])
def test_take(rows):
    points, y = sample()
    ev = Evaluations(points, y, log_density_sd=0.1, bounds=[(-9, 9)] * 3)
    part = ev.take(rows)
    rows = rows if len(np.atleast_1d(rows)) else np.zeros(0, int)
    np.testing.assert_array_equal(part.points, points[rows])
    np.testing.assert_array_equal(part.log_density, y[rows])
    assert len(part) == len(part.log_density_sd) == len(y[rows])
    assert part.bounds is ev.bounds
    assert not part.points.flags.writeable
    assert part.points.flags.c_contiguous
    assert repr(part)


def test_join():
    one = Evaluations(*sample(1), log_density_sd=0.5)
    two = Evaluations(*sample(2), plausible_bounds=[(-1, 1)] * 3)
    both = one + two
    np.testing.assert_array_equal(both.points, np.concatenate([one.points, two.points]))
    np.testing.assert_array_equal(both.log_density_sd, np.repeat([0.5, 0.0], N))
    assert both.plausible_bounds == two.plausible_bounds
    assert both.notes == ("Joined 60 and 60 evaluations.",)
    assert (two + two).log_density_sd is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"names": ["a", "b", "c"]}, r"'x1', 'x2' and 'x3' on one side and 'a', 'b' and 'c'.*Join only"),
        ({"bounds": {"x2": (-99, 99)}}, "bounds of 'x2' differ.*Pass the same bounds"),
        ({"plausible_bounds": [(-2, 2)] * 3}, "plausible bounds differ.*Pass the same"),
        ({"tag": "model 2"}, "tag is 'model 1' on one side and 'model 2' on the other.*Join only"),
    ],
)
def test_join_needs_the_same_problem(options, words):
    with pytest.raises(EvaluationsError, match=words):
        Evaluations(*sample(1), plausible_bounds=[(-1, 1)] * 3, tag="model 1") + Evaluations(*sample(2), **options)


def test_join_finds_values_of_another_model():
    points, y = sample()
    with pytest.raises(EvaluationsError, match="60 pairs of rows with the same point"):
        Evaluations(points, y) + Evaluations(points, y + 3)


# Tags


def test_a_tag_stays_with_its_evaluations():
    points, y = sample()
    ev = Evaluations(points, y, tag="model 1, subject 3")
    assert ev.tag == "model 1, subject 3"
    assert Evaluations(points, y).tag is None
    assert Evaluations(points, y, tag="").tag is None
    assert "tag 'model 1, subject 3'" in repr(ev)
    table = Table(a=points[:, 0], b=points[:, 1], lp=y)
    assert Evaluations.from_dataframe(table, log_density="lp", tag="t").tag == "t"
    kept = (ev.take([1, 2]), ev.with_sd(np.ones(N)), ev._with_notes(["note"]), copy.copy(ev), ev + ev)
    for each in (*kept, pickle.loads(pickle.dumps(ev)), dataclasses.replace(ev, log_density_sd=0.1)):
        assert each.tag == ev.tag


def test_a_tag_of_one_side_stands_for_both():
    tagged, bare = Evaluations(*sample(1), tag="model 1"), Evaluations(*sample(2, n=40))
    for both in (tagged + bare, bare + tagged):
        assert both.tag == "model 1"
        assert "Counted 40 evaluations without a tag as of 'model 1'." in both.notes
    assert (tagged + tagged).notes == ("Joined 60 and 60 evaluations.",)
    assert (bare + bare).tag is None


@pytest.mark.parametrize(("tag", "words"), [(3, r"is 3\. Pass str"), ("\ud800", "no text in Unicode")])
def test_a_tag_is_a_text(tag, words):
    with pytest.raises(EvaluationsError, match=words):
        read_tag(tag)


# The prior kept apart


def with_prior(seed=0):
    points, y = sample(seed)
    prior = -0.1 * points[:, 0] ** 2 - 1.0
    return points, y - prior, prior


def test_likelihood_and_prior_make_the_density():
    points, likelihood, prior = with_prior()
    ev = Evaluations(points, log_likelihood=likelihood, log_prior=prior)
    np.testing.assert_array_equal(ev.log_density, likelihood + prior)
    np.testing.assert_array_equal(ev.log_prior, prior)
    np.testing.assert_allclose(ev.log_likelihood, likelihood, rtol=1e-12, atol=1e-12)
    assert not ev.log_prior.flags.writeable
    assert not np.shares_memory(ev.log_prior, prior)
    assert Evaluations(points, likelihood).log_prior is None
    assert Evaluations(points, likelihood).log_likelihood is None


@pytest.mark.parametrize("sign", [1, -1])
def test_a_prior_beside_the_density(sign):
    points, likelihood, prior = with_prior()
    values = {"log_density": likelihood + prior} if sign > 0 else {"neg_log_density": -likelihood - prior}
    ev = Evaluations(points, **values, log_prior=prior)
    np.testing.assert_array_equal(ev.log_density, likelihood + prior)
    np.testing.assert_allclose(ev.log_likelihood, likelihood, rtol=1e-12, atol=1e-12)


def test_a_flat_prior_is_one_number():
    points, likelihood, _ = with_prior()
    ev = Evaluations(points, log_likelihood=likelihood, log_prior=-3)
    np.testing.assert_array_equal(ev.log_prior, np.full(N, -3.0))
    np.testing.assert_array_equal(ev.log_density, likelihood - 3)


def test_a_prior_of_zero_makes_the_density_zero_whatever_the_likelihood():
    points, likelihood, prior = with_prior()
    prior[3] = prior[5] = -np.inf
    likelihood[5] = np.nan  # nobody computes it there
    likelihood[7] = -np.inf
    ev = Evaluations(points, log_likelihood=likelihood, log_prior=prior)
    np.testing.assert_array_equal(np.flatnonzero(np.isneginf(ev.log_density)), [3, 5, 7])
    assert np.isnan(ev.log_likelihood[[3, 5]]).all()
    assert np.isneginf(ev.log_likelihood[7])
    dropped = Evaluations(points, log_likelihood=likelihood, log_prior=prior, nonfinite="drop")
    assert len(dropped) == len(dropped.log_prior) == N - 3


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"log_prior": None}, {}, "log_likelihood alone is not a posterior.*log_prior"),
        ({"log_prior": np.zeros(3)}, {}, "log_prior has 3 values for 60"),
        ({"log_prior": np.zeros((N, 2))}, {}, "log_prior must hold one number per row"),
        ({"log_prior": ["a"] * N}, {}, "log_prior holds values of type"),
        ({"log_density": np.zeros(N)}, {}, "Exactly one of.*two are given"),
        ({"log_density": np.zeros(N), "neg_log_density": np.zeros(N)}, {}, "all are given"),
    ],
)
def test_priors_that_are_refused(change, options, words):
    points, likelihood, prior = with_prior()
    with pytest.raises(EvaluationsError, match=words):
        Evaluations(points, **{"log_likelihood": likelihood, "log_prior": prior, **change}, **options)


def test_priors_that_are_not_finite_follow_the_policy():
    points, likelihood, prior = with_prior()
    prior[4], prior[9] = np.nan, np.inf
    with pytest.raises(EvaluationsError, match=r"the log prior is NaN or \+inf in 2 rows \(rows 4 and 9\)"):
        Evaluations(points, log_density=likelihood, log_prior=prior)
    assert len(Evaluations(points, log_density=likelihood, log_prior=prior, nonfinite="drop")) == N - 2
    prior[9] = 0.0
    floored = Evaluations(points, log_likelihood=likelihood, log_prior=prior, nonfinite="floor")
    assert np.isneginf(floored.log_density[4])
    with pytest.raises(EvaluationsError, match="the log prior is NaN"):
        Evaluations(points, log_density=likelihood, log_prior=prior, nonfinite="floor")


def test_a_density_where_the_prior_is_zero_is_a_contradiction():
    points, y = sample()
    prior = np.zeros(N)
    prior[2] = -np.inf
    with pytest.raises(EvaluationsError, match=r"log prior is -inf but the log density is not in 1 row \(row 2\)"):
        Evaluations(points, y, log_prior=prior)


def test_the_prior_is_carried_along():
    points, likelihood, prior = with_prior()
    ev = Evaluations(points, log_likelihood=likelihood, log_prior=prior, bounds=[(-9, 2)] * 3, outside="drop")
    inside = (points <= 2).all(axis=1)
    assert 0 < inside.sum() < N
    np.testing.assert_array_equal(ev.log_prior, prior[inside])
    np.testing.assert_array_equal(ev.take([4, 2]).log_prior, prior[inside][[4, 2]])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ev)).log_prior, ev.log_prior)
    np.testing.assert_array_equal(dataclasses.replace(ev, log_prior=ev.log_prior - 1).log_prior, ev.log_prior - 1)


def test_joining_needs_the_prior_on_both_sides():
    one, two = (Evaluations(p, log_likelihood=y, log_prior=q) for p, y, q in (with_prior(1), with_prior(2)))
    np.testing.assert_array_equal((one + two).log_prior, np.concatenate([one.log_prior, two.log_prior]))
    mixed = one + Evaluations(*sample(3))
    assert mixed.log_prior is None
    assert "Left out the log prior, which only one side has." in mixed.notes


def test_columns_of_likelihood_and_prior():
    points, likelihood, prior = with_prior()
    table = Table(a=points[:, 0], b=points[:, 1], c=points[:, 2], ll=likelihood, lp=prior)
    ev = Evaluations.from_dataframe(table, log_likelihood="ll", log_prior="lp")
    assert ev.names == ("a", "b", "c")
    np.testing.assert_array_equal(ev.log_prior, prior)
    with pytest.raises(EvaluationsError, match="no column 'prior'"):
        Evaluations.from_dataframe(table, log_likelihood="ll", log_prior="prior")


# Numbers that stand for infinity


def test_absurdly_low_log_densities_count_as_zero_density():
    points, y = sample()
    y[3], y[8] = -1.7e308, -1e300
    ev = Evaluations(points, y)
    np.testing.assert_array_equal(np.flatnonzero(np.isneginf(ev.log_density)), [3, 8])
    assert ev.notes[0] == "Counted 2 log densities below -1e+100 as -inf (rows 3 and 8)."
    ordinary = np.where(y < -1e299, -1e99, y)
    np.testing.assert_array_equal(Evaluations(points, ordinary, check_sign=False).log_density, ordinary)


@pytest.mark.parametrize("place", ["points", "log_density", "log_density_sd"])
def test_absurdly_large_numbers_are_not_finite(place):
    points, y = sample()
    columns = {"points": points, "log_density": y, "log_density_sd": np.ones(N)}
    columns[place][5] = 1e300
    with pytest.raises(EvaluationsError, match=r"not finite.*\(row 5\)"):
        Evaluations(**columns)
    assert len(Evaluations(**columns, nonfinite="drop")) == N - 1


# Valid input never raises


@pytest.mark.parametrize("seed", range(40))
def test_valid_input_is_never_refused(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 9))
    n = int(rng.integers(max(25, 6 * d), 400))
    points = rng.normal(size=(n, d)) * 10 ** rng.uniform(-6, 6, d) + 10 ** rng.uniform(-3, 3, d)
    z = (points - points.mean(axis=0)) / points.std(axis=0)
    y = -0.5 * np.sum(z**2, axis=1) + rng.normal() * 10 ** rng.uniform(0, 6)
    y[rng.random(n) < rng.choice([0.0, 0.1])] = -np.inf
    box = np.column_stack([points.min(axis=0), points.max(axis=0)])
    bounds = [None, box, Bounds.parse(box, d), [(None, high) for _, high in box]][int(rng.integers(4))]
    sd = [None, 0.0, 1.5, rng.uniform(0, 2, n)][int(rng.integers(4))]
    plausible = None if rng.random() < 0.5 else np.quantile(points, [0.2, 0.8], axis=0).T
    ev = Evaluations(points, y, log_density_sd=sd, bounds=bounds, plausible_bounds=plausible)
    assert len(ev) == n
    np.testing.assert_array_equal(ev.points, points)
    np.testing.assert_array_equal(ev.log_density, y)


# Penalties


def penalised(count=25):
    points = np.random.default_rng(2).normal(size=(300, 2))
    values = -0.5 * (points**2).sum(axis=1)
    values[:count] = -1e10
    return points, values


def test_values_below_a_limit_are_a_density_of_zero():
    points, values = penalised()
    made = Evaluations(points, values, zero_below=-1e9)
    assert np.isneginf(made.log_density[:25]).all()
    np.testing.assert_array_equal(made.log_density[25:], values[25:])
    assert made.notes[0].startswith("Counted 25 log densities below -1e+09 as -inf (rows 0, 1")
    costs = Evaluations(points, neg_log_density=-values, zero_below=-1e9)
    np.testing.assert_array_equal(costs.log_density, made.log_density)


def test_a_value_at_the_limit_stays():
    points, values = penalised()
    assert np.isfinite(Evaluations(points, values, zero_below=-1e10).log_density).all()
    assert "No log density is below" in Evaluations(points, values, zero_below=-1e10).notes[0]


def test_readers_know_the_limit(tmp_path):
    pd = pytest.importorskip("pandas")
    points, values = penalised()
    frame = pd.DataFrame(points, columns=["a", "b"]).assign(lp=values)
    assert np.isneginf(Evaluations.from_dataframe(frame, log_density="lp", zero_below=-1e9).log_density[:25]).all()
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert np.isneginf(Evaluations.from_file(tmp_path / "t.csv", zero_below=-1e9).log_density).sum() == 25


@pytest.mark.parametrize(
    ("limit", "words"), [(1e9, "above every log density.*not with its negative"), (float("nan"), "Give one number")]
)
def test_a_limit_that_cannot_be_meant(limit, words):
    points, values = penalised()
    with pytest.raises(EvaluationsError, match=words):
        Evaluations(points, neg_log_density=-values, zero_below=limit)
