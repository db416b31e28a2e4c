"""The command line: exit codes, messages, and that each command does what it says."""

import subprocess
import sys

import pytest

from vsbq.cli import main


@pytest.mark.parametrize("command", ["demo", "audit", "fit", "report", "sample", "suggest", "compare"])
def test_the_help_teaches(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([command, "--help"])
    said = capsys.readouterr().out
    assert stop.value.code == 0
    for words in ("examples:", f"vsbq {command} ", "Exit codes: 0 done", "--json"):
        assert words in said


def test_the_general_help_names_all_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    for name in ("demo", "audit", "fit", "report", "sample", "suggest", "compare", "bench", "130"):
        assert name in said


def test_a_slip_gets_the_nearest_option(capsys):
    assert main(["fit", "x.csv", "-o", "out", "--bonds", "a=0,1"]) == 2
    assert "Did you mean '--bounds'?" in capsys.readouterr().err


def test_an_unexpected_error_is_one_line_and_says_how_to_see_more(capsys, monkeypatch):
    def fail(*arguments):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("vsbq.cli.audit.read_files", fail)
    assert main(["audit", "x.csv"]) == 1
    said = capsys.readouterr().err
    assert "VSBQ_DEBUG" in said
    assert said.count("\n") == 1
    monkeypatch.setenv("VSBQ_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["audit", "x.csv"])


@pytest.mark.parametrize("module", ["vsbq", "vsbq.cli"])
def test_the_module_is_a_program(module):
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("vsbq ")


OPTIONAL = ["matplotlib", "pandas", "pyarrow", "cma", "optuna", "emcee", "dynesty", "jax", "arviz_base", "vsbq_bench"]


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["audit", "t.csv"]], ids=" ".join)
def test_looking_loads_no_optional_package(arguments, tmp_path):
    rows = "".join(f"{i % 17},{i % 13},{-((i % 17) ** 2) - (i % 13) ** 2}\n" for i in range(150))
    (tmp_path / "t.csv").write_text("a,b,lp\n" + rows)
    code = f"""
import contextlib, io, sys
from vsbq.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    try:
        done = main({arguments!r})
    except SystemExit as stop:
        done = stop.code
print(done, *sorted(set({OPTIONAL!r}) & set(sys.modules)))
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.split() == ["0"]
