"""Who may import whom, and what no module may do; read from the sources, not from what happens to be loaded."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vsbq

PACKAGE = Path(vsbq.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
NUMERICS = sorted((PACKAGE / "numerics").glob("*.py"))

#: Names of numpy.random that hold no global state.
STATELESS = {"Generator", "default_rng", "SeedSequence", "BitGenerator", "PCG64", "PCG64DXSM", "Philox", "MT19937"}

#: Functions of SciPy that fall back on the global state unless a generator is handed to them.
RANDOM_CALLS = {"rvs", "resample", "Sobol", "Halton", "LatinHypercube", "kmeans", "kmeans2", "differential_evolution"}


def identify(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def imports(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= {f"{module}.{alias.name}" for alias in node.names} if module == "vsbq" else {module}
    return found


def allowed_in_numerics(name: str) -> bool:
    top = name.split(".")[0]
    inside = name == "vsbq._typing" or name == "vsbq.numerics" or name.startswith("vsbq.numerics.")
    return inside or top in {"numpy", "scipy"} or top in sys.stdlib_module_names


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute chain, or an empty string."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return f"{inner}.{node.attr}" if inner else ""
    return ""


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
    above = imports(PACKAGE / "surrogate.py")
    assert "vsbq.trim" in above
    assert not allowed_in_numerics("vsbq.trim")
    assert not allowed_in_numerics("vsbq.errors")
    assert not allowed_in_numerics("jax.numpy")


@pytest.mark.parametrize("path", [path for path in SOURCES if path.name != "borrowed_random.py"], ids=identify)
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
