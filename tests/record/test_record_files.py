"""Files of recorders: going on with one, and those that are not ours, damaged, from the future, or in odd places."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from recording import BOX, NAMES, cost, fill
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning
from vsbq.io.record import Recorder, RecorderError, is_store, merge, read_store
from vsbq.io.record import file as record_file
from vsbq.io.record.location import network_drive

# Going on with a file


def test_a_file_is_continued(path):
    for run in ("one", "two"):
        with Recorder(path, names=NAMES, bounds=BOX, tag="v1", run=run) as rec:
            rec.minimise(cost)([1.0, 1.0])
    assert read_store(path).runs == ("one", "two")
    with Recorder(path, tag="v1") as rec:
        assert rec.names == ("a", "b")
        assert rec.bounds.pair(1) == BOX[1]
        assert len(rec) == 2


@pytest.mark.parametrize(
    ("changes", "mine", "theirs"),
    [
        ({"tag": "v2"}, "'v2'", "'v1'"),
        ({"tag": None}, "no tag", "'v1'"),
        ({"names": ["a", "c"]}, "'a' and 'c'", "'a' and 'b'"),
        ({"names": ["b", "a"]}, "'b' and 'a'", "'a' and 'b'"),
        ({"names": ["a", "b", "c"], "bounds": None, "plausible_bounds": None}, "3 parameters", "2 parameters"),
        ({"bounds": None}, r"\[-inf, inf\]", r"\[-5.0, 5.0\]"),
        ({"bounds": [(-5, 5), (-4, 7)]}, r"\[-4.0, 7.0\] of 'b'", r"\[-4.0, 6.0\] of 'b'"),
        ({"plausible_bounds": [(-1, 1), (-1, 2)]}, r"\[-1.0, 2.0\]", r"\[-1.0, 1.0\]"),
    ],
)
def test_a_file_of_another_problem_is_refused_and_both_are_named(path, changes, mine, theirs):
    same = {"names": NAMES, "bounds": BOX, "tag": "v1", "plausible_bounds": [(-1, 1), (-1, 1)]}
    Recorder(path, **same).close()
    before = path.read_bytes()
    with pytest.raises(RecorderError, match=f"{mine}.*{theirs}") as caught:
        Recorder(path, **(same | changes))
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_plausible_bounds_may_come_later(path):
    Recorder(path, names=NAMES).close()
    with Recorder(path, names=NAMES, plausible_bounds=[(-1, 1), (-2, 2)]) as rec:
        assert rec.plausible_bounds.pair(1) == (-2.0, 2.0)
    with Recorder(path, names=NAMES) as rec:
        assert rec.plausible_bounds.pair(1) == (-2.0, 2.0)
    assert read_store(path).plausible_bounds.pair(0) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "names"),
        ({"names": "ab"}, "string"),
        ({"names": []}, "empty"),
        ({"names": ["a", "a"]}, "more than once"),
        ({"names": NAMES, "bounds": [(0, 1)]}, "bounds"),
        ({"names": NAMES, "bounds": [(1, 0), (0, 1)]}, "bounds"),
        ({"names": NAMES, "run": ""}, "run"),
    ],
)
def test_arguments_that_make_no_sense_leave_no_file(path, arguments, words):
    with pytest.raises(EvaluationsError, match=words):
        Recorder(path, **arguments)
    assert not path.exists()


@pytest.mark.parametrize("name", ["odd ?#%20 name.db", "ünïcode✓.db", "'quotes\".db", "-dash", "file:x.db"])
def test_odd_file_names(tmp_path, name):
    with Recorder(tmp_path / name, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert len(read_store(tmp_path / name)) == 1


def test_odd_names_and_tags(path):
    names = ["α; DROP TABLE evaluation", "'\""]
    with Recorder(path, names=names, tag="t'\n✓") as rec:
        rec.record([0.0, 0.0], 1.0)
    assert read_store(path).names == tuple(names)
    assert read_store(path).tag == "t'\n✓"
    with pytest.raises(VsbqError, match="Unicode"):
        Recorder(path.with_name("x.db"), names=["\ud800"])
    assert not path.with_name("x.db").exists()


# Files that are not ours, damaged, from the future, or in odd places


def foreign(path, kind):
    if kind == "text":
        path.write_text("theta,cost\n" * 500)
    elif kind == "empty":
        path.touch()
    else:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA journal_mode = {kind}")
            connection.execute("CREATE TABLE evaluation (x)")
            connection.commit()


@pytest.mark.parametrize("kind", ["text", "empty", "wal", "delete"])
def test_a_file_that_is_not_ours_is_refused_and_not_touched(path, kind):
    foreign(path, kind)
    before, entries = path.read_bytes(), sorted(path.parent.iterdir())
    assert not is_store(path)
    for use in (lambda: Recorder(path, names=NAMES), lambda: read_store(path), lambda: merge([path], path)):
        with pytest.raises(RecorderError, match="not a file of a recorder"):
            use()
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == entries


def test_a_newer_format_is_refused(path):
    Recorder(path, names=NAMES).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 7")
    assert is_store(path)
    for use in (lambda: Recorder(path, names=NAMES), lambda: read_store(path)):
        with pytest.raises(RecorderError, match=r"format version 7.*Upgrade"):
            use()


def test_marks_of_the_format(path):
    with Recorder(path, names=NAMES) as rec:
        rec.record([1.5, -2.0], -1.0)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA application_id").fetchone()[0] == int.from_bytes(b"VSBQ")
            assert connection.execute("PRAGMA user_version").fetchone() == (2,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            ((point, value),) = connection.execute("SELECT point, log_density FROM evaluation").fetchall()
    assert np.frombuffer(point, "<f8").tolist() == [1.5, -2.0]
    assert value == -1.0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE evaluation SET point = x'00' WHERE number = 3",
        "UPDATE evaluation SET point = 'text' WHERE number = 3",
        "UPDATE evaluation SET log_density = 'text' WHERE number = 3",
        "UPDATE evaluation SET failure = x'ff' WHERE number = 3",
        "UPDATE parameter SET lower = 'text'",
        "UPDATE parameter SET lower = 1e9, upper = 0",
        "UPDATE parameter SET name = x'ff' WHERE position = 0",
        "UPDATE problem SET tag = x'ff'",
        "DELETE FROM problem",
        "DELETE FROM parameter",
        "DROP TABLE evaluation",
        "DROP TABLE problem",
        "UPDATE writer SET run = x'00'",
    ],
)
def test_files_that_someone_has_changed(path, change):
    with Recorder(path, names=NAMES) as rec:
        fill(rec, n=10)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    with pytest.raises(RecorderError, match=r"fits\.db"):
        read_store(path)


def test_flipped_bytes_and_files_cut_short_are_an_error_or_harmless(path, rng):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as rec:
        fill(rec, n=300)
    good, refused = path.read_bytes(), []
    for i in range(150):
        broken = bytearray(good)
        if i % 5 == 0:
            del broken[int(rng.integers(len(broken))) :]
        else:
            for place in rng.integers(len(broken), size=8):
                broken[place] ^= int(rng.integers(1, 256))
        target = path.with_name(f"broken{i}.db")
        target.write_bytes(broken)
        try:
            assert read_store(target).points.shape[1] == 2
        except VsbqError as error:
            refused.append(target.name in str(error))
    assert all(refused)
    assert len(refused) > 30


@pytest.mark.parametrize("missing", [1, 100, 4000, 5000])
def test_a_file_cut_short_never_passes_for_a_whole_one(path, missing):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as rec:
        fill(rec, n=300)
    path.write_bytes(path.read_bytes()[:-missing])
    with pytest.raises(RecorderError, match=r"fits\.db"):
        read_store(path)


def test_places_where_no_file_can_be(tmp_path, path):
    with pytest.raises(RecorderError, match="folder"):
        Recorder(tmp_path, names=NAMES)
    with pytest.raises(RecorderError, match="no folder"):
        Recorder(tmp_path / "missing" / "fits.db", names=NAMES)
    with pytest.raises(RecorderError, match="null"):
        Recorder("a\0b", names=NAMES)
    with pytest.raises(RecorderError, match="no file"):
        read_store(path)
    assert not is_store(path)
    assert not is_store(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_where_links_are_not_possible(path, monkeypatch):
    monkeypatch.setattr(record_file.os, "link", _refuse_link)
    with Recorder(path, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
    assert len(read_store(path)) == 1


def _refuse_link(*_):
    raise PermissionError("no links here")


def test_a_network_drive_gets_an_ordinary_journal_and_a_warning(path, monkeypatch):
    monkeypatch.setattr(record_file, "network_drive", lambda path: "a network drive (nfs4)")
    with pytest.warns(VsbqWarning, match=r"nfs4.*vsbq\.record\.merge"):
        rec = Recorder(path, names=NAMES)
    with rec:
        fill(rec, n=30)
        rec.record([0.0, 0.0], 1.0)
        assert [entry.name for entry in path.parent.iterdir()] == ["fits.db"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert len(read_store(path)) == 31


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home {home} nfs4 rw 0 0
tmpfs {home}/local tmpfs rw 0 0
//server/share {home}/with\\040blank cifs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"), [(".", "nfs4"), ("local", None), ("local/deep", None), ("with blank", "cifs"), ("..", None)]
)
def test_network_drives_are_known_by_their_mounts(tmp_path, folder, kind):
    home = tmp_path / "home"
    (home / folder).mkdir(parents=True, exist_ok=True)
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(home=home))
    found = network_drive(home / folder / "fits.db", mounts)
    assert found == (f"a network drive ({kind})" if kind else None)
    assert network_drive(home / "fits.db", tmp_path / "nothing") is None
