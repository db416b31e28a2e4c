"""What lies beside a file: the log of an intact one, what a deleted one has left, and the lock of one that is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recording import KILLED, NAMES, fill, other_python
from vsbq.errors import VsbqWarning
from vsbq.io.record import Recorder, RecorderError, companions, is_store, read_store
from vsbq.io.record import file as record_file

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files in use can't be deleted there")


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
