"""Points out, values in: `vsbq suggest`, a program of anyone's, `vsbq update`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import vsbq
from command_line import call
from improve_cases import log_normal, one_side


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    return one_side().save(tmp_path_factory.mktemp("cut") / "post.npz")


@pytest.fixture(scope="module")
def batch(saved) -> list[dict[str, str]]:
    target = saved.with_name("batch.csv")
    assert call("suggest", saved, "-n", 10, "--seed", 1, "-o", target)[0] == 0
    with target.open() as stream:
        return list(csv.DictReader(stream))


def evaluated(batch, path: Path, column: str = "log_density", value=log_normal, **more) -> Path:
    """The table with values, as a program would write it."""
    rows = []
    for row in batch:
        found = value(np.array([float(row["a"]), float(row["b"])]))
        rows.append(row | {column: found} | more)
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def update(*arguments):
    return call("update", *arguments, "--seed", 1)


def test_suggestions_come_with_reasons(batch, saved):
    assert list(batch[0]) == ["a", "b", "reason"]
    assert any("'a' above" in row["reason"] for row in batch)
    printed = json.loads(call("suggest", saved, "-n", 10, "--seed", 1, "--json")[1])
    assert printed["reasons"] == [row["reason"] for row in batch]
    assert printed["points"] == [[float(row["a"]), float(row["b"])] for row in batch]


def test_values_make_a_better_posterior(saved, batch, tmp_path):
    out = tmp_path / "out"
    code, said, err = update(saved, evaluated(batch, tmp_path / "values.csv"), "-o", out)
    assert code == 0, err
    assert "10 evaluations from 1 file" in said
    post = vsbq.load(out / "posterior.npz")
    assert len(post.evaluations) == 210
    assert abs(post.log_evidence) < 0.15 < abs(vsbq.load(saved).log_evidence)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["verdict"] == post.verdict
    assert summary["inputs"] == [{"file": str(tmp_path / "values.csv"), "rows": 10}]
    assert {path.name for path in out.iterdir()} >= {"report.html", "samples.csv", "fit.log"}


def test_one_small_file_from_each_job(saved, batch, tmp_path):
    files = [evaluated(batch[i : i + 1], tmp_path / f"{i}.csv", "loss", lambda x: -log_normal(x)) for i in range(3)]
    failed = evaluated(batch[3:4], tmp_path / "3.csv", "loss", lambda x: "")
    zero = evaluated(batch[4:5], tmp_path / "4.csv", "loss", lambda x: np.inf)
    code, said, err = update(saved, *files, failed, zero, "-o", tmp_path / "out", "--column", "neg_log_density=loss")
    assert code in (0, 4), err
    assert "Left out 1 row without a value." in said
    values = vsbq.load(tmp_path / "out" / "posterior.npz").evaluations.log_density
    assert len(values) == 204
    assert np.isneginf(values).sum() == 1


def test_words_are_left_out_where_small_tables_are_joined(saved, batch, tmp_path):
    given = vsbq.load(saved).evaluations
    first = tmp_path / "first.csv"
    table = np.column_stack([given.points, given.log_density])
    np.savetxt(first, table, delimiter=",", header="a,b,log_density", comments="")
    code, out, err = call("audit", first, evaluated(batch, tmp_path / "values.csv"), "--json")
    assert code == 0, err
    assert json.loads(out)["evaluations"] == 210


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"log_density": ""}, (), "No row has a value"),
        ({"log_density": "high"}, (), "no number"),
        ({"log_density": "inf"}, (), "inf"),
        ({"a": ""}, (), "row"),
        ({}, ("--column", "log_density=lp"), "'lp'"),
    ],
)
def test_tables_that_can_not_be_used(saved, batch, tmp_path, change, options, words):
    code, _, err = update(saved, evaluated(batch, tmp_path / "v.csv", **change), "-o", tmp_path / "out", *options)
    assert code == 1
    assert words in err
    assert not (tmp_path / "out").exists()


def test_what_the_posterior_knows_is_not_told_again(saved, batch, tmp_path):
    table = evaluated(batch, tmp_path / "v.csv")
    code, _, err = update(saved, table, "-o", tmp_path / "out", "--bound", "a=0,1")
    assert code == 2
    assert "Leave out --bound" in err
    assert update(saved, table, table, "-o", tmp_path / "out")[0] == 2


def test_a_column_of_noise_is_in_all_files_or_in_none(saved, batch, tmp_path):
    one = evaluated(batch[:2], tmp_path / "1.csv", log_density_sd=0.1)
    other = evaluated(batch[2:4], tmp_path / "2.csv")
    code, _, err = update(saved, one, other, "-o", tmp_path / "out")
    assert code == 1
    assert "noise" in err
