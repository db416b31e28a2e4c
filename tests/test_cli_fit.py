"""`vsbq fit` and what goes on from its folder: files, words, JSON, interruption; nothing is replaced unasked."""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vsbq
from command_line import CENTRE, LOG_EVIDENCE, VARIANCE, N, call, evaluations, write_csv
from vsbq.cli import demo, main
from vsbq.cli.terminal import Terminal, hanging
from vsbq.errors import VsbqWarning
from vsbq.io.record import Recorder

STAGES = ["trim", "surrogate", "mixture", "refinement", "diagnosis", "done,"]
FILES = {"posterior.npz", "samples.csv", "report.html", "fit.log", "summary.json"}
SOURCES = Path(vsbq.__file__).parents[1]


class Fitted:
    """One fit for all tests: nobody changes its folder."""

    def __init__(self, folder: Path) -> None:
        points, values = evaluations()
        self.table = write_csv(folder / "evaluations.csv", ["iteration", "a", "b", "lp"], np.arange(N), points, values)
        self.out = folder / "deep" / "out"
        self.code, self.said, self.warned = call("fit", self.table, "-o", self.out, "--seed", 1, "--title", "A <fit>")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Fitted:
    return Fitted(tmp_path_factory.mktemp("fit"))


@pytest.fixture
def table(tmp_path) -> Path:
    points, values = evaluations()
    return write_csv(tmp_path / "evaluations.csv", ["a", "b", "log_density"], points, values)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The folder


def test_one_command_from_a_table_to_a_folder(fitted):
    assert fitted.code == 0
    assert {path.name for path in fitted.out.iterdir()} == FILES
    assert [line.split()[1] for line in fitted.warned.splitlines()] == STAGES  # progress, and no warning


def test_the_posterior_is_right(fitted):
    post = vsbq.load(fitted.out / "posterior.npz")
    assert post.names == ("a", "b")
    np.testing.assert_allclose(post.mean(), CENTRE, atol=0.05)
    assert abs(post.log_evidence - LOG_EVIDENCE) < max(4 * post.log_evidence_sd, 0.02)


def test_samples_are_the_draws_of_the_posterior(fitted):
    with (fitted.out / "samples.csv").open(newline="") as stream:
        header, *rows = csv.reader(stream)
    draws = np.array(rows, dtype=float)
    assert header == ["a", "b"]
    assert draws.shape == (4000, 2)
    assert np.all(np.abs(draws.mean(axis=0) - CENTRE) < 0.02 + 4 * np.sqrt(VARIANCE / 4000))


def test_the_summary_is_plain_json(fitted):
    summary = json.loads((fitted.out / "summary.json").read_text(), parse_constant=pytest.fail)
    assert summary["parameters"]["a"]["lower_bound"] is None
    assert abs(summary["parameters"]["b"]["sd"] - VARIANCE[1] ** 0.5) < 0.05
    assert summary["seed"] == 1
    assert summary["title"] == "A <fit>"
    assert summary["inputs"] == [{"file": str(fitted.table), "rows": N}]
    assert set(summary["files"]) == FILES


def test_the_report_has_the_title_and_the_log(fitted):
    page = (fitted.out / "report.html").read_text(encoding="utf-8")
    assert "A &lt;fit&gt;" in page
    assert "seed 1" in page
    log = (fitted.out / "fit.log").read_text(encoding="utf-8")
    for word in ("evaluations.csv", "surrogate", "log evidence", "audit"):
        assert word in log
    assert log.splitlines()[0] in page.replace("&#x27;", "'").replace("&#39;", "'")


def test_it_says_what_it_guessed_and_what_came_out(fitted):
    for words in (
        "column 'lp' (guessed from its name)",
        "'a' and 'b' (the other numeric columns)",
        "Left out 'iteration'",
        "--bound a=LOW,HIGH",
        "log evidence",
        "report.html",
        "--seed 1",
    ):
        assert words in fitted.said
    assert "\x1b" not in fitted.said


