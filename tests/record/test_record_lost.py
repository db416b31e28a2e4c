"""Files that vanish, that are replaced, of which only a part is left, or that can't be written."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import vsbq
from recording import BOX, NAMES, cost, cost_of_rows, fill
from vsbq.errors import VsbqWarning
from vsbq.record import Recorder, RecorderError, companions, is_store, merge, read_store
from vsbq.record import file as record_file

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files in use can't be deleted there")


def other_python(code, *arguments):
    """Run some lines in another process."""
    source = str(Path(vsbq.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *(str(argument) for argument in arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


KILLED = """
import os, signal, sys, warnings
from vsbq.record import Recorder, file
if sys.argv[2] == "delete":
    warnings.simplefilter("ignore")
    file.network_drive = lambda path: "a network drive (test)"
rec = Recorder(sys.argv[1], names=["a", "b"], tag="old")
for i in range(50):
    rec.record([float(i), 0.0], -1.0)
if sys.argv[2] == "delete":
    connection = rec._store.connect()
    connection.execute("PRAGMA cache_spill = 1")
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE evaluation SET log_density = -2")
    connection.execute("UPDATE writer SET run = 'half'")
os.kill(os.getpid(), signal.SIGKILL)
"""


# An intact file, whatever waits beside it


def half_checkpointed(path):
    """A file whose first page names more pages than are there, as in the middle of copying the log into it."""
    with Recorder(path, names=NAMES, tag="v1") as rec:
        fill(rec, n=3000)
        before = path.read_bytes()
        copy = path.with_name("copy.db")
        shutil.copyfile(f"{path}-wal", f"{copy}-wal")
    after = path.read_bytes()
    assert len(after) > len(before) + 4096
    copy.write_bytes(after[:4096] + before[4096:])
    return copy


def test_a_file_in_the_middle_of_a_checkpoint_is_ours(path):
    copy = half_checkpointed(path)
    assert is_store(copy)
    assert len(read_store(copy)) == 3000
    with Recorder(copy, names=NAMES, tag="v1") as rec:
        rec.record([0.0, 0.0], 1.0)
        assert len(rec) == 3001


def test_no_message_asks_to_remove_a_file(path):
    path.write_text("my notes")
    with pytest.raises(RecorderError) as caught:
        Recorder(path, names=NAMES)
    assert "remove" not in str(caught.value).replace(str(path), "")


def test_a_link_to_a_file_whose_log_waits_beside_it(path, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(path)
    Recorder(path, names=NAMES).close()
    with Recorder(link, names=NAMES) as rec:
        fill(rec, n=3000)
        assert path.with_name("fits.db-wal").stat().st_size > 0
        assert len(read_store(link)) == 3000


# What an earlier file has left


@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("names", [["a", "b"], ["p", "q", "r"]])
def test_what_an_earlier_file_left_is_moved_aside_and_can_be_read(path, journal, names):
    other_python(KILLED, path, journal)
    suffix = "-wal" if journal == "wal" else "-journal"
    left = Path(f"{path}{suffix}").read_bytes()
    copy = path.read_bytes()
    assert left
    path.unlink()
    with pytest.raises(RecorderError, match=f"Only 'fits.db{suffix}' is left"):
        read_store(path)
    with pytest.warns(VsbqWarning, match="earlier") as caught:
        rec = Recorder(path, names=names, tag="new")
    with rec:
        assert len(rec) == 0
        rec.record([1.0] * len(names), -7.0)
    assert read_store(path).log_density.tolist() == [-7.0]
    (aside,) = path.parent.glob(f"fits.db.left-*{suffix}")
    assert str(aside) in str(caught[0].message)
    assert aside.read_bytes() == left
    main = Path(str(aside).removesuffix(suffix))
    main.write_bytes(copy)  # as the warning says: with a copy of the file all is there again
    assert read_store(main).log_density.tolist() == [-1.0] * 50


def test_companions_without_a_page_leave_nothing(path):
    for suffix in ("-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").write_bytes(b"x" * 32768 if suffix == "-shm" else b"")
    with Recorder(path, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    assert [place.name for place in path.parent.iterdir()] == ["fits.db"]


def test_only_one_process_at_a_time_makes_a_file(path, monkeypatch):
    """Another one's new log must not be taken for an old one, so that the second waits until the first is done."""
    order, real = [], record_file.move_left_over

    def slowly(place):
        order.append("begin")
        time.sleep(0.3)
        real(place)
        order.append("end")

    monkeypatch.setattr(record_file, "move_left_over", slowly)
    code = "import sys; from vsbq.record import Recorder; Recorder(sys.argv[1], names=['a', 'b']).record([0, 0], 1.0)"
    waiting = threading.Thread(target=lambda: order.append(other_python(code, path).returncode))
    with companions.alone(path):
        waiting.start()
        time.sleep(1.5)
        assert order == []
        assert not path.exists()
    waiting.join()
    assert order == [0]
    assert len(read_store(path)) == 1
    Recorder(path.with_name("other.db"), names=NAMES).close()
    assert order == [0, "begin", "end"]
    assert not list(path.parent.glob(".*"))


def test_a_lock_that_is_held_too_long(path, monkeypatch):
    monkeypatch.setattr(companions, "PATIENCE", 0.2)
    hold = "import fcntl, os, sys, time; d = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT); fcntl.lockf(d, 2)"
    place = path.with_name(".fits.db.lock")
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{hold}; print('held', flush=True); time.sleep(60)", str(place)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        holder.stdout.readline()
        try:
            with pytest.raises(RecorderError, match="Another process holds"):
                Recorder(path, names=NAMES)
        finally:
            holder.kill()
    Recorder(path, names=NAMES).close()
    assert [entry.name for entry in path.parent.iterdir()] == ["fits.db"]


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
from vsbq.record import Recorder, read_store
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
from vsbq.record import Recorder
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
    monkeypatch.setattr("vsbq.record.store.save_copy", lambda *_: False)
    monkeypatch.setattr("vsbq.record.store.name_for_rescue", lambda _: path.parent / "missing" / "x.db")
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
