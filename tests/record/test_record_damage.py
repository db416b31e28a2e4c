"""Damaged files: a flipped bit is found or harmless, and what is fine can still be read."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import vsbq
from recording import BOX, NAMES, cost_of_rows, fill, raising
from vsbq.errors import VsbqError
from vsbq.io.record import Recorder, RecorderError, evaluations_from, merge, read_store
from vsbq.io.record.reader import check_policy
from vsbq.io.record.verify import Writer
from vsbq.io.record.wal import damaged_log

WRITTEN_BY_VERSION_1 = (
    "CREATE TABLE problem (tag TEXT NOT NULL, created REAL NOT NULL, vsbq_version TEXT NOT NULL)",
    "CREATE TABLE parameter (position INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, lower REAL NOT NULL,"
    " upper REAL NOT NULL, plausible_lower REAL, plausible_upper REAL)",
    "CREATE TABLE writer (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, run TEXT NOT NULL, started REAL NOT NULL)",
    "CREATE TABLE evaluation (writer INTEGER NOT NULL REFERENCES writer (id), number INTEGER NOT NULL,"
    " point BLOB NOT NULL, log_density REAL, log_density_sd REAL, log_prior REAL, started REAL NOT NULL, seconds REAL,"
    " failure TEXT, PRIMARY KEY (writer, number)) WITHOUT ROWID",
    "INSERT INTO problem VALUES ('v1', 1.0, '0.1.0')",
    "INSERT INTO parameter VALUES (0, 'a', -5.0, 5.0, NULL, NULL), (1, 'b', -4.0, 6.0, NULL, NULL)",
    "INSERT INTO writer VALUES (1, 'abc', 'first', 2.0)",
    "PRAGMA application_id = 0x56534251",
    "PRAGMA user_version = 1",
    "PRAGMA journal_mode = WAL",
)


def make_varied(path):
    """A file with all that a row may hold."""
    for run in ("one", "two"):
        with Recorder(path, names=NAMES, bounds=BOX, plausible_bounds=[(-1, 1), (-2, 2)], tag="v1", run=run) as rec:
            fill(rec, n=150)
            rec.minimise(lambda x: (cost_of_rows(x), 0.5), log_prior=lambda x: -(x[:, 0] ** 2))(np.ones((20, 2)))
            for i in range(20):
                with pytest.raises(ValueError, match="singular"):
                    rec.minimise(raising(ValueError(f"singular at {i}, and a few words more")))([1.0, float(i)])
                rec.record([-0.0, float(i)], -0.0 if i % 2 else 3.0)


def make_killed(path):
    """The same, with most of it in the log of a process that was killed."""
    make_varied(path)
    code = """
import os, signal, sys
from vsbq.io.record import Recorder
rec = Recorder(sys.argv[1], tag="v1", run="three")
for i in range(60):
    rec.record([1.0, float(i) / 100], -float(i) / 7)
rec.record([[1.0, float(i) / 100] for i in range(60)], [-1.5] * 60)
os.kill(os.getpid(), signal.SIGKILL)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=False)
    Path(f"{path}-shm").unlink()
    assert Path(f"{path}-wal").stat().st_size > 100_000


def contents_of(path):
    """All that is read from a file, to be compared."""
    stored = read_store(path)
    columns = (stored.points, stored.log_density, stored.log_density_sd, stored.log_prior, stored.times)
    arrays = tuple(np.ascontiguousarray(column).tobytes() for column in (*columns, stored.durations))
    problem = (stored.names, stored.tag, [stored.bounds.pair(i) + stored.plausible_bounds.pair(i) for i in range(2)])
    return (*arrays, stored.runs, stored.failures, problem)


