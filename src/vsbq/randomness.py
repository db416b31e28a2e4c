"""What a caller says about randomness: `rng`, or `seed` for people who expect that word."""

from __future__ import annotations

from numbers import Integral
from typing import TypeAlias

import numpy as np

from vsbq.errors import ArgumentError

__all__ = ["RandomState", "Seed", "one_of"]

RandomState: TypeAlias = int | np.random.Generator | None
Seed: TypeAlias = int | None


def one_of(rng: RandomState, seed: Seed = None) -> RandomState:
    """What `rng` and `seed` say together: they mean the same, and one of them is given at most."""
    if seed is not None and rng is not None:
        raise ArgumentError("rng and seed mean the same, but both are given. Pass one of them.")
    if seed is not None and not (isinstance(seed, Integral) and not isinstance(seed, bool)):
        raise ArgumentError(f"seed={seed!r:.60} is not a whole number. Pass a Generator of NumPy as rng.")
    given = rng if seed is None else seed
    if isinstance(given, Integral) and given < 0:
        raise ArgumentError(f"A seed is a whole number of at least 0, not {given}.")
    return given
