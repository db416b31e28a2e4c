"""Recording from many processes, and from processes that are killed: nothing that was committed is lost.

The work is done by this file run as a script, so that processes are forked from a small one without threads.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import select
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import vsbq
from vsbq.errors import VsbqWarning
from vsbq.io.record import Recorder, RecorderError, evaluations_from, read_store
from vsbq.io.record import file as record_file

NAMES = ["a", "b"]
BATCH = 20
PER_FILE = 10  # processes that are killed before a new file is begun: each look reads the whole file
SEED = int(os.environ.get("VSBQ_TEST_SEED", "0"))


def cost(x):
    return 0.5 * float(np.sum(np.square(x)))


def cost_of_rows(x):
    return 0.5 * np.sum(np.square(x), axis=1)


class Nursery:
    """This file run as a script: it forks a process for every task it is given, and says what came of it."""

    def __init__(self):
        source = str(Path(vsbq.__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", __file__],
            env=os.environ | {"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, task, *arguments):
        self.process.stdin.write(json.dumps([task, *(str(argument) for argument in arguments)]) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


def serve():
    """Do tasks from standard input until it ends, each in a process of its own."""
    for line in sys.stdin:
        task, *arguments = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                answer = {"result": SCRIPTS[task](*arguments)}
            except BaseException:
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer), flush=True)
            os._exit(0)
        os.waitpid(child, 0)


@pytest.fixture(scope="module")
def run_script():
    if not hasattr(os, "fork"):
        pytest.skip("processes can't be forked here")
    nursery = Nursery()
    yield nursery
    nursery.close()


# Killed processes


def record_until_killed(path, run, pipe):
    """Record single points and batches; after each call that returned say how many evaluations are committed."""
    count = 0
    with Recorder(path, names=NAMES, tag="kill", run=run) as rec:
        f, many = rec.minimise(cost), rec.minimise(cost_of_rows)
        while True:
            if count % 17 == 3:
                many(np.column_stack([np.arange(count, count + BATCH), np.zeros(BATCH)]))
                count += BATCH
            else:
                f(np.array([float(count), 0.0]))
                count += 1
            os.write(pipe, struct.pack("q", count))


def start_recording(path, run):
    """A process that records, and the pipe on which it reports."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        record_until_killed(path, run, writing)
    os.close(writing)
    return child, reading


def drain(pipe):
    """The last number that was reported before the end."""
    last = 0
    while data := os.read(pipe, 8 * 4096):
        last = struct.unpack_from("q", data, len(data) - 8)[0]
    os.close(pipe)
    return last


def kill_again_and_again(folder, times, journal):
    """Kill recording processes at random moments; report what was committed and what the file holds, each time."""
    if journal == "delete":
        record_file.network_drive = lambda path: "a network drive (test)"
        warnings.simplefilter("ignore", VsbqWarning)
    rng, killed, rounds = np.random.default_rng([SEED, 7]), 0, []
    while killed < times:
        runs = [f"run {killed + i}" for i in range(1 if journal == "delete" else int(rng.integers(1, 3)))]
        path = os.path.join(folder, f"fits{killed // PER_FILE}.db")
        children = [start_recording(path, run) for run in runs]
        for run, (child, pipe) in zip(runs, children, strict=True):
            if rng.random() < 0.8:  # most of them in the middle of the work, some while they begin
                select.select([pipe], [], [], 30)
            time.sleep(rng.exponential(0.02))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            rounds.append({"path": path, "run": run, "committed": drain(pipe)} | look_at(path, run))
        killed += len(runs)
    return rounds


def look_at(path, run):
    """How many evaluations of a run are in the file, whether they are the right ones, and whether it is sound."""
    if not Path(path).exists():
        return {"stored": 0, "right": True, "sound": True}
    stored = read_store(path)
    mine = np.array([name == run for name in stored.runs], dtype=bool)
    points, values = stored.points[mine], stored.log_density[mine]
    expected = np.arange(float(len(points)))
    right = np.array_equal(np.sort(points[:, 0]), expected) and np.array_equal(values, -0.5 * points[:, 0] ** 2)
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    return {"stored": len(points), "right": bool(right), "sound": sound}


def assert_nothing_was_lost(rounds):
    for one in rounds:
        assert one["sound"], one
        assert one["right"], one
        assert one["committed"] <= one["stored"] <= one["committed"] + BATCH, one
    for path in {one["path"] for one in rounds if one["stored"]}:  # and later rounds have not taken anything away
        runs = read_store(path).runs
        for one in rounds:
            assert one["path"] != path or runs.count(one["run"]) == one["stored"]


def test_killed_processes_lose_nothing_that_was_committed(tmp_path, run_script):
    rounds = run_script("kill", tmp_path, 20, "wal")
    assert len(rounds) >= 20
    assert sum(one["committed"] > 10 for one in rounds) >= 5
    assert_nothing_was_lost(rounds)


