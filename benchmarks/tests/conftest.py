"""As in the tests of the library: shapes are checked while the tests run, and every test draws from its own stream."""

from __future__ import annotations

import os
import zlib

import jaxtyping
import numpy as np
import pytest

SEED = int(os.environ.get("VSBQ_TEST_SEED", "0"))

# Before the first import of either package. A hook that the library's own conftest installed before does no harm: of
# several hooks for a module the last one reads it, and all of them check the same.
jaxtyping.install_import_hook(
    ["vsbq", "vsbq_bench"], "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the seed and on the test's name, not on the order of the tests."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])
