"""Who may import whom, how long things may be, and what no module may do; read from the sources, not from what happens
to be loaded."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from sources import (
    PACKAGE,
    SOURCES,
    Import,
    body_of,
    dotted,
    functions_of,
    identify,
    imports,
    imports_within,
    module_of,
)

NUMERICS = sorted((PACKAGE / "numerics").glob("*.py"))
IMPORTS = imports_within(PACKAGE)

#: The rooms from low to high: a room imports from itself and from rooms before it in this list, not from its peers.
LAYERS = (
    {"errors", "_typing", "_version", "markup"},
    {"progress", "history", "randomness", "tables"},
    {"numerics"},
    {"data"},
    {"steps"},
    {"settings"},
    {"posterior"},
    {"fit"},
    {"analysis"},
    {"io", "report"},
    {"readers", "record", "many", "large"},
    {"improve"},
    {"cli"},
    {"__init__", "__main__"},
)
LEVEL = {room: level for level, rooms in enumerate(LAYERS) for room in rooms}

#: Methods that hand over to a room that knows theirs: they import it when they are called, and do nothing else.
DOORS = {
    "data/evaluations.py": {
        "vsbq.data.joining",
        "vsbq.io.readers.bayesian",
        "vsbq.io.readers.cma_runs",
        "vsbq.io.readers.cobaya_chains",
        "vsbq.io.readers.columns",
        "vsbq.io.readers.frames",
        "vsbq.io.readers.lmfit_runs",
        "vsbq.io.readers.nevergrad_runs",
        "vsbq.io.readers.number_format",
        "vsbq.io.readers.optuna_studies",
        "vsbq.io.readers.pypesto_runs",
        "vsbq.io.readers.samplers",
        "vsbq.io.readers.tables",
        "vsbq.io.record",
    },
    "analysis/predictive.py": {"vsbq.report.predictive_plot"},
    "posterior/posterior.py": {
        "vsbq.analysis.check",
        "vsbq.analysis.comparison",
        "vsbq.analysis.predictive",
        "vsbq.analysis.prior_change",
        "vsbq.analysis.refits",
        "vsbq.analysis.suggest",
        "vsbq.analysis.update",
        "vsbq.improve",
        "vsbq.io.files.exports",
        "vsbq.io.files.posterior_file",
        "vsbq.io.files.starts",
        "vsbq.report.corner",
        "vsbq.report.diagnosis_plot",
        "vsbq.report.page",
    },
}

#: Who may know what the sparse GP is made of; all others speak to `LogDensityModel`, or to `Surrogate.packed`.
KNOW_THE_PIECES = ("numerics/", "steps/surrogate/", "steps/published.py")
PIECES = {"hyp", "factors"}

MOST_AT_THE_TOP = 14
MOST_LINES = 400
MOST_BODY = 40

#: Names of numpy.random that hold no global state.
STATELESS = {"Generator", "default_rng", "SeedSequence", "BitGenerator", "PCG64", "PCG64DXSM", "Philox", "MT19937"}

#: Functions of SciPy that fall back on the global state unless a generator is handed to them.
RANDOM_CALLS = {"rvs", "resample", "Sobol", "Halton", "LatinHypercube", "kmeans", "kmeans2", "differential_evolution"}


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def against_the_layers(imports: Iterable[Import]) -> list[Import]:
    """Imports of a room that is not below the importer's, doors left out."""
    return [each for each in imports if not downwards(each) and not through_a_door(each)]


def downwards(each: Import) -> bool:
    start, end = room_of(each.importer), room_of(each.module)
    return start == end or LEVEL[end] < LEVEL[start]


def through_a_door(each: Import) -> bool:
    typing = each.kind == "typing" and each.file in DOORS
    return typing or (each.kind == "lazy" and each.module in DOORS.get(each.file, ()))


