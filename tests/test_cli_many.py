"""`vsbq fit-many`: files or groups of a table in, a folder of posteriors out; exit codes, and going on after a stop."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vsbq
from command_line import call, evaluations, write_csv
from vsbq.cli.fit_many import SOME_FAILED
from vsbq.io.record import Recorder
from vsbq.many import stream

NAMES = ["a", "b", "lp"]
PEOPLE = ("01", "ben")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file for each participant, one that is broken, and a table of all."""
    folder = tmp_path_factory.mktemp("data")
    tables = {who: np.column_stack(evaluations(60, seed=i)) for i, who in enumerate(PEOPLE)}
    for who, table in tables.items():
        write_csv(folder / f"{who}.csv", NAMES, table)
    (folder / "broken.csv").write_text("a,b,lp\n1,2,x\n")
    with (folder / "all.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["who", *NAMES])
        rows = [(who, *row) for i in range(60) for who, table in tables.items() for row in [table[i].tolist()]]
        writer.writerows(rows)
    return folder


def but_for_counts(err: str) -> str:
    """What was said on stderr, but for how many fits were done: slow machines say that now and then."""
    return re.sub(r"^vsbq: \d+ of \d+ done, .*\n", "", err, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    """The folder of a run with seed 1, and what was said."""
    folder = tmp_path_factory.mktemp("out") / "fits"
    return folder, call("fit-many", *(data / f"{who}.csv" for who in PEOPLE), "-o", folder, "--seed", 1)


def test_a_fit_for_each_file(fitted, data):
    folder, (code, said, err) = fitted
    assert (code, but_for_counts(err)) == (0, "")
    assert sorted(path.name for path in folder.iterdir()) == ["01.npz", "ben.npz"]
    assert "2 fitted, 0 failed" in said
    alone = vsbq.fit(vsbq.Evaluations.from_file(data / "ben.csv"), rng=stream(1, "ben"), progress=False)
    assert vsbq.load(folder / "ben.npz").log_evidence == alone.log_evidence


def test_groups_of_a_table_are_the_same_fits(fitted, data):
    """Rows of several participants in turn, texts and numbers as names; nothing is fitted again."""
    folder, _ = fitted
    code, said, err = call("fit-many", data / "all.csv", "--by", "who", "-o", folder, "--seed", 1)
    assert (code, but_for_counts(err)) == (0, "")
    assert "2 fitted (2 of them read from files), 0 failed" in said


def test_a_broken_file_stops_no_other(fitted, data):
    folder, _ = fitted
    files = [data / "01.csv", data / "broken.csv", data / "missing.csv"]
    code, said, err = call("fit-many", *files, "-o", folder)
    assert code == SOME_FAILED == 3
    assert "1 fitted (1 of them read from files), 2 failed" in said
    assert "failed: broken: EvaluationsError: " in said
    assert "there is no such file" in said
    assert "2 fits failed" in err
    quiet = call("fit-many", *files, "-o", folder, "-q")
    assert quiet[:2] == (3, "")
    assert "line 2 has 'x'" in quiet[2]


def test_another_seed_is_refused_and_advised_of_an_option(fitted, data):
    folder, _ = fitted
    before = (folder / "ben.npz").read_bytes()
    code, said, err = call("fit-many", data / "ben.csv", "-o", folder, "--seed", 2, "--json")
    assert (code, err) == (3, "")
    told = json.loads(said)
    assert told["fits"] == {}
    assert "pass --overwrite to replace it" in told["failures"]["ben"]["message"]
    assert (folder / "ben.npz").read_bytes() == before


def test_files_can_be_named(fitted, data):
    folder, _ = fitted
    renamed = data / "other.csv"
    renamed.write_bytes((data / "ben.csv").read_bytes())
    assert "1 of them read" in call("fit-many", f"ben={renamed}", "-o", folder)[1]


def test_the_folder_is_one_for_a_comparison(fitted):
    folder, _ = fitted
    code, said, err = call("compare", "--group", f"one={folder}", f"other={folder}", "--seed", 0)
    assert (code, err) == (0, "")
    assert "2 participants" in said


WRONG = {
    "twice": (["{0}/01.csv", "{0}/./01.csv"], 2, "Two fits would be called '01'"),
    "both places": (["{0}/01.csv", "--workers", "2", "--dask", "x"], 2, "Give one of them"),
    "workers": (["{0}/01.csv", "--workers", "0"], 2, "--workers"),
    "no column": (["{0}/all.csv", "--by", "participant"], 1, "there is no column 'participant'"),
    "a file": (["{0}/01.csv", "-o", "{0}/01.csv"], 1, "is a file"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_usage_is_told_before_any_work(kind, data, tmp_path):
    given, code, words = WRONG[kind]
    arguments = [text.format(data) for text in given]
    output = [] if "-o" in arguments else ["-o", tmp_path / "out"]
    found = call("fit-many", *arguments, *output)
    assert found[:2] == (code, "")
    assert words in found[2]
    assert list(tmp_path.iterdir()) == []


def test_rows_without_a_label_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("who,a,lp\nanna,1,2\n,3,4\n")
    code, _, err = call("fit-many", tmp_path / "t.csv", "--by", "who", "-o", tmp_path / "out")
    assert code == 1
    assert "1 row of column 'who' is empty" in err


def test_a_recorder_has_no_groups(tmp_path):
    with Recorder(tmp_path / "fits.db", names=["a", "b"]) as recorder:
        recorder.record(*evaluations())
    code, _, err = call("fit-many", tmp_path / "fits.db", "--by", "who", "-o", tmp_path / "out")
    assert code == 1
    assert "Leave out --by" in err


def test_troubles_of_a_group_are_its_own(tmp_path, fitted, data):
    """A cell that is no number fails its own group only."""
    folder, _ = fitted
    lines = (data / "all.csv").read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith("01,"))
    lines[place] = "01,oops," + lines[place].split(",", 2)[2]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    code, said, _ = call("fit-many", tmp_path / "t.csv", "--by", "who", "-o", folder)
    assert code == 3
    assert "failed: 01: EvaluationsError: Of the rows with who=01, in " in said
    assert "'oops' in column 'a'" in said
    assert "1 fitted (1 of them read from files), 1 failed" in said


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_binary_tables_have_groups(kind, tmp_path):
    people = np.array(["anna", "ben", "anna"])
    columns = {"who": people, "day": np.array([1, 2, 1]), "a": np.arange(3.0), "lp": np.zeros(3)}
    path = tmp_path / f"t.{kind}"
    if kind == "npz":
        np.savez(path, **columns)
    else:
        pyarrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), path)
    for column, labels in (("who", ["anna", "ben"]), ("day", ["1", "2"])):
        code, said, _ = call("fit-many", path, "--by", column, "-o", tmp_path / "out", "--json")
        assert code == 3  # far too few rows, which is told of each
        assert list(json.loads(said)["failures"]) == labels


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}


