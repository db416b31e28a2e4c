"""From files of recorders to evaluations: which are taken, and how files become one."""

from __future__ import annotations

import numpy as np
import pytest

from recording import BOX, NAMES, cost_of_rows, fill, raising
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.record import Recorder, RecorderError, evaluations_from, merge, read_store

# To evaluations


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


def test_the_tag_reaches_the_evaluations(rec, path):
    fill(rec)
    assert evaluations_from(rec).tag == "v1"
    assert Evaluations.from_file(path).tag == "v1"
    assert evaluations_from(rec, tag="other words").tag == "other words"
    with Recorder(path.with_name("none.db"), names=NAMES) as untagged:
        fill(untagged)
    assert evaluations_from(untagged).tag is None


def test_failed_evaluations_are_left_out_with_a_note(rec):
    fill(rec)
    rec.record([0.1, 0.1], np.nan)
    rec.record([0.2, 0.2], -np.inf)
    with pytest.raises(ValueError, match="singular"):
        rec.minimise(raising(ValueError("singular")))([0.3, 0.3])
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
                rec.minimise(raising(ValueError("broken")))([1.0, 1.0])
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