def cycle_among(imports: Iterable[Import]) -> list[str]:
    """Modules that import each other in a ring, at once or later, doors left out; empty where there is none."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        if each.kind != "typing" and not through_a_door(each):
            graph.setdefault(each.importer, set()).update(loaded_with(each))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def loaded_with(each: Import) -> set[str]:
    """A module and the packages that it is in, but for those that hold the importer, which are loaded by then."""
    parts = each.module.split(".")
    chain = {".".join(parts[: i + 1]) for i in range(len(parts))}
    return {name for name in chain if name == each.module or not f"{each.importer}.".startswith(f"{name}.")}


def long_bodies(path: Path) -> list[str]:
    """Functions with more lines than they may have."""
    found = []
    for function in functions_of(path):
        body = body_of(function)
        lines = (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0
        if lines > MOST_BODY:
            found.append(f"{function.name}: {lines} lines")
    return found


def open_doors(path: Path) -> list[str]:
    """Functions that import from a room above and then do more than hand over."""
    found = []
    for function in functions_of(path):
        modules = {node.module for node in ast.walk(function) if isinstance(node, ast.ImportFrom)}
        if modules & DOORS[path.relative_to(PACKAGE).as_posix()]:
            *before, last = body_of(function)
            if not isinstance(last, ast.Return) or not all(isinstance(each, ast.ImportFrom) for each in before):
                found.append(function.name)
    return found


def pieces_of_the_gp(source: str) -> list[str]:
    """Uses of what a sparse GP is made of."""
    nodes = ast.walk(ast.parse(source))
    return [dotted(node) or node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr in PIECES]


def allowed_in_numerics(name: str) -> bool:
    top = name.split(".")[0]
    inside = name == "vsbq._typing" or name == "vsbq.numerics" or name.startswith("vsbq.numerics.")
    return inside or top in {"numpy", "scipy", "threadpoolctl"} or top in sys.stdlib_module_names


def global_randomness(source: str) -> list[str]:
    """Uses of a global random state in some source."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            head, _, name = dotted(node).rpartition(".")
            if head in {"np.random", "numpy.random"} and name not in STATELESS:
                found.append(dotted(node))
        elif isinstance(node, ast.ImportFrom) and node.module == "numpy.random":
            found += [alias.name for alias in node.names if alias.name not in STATELESS]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name == "random"]
        elif isinstance(node, ast.ImportFrom) and node.module == "random":
            found.append("random")
        elif isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in RANDOM_CALLS:
            seeded = {"rng", "seed", "random_state"} & {keyword.arg for keyword in node.keywords}
            seeded |= {"rng"} & {dotted(argument) for argument in node.args}
            found += [] if seeded else [dotted(node.func)]
    return found


@pytest.mark.parametrize("path", NUMERICS, ids=identify)
def test_numerics_knows_nothing_above_it(path):
    assert {name for name in imports(path) if not allowed_in_numerics(name)} == set()


def test_the_check_of_imports_can_fail():
    above = imports(PACKAGE / "steps" / "surrogate" / "fit.py")
    assert "vsbq.steps.trim" in above
    assert not allowed_in_numerics("vsbq.steps.trim")
    assert not allowed_in_numerics("vsbq.errors")
    assert not allowed_in_numerics("jax.numpy")


def test_every_module_is_in_a_layer():
    assert {room_of(module_of(path, PACKAGE)) for path in SOURCES} == set(LEVEL)


def test_imports_go_downwards():
    assert against_the_layers(IMPORTS) == []


def test_nothing_imports_in_a_ring():
    assert cycle_among(IMPORTS) == []


def test_no_door_is_listed_that_is_not_there():
    there = {(each.file, each.module) for each in IMPORTS if each.kind == "lazy"}
    assert {(file, module) for file, modules in DOORS.items() for module in modules} <= there


@pytest.mark.parametrize("file", DOORS)
def test_doors_import_and_hand_over(file):
    assert open_doors(PACKAGE / file) == []


def small_package(folder: Path, files: dict[str, str]) -> list[Import]:
    """Imports within a package of a few files."""
    for name, source in files.items():
        path = folder / "vsbq" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return imports_within(folder / "vsbq")


@pytest.mark.parametrize(
    "source",
    [
        "from vsbq.io.files import load",
        "from vsbq.io import files",
        "import vsbq.io.files",
        "from ..io.files import load",
        "import importlib\nimportlib.import_module('vsbq.io.files')",
        "def f():\n    from vsbq.io.files import load",
        "f = lambda: __import__('vsbq.io.files')",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from vsbq.io.files import load",
        "from vsbq import Posterior",
    ],
)
def test_the_check_of_layers_can_fail(source, tmp_path):
    empty = {"__init__.py": "", "io/files.py": "", "io/__init__.py": "", "data/__init__.py": ""}
    found = small_package(tmp_path, empty | {"data/bounds.py": source, "io/tables.py": "import vsbq.data.bounds"})
    assert [each.file for each in against_the_layers(found)] == ["data/bounds.py"]


def test_a_door_is_no_way_for_the_whole_module(tmp_path):
    door = {"data/evaluations.py": "def f():\n    from vsbq.io.record import g", "io/record.py": ""}
    assert against_the_layers(small_package(tmp_path, door)) == []
    wide = door | {"data/evaluations.py": "from vsbq.io.record import g"}
    assert len(against_the_layers(small_package(tmp_path, wide))) == 1


