"""For libraries that know no other random numbers than NumPy's global ones: the one module that may touch them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.random import Generator

__all__ = ["global_state_from"]


@contextmanager
def global_state_from(rng: Generator) -> Iterator[None]:
    """Let code that draws from NumPy's global random state follow `rng`, and leave that state as it was."""
    before = np.random.get_state()  # noqa: NPY002
    np.random.seed(rng.integers(2**32, dtype=np.uint32))  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(before)  # noqa: NPY002
