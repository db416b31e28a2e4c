"""The experiments are a package of their own: what happens without it, and that nothing else needs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vsbq

ROOT = Path(__file__).parents[1]
SOURCES = Path(vsbq.__file__).parent
COMMANDS = ("demo", "audit", "fit", "fit-many", "report", "sample", "suggest", "compare", "bench")
ACTIONS = (
    ["list"],
    ["run"],
    ["table"],
    ["figures"],
    ["page", "page.md"],
    ["trust"],
    ["cases"],
    ["compare", "old.jsonl", "new.jsonl", "--method", "name"],
)

#: Whatever is installed here, there is no such package in this process.
WITHOUT = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "vsbq_bench":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def python(code, *arguments, folder):
    """Run code in a fresh process, with the sources beside these tests."""
    paths = os.pathsep.join(filter(None, [str(SOURCES.parent), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action[0])
def test_without_the_package_one_line_says_how_to_get_it(action, tmp_path):
    code = f"{WITHOUT}\nfrom vsbq.cli import main; sys.exit(main(sys.argv[1:]))"
    done = python(code, "bench", *action, folder=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "pip install ./benchmarks" in done.stderr
    assert "make bench" in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_package_that_lacks_something_is_not_called_missing(tmp_path):
    package = tmp_path / "vsbq_bench"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "command.py").write_text("import no_such_package\n")
    code = "import sys; sys.path.insert(0, ''); from vsbq.cli import main; sys.exit(main(['bench', 'list']))"
    done = python(code, folder=tmp_path)
    assert done.returncode == 1
    assert "no_such_package" in done.stderr
    assert "pip install ./benchmarks" not in done.stderr


LOADED = "print(*sorted(name for name in sys.modules if name.partition('.')[0] == 'vsbq_bench'))"


def test_neither_the_library_nor_another_command_loads_it(tmp_path):
    (tmp_path / "table.csv").write_text("a,log_density\n" + "".join(f"{i / 9},{-i * i / 81}\n" for i in range(30)))
    code = f"""
import contextlib, io, sys
import vsbq
from vsbq.cli import main
for arguments in (["--version"], *([name, "--help"] for name in {COMMANDS}), ["audit", "table.csv"]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        assert main(arguments) == 0
{LOADED}
"""
    done = python(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_that_it_is_loaded_can_be_seen(tmp_path):
    package = tmp_path / "vsbq_bench"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "command.py").write_text("def show_catalogue(options):\n    return 0\n")
    code = f"import sys; sys.path.insert(0, ''); from vsbq.cli import main; main(['bench', 'list']); {LOADED}"
    assert python(code, folder=tmp_path).stdout.split() == ["vsbq_bench", "vsbq_bench.command"]


@pytest.mark.parametrize(
    "path", [*SOURCES.rglob("*.py"), *(ROOT / "examples").glob("*.py")], ids=lambda path: path.stem
)
def test_no_source_and_no_example_imports_it(path):
    assert not re.search(r"^\s*(from|import) vsbq_bench", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.parametrize("optimiser", ["CMA-ES", "Nelder-Mead"])
def test_the_runs_of_the_demonstration_need_it_neither(optimiser, tmp_path):
    if optimiser == "CMA-ES":
        pytest.importorskip("cma")
    hide = "import importlib.util; importlib.util.find_spec = lambda name: None; " if optimiser != "CMA-ES" else ""
    code = f"""
{WITHOUT}
{hide}
import numpy as np
from pathlib import Path
from vsbq.cli import two_moons
run = two_moons.optimise(500, np.random.default_rng(1), Path("runs.db"))
assert len(run.points) >= 500, len(run.points)
assert np.array_equal(run.log_density, two_moons.log_density(run.points))
print(run.optimiser, run.log_density.max() > 7.5)
"""
    done = python(code, folder=tmp_path)
    assert done.stdout.split() == [optimiser, "True"], done.stderr