@pytest.mark.slow
def test_a_hundred_killed_processes_lose_nothing_that_was_committed(tmp_path, run_script):
    rounds = run_script("kill", tmp_path, 100, "wal")
    assert len(rounds) >= 100
    assert sum(one["committed"] > 10 for one in rounds) >= 25
    assert_nothing_was_lost(rounds)


def test_killed_processes_lose_nothing_with_an_ordinary_journal(tmp_path, run_script):
    rounds = run_script("kill", tmp_path, 10, "delete")
    assert sum(one["committed"] > 0 for one in rounds) >= 3
    assert_nothing_was_lost(rounds)
    with closing(sqlite3.connect(tmp_path / "fits0.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_check_of_losses_can_fail(tmp_path):
    path = tmp_path / "fits.db"
    with Recorder(path, names=NAMES, tag="kill", run="run 0") as rec:
        rec.record([0.0, 0.0], 0.0)
    good = {"path": str(path), "run": "run 0", "committed": 1} | look_at(path, "run 0")
    assert_nothing_was_lost([good])
    with pytest.raises(AssertionError):
        assert_nothing_was_lost([good | {"committed": 2}])
    with Recorder(path, names=NAMES, tag="kill", run="run 0") as rec:
        rec.record([5.0, 0.0], -12.5)
    assert not look_at(path, "run 0")["right"]


# Many processes


def record_many(rec, worker, count):
    f = rec.minimise(cost)
    for i in range(count):
        f(np.array([float(worker), float(i)]))


def write_at_once(path, processes, count, mode):
    """Processes that record at once, each with a recorder of its own or with the one they were forked with."""
    context = multiprocessing.get_context("fork")
    shared = Recorder(path, names=NAMES, tag="many", run="shared") if mode == "shared" else None
    if shared:
        shared.record([-1.0, 0.0], -0.5)  # the connection is open when the children begin
    arguments = [(path, worker, count, shared) for worker in range(processes)]
    children = [context.Process(target=record_in_child, args=each) for each in arguments]
    for child in children:
        child.start()
    if shared:
        shared.record([-1.0, 1.0], -1.0)
    for child in children:
        child.join()
    if shared:
        shared.close()
    return [child.exitcode for child in children]


def record_in_child(path, worker, count, shared):
    rec = shared or Recorder(path, names=NAMES, tag="many", run=f"process {worker}")
    record_many(rec, worker, count)
    if worker % 2:  # some say goodbye, some just end
        rec.close()


def assert_all_there(path, processes, count):
    stored = read_store(path)
    mine = stored.points[stored.points[:, 0] >= 0]
    expected = np.array([(w, i) for w in range(processes) for i in range(count)], dtype=float)
    np.testing.assert_array_equal(mine[np.lexsort(mine.T[::-1])], expected)
    np.testing.assert_array_equal(stored.log_density, -0.5 * np.sum(stored.points**2, axis=1))
    return stored


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_processes_that_write_at_once(tmp_path, run_script, mode):
    path = tmp_path / "fits.db"
    assert run_script("write", path, 4, 500, mode) == [0] * 4
    stored = assert_all_there(path, 4, 500)
    if mode == "own":
        assert set(stored.runs) == {f"process {worker}" for worker in range(4)}
    else:
        assert len(stored) == 2002
        assert set(stored.runs) == {"shared"}


@pytest.mark.slow
def test_eight_processes_that_write_ten_thousand_each_at_once(tmp_path, run_script):
    path = tmp_path / "fits.db"
    assert run_script("write", path, 8, 10_000, "own") == [0] * 8
    assert len(assert_all_there(path, 8, 10_000)) == 80_000


def fork_by_hand(path):
    """A recorder in use before, in and after a forked child, with a thread that records all the time."""
    rec = Recorder(path, names=NAMES, run="fork")
    f, stop, recorded = rec.minimise(cost), threading.Event(), []

    def record_on():
        while not stop.is_set():
            f([1.0, float(len(recorded))])
            recorded.append(1)

    thread = threading.Thread(target=record_on)
    thread.start()
    for i in range(10):
        f([0.0, float(i)])
        child = os.fork()
        if child == 0:
            for j in range(20):
                f([2.0, float(i * 20 + j)])
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    stop.set()
    thread.join()
    return [10, len(recorded), 200]


def test_fork_while_a_thread_records(tmp_path, run_script):
    counts = run_script("fork", tmp_path / "fits.db")
    stored = read_store(tmp_path / "fits.db")
    for kind, count in enumerate(counts):
        ordered = np.sort(stored.points[stored.points[:, 0] == kind, 1])
        np.testing.assert_array_equal(ordered, np.arange(float(count)))


def create_at_once(path, processes):
    """Processes that all find no file and make it."""
    children, (hold, go) = [], os.pipe()
    for worker in range(processes):
        child = os.fork()
        if child == 0:
            os.read(hold, 1)
            with Recorder(path, names=NAMES, run=f"process {worker}") as rec:
                rec.record([float(worker), 0.0], 0.0)
            os._exit(0)
        children.append(child)
    os.write(go, b"x" * processes)
    return [os.waitpid(child, 0)[1] for child in children]


def test_processes_that_create_the_file_at_once(tmp_path, run_script):
    for attempt in range(3):
        path = tmp_path / f"{attempt}.db"
        assert run_script("create", path, 6) == [0] * 6
        assert sorted(read_store(path).points[:, 0]) == list(range(6))
        assert not list(tmp_path.glob(".*")), "no draft is left behind"


def read_while_writing(path):
    """Read again and again while another process writes; what is seen only ever grows."""
    child, pipe = start_recording(path, "writer")
    os.read(pipe, 8)
    seen = []
    for _ in range(10):
        committed = struct.unpack("q", os.read(pipe, 8))[0]
        seen.append((committed, len(read_store(path))))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return seen


def test_reading_while_another_process_writes(tmp_path, run_script):
    seen = run_script("read", tmp_path / "fits.db")
    assert all(found >= committed for committed, found in seen)
    assert [found for _, found in seen] == sorted(found for _, found in seen)
    assert seen[-1][1] > seen[0][1]


def differential_evolution(path):
    """The real optimiser with its own pool of two processes."""
    from scipy.optimize import differential_evolution as optimise

    box = [(-3.0, 3.0), (-2.0, 2.0)]
    with Recorder(path, names=NAMES, bounds=box, tag="de") as rec:
        best = optimise(rec.minimise(cost), box, workers=2, updating="deferred", maxiter=5, rng=1, polish=False)
        return [best.nfev, len(rec), best.fun, rec.best.log_density]


def test_differential_evolution_with_its_own_processes(tmp_path, run_script):
    calls, recorded, fun, best = run_script("differential_evolution", tmp_path / "fits.db")
    assert calls == recorded > 100
    assert best == -fun
    made = evaluations_from(tmp_path / "fits.db")
    assert len(made) == recorded
    np.testing.assert_allclose(made.log_density, -0.5 * np.sum(made.points**2, axis=1))


@pytest.mark.slow
def test_spawned_processes(tmp_path):
    path = tmp_path / "fits.db"
    with Recorder(path, names=NAMES, run="spawn") as rec:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            values = pool.map(rec.minimise(cost), [np.array([i, 1.0]) for i in range(40)], chunksize=1)
            pool.close()
            pool.join()
        assert len(rec) == 40
    np.testing.assert_allclose(values, 0.5 * (np.arange(40.0) ** 2 + 1))
    stored = read_store(path)
    assert sorted(stored.points[:, 0]) == list(range(40))
    assert set(stored.runs) == {"spawn"}
    with closing(sqlite3.connect(path)) as connection:  # one writer per process, not one per task
        assert connection.execute("SELECT count(*) FROM writer").fetchone()[0] <= 2


def with_joblib(path):
    """joblib's own processes, with an objective that only cloudpickle can send."""
    from joblib import Parallel, delayed

    warnings.simplefilter("default")
    with Recorder(path, names=NAMES) as rec:
        f = rec.maximise(lambda x: -cost(x))
        values = Parallel(n_jobs=2)(delayed(f)([float(i), 0.0]) for i in range(30))
        return [values, len(rec)]


@pytest.mark.slow
def test_joblib(tmp_path, run_script):
    pytest.importorskip("joblib")
    values, recorded = run_script("joblib", tmp_path / "fits.db")
    assert recorded == 30
    np.testing.assert_allclose(values, -0.5 * np.arange(30.0) ** 2)


def test_reading_does_not_loosen_the_locks_of_the_same_process(tmp_path):
    path = tmp_path / "fits.db"
    look = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM problem'); c.close()"
    with Recorder(path, names=NAMES) as rec:
        rec.record([0.0, 0.0], 1.0)
        assert len(read_store(path)) == 1
        subprocess.run([sys.executable, "-c", look, str(path)], check=True)
        assert path.with_name("fits.db-wal").exists()  # the other process has seen that it was not the last one
        rec.record([0.0, 0.0], 2.0)
    assert read_store(path).log_density.tolist() == [1.0, 2.0]


def test_a_file_locked_for_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(record_file, "PATIENCE", 0.05)
    path = tmp_path / "fits.db"
    with Recorder(path, names=NAMES) as rec:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecorderError, match="locked by another process"):
            rec.record([0.0, 0.0], 1.0)
        other.execute("ROLLBACK")
        other.close()
        rec.record([0.0, 0.0], 1.0)
        assert len(rec) == 1


SCRIPTS = {
    "kill": lambda path, times, journal: kill_again_and_again(path, int(times), journal),
    "write": lambda path, processes, count, mode: write_at_once(path, int(processes), int(count), mode),
    "create": lambda path, processes: create_at_once(path, int(processes)),
    "fork": fork_by_hand,
    "read": read_while_writing,
    "differential_evolution": differential_evolution,
    "joblib": with_joblib,
}

if __name__ == "__main__":
    serve()