def flip_bits(path, times, rng):
    """Flip one bit of a file or of its log, again and again; how often it is found, harmless, or neither."""
    places = [place for place in (path, Path(f"{path}-wal")) if place.exists()]
    sizes, good = [place.stat().st_size for place in places], contents_of(path)
    found, harmless, silent = 0, 0, []
    for _ in range(times):
        folder = path.parent / "broken"
        folder.mkdir()
        for place in places:
            shutil.copyfile(place, folder / place.name)
        bit = int(rng.integers(8 * sum(sizes)))
        which, byte = (0, bit // 8) if bit // 8 < sizes[0] else (1, bit // 8 - sizes[0])
        with open(folder / places[which].name, "r+b") as file:
            file.seek(byte)
            value = file.read(1)[0] ^ (1 << bit % 8)
            file.seek(byte)
            file.write(bytes([value]))
        try:
            same = contents_of(folder / path.name) == good
            harmless += same
            silent += [] if same else [(places[which].name, byte, bit % 8)]
        except VsbqError as error:
            found += 1
            silent += [] if "\n" not in str(error) and path.name in str(error) else [str(error)]
        shutil.rmtree(folder)
    return found, harmless, silent


@pytest.mark.parametrize("make", [make_varied, make_killed])
@pytest.mark.parametrize("times", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_found_or_harmless(path, rng, make, times):
    make(path)
    found, harmless, silent = flip_bits(path, times, rng)
    assert silent == []
    assert found + harmless == times
    assert found > times / 4


# Single rows


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE evaluation SET point = (SELECT point FROM evaluation WHERE number = 4) WHERE number = 3",
        "UPDATE evaluation SET log_density = log_density + 1 WHERE number = 3",
        "UPDATE evaluation SET log_density = NULL WHERE number = 3",
        "UPDATE evaluation SET log_density_sd = 0 WHERE number = 3",
        "UPDATE evaluation SET log_prior = 0 WHERE number = 3",
        "UPDATE evaluation SET started = started + 1 WHERE number = 3",
        "UPDATE evaluation SET seconds = seconds + 1 WHERE number = 3",
        "UPDATE evaluation SET failure = '' WHERE number = 3",
        "UPDATE evaluation SET number = 300 WHERE number = 3",
        "UPDATE evaluation SET writer = 2 WHERE writer = 1 AND number = 3",
        "UPDATE evaluation SET writer = 9 WHERE writer = 1 AND number = 3",
        "UPDATE evaluation SET checksum = x'00' WHERE number = 3",
    ],
)
def test_a_damaged_row_is_named_and_can_be_left_out(path, change):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1", run="one") as rec:
        x = fill(rec, n=30)
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1", run="other") as rec:
        rec.record([0.0, 0.0], 1.0)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(change).rowcount == 1
    words = r"1 evaluation is not what was recorded \(number \d+ of .*run.*\), 30 are fine.*damaged='drop'"
    for use in (read_store, evaluations_from, lambda place: merge(place, into=path.with_name("all.db"))):
        with pytest.raises(RecorderError, match=words):
            use(path)
    stored = read_store(path, damaged="drop")
    np.testing.assert_array_equal(stored.points, [*np.delete(x, 3, axis=0), [0.0, 0.0]])
    assert "Left out damaged evaluations: 1 evaluation is not what was recorded" in stored.notes[0]
    assert evaluations_from(path, damaged="drop").notes[0] == stored.notes[0]
    done = merge(path, into=path.with_name("sound.db"), damaged="drop")
    assert done.added == done.total == 30
    assert "1 evaluation is not" in done.notes[0]
    assert len(read_store(path.with_name("sound.db"))) == 30


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE problem SET tag = 'v2'",
        "UPDATE problem SET file = 'x'",
        "UPDATE problem SET created = 0",
        "UPDATE parameter SET lower = -6 WHERE position = 0",
        "UPDATE parameter SET plausible_upper = 1.5 WHERE position = 0",
        "UPDATE parameter SET name = 'c' WHERE position = 0",
        "PRAGMA user_version = 1",
    ],
)
def test_what_a_file_is_about_does_not_change_by_itself(path, change):
    make_varied(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(change)
    uses = (
        read_store,
        lambda place: read_store(place, damaged="drop"),
        lambda place: Recorder(place, names=NAMES, bounds=BOX, tag="v1"),
        lambda place: merge(place, into=path.with_name("all.db")),
    )
    for use in uses:
        with pytest.raises(RecorderError, match="tag, parameters or bounds"):
            use(path)


@pytest.mark.parametrize("change", ["run = 'three'", "uuid = 'x'", "started = 0"])
def test_a_damaged_writer_takes_its_rows_with_it(path, change):
    make_varied(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"UPDATE writer SET {change} WHERE id = 1")
    with pytest.raises(RecorderError, match=r"210 evaluations are not.*205 more.*210 are fine"):
        read_store(path)
    assert set(read_store(path, damaged="drop").runs) == {"two"}


def test_the_best_evaluation_is_checked(path):
    with Recorder(path, names=NAMES) as rec:
        fill(rec, n=30)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE evaluation SET log_density = 100 WHERE number = 3")
        with pytest.raises(RecorderError, match="evaluation 3 of a run is not what was recorded"):
            _ = rec.best


def test_rows_of_another_file_are_not_taken_for_rows_of_this_one(path):
    """As if the log of one file had been left beside another."""
    other = path.with_name("other.db")
    for place in (path, other):
        with Recorder(place, names=NAMES, tag=place.name) as rec:
            fill(rec, n=5)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute("DELETE FROM evaluation")
        connection.execute("DELETE FROM writer")
        connection.execute("INSERT INTO writer SELECT * FROM other.writer")
        connection.execute("INSERT INTO evaluation SELECT * FROM other.evaluation")
        (file,) = connection.execute("SELECT file FROM problem").fetchone()
        writer = Writer(*connection.execute("SELECT uuid, run, started FROM writer").fetchone())
        connection.execute("UPDATE writer SET checksum = ?", (writer.checksum(file),))
    with pytest.raises(RecorderError, match="5 evaluations are not what was recorded"):
        read_store(path)


def test_pages_that_can_not_be_read(path):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as rec:
        x = fill(rec, n=600)
    raw = bytearray(path.read_bytes())
    raw[-3 * 4096 : -2 * 4096] = bytes(4096)
    path.write_bytes(raw)
    with pytest.raises(RecorderError, match=r"may be missing.*damaged='drop'"):
        read_store(path)
    stored = read_store(path, damaged="drop")
    assert 300 < len(stored) < 600
    assert "may be missing" in stored.notes[0]
    known = {tuple(point) for point in x}
    assert all(tuple(point) in known for point in stored.points)
    assert merge(path, into=path.with_name("sound.db"), damaged="drop").added == len(stored)


def test_an_unknown_policy():
    with pytest.raises(RecorderError, match=r"'ignore' is not known. Use one of 'raise' and 'drop'"):
        check_policy("ignore")


# The log


def test_a_damaged_log_hides_nothing(path):
    make_killed(path)
    log = Path(f"{path}-wal")
    assert damaged_log(log) is None
    count, raw = len(read_store(path)), bytearray(log.read_bytes())
    raw[32 + 10 * 4120 + 500] ^= 1
    log.write_bytes(raw)
    before = path.read_bytes()
    uses = (
        read_store,
        lambda place: Recorder(place, tag="v1"),
        lambda place: merge(place, into=path.with_name("all.db")),
    )
    for use in uses:
        with pytest.raises(RecorderError, match=r"fits\.db-wal' is damaged.*frame 11 of \d+.*damaged='drop'"):
            use(path)
    stored = read_store(path, damaged="drop")
    assert 380 < len(stored) < count
    assert "may be missing (in its -wal frame 11" in stored.notes[0]
    assert merge(path, into=path.with_name("sound.db"), damaged="drop").total == len(stored)
    assert (path.read_bytes(), log.read_bytes()) == (before, bytes(raw))


def test_a_log_whose_end_was_not_written_is_no_damage(path, rng):
    make_killed(path)
    log, whole = Path(f"{path}-wal"), Path(f"{path}-wal").read_bytes()
    for size in rng.integers(len(whole), size=60):
        log.write_bytes(whole[:size])
        assert damaged_log(log) is None
    frames = (len(whole) - 32) // 4120
    dead = bytearray(whole)  # frames of a transaction that was never committed, over which another one was written
    for i in range(frames - 3, frames):
        dead[32 + i * 4120 + 4 : 32 + i * 4120 + 8] = bytes(4)
    log.write_bytes(dead)
    assert damaged_log(log) is None
    old = bytearray(whole)  # frames of an older log
    for i in range(frames - 3, frames):
        old[32 + i * 4120 + 8 : 32 + i * 4120 + 16] = b"old salt"
    log.write_bytes(old)
    assert damaged_log(log) is None
    assert damaged_log(log.with_name("missing-wal")) is None


# Files of version 1


@pytest.fixture
def first_version(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in WRITTEN_BY_VERSION_1:
            connection.execute(statement)
        rows = [(1, i, np.array([i / 9, 1.0]).tobytes(), -i / 3, None, None, 3.0 + i, 0.5, None) for i in range(30)]
        connection.executemany("INSERT INTO evaluation VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return path


def test_files_of_the_first_version_are_read_and_continued(first_version):
    assert read_store(first_version).log_density.tolist() == [-i / 3 for i in range(30)]
    with Recorder(first_version, names=NAMES, bounds=BOX, plausible_bounds=[(-1, 1)] * 2, tag="v1") as rec:
        fill(rec, n=10)
        rec.record([0.0, 0.0], 5.0)
        assert rec.best.log_density == 5.0
    stored = read_store(first_version)
    assert len(stored) == 41
    assert stored.plausible_bounds.pair(0) == (-1.0, 1.0)
    with closing(sqlite3.connect(first_version)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)


def test_merging_makes_the_second_version_of_the_first(first_version):
    new = first_version.with_name("new.db")
    assert merge(first_version, into=new).added == 30
    assert merge(new, into=first_version).added == 0
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        connection.execute("UPDATE evaluation SET log_density = 7 WHERE number = 3")
    assert len(read_store(first_version)) == 30
    with pytest.raises(RecorderError, match="number 3 of run 'first'"):
        read_store(new)


def test_a_row_of_the_first_version_with_the_wrong_types(first_version):
    with closing(sqlite3.connect(first_version, isolation_level=None)) as connection:
        connection.execute("UPDATE evaluation SET log_density = 'text' WHERE number = 3")
    with pytest.raises(RecorderError, match=r"number 3 of run 'first'.*29 are fine"):
        read_store(first_version)
    assert len(read_store(first_version, damaged="drop")) == 29
