"""Fits of tables that are read a piece at a time: the same bits whatever the pieces, all evaluations count."""

from __future__ import annotations

import numpy as np
import pytest

import vsbq
from vsbq.errors import ArgumentError, EvaluationsError, VsbqWarning
from vsbq.large.sample import STREAM, choose, read_rows
from vsbq.large.sums import BLOCK, total_sums
from vsbq.large.tables import ArrayTable, ParquetTable
from vsbq.numerics import sgpr
from vsbq.progress import Progress
from vsbq.steps.surrogate import SparseGP, fit_sparse_gp
from vsbq.steps.surrogate.complete import complete, recipe_of
from vsbq.steps.surrogate.shaped_data import ShapedData
from vsbq.steps.trim import Trim, trim_evaluations

TRUTH = np.log(2 * np.pi)  # of two standard normals


def trace(n, seed=0, noise=0.0):
    """A standard normal in two dimensions, as an optimiser leaves it behind."""
    rng = np.random.default_rng([n, seed])
    points = rng.standard_normal((n, 2)) * np.exp(rng.uniform(-2, 1.2, n))[:, None]
    return points, -0.5 * (points**2).sum(axis=1) + noise * rng.standard_normal(n)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    points, values = trace(20_000)
    np.save(folder / "points.npy", points)
    np.save(folder / "values.npy", values)
    return folder


def fit_large(*given, **options):
    return vsbq.fit_large(*given, **{"sample": 600, "rng": 3, "progress": False} | options)


@pytest.fixture(scope="module")
def whole(files):
    return fit_large(files / "points.npy", files / "values.npy")


def same(a, b):
    return a.log_evidence == b.log_evidence and np.array_equal(a.sample(20, rng=1), b.sample(20, rng=1))


def test_the_posterior_is_right_and_keeps_the_sample(whole):
    assert abs(whole.log_evidence - TRUTH) < max(3 * whole.log_evidence_sd, 0.01)
    assert 550 < len(whole.evaluations) <= 601
    assert whole.verdict == "trusted"


@pytest.mark.parametrize("chunk", [1, BLOCK + 1, 10**6])
def test_what_is_read_at_a_time_changes_no_bit(files, whole, chunk):
    assert same(fit_large(files / "points.npy", files / "values.npy", chunk=chunk), whole)


def test_another_seed_makes_another_sample(files, whole):
    assert not same(fit_large(files / "points.npy", files / "values.npy", rng=4), whole)


def test_arrays_and_evaluations_are_tables_as_well(whole):
    points, values = trace(20_000)
    assert same(fit_large(points, values), whole)
    assert same(fit_large(vsbq.Evaluations(points, values)), whole)


def test_few_evaluations_are_fitted_as_ever(files):
    points, values = trace(300)
    assert same(fit_large(points, values), vsbq.fit(points, values, rng=3, progress=False))


def test_parquet_is_a_table(tmp_path, whole):
    parquet, arrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    points, values = trace(20_000)
    table = arrow.table({"a": points[:, 0], "log_density": values, "b": points[:, 1]})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=3000)
    found = fit_large(tmp_path / "rows.parquet")
    assert found.names == ("a", "b")
    assert found.log_evidence == whole.log_evidence
    one = ParquetTable(str(tmp_path / "rows.parquet"), ("b", "a"), "log_density")
    rows = one.read(2990, 6010)
    assert np.array_equal(rows.points, points[2990:6010, ::-1])
    assert np.array_equal(rows.values, values[2990:6010])
    with pytest.raises(EvaluationsError, match="no column 'lp'; it has a, log_density, b"):
        fit_large(tmp_path / "rows.parquet", "lp")


# The surrogate


def completed(points, values, sd, rows, factor=1.0):
    """A surrogate of some rows, the same completed with all, and the training set of all in its coordinates."""
    some = vsbq.Evaluations(points[rows], values[rows], log_density_sd=None if sd is None else sd[rows])
    training, _ = trim_evaluations(some, Trim())
    settings = SparseGP()
    surrogate, turned, told = fit_sparse_gp(training, settings, np.random.default_rng(0), Progress(1, False))
    recipe = recipe_of(surrogate, turned, told, settings, Trim())
    total = total_sums(recipe, ArrayTable(points, values, sd), factor, 10**6, None)
    return surrogate, recipe, total, complete(surrogate, told, recipe, total)[0]


