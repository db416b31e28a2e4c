"""`import vsbq` is quick: it loads NumPy, parts of SciPy, itself and nothing else, and little of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import vsbq

#: What comes with NumPy and SciPy, or is used by the shapes in signatures where it happens to be installed.
WELCOME = {"numpy", "scipy", "vsbq", "jaxtyping", "cython_runtime", "charset_normalizer"}
MOST_MODULES = 110
SHARE = 1.0  # of the time that NumPy and SciPy take; a quarter of that is usual

LOADED = "import json, sys; before = set(sys.modules); {}; print(json.dumps(sorted(set(sys.modules) - before)))"
TIMED = """
import json, sys, time
from importlib import import_module
begin = time.perf_counter()
for name in json.loads(sys.argv[1]):
    import_module(name)
middle = time.perf_counter()
import vsbq
print(json.dumps([middle - begin, time.perf_counter() - middle]))
"""


def python(code: str, *arguments: str):
    """What a Python that does nothing else prints, as JSON."""
    environment = os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1])}
    command = [sys.executable, "-c", code, *arguments]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def loaded():
    return python(LOADED.format("import vsbq"))


def strangers(modules: list[str]) -> set[str]:
    """Packages among modules that a user may not have, or did not ask for."""
    found = {name.partition(".")[0] for name in modules}
    return {name for name in found - set(sys.stdlib_module_names) - WELCOME if not name.startswith("_")}


def test_nothing_optional_is_imported(loaded):
    assert strangers(loaded) == set()


def test_the_check_of_strangers_can_fail():
    assert "tqdm" in strangers(python(LOADED.format("import vsbq, tqdm")))


def test_modules_of_our_own_are_few(loaded):
    own = [name for name in loaded if name.partition(".")[0] == "vsbq"]
    assert 20 < len(own) <= MOST_MODULES
    late = ("vsbq.cli", "vsbq.report", "vsbq.io.record", "vsbq.io.readers", "sqlite3", "multiprocessing")
    assert [name for name in loaded if name.startswith(late)] == []


def test_the_import_takes_less_than_that_of_numpy_and_scipy(loaded):
    """Both in one process, so that a slow machine is slow for both; the least of a few, so that others may use it."""
    needed = [name for name in loaded if name.partition(".")[0] in {"numpy", "scipy"}]
    times = [python(TIMED, json.dumps(needed)) for _ in range(3)]
    others, ours = (min(column) for column in zip(*times, strict=True))
    assert ours < SHARE * others
