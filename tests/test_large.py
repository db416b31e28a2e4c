"""Fits of tables that are read a piece at a time: the same bits whatever the pieces, all evaluations count."""

from __future__ import annotations

import numpy as np
import pytest

import vsbq
from large_cases import trace
from vsbq.errors import ArgumentError, EvaluationsError, VsbqWarning
from vsbq.large.sample import STREAM, choose, read_rows
from vsbq.large.sums import BLOCK
from vsbq.large.tables import ArrayTable, ParquetTable

TRUTH = np.log(2 * np.pi)  # of two standard normals


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


def test_steps_of_finite_differences_are_rows_like_any_others():
    """All rows are summed: gradients that happen to be in the sample would be lost to the surrogate of all."""
    places, _ = trace(400)
    points = np.repeat(places, 3, axis=0) + np.tile([[0, 0], [1e-7, 0], [0, 1e-7]], (400, 1))
    values = -0.5 * (points**2).sum(axis=1)
    assert vsbq.fit(points, values, rng=0, progress=False).history.trimmed.steps > 0
    post = vsbq.fit_large(points, values, sample=1100, rng=0, progress=False)
    assert post.history.trimmed.steps == 0
    assert post.mean() == pytest.approx(0, abs=0.05)


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


def test_a_row_outside_the_bounds_is_named_wherever_it_is():
    points, values = trace(3000)
    inside = np.abs(points).max(axis=1) < 6
    points, values = points[inside], values[inside]
    points[1500, 0], values[1500] = 7.0, -30.0
    with pytest.raises(EvaluationsError, match="Row 1500 is outside the bounds"):
        fit_large(points, values, bounds=[(-6, 6), (-6, 6)], sample=50)


def test_bounds_and_names_of_evaluations_are_kept():
    points, values = trace(3000)
    inside = np.abs(points).max(axis=1) < 6
    options = {"bounds": [(-6, 6), None], "names": ["a", "b"]}
    given = vsbq.Evaluations(points[inside], values[inside], **options)
    found = fit_large(given)
    assert found.bounds == given.bounds
    assert found.names == ("a", "b")
    assert same(found, fit_large(points[inside], values[inside], **options))
    with pytest.raises(EvaluationsError, match="but names was given as well"):
        fit_large(given, names=["c", "d"])


def test_a_recorders_file_is_a_table(tmp_path):
    points, values = trace(700)
    with vsbq.Recorder(tmp_path / "calls.db", names=["a", "b"], bounds=[(-99, 99), None]) as recorder:
        for point, value in zip(points, values, strict=True):
            recorder.record(point, log_density=value)
    found = fit_large(tmp_path / "calls.db", sample=300)
    given = vsbq.Evaluations.from_recorder(tmp_path / "calls.db")
    assert found.bounds == given.bounds
    assert same(found, fit_large(given, sample=300))


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
