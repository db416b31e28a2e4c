"""Which cases may be looked at while the method is developed, and which only judge it.

The rule knows names and attributes of the cases and no result: the cases are ordered by kind, within a kind by stratum
(noisy or exact, hard or ordinary, science or shape), within a stratum by the SHA-256 of their names, and dealt out
alternately. The deal goes on from one group to the next, so that groups of odd size do not favour one half.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, runtime_checkable

__all__ = ["HALVES", "Counts", "Stratified", "count_by_kind", "split", "thrice"]

HALVES = ("development", "validation")


@runtime_checkable
class Stratified(Protocol):
    """What the rule asks of a case."""

    @property
    def name(self) -> str:
        """Unique among the cases."""

    @property
    def kind(self) -> str:
        """One of the kinds of subjects."""

    @property
    def science(self) -> bool:
        """A model as scientists write it."""

    @property
    def hard(self) -> bool:
        """A hard subject or a hard trace."""

    @property
    def noisy(self) -> bool:
        """Whether evaluations carry noise."""


class Counts(NamedTuple):
    """How many cases of a kind are in either half."""

    kind: str
    development: int
    validation: int


def split(cases: Iterable[Stratified]) -> dict[str, str]:
    """Return the half of each case by its name."""
    ordered = sorted(cases, key=_place)
    return {case.name: HALVES[place % 2] for place, case in enumerate(ordered)}


def _place(case: Stratified) -> tuple[str, bool, bool, bool, str]:
    return case.kind, case.noisy, case.hard, case.science, _digest(case.name)


def thrice(cases: Sequence[Stratified]) -> frozenset[str]:
    """Return the names of the third of each half whose fits are repeated with three seeds, by another hash."""
    halves = split(cases)
    chosen: set[str] = set()
    for half in HALVES:
        names = sorted((name for name in halves if halves[name] == half), key=lambda name: _digest(f"seeds of {name}"))
        chosen.update(names[: -(-len(names) // 3)])
    return frozenset(chosen)


def count_by_kind(cases: Sequence[Stratified], halves: Mapping[str, str]) -> list[Counts]:
    """Return a row for each kind, in the order of their names."""
    found = Counter((case.kind, halves[case.name]) for case in cases)
    return [Counts(kind, *(found[kind, half] for half in HALVES)) for kind in sorted({case.kind for case in cases})]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
