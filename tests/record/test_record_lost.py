"""Files that vanish or are replaced while they are in use, and files that can't be written."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import vsbq
from recording import BOX, KILLED, NAMES, cost, cost_of_rows, fill, other_python
from vsbq.errors import VsbqWarning
from vsbq.io.record import Recorder, RecorderError, merge, read_store
from vsbq.io.record import file as record_file

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files in use can't be deleted there")


# A file that vanishes while it is in use


def delete(path):
    path.unlink()


def move(path):
    path.rename(path.with_name("moved.db"))


def replace_by_file(path):
    path.unlink()
    path.write_text("something else")


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def replace_by_recorder(path):
    path.unlink()
    code = "import sys; from vsbq.record import Recorder; Recorder(sys.argv[1], names=['a', 'b'], tag='new')"
    assert other_python(code, path).returncode == 0


def rescued(path):
    (place,) = (p for p in path.parent.glob("fits.db.rescued-*") if p.name[-4:] not in ("-wal", "-shm"))
    return place


@pytest.mark.parametrize("change", [delete, move, replace_by_file, replace_by_folder, replace_by_recorder])
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_file_that_vanishes_is_noticed_and_its_evaluations_are_saved(path, change, journal, monkeypatch):
    if journal == "delete":
        monkeypatch.setattr(record_file, "network_drive", lambda place: "a network drive (test)")
    with contextlib.nullcontext() if journal == "wal" else pytest.warns(VsbqWarning):
        rec = Recorder(path, names=NAMES, bounds=BOX, tag="v1")
    x = fill(rec, n=30)
    f = rec.minimise(lambda point: change(path) or cost(point))  # while the objective runs
    with pytest.raises(RecorderError, match=r"(deleted or moved|replaced by).*31 evaluations are saved"):
        f([3.0, 4.0])
    stored = read_store(rescued(path))
    np.testing.assert_array_equal(stored.points, [*x, [3.0, 4.0]])
    np.testing.assert_array_equal(stored.log_density, [*-cost_of_rows(x), -12.5])
    calls = []
    with pytest.raises(RecorderError, match="31 evaluations are saved"):  # the next one is not even begun
        rec.minimise(lambda point: calls.append(1) or 1.0)([0.0, 0.0])
    assert calls == []
    with pytest.raises(RecorderError, match="32 evaluations are saved"):  # but what is recorded by hand is kept
        rec.record([1.0, 1.0], -1.0)
    rec.close()
    assert read_store(rescued(path)).log_density[-1] == -1.0


def test_the_log_of_a_new_file_survives_the_end_of_a_recorder_of_the_old_one(path):
    old = Recorder(path, names=NAMES, tag="old")
    fill(old, n=30)
    path.unlink()
    code = """
import subprocess, sys
from vsbq.io.record import Recorder, read_store
with Recorder(sys.argv[1], names=["a", "b"], tag="new") as rec:
    rec.record([0.0, 0.0], 1.0)
    print("ready", flush=True)
    sys.stdin.readline()
    rec.record([0.0, 0.0], 2.0)
print(read_store(sys.argv[1]).log_density.tolist())
"""
    source = str(Path(vsbq.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        env=os.environ | {"PYTHONPATH": source},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        other.stdout.readline()
        with pytest.raises(RecorderError, match="replaced by another file"):
            old.close()
        said, _ = other.communicate("\n")
    assert said.strip() == "[1.0, 2.0]"
    assert len(read_store(rescued(path))) == 30


UNTIL_GONE = """
import sys
from vsbq.io.record import Recorder, RecorderError
rec, count = Recorder(sys.argv[1], names=["a", "b"]), 0
f = rec.maximise(lambda x: -x[1])
print("ready", flush=True)
try:
    while True:
        f([float(sys.argv[2]), float(count)])
        count += 1
except RecorderError as error:
    print(count, "was deleted" in str(error) or "was replaced" in str(error))
"""


@pytest.mark.parametrize("change", [delete, replace_by_recorder])
def test_processes_that_record_at_once_to_a_file_that_is_deleted_lose_nothing(path, change):
    environment = os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1]), "OPENBLAS_NUM_THREADS": "1"}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", UNTIL_GONE, str(path), str(i)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for i in range(3)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    change(path)
    counts = [child.communicate()[0].split() for child in children]
    assert [said for _, said in counts] == ["True"] * 3
    places = [place for place in path.parent.glob("fits.db.rescued-*") if place.name[-4:] not in ("-wal", "-shm")]
    merge(places, into=path.with_name("all.db"))
    points = read_store(path.with_name("all.db")).points
    for i, (count, _) in enumerate(counts):
        assert int(count) > 100
        there = np.sort(points[points[:, 0] == i, 1])
        assert set(np.arange(float(count))) <= set(there)


def test_closing_a_recorder_whose_file_was_deleted_saves_it_too(path):
    rec = Recorder(path, names=NAMES)
    fill(rec, n=30)
    path.unlink()
    with pytest.raises(RecorderError, match="30 evaluations are saved"):
        rec.close()
    assert len(read_store(rescued(path))) == 30


def test_a_program_that_ends_without_closing_says_so(path):
    code = """