def test_peers_do_not_know_each_other(tmp_path):
    found = small_package(tmp_path, {"report/page.py": "import vsbq.io.files", "io/files.py": ""})
    assert len(against_the_layers(found)) == 1


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": "import vsbq.b", "b.py": "def f():\n    import vsbq.a"},
        {"a.py": "import vsbq.b", "b.py": "import vsbq.c", "c.py": "from vsbq import a"},
        {"a/__init__.py": "import vsbq.b", "a/part.py": "", "b.py": "import vsbq.a.part"},
        {"a/__init__.py": "from vsbq.a.part import x", "a/part.py": "from vsbq.a import x"},
    ],
)
def test_the_check_of_rings_can_fail(files, tmp_path):
    assert cycle_among(small_package(tmp_path, {"__init__.py": ""} | files))


def test_types_and_packages_of_ones_own_make_no_ring(tmp_path):
    typing = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import vsbq.a.part"
    files = {"a/__init__.py": "from vsbq.a.part import x", "a/part.py": "import vsbq.a.other", "a/other.py": typing}
    assert cycle_among(small_package(tmp_path, files)) == []


def test_the_check_of_doors_can_fail(tmp_path, monkeypatch):
    path = tmp_path / "data" / "evaluations.py"
    path.parent.mkdir()
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    door = '    """Words."""\n    from vsbq.io.record import g\n\n'
    path.write_text(f"def f(x):\n{door}    return g(x)\n")
    assert open_doors(path) == []
    path.write_text(f"def f(x):\n{door}    y = g(x)\n    return y\n")
    assert open_doors(path) == ["f"]


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if not identify(path).startswith(KNOW_THE_PIECES)], ids=identify
)
def test_what_the_sparse_gp_is_made_of_is_its_own_business(path):
    assert pieces_of_the_gp(path.read_text(encoding="utf-8")) == []


def test_the_check_of_pieces_can_fail():
    assert pieces_of_the_gp("x = post.surrogate.hyp.pack()") == ["post.surrogate.hyp"]
    assert pieces_of_the_gp((PACKAGE / "steps" / "surrogate" / "model.py").read_text(encoding="utf-8"))


def test_few_modules_are_at_the_top():
    assert len(list(PACKAGE.glob("*.py"))) <= MOST_AT_THE_TOP


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_files_and_functions_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
    assert long_bodies(path) == []


def test_the_check_of_lengths_can_fail(tmp_path):
    path, words = tmp_path / "long.py", '    """' + "Words\n" * 30 + '"""\n'
    path.write_text("def f():\n" + words + "    x = 0\n" * MOST_BODY)
    assert long_bodies(path) == []
    path.write_text("class A:\n    async def f():\n" + "        x = 0\n" * (MOST_BODY + 1))
    assert long_bodies(path) == [f"f: {MOST_BODY + 1} lines"]


def untested(steps: Path, tests: Path) -> list[str]:
    """Modules of the steps without tests: test_x.py is of x.py, test_surrogate_x.py or test_x.py of surrogate/x.py.

    Where two modules have a name, the short form stands for the one that is in no package.
    """
    modules = [path for path in sorted(steps.rglob("*.py")) if path.name != "__init__.py"]
    there = {path.name for folder in (tests, tests / "steps") for path in folder.glob("test_*.py")}
    missing = []
    for path in modules:
        inner = path.parent != steps
        shared = inner and sum(path.name == other.name for other in modules) > 1
        wanted = set() if shared else {f"test_{path.name}"}
        wanted |= {f"test_{path.parent.name}_{path.name}"} if inner else set()
        missing += [] if wanted & there else [path.relative_to(steps).as_posix()]
    return missing


def test_every_step_has_tests():
    assert untested(PACKAGE / "steps", Path(__file__).parent) == []


def test_the_check_of_tests_can_fail(tmp_path):
    names = ("fit.py", "trim.py", "gp/__init__.py", "gp/fit.py", "gp/learn.py")
    files = [tmp_path / "steps" / name for name in names]
    files += [tmp_path / "tests" / name for name in ("test_fit.py", "steps/test_learn.py")]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert untested(tmp_path / "steps", tmp_path / "tests") == ["gp/fit.py", "trim.py"]


@pytest.mark.parametrize("path", SOURCES, ids=identify)
def test_no_global_random_state(path):
    assert global_randomness(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnp.random.normal()",
        "import numpy\nnumpy.random.seed(0)",
        "from numpy.random import rand",
        "import random",
        "from scipy import stats\nstats.norm.rvs(size=3)",
        "from scipy.stats import qmc\nqmc.Sobol(2)",
    ],
)
def test_the_check_of_randomness_can_fail(source):
    assert global_randomness(source)


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nrng = np.random.default_rng(0)\nrng.normal()",
        "stats.norm.rvs(size=3, random_state=rng)",
        "f(rng)",
    ],
)
def test_generators_are_welcome(source):
    assert global_randomness(source) == []


def test_import_brings_no_optional_package():
    code = "import sys, vsbq; print(*sorted({'matplotlib', 'pandas', 'jax', 'cma'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