def test_all_evaluations_give_the_surrogate_of_all_evaluations():
    """Completed with the sample itself, it is what it was; with all of them, what the slow way gives."""
    points, values = trace(3000)
    values = values + 0.3 * np.sin(5 * points[:, 0])
    rows = np.append(np.argmax(values), np.flatnonzero(np.arange(3000) % 5 == 0))
    rows = np.unique(rows)
    again = completed(points[rows], values[rows], None, np.arange(len(rows)))
    u = np.random.default_rng(1).standard_normal((50, 2))
    np.testing.assert_allclose(again[3].mean(u), again[0].mean(u), atol=1e-6)
    surrogate, recipe, total, whole = completed(points, values, None, rows)
    assert total.rows == 3000
    everything, _ = trim_evaluations(vsbq.Evaluations(points, values), Trim())
    space = surrogate.space
    moved = space.forward(everything.space.inverse(everything.points))
    turned = everything.__class__(
        *(space, moved, values_in(everything, space, moved), everything.noise_sd, everything.offset),
        level=values_in(everything, space, moved),
        low=moved[:0],
        zeros=moved[:0],
    )
    data = ShapedData.shaped(turned, recipe.settings).regression(recipe.parts[0].log_strength)
    slow = sgpr.fit_factors(surrogate.hyp, surrogate.inducing, *data)[0]
    slow = sgpr.with_residual_passes(surrogate.hyp, slow, *data, surrogate.passes)
    wanted = sgpr.predict_mean(surrogate.hyp, slow, u)
    off = np.abs(surrogate.means(u)[0] - wanted).max()
    np.testing.assert_allclose(sgpr.predict_mean(whole.hyp, whole.factors, u), wanted, atol=0.01 * off)
    assert off > 1e-4


def values_in(training, space, u):
    plain = training.values - training.space.log_jacobian(training.points)
    return plain + space.log_jacobian(u)


def test_under_noise_all_evaluations_leave_less_doubt():
    points, values = trace(20_000, noise=1.0)
    sd = np.ones(20_000)
    surrogate, _, total, whole = completed(points, values, sd, np.arange(0, 20_000, 40))
    assert total.rows > 19_000
    u = np.random.default_rng(1).standard_normal((200, 2))
    truth = -0.5 * (u**2).sum(axis=1)

    def error(one):
        missed = one.mean(one.space.from_plain(one.space.plain.forward(u))) - truth
        return np.std(missed)

    few, many = error(surrogate), error(whole)
    assert many < 0.7 * few


def test_noise_that_is_given_is_multiplied_and_noise_that_is_not_is_set():
    points, values = trace(2000)
    rows = np.arange(0, 2000, 4)
    _, recipe, wanted, _ = completed(points, values, np.ones(2000), rows)
    for sd, factor in [(np.full(2000, 0.5), 2.0), (None, -1.0)]:
        total = total_sums(recipe, ArrayTable(points, values, sd), factor, 10**6, None)
        assert total.parts[0].log_noise == pytest.approx(wanted.parts[0].log_noise)
    other = total_sums(recipe, ArrayTable(points, values, np.ones(2000)), 2.0, 10**6, None)
    assert other.parts[0].log_noise > wanted.parts[0].log_noise + 100


# What is refused


def test_rows_that_are_no_numbers_are_named():
    points, values = trace(2000)
    values[1234] = np.nan
    with pytest.raises(EvaluationsError, match="Row 1234 has the log density nan"):
        fit_large(points, values)
    points, values = trace(2000)
    points[77, 1] = np.inf
    with pytest.raises(EvaluationsError, match="Row 77 has the parameters"):
        fit_large(points, values)


def test_what_makes_no_table_is_refused(tmp_path):
    points, values = trace(2000)
    with pytest.raises(EvaluationsError, match="log_density is missing"):
        fit_large(points)
    with pytest.raises(EvaluationsError, match=r"shape \(2000, 2\) and log_density \(1999,\)"):
        fit_large(points, values[1:])
    with pytest.raises(EvaluationsError, match="can't be opened as an array"):
        fit_large(tmp_path / "nowhere.npy", values)
    with pytest.raises(ArgumentError, match="at least 1"):
        fit_large(points, values, chunk=0)
    with pytest.raises(ArgumentError, match="Only the default surrogate"):
        fit_large(points, values, settings=vsbq.Settings.paper())


# The sample


def test_the_sample_is_half_of_high_rows_and_has_the_best():
    points, values = trace(3 * STREAM)
    values[values > -3] -= 30  # few are high
    values[5] = 0.0
    rows = choose(ArrayTable(points, values), 500, 2, 1)
    assert 499 <= len(rows) <= 501
    assert 5 in rows
    assert len(np.unique(rows)) == len(rows)
    found = read_rows(ArrayTable(points, values), rows)
    assert np.array_equal(found.values, values[rows])
    assert np.array_equal(found.points, points[rows])
    assert not np.array_equal(rows, choose(ArrayTable(points, values), 500, 2, 2))


def test_a_warning_of_the_noise_is_heard():
    points, values = trace(3000, noise=1.5)
    with pytest.warns(VsbqWarning, match="noisy"):
        found = fit_large(points, values)
    assert found.history.noise.kind == "estimated"
    assert found.history.noise.sd == pytest.approx(1.5, rel=0.3)
