"""What is given away: the library, small, without the experiments and their truths; and a newcomer's first hour."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
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
TUTORIAL = ROOT / "docs" / "tutorials" / "psychometric.ipynb"


class Home(NamedTuple):
    """An environment of Python, and what it can run."""

    folder: Path

    def run(self, tool, *arguments, cwd):
        """The output of a program of the environment, which must not fail."""
        programs = self.folder / ("Scripts" if os.name == "nt" else "bin")
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        clean["PATH"] = f"{programs}{os.pathsep}{clean['PATH']}"
        command = [shutil.which(tool, path=str(programs)), *map(str, arguments)]
        assert command[0], f"there is no {tool} in the environment"
        done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def empty_home(folder, *wanted):
    """A new environment with what is wanted, as pip installs it."""
    venv.create(folder, with_pip=True)
    home = Home(folder)
    home.run("python", "-m", "pip", "install", "-q", *wanted, cwd=folder)
    home.run("python", "-m", "pip", "check", cwd=folder)
    return home


@pytest.fixture(scope="module")
def newcomer(built, tmp_path_factory):
    """The wheel with the extras that the quickstart and the first tutorial name, and Jupyter's kernel."""
    wanted = [f"{built[0]}[plot,samplers]", "ipykernel", "nbclient"]
    return empty_home(tmp_path_factory.mktemp("newcomer") / "home", *wanted)


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
    home = empty_home(tmp_path / "empty", wheel)
    said = home.run("python", "-c", EXAMPLE, README, cwd=tmp_path)
    assert str(home.folder) in said.splitlines()[-1]
    assert "log evidence" in said
    assert (tmp_path / "report.html").is_file()


# A newcomer's first hour


def files_of(folder):
    """The names of the files in a folder; none of them may be empty."""
    paths = [path for path in folder.iterdir() if path.is_file()]
    assert [path.name for path in paths if path.stat().st_size == 0] == []
    return {path.name for path in paths}


@pytest.mark.slow
def test_a_newcomer_runs_the_example_of_the_readme_twice(newcomer, tmp_path):
    """The second run adds to the recording and replaces the report; warnings are errors."""
    for _ in range(2):
        said = newcomer.run("python", "-W", "error", "-c", EXAMPLE, README, cwd=tmp_path)
        assert str(newcomer.folder) in said.splitlines()[-1]
        assert "log evidence" in said
        assert files_of(tmp_path) == {"fits.db", "report.html"}
    assert "data:image/png" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_newcomer_goes_from_a_table_of_losses_to_a_report(newcomer, tmp_path):
    rng = np.random.default_rng(1)
    points = rng.normal([1.0, 2.0], [1.0, 0.6], (300, 2))
    loss = 0.5 * (((points - [1.0, 2.0]) / [0.5, 0.3]) ** 2).sum(axis=1)
    table = np.column_stack([points, loss])
    np.savetxt(tmp_path / "my.csv", table, delimiter=",", header="speed,bias,loss", comments="")
    told = ["my.csv", "--column", "neg_log_density=loss"]
    assert "2 parameters" in newcomer.run("vsbq", "audit", *told, cwd=tmp_path)
    newcomer.run("vsbq", "fit", *told, "-o", "out", "--seed", "1", cwd=tmp_path)
    assert files_of(tmp_path / "out") == {"posterior.npz", "samples.csv", "report.html", "summary.json", "fit.log"}
    found = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert found["verdict"] == "trusted"
    assert found["log_evidence"] == pytest.approx(np.log(2 * np.pi * 0.5 * 0.3), abs=0.05)
    newcomer.run("vsbq", "report", "out", "-o", "page.html", cwd=tmp_path)
    newcomer.run("vsbq", "sample", "out", "-n", "100", "-o", "draws.csv", cwd=tmp_path)
    assert files_of(tmp_path) == {"my.csv", "page.html", "draws.csv"}


@pytest.mark.slow
def test_a_newcomer_executes_a_tutorial_in_jupyter(newcomer, tmp_path):
    """The notebook as it stands, by Jupyter's own command and in the kernel of the environment."""
    shutil.copy(TUTORIAL, tmp_path / "tutorial.ipynb")
    newcomer.run("jupyter-execute", "--inplace", "tutorial.ipynb", cwd=tmp_path)
    assert files_of(tmp_path) == {"tutorial.ipynb", "psychometric.db", "report.html"}
    cells = json.loads((tmp_path / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert [each for each in outputs if each["output_type"] == "error" or each.get("name") == "stderr"] == []
    assert sum("image/png" in each.get("data", {}) for each in outputs) >= 2
    assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code")


def test_a_program_that_fails_is_noticed(tmp_path):
    home = Home(Path(sys.prefix))
    assert home.run("python", "-c", "print('fine')", cwd=tmp_path) == "fine\n"
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        home.run("python", "-c", "1 / 0", cwd=tmp_path)
    with pytest.raises(AssertionError, match="no nonsense"):
        home.run("nonsense", cwd=tmp_path)


def test_the_check_can_fail():
    assert len(strangers(["vsbq_bench/run.py", "vsbq/truths/a.npz", "benchmarks/noise.py", "vsbq/fit.py"])) == 3