def test_the_logger_is_left_as_it_was(fitted):
    logger = logging.getLogger("vsbq")
    assert logger.level == logging.NOTSET
    assert [type(handler) for handler in logger.handlers] == [logging.NullHandler]


def test_without_matplotlib_it_says_how_to_get_the_plot(quick, table, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, said, _ = call("fit", table, "-o", tmp_path / "out")
    assert code == 0
    assert "vsbq[plot]" in said


# Nothing is replaced unasked, and an interrupted fit leaves nothing


def test_a_second_fit_is_refused_at_once(fitted):
    before = contents(fitted.out)
    start = time.perf_counter()
    code, _, err = call("fit", fitted.table, "-o", fitted.out)
    assert code == 1
    assert "--overwrite" in err
    assert time.perf_counter() - start < 1.0
    assert contents(fitted.out) == before


def test_overwrite_replaces_everything_and_other_files_stay(fitted, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    folder = shutil.copytree(fitted.out, tmp_path / "out")
    (folder / "notes.txt").write_text("mine")
    post = vsbq.load(folder / "posterior.npz")
    monkeypatch.setattr("vsbq.cli.fit.fit", lambda *args, **options: post)
    monkeypatch.setattr("vsbq.cli.output.write_report", lambda post, path, **options: path.write_text("page"))
    command = ["fit", fitted.table, "-o", folder, "--overwrite", "--format", "parquet", "--draws", 50, "--json"]
    code, out, _ = call(*command)
    assert code == 0
    assert json.loads(out)["draws"] == 50
    assert {path.name for path in folder.iterdir()} == {*FILES, "notes.txt", "samples.parquet"} - {"samples.csv"}
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(folder / "samples.parquet").column_names == ["a", "b"]


def test_the_input_is_never_replaced(fitted, tmp_path):
    folder = shutil.copytree(fitted.out, tmp_path / "out")
    before = contents(folder)
    code, _, err = call("fit", folder / "samples.csv", "-o", folder, "--overwrite", "--params", "a", "--neg")
    assert code == 1
    assert "would be replaced" in err
    assert contents(folder) == before


@pytest.mark.parametrize("existing", [True, False], ids=["folder there", "new folder"])
def test_a_fit_that_fails_leaves_no_trace(table, tmp_path, monkeypatch, existing):
    def fail(*args, **options):
        raise vsbq.FitError("the surrogate\ncould not be fitted")

    monkeypatch.setattr("vsbq.cli.fit.fit", fail)
    out = tmp_path / "out"
    if existing:
        out.mkdir()
    code, said, err = call("fit", table, "-o", out, "-q")
    assert (code, said) == (1, "")
    assert err == "vsbq: the surrogate\\ncould not be fitted\n"
    assert out.exists() == existing
    assert not existing or not list(out.iterdir())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_fit_leaves_no_files(table, tmp_path, number, code):
    out = tmp_path / "out"
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    # A job that was started in the background ignores Ctrl-C, and so would its children.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    run = "import sys; from vsbq.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", listen + run, "fit", str(table), "-o", str(out), "--json"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until = time.monotonic() + 60
        while not out.exists() or not list(out.iterdir()):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(0.3)
        process.send_signal(number)
        said, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert said == ""
    assert json.loads(err)["error"]["code"] == code
    assert not out.exists()


# What goes in


@pytest.fixture
def quick(fitted, monkeypatch):
    """The evaluations that a fit would get, without the fit."""
    seen = []
    post = vsbq.load(fitted.out / "posterior.npz")

    def fit(given, **options):
        seen.append(given)
        return post

    monkeypatch.setattr("vsbq.cli.fit.fit", fit)
    monkeypatch.setattr("vsbq.cli.output.write_report", lambda post, path, **options: path.write_text("page"))
    return seen


def test_several_files_are_joined_small_ones_too(quick, tmp_path):
    points, values = evaluations()
    parts = [slice(0, 100), slice(100, 150), *(slice(i, i + 5) for i in range(150, 200, 5))]
    files = [write_csv(tmp_path / f"{i}.csv", ["a", "b", "lp"], points[p], values[p]) for i, p in enumerate(parts)]
    code, said, err = call("fit", *files, "-o", tmp_path / "out")
    assert code == 0, err
    assert "200 from 12 files" in said
    assert sorted(quick[0].points[:, 0]) == sorted(points[:, 0])


def test_all_kinds_of_files_in_one_fit(quick, tmp_path, table):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    points, values = evaluations(seed=1)
    np.savez(tmp_path / "more.npz", points=points, log_density=values, names=["a", "b"])
    frame = pandas.DataFrame({"a": points[:, 0] + 0.1, "b": points[:, 1], "log_density": values - 1})
    frame.to_parquet(tmp_path / "more.parquet")
    with Recorder(tmp_path / "fits.db", names=["a", "b"]) as recorder:
        recorder.record(points + 0.5, values - 2)
    files = [table, tmp_path / "more.npz", tmp_path / "more.parquet", tmp_path / "fits.db"]
    code, _, err = call("fit", *files, "-o", tmp_path / "out")
    assert code == 0, err
    assert len(quick[0]) == 4 * N


def test_a_constant_that_changed_between_files_is_refused(quick, tmp_path):
    points, values = evaluations()
    one = write_csv(tmp_path / "one.csv", ["a", "b", "lp"], points, values)
    two = write_csv(tmp_path / "two.csv", ["a", "b", "lp"], points, values + 3)
    code, _, err = call("fit", one, two, "-o", tmp_path / "out")
    assert code == 1
    assert "another constant" in err


def test_the_tag_of_a_fit_is_told(quick, tmp_path, table):
    with Recorder(tmp_path / "fits.db", names=["a", "b"]) as recorder:
        recorder.record(*evaluations(seed=1))
    (tmp_path / "problem.toml").write_text('tag = "subject 3"')
    config = ["--config", tmp_path / "problem.toml"]
    for i, options in enumerate((config, [*config, "--tag", "subject 4"], [])):
        code, said, err = call("fit", table, tmp_path / "fits.db", "-o", tmp_path / f"out{i}", *options)
        assert code == 0, err
        assert quick[-1].tag == (None, "subject 4", "subject 3")[2 - i]
        assert ("tag " in said) == bool(options)
    (tmp_path / "problem.toml").write_text("tag = 3")
    assert "tag is 3. It must be a text" in call("audit", table, *config)[2]


def test_the_tag_of_a_recorder_is_kept_unless_another_is_told(quick, tmp_path):
    with Recorder(tmp_path / "fits.db", names=["a", "b"], tag="v1") as recorder:
        recorder.record(*evaluations())
    for i, (options, tag) in enumerate((([], "v1"), (["--tag", "v2"], "v2"), (["--tag", "v1"], "v1"))):
        code, _, err = call("fit", tmp_path / "fits.db", "-o", tmp_path / f"out{i}", *options)
        assert code == 0, err
        assert quick[-1].tag == tag
        assert ("Took the tag 'v2' in place of 'v1' of the file." in quick[-1].notes) == (tag == "v2")


def test_files_of_different_tags_are_not_joined(quick, tmp_path):
    for i in (1, 2):
        with Recorder(tmp_path / f"{i}.db", names=["a", "b"], tag=f"data {i}") as recorder:
            recorder.record(*evaluations(seed=i))
    files = [tmp_path / "1.db", tmp_path / "2.db"]
    code, _, err = call("fit", *files, "-o", tmp_path / "out")
    assert code == 1
    assert "The tag is 'data 1' on one side and 'data 2' on the other" in err
    assert "use --tag" in err
    assert call("fit", *files, "-o", tmp_path / "out", "--tag", "all of it")[0] == 0
    assert quick[-1].tag == "all of it"


def test_compare_refuses_different_tags(tmp_path):
    points, values = evaluations()
    post = vsbq.fit(points, values, rng=1)
    for tag in ("data 1", "data 2"):
        replace(post, evaluations=post.evaluations.with_tag(tag)).save(tmp_path / f"{tag}.npz")
    places = [tmp_path / "data 1.npz", tmp_path / "data 2.npz"]
    code, _, err = call("compare", *places)
    assert code == 1
    assert "different tags ('data 1' has 'data 1', 'data 2' has 'data 2')" in err
    assert "--no-check-tags" in err
    assert call("compare", *places, "--no-check-tags")[0] == 0


CONFIG = """
title = "from the file"
[parameters.b]
bounds = [-20, 20]
plausible = [-3, 3]
[parameters.a]
bounds = [-inf, 30]
plausible = [-2, 2]
[columns]
neg_log_density = "cost"
log_density_sd = 0.5
"""


def test_names_bounds_and_columns_from_a_toml_file(quick, tmp_path):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "cost", "time"], points, -values, np.arange(N))
    (tmp_path / "problem.toml").write_text(CONFIG)
    code, said, err = call("fit", table, "-o", tmp_path / "out", "--config", tmp_path / "problem.toml")
    assert code == 0, err
    given = quick[0]
    assert given.names == ("b", "a")
    np.testing.assert_array_equal(given.points, points[:, ::-1])
    np.testing.assert_array_equal(given.log_density, values)
    assert given.bounds.pair(0) == (-20.0, 20.0)
    assert given.bounds.pair(1) == (-np.inf, 30.0)
    assert given.plausible_bounds.pair(1) == (-2.0, 2.0)
    assert set(given.log_density_sd) == {0.5}
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["title"] == "from the file"
    assert "column 'cost'\n" in said


