"""What is given away: the library, small, without the experiments and their truths."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LARGEST = 1_000_000  # bytes


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution, built from these sources; nothing is downloaded."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def strangers(names):
    """Files of the experiments among the names of an archive."""
    return [name for name in names if "vsbq_bench" in name or "truths" in name or "benchmarks/" in name]


def test_the_wheel_is_small_and_holds_the_library_alone(built):
    wheel, _ = built
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert strangers(names) == []
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"vsbq"}
    assert {"vsbq/__init__.py", "vsbq/py.typed", "vsbq/report/style.css", "vsbq/cli/two_moons.py"} <= set(names)


def test_the_source_distribution_holds_no_experiments(built):
    with tarfile.open(built[1]) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert strangers(names) == []
    assert {"pyproject.toml", "LICENSE", "README.md", "tests/test_wheel.py", "src/vsbq/__init__.py"} <= set(names)


def test_the_check_can_fail():
    assert len(strangers(["vsbq_bench/run.py", "vsbq/truths/a.npz", "benchmarks/noise.py", "vsbq/fit.py"])) == 3
