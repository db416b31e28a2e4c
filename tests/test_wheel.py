"""What is given away: the library, small, without the experiments and their truths."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import vsbq

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
#: The first block of Python of a page, and from where the library came.
EXAMPLE = """
import pathlib, re, sys
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
exec(re.search(r"^```python\\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1])
print(vsbq.__file__)
"""
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


@pytest.mark.slow
def test_the_readme_runs_from_the_wheel_alone(tmp_path):
    """Both archives, as `python -m build` makes them; then the wheel in an empty environment."""
    pytest.importorskip("build")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = (tmp_path / "dist").glob("*.whl"), (tmp_path / "dist").glob("*.tar.gz")
    assert wheel.name.split("-")[:2] == source.name.removesuffix(".tar.gz").split("-") == ["vsbq", vsbq.__version__]
    assert done.stdout.splitlines()[-1].startswith("Successfully built")
    home = tmp_path / "empty"
    venv.create(home, with_pip=True)
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for arguments in (["-m", "pip", "install", "-q", str(wheel)], ["-m", "pip", "check"], ["-c", EXAMPLE, str(README)]):
        done = subprocess.run(
            [str(python), *arguments], cwd=tmp_path, env=clean, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert str(home) in done.stdout.splitlines()[-1]
    assert "log evidence" in done.stdout
    assert (tmp_path / "report.html").is_file()


def test_the_check_can_fail():
    assert len(strangers(["vsbq_bench/run.py", "vsbq/truths/a.npz", "benchmarks/noise.py", "vsbq/fit.py"])) == 3