def test_options_win_over_the_file(quick, tmp_path):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "cost", "ll"], points, values, values)
    (tmp_path / "problem.toml").write_text(CONFIG)
    options = ["--config", tmp_path / "problem.toml", "--bound", "a=-40,", "--column", "log_density=ll", "--sd", "0.25"]
    code, _, err = call("fit", table, "-o", tmp_path / "out", *options, "--title", "mine")
    assert code == 0, err
    assert quick[0].bounds.pair(1) == (-40.0, np.inf)
    assert quick[0].bounds.pair(0) == (-20.0, 20.0)
    np.testing.assert_array_equal(quick[0].log_density, values)
    assert set(quick[0].log_density_sd) == {0.25}
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["title"] == "mine"


@pytest.mark.parametrize("name", ["lp", "nll", "Loss"])
def test_neg_turns_the_sign(quick, tmp_path, name):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", name], points, -values)
    code, said, err = call("fit", table, "-o", tmp_path / "out", "--neg")
    assert code == 0, err
    np.testing.assert_array_equal(quick[0].log_density, values)
    assert f"column '{name}' (guessed from its name)" in said


def test_a_minimised_column_is_suggested(tmp_path):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "nll"], points, -values)
    code, _, err = call("fit", table, "-o", tmp_path / "out")
    assert code == 1
    assert "Is 'nll' the negative log likelihood with minus the log prior in it?" in err
    assert "--column neg_log_density=nll." in err
    assert not (tmp_path / "out").exists()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "f"], points, -values)
    assert "Perhaps: --column neg_log_density=f" in call("fit", table, "-o", tmp_path / "out")[2]


