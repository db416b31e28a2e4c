"""What every case is called, what it is like, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from vsbq_bench.problems import Problem

__all__ = ["KINDS", "SCIENCE", "SHAPES", "Subject", "register"]

KINDS = (
    "gaussian",
    "correlated",
    "skewed",
    "bounded",
    "edge",
    "cliff",
    "curved",
    "funnel",
    "heavy_tails",
    "modes",
    "ridge",
    "high_dimension",
)


class Subject(NamedTuple):
    """A case: `science` tells a model as scientists write it from a shape, `hard` what is known to defeat methods."""

    name: str
    kind: str
    science: bool
    hard: bool
    make: Callable[[], Problem]


SCIENCE: dict[str, Subject] = {}
SHAPES: dict[str, Subject] = {}


def register(registry: dict[str, Subject], subjects: Iterable[Subject]) -> None:
    """Add subjects by name; raises ValueError for a kind that is not in KINDS or a name that is taken."""
    for subject in subjects:
        if subject.kind not in KINDS:
            raise ValueError(f"{subject.name}: kind {subject.kind!r} is none of {', '.join(KINDS)}")
        if subject.name in SCIENCE or subject.name in SHAPES:
            raise ValueError(f"the name {subject.name} is taken; each case needs one of its own")
        registry[subject.name] = subject
