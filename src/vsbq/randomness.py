"""What a caller says about randomness: `rng`, or `seed` for people who expect that word."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from vsbq.errors import ArgumentError

__all__ = ["RandomState", "Seed", "in_words", "one_of"]

RandomState: TypeAlias = int | np.random.Generator | None
Seed: TypeAlias = int | None


def one_of(rng: RandomState, seed: Seed = None) -> RandomState:
    """What `rng` and `seed` say together: they mean the same, and one of them is given at most."""
    if seed is not None and rng is not None:
        raise ArgumentError("rng and seed mean the same, but both are given. Pass one of them.")
    given: Any = rng if seed is None else seed
    if isinstance(given, bool | str | float) or (seed is not None and not isinstance(given, int | np.integer)):
        raise ArgumentError(f"{given!r:.60} is no seed. Give a whole number; a Generator of NumPy is given as rng.")
    if isinstance(given, int | np.integer) and given < 0:
        raise ArgumentError(f"A seed is a whole number of at least 0, not {given}.")
    known: RandomState = given
    return known


def in_words(random: RandomState) -> str:
    """What random numbers came from, for whoever wants the same again."""
    if random is None:
        return "no seed was given"
    return str(int(random)) if isinstance(random, int | np.integer) else "a Generator of the caller"
