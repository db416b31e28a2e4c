"""Shapes are checked while the tests run; every test draws from a stream of its own.

`VSBQ_TEST_SEED` (0 if not set) turns all streams at once: the suite should pass whatever it is.
"""

from __future__ import annotations

import zlib

import jaxtyping
import numpy as np
import pytest

from seeds import SEED

# Before the first import of vsbq: every annotation is checked at every call, shapes included. The tower of PEP 484 (an
# int is a float is a complex) is what NumPy's ArrayLike is written with.
jaxtyping.install_import_hook("vsbq", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the seed and on the test's name, not on the order of the tests."""
    return np.random.default_rng([SEED, zlib.crc32(request.node.nodeid.encode())])