def test_a_column_has_an_option_of_its_own(quick, tmp_path):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "nll"], points, -values)
    code, _, err = call("fit", table, "-o", tmp_path / "out", "--neg-log-density", "nll")
    assert code == 0, err
    np.testing.assert_array_equal(quick[0].log_density, values)
    both = ("--neg-log-density", "nll", "--column", "log_density=nll")
    assert call("fit", table, "-o", tmp_path / "other", *both)[0] == 2
    code, _, err = call("audit", table, "--log-likelihood", "nll", "--log-prior", "-1e-3", "--no-check-sign")
    assert code == 0, err


@pytest.mark.parametrize("limit", ["-1e9", "-1000000000", "-1E+9"])
def test_penalties_are_a_density_of_zero(quick, tmp_path, limit):
    points, values = evaluations()
    values[5] = -1e10
    table = write_csv(tmp_path / "t.csv", ["a", "b", "lp"], points, values)
    code, said, err = call("fit", table, "-o", tmp_path / "out", "--zero-below", limit)
    assert code == 0, err
    assert np.flatnonzero(np.isneginf(quick[0].log_density)).tolist() == [5]
    assert "Counted 1 log density below -1e+09" in said


def test_penalties_in_the_small_file(quick, tmp_path):
    points, values = evaluations()
    values[5] = -1e10
    table = write_csv(tmp_path / "t.csv", ["a", "b", "lp"], points, values)
    config = tmp_path / "problem.toml"
    config.write_text("[input]\nzero_below = -1e9\n")
    assert call("fit", table, "-o", tmp_path / "out", "--config", config)[0] == 0
    assert np.isneginf(quick[0].log_density[5])
    config.write_text("[input]\nzero_below = 'low'\n")
    code, _, err = call("fit", table, "-o", tmp_path / "other", "--config", config)
    assert code == 1
    assert "input.zero_below is 'low'" in err