import os, sys
from vsbq.io.record import Recorder
rec = Recorder(sys.argv[1], names=["a", "b"])
rec.record([0.0, 0.0], 1.0)
os.unlink(sys.argv[1])
"""
    done = other_python(code, path)
    assert "was deleted or moved" in done.stderr
    assert len(read_store(rescued(path))) == 1


def test_a_file_that_is_cut_short_while_it_is_in_use(path):
    rec = Recorder(path, names=NAMES)
    fill(rec, n=30)
    os.truncate(path, 0)
    with pytest.raises(RecorderError, match="was cut short"):
        rec.record([1.0, 1.0], -1.0)
    assert read_store(rescued(path)).log_density[-1] == -1.0
    rec.close()


def test_a_folder_that_vanishes(tmp_path, monkeypatch):
    folder, spare = tmp_path / "drive", tmp_path / "spare"
    folder.mkdir()
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    rec = Recorder(folder / "fits.db", names=NAMES)
    fill(rec, n=30)
    shutil.rmtree(folder)
    with pytest.raises(RecorderError, match="31 evaluations are saved"):
        rec.record([1.0, 1.0], -1.0)
    rec.close()
    assert len(read_store(rescued(spare / "fits.db"))) == 31


def test_a_drive_that_can_not_be_reached(path, monkeypatch):
    rec = Recorder(path, names=NAMES)
    fill(rec, n=30)
    real = os.stat

    def stat(place, **options):
        if str(place) == str(path):
            raise OSError(116, "Stale file handle")
        return real(place, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        with pytest.raises(
            RecorderError, match=r"can't be reached any more \(Stale file handle\).*30 evaluations are saved"
        ):
            rec.minimise(cost)([1.0, 1.0])
    rec.close()
    assert len(read_store(path)) == 30


def test_a_failure_of_the_objective_is_saved_as_well(path):
    rec = Recorder(path, names=NAMES)

    def fail(x):
        path.unlink()
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        rec.minimise(fail)([1.0, 1.0])
    assert "was deleted" in caught.value.__notes__[0]
    assert read_store(rescued(path)).failures == ("ValueError: mine",)
    rec.close()


@pytest.mark.parametrize("change", [delete, replace_by_recorder])
def test_a_recorder_in_a_pickle_does_not_begin_a_new_file(path, change):
    with Recorder(path, names=NAMES, tag="new") as rec:
        rec.record([0.0, 0.0], 1.0)
        raw = pickle.dumps(rec)
    change(path)
    before = path.exists() and path.read_bytes()
    copy = pickle.loads(raw)
    copy._closed = False
    with pytest.raises(RecorderError, match=r"(deleted or moved|replaced by another file).*1 evaluation is saved"):
        copy.record([2.0, 2.0], 2.0)
    assert (path.exists() and path.read_bytes()) == before
    assert read_store(rescued(path)).log_density.tolist() == [2.0]


def test_where_nothing_can_be_saved_the_error_says_so(path, monkeypatch):
    rec = Recorder(path, names=NAMES)
    path.unlink()
    monkeypatch.setattr("vsbq.io.record.store.save_copy", lambda *_: False)
    monkeypatch.setattr("vsbq.io.record.store.name_for_rescue", lambda _: path.parent / "missing" / "x.db")
    with pytest.raises(RecorderError, match="could not be saved elsewhere: There is no folder"):
        rec.record([2.0, 2.0], 2.0)
    rec.close()


# Files and folders that can't be written


@contextlib.contextmanager
def as_ordinary_user():
    """Without the rights of root, for whom no file is read-only."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@pytest.fixture
def open_folder():
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_file_that_can_not_be_written_is_refused_when_it_is_opened(open_folder, monkeypatch, journal, what):
    if journal == "delete":
        monkeypatch.setattr(record_file, "network_drive", lambda place: "a network drive (test)")
    path = open_folder / "fits.db"
    with contextlib.nullcontext() if journal == "wal" else pytest.warns(VsbqWarning):
        rec = Recorder(path, names=NAMES)
    with rec:
        rec.record([0.0, 0.0], 1.0)
    path.chmod(0o444 if what == "file" else 0o666)
    open_folder.chmod(0o777 if what == "file" else 0o555)
    with as_ordinary_user():
        with pytest.raises(RecorderError, match="permissions"):
            Recorder(path, names=NAMES)
        assert read_store(path).log_density.tolist() == [1.0]
        with pytest.raises(RecorderError, match="permissions"):
            merge(path, into=path.with_name("fits.db")) if what == "folder" else Recorder(path)


def test_an_immutable_file_is_refused_when_it_is_opened(path):
    with Recorder(path, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    if (
        not shutil.which("chattr")
        or subprocess.run(["chattr", "+i", path], capture_output=True, check=False).returncode
    ):
        pytest.skip("files can't be made immutable here")
    try:
        with pytest.raises(RecorderError, match="can't be written"):
            Recorder(path, names=NAMES)
        assert len(read_store(path)) == 1
    finally:
        subprocess.run(["chattr", "-i", path], check=True)


def test_a_log_in_a_folder_that_can_not_be_written(open_folder):
    path = open_folder / "fits.db"
    other_python(KILLED, path, "wal")
    Path(f"{path}-shm").unlink()
    for place in open_folder.iterdir():
        place.chmod(0o644)
    open_folder.chmod(0o555)
    with as_ordinary_user(), pytest.raises(RecorderError, match="need a folder that can be written"):
        read_store(path)
    open_folder.chmod(0o777)
    assert len(read_store(path)) == 50


def test_opening_changes_nothing_that_is_read(path):
    with Recorder(path, names=NAMES) as rec:
        fill(rec, n=30)
    for _ in range(3):
        Recorder(path, names=NAMES).close()
    assert len(read_store(path)) == 30
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM writer").fetchone() == (1,)
