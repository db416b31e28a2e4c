"""Many fits in processes of this machine: same results, and what happens when processes are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import vsbq
from many_cases import QUICK, DeadlyFor, KilledOnce, Stalls, cases, evaluations, quick, same
from vsbq.errors import VsbqWarning

pytest.importorskip("joblib")

PATHS = os.pathsep.join([str(Path(vsbq.__file__).parents[1]), str(Path(__file__).parent)])


def fit_many(given, **options):
    return vsbq.fit_many(given, **{"settings": QUICK, "rng": 3, "progress": False} | options)


def test_two_processes_give_what_one_gives(tmp_path):
    given = cases(4) | {"lost": lambda: evaluations(0, n=1)}
    with pytest.warns(VsbqWarning, match="1 fit failed: 'lost'"):
        one = fit_many(given)
    with pytest.warns(VsbqWarning, match="1 fit failed: 'lost'"):
        two = fit_many(given, workers=2, folder=tmp_path)
    assert same(one, two)
    assert list(two.failures) == ["lost"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"p{i}.npz" for i in range(4)]
    assert not same(one, fit_many(cases(4), rng=4, workers=2))


THREADS = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import vsbq
from many_cases import QUICK, cases, same
given = cases(2)
one, two = (vsbq.fit_many(given, settings=QUICK, rng=3, workers=workers) for workers in (1, 2))
assert same(one, two)
"""


def test_so_it_is_in_a_script_without_a_guard_and_with_threads_of_blas(tmp_path):
    """Processes import no script, so that it needs no `if __name__ == "__main__"`; each has one BLAS thread."""
    script = tmp_path / "script.py"
    script.write_text(THREADS)
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    subprocess.run([sys.executable, "-W", "error", str(script), PATHS], env=free, check=True, timeout=300)


def test_a_killed_process_costs_no_fit(tmp_path):
    settings = quick(KilledOnce(folder=str(tmp_path)))
    fits = fit_many(cases(3), settings=settings, workers=2)
    assert (tmp_path / "killed").exists()
    assert not fits.failures
    assert same(fits, fit_many(cases(3), settings=settings))


def test_a_fit_that_kills_every_process_has_failed_and_no_other(tmp_path):
    given = cases(3) | {"deadly": evaluations(0, n=47)}
    settings = quick(DeadlyFor(count=47))
    with pytest.warns(VsbqWarning, match="1 fit failed: 'deadly'"):
        fits = fit_many(given, settings=settings, workers=2)
    assert "was killed, and again when it was alone" in fits.failures["deadly"].message
    assert same(fits, fit_many(cases(3), settings=settings))


KILLED = """
import sys
sys.path[:0] = sys.argv[1].split(":")
import vsbq
from many_cases import Stalls, cases, quick
stalls = Stalls(folder=sys.argv[2], quick=2)
vsbq.fit_many(cases(6), settings=quick(stalls), rng=3, workers=2, folder=sys.argv[3], progress=False)
"""


def wait_until(true, seconds=120.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path):
    marks, folder = tmp_path / "marks", tmp_path / "fits"
    marks.mkdir()
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    run = subprocess.Popen([sys.executable, str(script), PATHS, str(marks), str(folder)])
    try:
        wait_until(lambda: len(list(folder.glob("*.npz"))) == 2)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    workers = [int(path.name.partition("-")[2]) for path in marks.glob("process-*")]
    assert workers
    wait_until(lambda: not any(map(alive, workers)))  # they wait for a sign that has not come, and end all the same
    (marks / "go").touch()
    assert len(list(folder.glob("*.npz"))) == 2
    settings = quick(Stalls(folder=str(marks), quick=2))
    again = fit_many(cases(6), settings=settings, workers=2, folder=folder)
    assert sum(row.read for row in again.rows) == 2
    assert same(again, fit_many(cases(6), settings=settings))


def test_without_joblib_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "joblib.externals.loky", None)
    with pytest.raises(ImportError, match="vsbq\\[many\\]"):
        fit_many(cases(1), workers=2)
