"""Shapes are checked while the tests run; every test draws from a stream of its own.

`VSBQ_TEST_SEED` (0 if not set) turns all streams at once: the suite should pass whatever it is.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

import browsing
from seeds import SEED

# Before the first import of vsbq: every annotation is checked at every call, shapes included. The tower of PEP 484 (an
# int is a float is a complex) is what NumPy's ArrayLike is written with.
jaxtyping.install_import_hook("vsbq", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the seed and on the test's name, not on the order of the tests."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A browser for all tests that need one."""
    yield from browsing.opened(tmp_path_factory.mktemp("profile"))


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the documentation as a site; a warning is an error."""
    pytest.importorskip("myst_nb")
    pytest.importorskip("furo")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", str(folder / "trees")]
    docs = Path(__file__).parents[1] / "docs"
    done = subprocess.run([*command, str(docs), str(folder / "html")], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "html"
