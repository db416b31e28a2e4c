"""What the library advises in arguments, the command line advises in options."""

from __future__ import annotations

import contextlib
import io
import json
import warnings

import numpy as np
import pytest

from command_line import N, call, evaluations, write_csv
from vsbq.cli.terminal import Terminal
from vsbq.errors import VsbqWarning
from vsbq.history import NoiseFinding
from vsbq.io.record import Recorder


def with_value(value: float, row: int = 3) -> np.ndarray:
    values = evaluations()[1]
    values[row] = value
    return values


POINTS, VALUES = evaluations()
NAMES = ["a", "b", "lp"]
REMEDIES = {  # names and columns of a table, options, and what is advised then
    "NaN": (NAMES, [POINTS, with_value(np.nan)], [], ["--nonfinite drop", "--nonfinite floor"]),
    "outside": (NAMES, [POINTS, VALUES], ["--bound", "a=0,1"], ["--outside drop"]),
    "negated": (NAMES, [POINTS, -VALUES], [], ["Pass --neg if", "--no-check-sign"]),
    "noisy": (
        NAMES,
        [np.vstack([POINTS, POINTS[:1]]), np.append(VALUES, VALUES[0] + 1)],
        [],
        ["Pass --sd NUMBER or --column log_density_sd=NAME if"],
    ),
    "no values": (
        ["a", "b", "c"],
        [POINTS, VALUES],
        [],
        ["--column log_density=NAME", "--column neg_log_density=NAME", "--column log_prior=NAME"],
    ),
    "a loss": (["a", "b", "nll"], [POINTS, -VALUES], [], ["Is 'nll' the negative", "--column neg_log_density=nll."]),
    "chi-squared": (["a", "b", "chi2"], [POINTS, -VALUES], [], ["-chi2 / 2", "--column log_likelihood=NAME"]),
    "a penalty that is turned": (NAMES, [POINTS, VALUES], ["--zero-below", "1e9"], ["above every log density"]),
    "a likelihood": (["a", "b", "loglike"], [POINTS, VALUES], [], ["(a column log_prior, or --column log_prior=NAME)"]),
    "no prior": (NAMES, [POINTS, VALUES], ["--column", "log_likelihood=lp"], ["Pass --column log_prior=NAME as well"]),
    "a wrong sum": (
        ["a", "b", "lp", "loglike", "logprior"],
        [POINTS, VALUES, VALUES, VALUES],
        [],
        ["--column log_likelihood=NAME and --column log_prior=NAME"],
    ),
    "doubtful": (["a", "b", "loss", "lp"], [POINTS, VALUES, VALUES], [], ["Name the parameters with --params."]),
    "no parameters": (["iteration", "lp"], [np.arange(N), VALUES], [], ["Name the columns with --params."]),
    "encoding": (NAMES, [POINTS, VALUES], ["--encoding", "klingon"], ["Pass --encoding utf-8."]),
}
#: How the library says it.
PYTHON = ("nonfinite=", "outside=", "check_sign", "Pass them as", "params=", "encoding=", " log_prior=)", "NAME'")


@pytest.mark.parametrize("kind", list(REMEDIES))
def test_remedies_are_options(tmp_path, kind):
    names, columns, told, advised = REMEDIES[kind]
    code, said, err = call("fit", write_csv(tmp_path / "t.csv", names, *columns), "-o", tmp_path / "out", *told)
    assert (code, said) == (1, "")
    for words in advised:
        assert words in err
    for words in PYTHON:
        assert words not in err


TEXTS = {
    "a;b;lp\n1.100;2.200;-3.300\n": ["Pass --decimal '.' if", "--thousands '.' if"],
    "a;b;lp\n1,5;2.5;-3\n": ["Pass --decimal ',' and --thousands '.' if", "--thousands ',' if"],
    "a;b;lp\n1'100,5;2;-3\n": ["""pass --thousands "'" and --decimal ','."""],
    "ä,b,lp\n1,2,3\n": ["such as --encoding cp1252."],
}


@pytest.mark.parametrize("text", list(TEXTS), ids=["two ways", "both marks", "apostrophe", "latin-1"])
def test_remedies_for_texts_are_options(tmp_path, text):
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    code, _, err = call("audit", tmp_path / "t.csv")
    assert code == 1
    for words in TEXTS[text]:
        assert words in err


def test_a_recorder_is_advised_of_options_too(tmp_path):
    with Recorder(tmp_path / "fits.db", names=["a", "b"]) as recorder:
        recorder.record(POINTS, VALUES)
    assert "--outside drop" in call("audit", tmp_path / "fits.db", "--bound", "a=0,1")[2]


def test_a_sign_that_looks_wrong_is_a_finding_with_an_option(tmp_path):
    table = write_csv(tmp_path / "t.csv", NAMES, POINTS, -VALUES)
    code, said, _ = call("audit", table)
    assert code == 0
    assert "attention" in said
    found = json.loads(call("audit", table, "--json")[1])["findings"]
    for text in (said, next(each["message"] for each in found if each["topic"] == "sign")):
        assert "Pass --neg if they are negative log densities." in text


def test_the_name_of_a_loss_is_said_once(tmp_path):
    table = write_csv(tmp_path / "t.csv", ["a", "b", "nll"], POINTS, -VALUES)
    code, said, _ = call("audit", table, "--neg-log-density", "nll")
    assert code == 0
    assert "minus log density   column 'nll'" in said
    assert said.count("The values are called") == 1  # the question of the audit


def test_rows_that_a_remedy_leaves_out_are_left_out(tmp_path):
    table = write_csv(tmp_path / "t.csv", NAMES, POINTS, with_value(np.nan))
    assert json.loads(call("audit", table, "--nonfinite", "drop", "--json")[1])["evaluations"] == N - 1


def test_a_warning_of_the_library_names_options():
    err = io.StringIO()
    with contextlib.redirect_stderr(err), Terminal().listening():
        warnings.warn(NoiseFinding("estimated", 0.5, 1.0, 9).words, VsbqWarning, stacklevel=1)
    assert "Give --sd NUMBER or --column log_density_sd=NAME if you know it." in err.getvalue()
