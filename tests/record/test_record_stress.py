"""Opening, recording, closing, reading, merging and killing at once, over files of one name and several models.

Processes that record tell each evaluation to a list of their own once the call has returned. After some time all are
killed, the file is compared with the lists, and the next model begins under the same name: with the same file, with
none, or with what the earlier one has left beside a file that was deleted alone. The work is done by this file run as
a script, so that processes are forked from a small one without threads.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import struct
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import vsbq
from vsbq.errors import VsbqWarning
from vsbq.io.record import Recorder, merge, read_store

NAMES = ["model", "process", "count"]
SEED = int(os.environ.get("VSBQ_TEST_SEED", "0"))
WRITERS, ROUND = 4, 1.2  # processes that record at once; seconds until all are killed
BATCH = 7
TOLD = struct.Struct("3d")


def log_density(x):
    return -0.25 * np.sum(np.square(np.asarray(x)[..., 1:]), axis=-1)


# What the processes do, for ever


def record_on(folder, model, process):
    """Open, record some, close, again and again; what has been recorded is told after the call has returned."""
    rng, count = np.random.default_rng([SEED, model, process]), 0
    told = os.open(folder / f"told-{model}-{process}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        with Recorder(folder / "fits.db", names=NAMES, tag=f"model {model}") as rec:
            one, many = rec.maximise(lambda x: float(log_density(x))), rec.maximise(log_density)
            for _ in range(int(rng.integers(1, 60))):
                size = BATCH if rng.random() < 0.1 else 1
                rows = np.array([[model, process, count + i] for i in range(size)], dtype=float)
                one(rows[0]) if size == 1 else many(rows)
                os.write(told, b"".join(TOLD.pack(*row) for row in rows))
                count += size


def read_on(folder, model, process):
    while True:
        if (folder / "fits.db").exists():
            read_store(folder / "fits.db")


def merge_on(folder, model, process):
    while True:
        if (folder / "fits.db").exists():
            merge(folder / "fits.db", into=folder / f"merged-{model}.db")
        time.sleep(0.01)


def start(work, folder, model, process):
    child = os.fork()
    if child == 0:
        try:
            work(folder, model, process)
        except BaseException:
            (folder / f"error-{os.getpid()}").write_text(traceback.format_exc())
        os._exit(1)
    return child


def end(child):
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


# The rounds


def stress(folder, seconds):
    """Rounds until the time is over; reports what was tried and what went wrong."""
    folder, stop, rng = Path(folder), time.monotonic() + float(seconds), np.random.default_rng([SEED, 99])
    warnings.simplefilter("ignore", VsbqWarning)  # of what was moved aside
    report = {"rounds": 0, "kills": 0, "told": 0, "left": 0, "wrong": []}
    processes, model = itertools.count(), 0
    while time.monotonic() < stop and not report["wrong"]:
        report["kills"] += run_round(folder, model, processes, rng)
        report["rounds"] += 1
        report["wrong"] += [place.read_text() for place in folder.glob("error-*")]
        report["wrong"] += look_at(folder, model, report)
        if rng.random() < 0.75:
            model += 1
            (folder / "fits.db").unlink(missing_ok=True)
            if rng.random() < 0.25:
                for place in folder.glob("fits.db-*"):
                    place.unlink()
    report["left"] = len(list(folder.glob("fits.db.left-*-wal")))
    return report


def run_round(folder, model, processes, rng):
    """Let processes work for a while, killing those that record one by one, then all."""
    writers = [start(record_on, folder, model, next(processes)) for _ in range(WRITERS)]
    others = [start(work, folder, model, next(processes)) for work in (read_on, merge_on)]
    kills, stop = len(writers) + len(others), time.monotonic() + ROUND
    while time.monotonic() < stop:
        time.sleep(rng.exponential(0.15))
        i = int(rng.integers(WRITERS))
        end(writers[i])
        writers[i] = start(record_on, folder, model, next(processes))
        kills += 1
    for child in rng.permutation(writers + others):
        end(int(child))
    return kills


def look_at(folder, model, report):
    """What is wrong with the file after a round, in words."""
    told = set()
    for place in folder.glob(f"told-{model}-*"):
        raw = place.read_bytes()
        told |= set(TOLD.iter_unpack(raw[: len(raw) - len(raw) % TOLD.size]))
    try:
        stored = read_store(folder / "fits.db")
        merged = merge(folder / "fits.db", into=folder / f"merged-{model}.db")
    except Exception:
        return [traceback.format_exc()]
    there = {tuple(row) for row in stored.points.tolist()}
    report["told"] += len(told)
    checks = {
        "evaluations are lost": told <= there,
        "evaluations are of another model": bool((stored.points[:, 0] == model).all()),
        "evaluations are there twice": len(there) == len(stored),
        "values are wrong": np.array_equal(stored.log_density, log_density(stored.points)),
        "the merged file lacks some": merged.total == len(stored),
    }
    return [f"model {model}: {words}" for words, fine in checks.items() if not fine]


def run_stress(folder, seconds):
    if not hasattr(os, "fork"):
        pytest.skip("processes can't be forked here")
    source = str(Path(vsbq.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, __file__, str(folder), str(seconds)],
        env=os.environ | {"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_intact_files_are_never_refused_and_nothing_is_lost_or_mixed(tmp_path):
    report = run_stress(tmp_path, 7)
    assert report["wrong"] == []
    assert report["rounds"] >= 3
    assert report["kills"] >= 20
    assert report["told"] > 100


@pytest.mark.slow
def test_intact_files_are_never_refused_for_minutes(tmp_path):
    report = run_stress(tmp_path, 150)
    assert report["wrong"] == []
    assert report["rounds"] >= 40
    assert report["kills"] >= 400
    assert report["told"] > 5000
    assert report["left"] >= 10


if __name__ == "__main__":
    print(json.dumps(stress(*sys.argv[1:])))