SLOW_SIGNS = [pytest.param(sign, marks=pytest.mark.slow) for sign in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize("sign", [signal.SIGKILL, *SLOW_SIGNS], ids=lambda sign: sign.name)
def test_it_goes_on_after_a_stop(sign, data, tmp_path):
    """The real command in two processes, stopped when the first posterior is there; then once more."""
    pytest.importorskip("joblib")
    people = 5
    for i in range(people):
        write_csv(tmp_path / f"p{i}.csv", NAMES, np.column_stack(evaluations(60, seed=i)))
    fits = tmp_path / "fits"
    files = [str(tmp_path / f"p{i}.csv") for i in range(people)]
    command = [sys.executable, "-m", "vsbq", "fit-many", *files, "-o", str(fits), "-j", "2"]
    run = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(fits.glob("*.npz")):
        assert run.poll() is None
        time.sleep(0.02)
    os.killpg(run.pid, sign) if sign is signal.SIGINT else run.send_signal(sign)  # as Ctrl-C does
    err = run.communicate(timeout=60)[1]
    there = {path: path.stat().st_mtime_ns for path in fits.glob("*.npz")}
    assert len(there) < people
    if sign is signal.SIGKILL:
        assert run.returncode == -signal.SIGKILL
    else:
        assert run.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[sign]
        assert "the same command goes on from there" in err
        assert len(but_for_counts(err).splitlines()) == 1
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"{people} fitted ({len(there)} of them read from files), 0 failed" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in there} == there
    assert [path.name for path in fits.glob(".*")] == [] or sign is signal.SIGKILL


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_by_its_scheduler_file(fitted, data, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None, "local_directory": str(tmp_path)}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        file = tmp_path / "scheduler.json"
        file.write_text(json.dumps(client.scheduler_info()))
        code, said, _ = call("fit-many", data / "ben.csv", "-o", tmp_path / "out", "--seed", 1, "--dask", file)
    assert code == 0, said
    assert vsbq.load(tmp_path / "out" / "ben.npz").log_evidence == vsbq.load(fitted[0] / "ben.npz").log_evidence
