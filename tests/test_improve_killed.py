"""kill -9 in the middle of an improvement: what was evaluated is kept, and is not evaluated again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vsbq
from improve_cases import lines_of, noisy, points_of
from vsbq.io.record import read_store

CHILD = """
import sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import vsbq
from improve_cases import FAST, Counting
folder, deadly, calls = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
post = vsbq.load(folder / "post.npz")
model = Counting(folder / "log.txt", deadly)
post = post.improve(model, calls, batch=4, record=folder / "calls.db", settings=FAST, rng=3, progress=False)
print(post.improvement.calls, len(post.evaluations))
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return noisy().save(tmp_path_factory.mktemp("saved") / "post.npz")


def started(folder: Path, saved: Path, deadly: int, calls: int) -> subprocess.Popen[str]:
    if not (folder / "post.npz").exists():
        (folder / "post.npz").write_bytes(saved.read_bytes())
    paths = [str(Path(vsbq.__file__).parents[1]), str(Path(__file__).parent)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CHILD, str(folder), str(deadly), str(calls)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def killed(child: subprocess.Popen[str]) -> None:
    """Wait for its end, which was none of its own."""
    said, errors = child.communicate(timeout=240)
    assert child.returncode == -signal.SIGKILL, said + errors


def check(folder: Path, calls: int, killed_in_a_call: int, said: str) -> None:
    """Everything that ended is in the file, nothing began twice, and the last process ended with all calls."""
    stored = [x.tobytes() for x in read_store(folder / "calls.db").points]
    ended, begun = points_of(folder / "log.txt", "end"), points_of(folder / "log.txt", "begin")
    assert len(stored) == len(set(stored)) == calls
    assert set(stored) == set(ended)
    assert len(begun) == len(set(begun)) == calls + killed_in_a_call
    assert said.split() == [str(calls), str(80 + calls)]


def test_a_kill_in_a_call_loses_that_call_alone(saved, tmp_path):
    killed(started(tmp_path, saved, deadly=3, calls=8))
    assert len(read_store(tmp_path / "calls.db")) == 2
    said, errors = started(tmp_path, saved, deadly=0, calls=8).communicate(timeout=240)
    assert said, errors
    check(tmp_path, 8, 1, said)


@pytest.mark.slow
def test_five_kills(saved, tmp_path):
    """Three in calls, two between them, while a fit or a choice is under way."""
    for deadly in (3, 6, 11):
        killed(started(tmp_path, saved, deadly=deadly, calls=24))
    for pause in (0.3, 1.0):
        child = started(tmp_path, saved, deadly=0, calls=24)
        before = len(points_of(tmp_path / "log.txt", "end"))
        while len(points_of(tmp_path / "log.txt", "end")) < before + 4:  # a batch: the next thing is a fit
            assert child.poll() is None, child.communicate()
            time.sleep(0.02)
        time.sleep(pause)
        child.kill()
        killed(child)
        assert lines_of(tmp_path / "log.txt")[-1].startswith("end")
    said, errors = started(tmp_path, saved, deadly=0, calls=24).communicate(timeout=400)
    assert said, errors
    check(tmp_path, 24, 3, said)
