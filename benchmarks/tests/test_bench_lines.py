"""Result lines: what is written comes back, and a crash costs at most the line being written."""

import json
from dataclasses import replace

import numpy as np
import pytest

from vsbq.errors import VsbqError
from vsbq.settings import Settings
from vsbq_bench.lines import Cell, Line, append_line, read_lines

LINE = Line(
    problem="two_moons",
    noise_sd=0.5,
    optimiser="cma",
    evaluations=6000,
    method="vsbq",
    seed=3,
    delta_lml=0.25,
    seconds={"trim": 0.5},
    settings={"a": (1, 2)},
    versions={"numpy": "2.0"},
)


def test_a_line_comes_back_as_it_was(tmp_path):
    path = tmp_path / "new" / "lines.jsonl"
    append_line(path, LINE)
    append_line(path, replace(LINE, seed=4))
    first, second = read_lines([path])
    assert first == replace(LINE, settings={"a": [1, 2]})  # JSON has no tuples
    assert second.seed == 4
    assert first.cell == Cell("two_moons", 0.5, "cma", 6000, "vsbq")


def test_a_file_that_does_not_exist_has_no_lines(tmp_path):
    assert read_lines([tmp_path / "none.jsonl"]) == []


def test_numbers_that_json_does_not_know_are_null():
    values = json.loads(replace(LINE, gskl=np.inf, details={"x": [float("nan"), {"y": -np.inf}]}).to_json())
    assert values["gskl"] is None
    assert values["details"] == {"x": [None, {"y": None}]}


def test_classes_among_the_settings_are_named():
    settings = {"family": Settings().steps().mixture.family}
    assert json.loads(replace(LINE, settings=settings).to_json())["settings"] == {"family": "FullCovariance"}


def test_a_last_line_cut_short_is_left_out(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_line(path, LINE)
    with path.open("a") as out:
        out.write(LINE.to_json()[:50])
    assert len(read_lines([path])) == 1


def test_writing_after_a_cut_line_does_not_lose_the_new_one(tmp_path):
    path = tmp_path / "lines.jsonl"
    append_line(path, LINE)
    with path.open("a") as out:
        out.write(LINE.to_json()[:50])
    append_line(path, replace(LINE, seed=9))
    assert [line.seed for line in read_lines([path])] == [3, 9]


@pytest.mark.parametrize("damage", ['{"problem": 1}', "[1, 2]", "no json"])
def test_a_damaged_line_is_named(tmp_path, damage):
    path = tmp_path / "lines.jsonl"
    path.write_text(damage + "\n" + LINE.to_json() + "\n")
    with pytest.raises(VsbqError, match=r"lines\.jsonl, line 1"):
        read_lines([path])


def test_fields_of_a_later_version_are_passed_over(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text(json.dumps({**json.loads(LINE.to_json()), "novelty": 1}) + "\n")
    assert read_lines([path])[0].seed == 3
