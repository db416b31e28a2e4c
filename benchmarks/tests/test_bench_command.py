"""`vsbq bench`: each action does what it says, and a wrong name gets the known ones."""

import pytest

from vsbq.cli import main
from vsbq_bench.lines import read_lines
from vsbq_bench.suites import Block

TINY = {"tiny": (Block(problems=("single",), methods=("laplace",), seeds=1, evaluations_per_dimension=(300,)),)}


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr("vsbq_bench.suites.SUITES", TINY)
    monkeypatch.setattr("vsbq_bench.command.SUITES", TINY)


def test_list_names_problems_methods_and_suites(capsys):
    assert main(["bench", "list"]) == 0
    said = capsys.readouterr().out
    for word in (
        "two_moons",
        "timing",
        "lotka_volterra",
        "observer",
        "vsbq_paper",
        "bbvi_mog50",
        "small",
        "zoo-control",
    ):
        assert word in said
    assert "partial" not in said


def test_run_writes_lines_and_goes_on_from_there(tmp_path, capsys, tiny):
    command = ["bench", "run", "--suite", "tiny", "--results", str(tmp_path), "--processes", "1"]
    assert main(command) == 0
    assert "1 runs done, 0 failed" in capsys.readouterr().out
    assert len(read_lines([tmp_path / "tiny.jsonl"])) == 1
    assert main([*command, "--dry-run"]) == 0
    assert "nothing is missing" in capsys.readouterr().out


def test_dry_run_lists_jobs_and_runs_none(tmp_path, capsys, tiny):
    assert main(["bench", "run", "--suite", "tiny", "--results", str(tmp_path), "--dry-run"]) == 0
    assert "single" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--suite", "nothing"], "suite 'nothing'"),
        (["--methods", "magic"], "method 'magic'"),
        (["--problems", "easy"], "problem 'easy'"),
        (["--optimisers", "luck"], "optimiser 'luck'"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_known_ones(tmp_path, capsys, options, word):
    assert main(["bench", "run", "--results", str(tmp_path), *options]) == 1
    said = capsys.readouterr().err
    assert word in said
    assert "there are" in said


def test_tables_without_lines_say_how_to_make_some(tmp_path, capsys):
    assert main(["bench", "table", "--results", str(tmp_path)]) == 1
    assert "vsbq bench run" in capsys.readouterr().err