@pytest.mark.parametrize("options", [("--seed", "3"), ("--rng", "3")])
def test_seed_and_rng_mean_the_same(quick, tmp_path, options):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "lp"], points, values)
    code, out, _ = call("fit", table, "-o", tmp_path / "out", "--json", *options)
    assert (code, json.loads(out)["seed"]) == (0, 3)
    code, _, err = call("fit", table, "-o", tmp_path / "other", "--seed", "3", "--rng", "3")
    assert code == 2
    assert "--seed and --rng mean the same" in err


def test_a_prior_that_is_told_makes_a_likelihood_a_posterior(quick, tmp_path):
    points, values = evaluations()
    table = write_csv(tmp_path / "t.csv", ["a", "b", "loglike"], points, values)
    code, _, err = call("fit", table, "-o", tmp_path / "out", "--column", "log_prior=-1.5")
    assert code == 0, err
    np.testing.assert_array_equal(quick[0].log_density, values - 1.5)


# Words and JSON


def test_audit_in_json(table):
    code, out, err = call("audit", table, "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["parameters"] == ["a", "b"]
    assert {"severity", "topic", "message"} == set(found["findings"][0])


def test_fit_in_json_prints_nothing_else(quick, table, tmp_path):
    points, values = evaluations(60)
    few = write_csv(tmp_path / "few.csv", ["a", "b", "lp"], points, values)
    code, out, err = call("fit", few, "-o", tmp_path / "out", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert found["folder"] == str(tmp_path / "out")
    assert len(found["warnings"]) == 1
    assert "are few" in found["warnings"][0]
    code, out, err = call("fit", few, "-o", tmp_path / "other")
    assert err.startswith("attention: 60 evaluations")
    assert all(line.startswith(("attention: ", "vsbq: ")) for line in err.splitlines())
    assert err.count("attention: ") == 1


def test_warnings_of_the_library_are_one_plain_line_each():
    err = io.StringIO()
    terminal = Terminal()
    with contextlib.redirect_stderr(err), terminal.listening():
        for _ in range(2):
            warnings.warn("the noise\nis larger", VsbqWarning, stacklevel=1)
    assert err.getvalue() == "attention: the noise\\nis larger\n"


class FakeTerminal(io.StringIO):
    encoding = "ascii"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_only_in_a_terminal_and_only_if_wanted(monkeypatch, tmp_path, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    err = FakeTerminal()
    with contextlib.redirect_stderr(err):
        assert main(["sample", str(tmp_path / "ü.npz")]) == 1
    assert ("\x1b[31m" in err.getvalue()) == (no_color == "")
    assert "\\xfc.npz" in err.getvalue()


def test_long_lines_are_broken_between_words_in_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    text = "words " * 40
    lines = hanging("  note   ", text, FakeTerminal()).splitlines()
    assert len(lines) > 3
    assert all(len(line) <= 60 for line in lines)
    assert [line[:9] for line in lines] == ["  note   "] + [" " * 9] * (len(lines) - 1)
    assert " ".join(lines).split() == ["note", *text.split()]
    assert hanging("  note   ", text, io.StringIO()) == "  note   " + text
    assert hanging("attention: ", "one", FakeTerminal(), "33") == "attention: one"


# From the folder onwards


def test_sample_prints_csv_and_repeats_itself(fitted):
    one, two, other = (call("sample", fitted.out, "-n", 7, "--seed", seed)[1] for seed in (3, 3, 4))
    rows = list(csv.reader(io.StringIO(one)))
    assert rows[0] == ["a", "b"]
    assert len(rows) == 8
    assert one == two != other
    found = json.loads(call("sample", fitted.out / "posterior.npz", "-n", 7, "--seed", 3, "--json")[1])
    np.testing.assert_array_equal(np.array(found["draws"]), np.array(rows[1:], dtype=float))


@pytest.mark.parametrize("command", ["sample", "suggest"])
def test_points_go_to_a_file_once(fitted, tmp_path, command):
    target = tmp_path / "points.csv"
    code, said, _ = call(command, fitted.out, "-n", 5, "--seed", 1, "-o", target)
    assert code == 0
    assert "5 " in said
    first = target.read_bytes()
    assert len(first.splitlines()) == 6
    code, _, err = call(command, fitted.out, "-n", 6, "-o", target)
    assert code == 1
    assert "--overwrite" in err
    assert target.read_bytes() == first
    assert call(command, fitted.out, "-n", 6, "-o", target, "--overwrite", "-q")[:2] == (0, "")
    assert len(target.read_bytes().splitlines()) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["points.csv"]


def test_report_beside_the_posterior(fitted, tmp_path):
    folder = shutil.copytree(fitted.out, tmp_path / "out")
    code, said, _ = call("report", folder, "--title", "again")
    assert code == 0
    page = (folder / "posterior.html").read_text(encoding="utf-8")
    assert "again" in page
    assert "seed 1" in page
    assert "posterior.html" in said
    assert call("report", folder)[0] == 1


def test_compare_names_models_after_their_folders(fitted, tmp_path):
    shutil.copytree(fitted.out, tmp_path / "full")
    shutil.copy(fitted.out / "posterior.npz", tmp_path / "reduced.npz")
    places = [tmp_path / "full" / "posterior.npz", tmp_path / "reduced.npz", f"third={tmp_path / 'full'}"]
    code, said, err = call("compare", *places)
    assert code == 0, err
    assert [line.split()[0] for line in said.splitlines()[1:4]] == ["full", "reduced", "third"]
    found = json.loads(call("compare", *places, "--json")[1])
    assert abs(found["models"]["third"]["probability"] - 1 / 3) < 1e-9


def test_compare_a_group(fitted, tmp_path):
    for model in ("full", "reduced"):
        shutil.copytree(fitted.out, tmp_path / model / "anna")
        shutil.copy(fitted.out / "posterior.npz", tmp_path / model / "ben.npz")
    found = json.loads(call("compare", "--group", tmp_path / "full", tmp_path / "reduced", "--json")[1])
    assert set(found["assignment"]) == {"anna", "ben"}
    shutil.rmtree(tmp_path / "reduced" / "anna")
    code, _, err = call("compare", "--group", tmp_path / "full", tmp_path / "reduced")
    assert code == 1
    assert "'anna'" in err


# The demonstration


@pytest.mark.parametrize("present", [True, False], ids=["pycma", "SciPy alone"])
def test_demo_with_and_without_optional_packages(quick, tmp_path, monkeypatch, present):
    if present:
        pytest.importorskip("cma")
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
        monkeypatch.setitem(sys.modules, "cma", None)
    monkeypatch.setattr(demo, "BUDGET", 400)
    code, said, err = call("demo", "-o", tmp_path / "moons")
    assert code == 0, err
    assert ("CMA-ES" if present else "Nelder-Mead") in said
    assert "Against the truth" in said
    assert {path.name for path in (tmp_path / "moons").iterdir()} == {*FILES, "evaluations.csv"}
    given = quick[0]
    assert len(given) >= 400
    again = vsbq.Evaluations.from_file(tmp_path / "moons" / "evaluations.csv")
    np.testing.assert_array_equal(again.points, given.points)
    assert (given.points[given.log_density > 5, 0] > 0).any()
