"""The table of cases: every subject with traces of some optimiser, composed by a rule and a seed, not by hand.

Science and shapes get 40 rows each. A factor's levels fill the rows as evenly as its weights allow and are shuffled by
a seed of its own; subjects follow one another in the order in which they are registered, again from the first until the
rows are full.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from vsbq_bench.cases.optimisers import BOXED, OPTIMISERS
from vsbq_bench.cases.split import HALVES, split, thrice
from vsbq_bench.cases.subjects import SCIENCE, SHAPES, Subject
from vsbq_bench.cases.traces import BY_POINT, MOST_OF_SLOW, Box, Noise

__all__ = ["Case", "Runs", "all_cases", "case_named", "compose", "halves", "seeds_of", "trace_seed"]

Runs = Literal["one", "several"]
Level = TypeVar("Level")

ROWS = 40
SEED = 2026
OPTIMISER_LEVELS = tuple(OPTIMISERS)
RUNS_LEVELS: tuple[Runs, ...] = ("several", "several", "several", "one")
BUDGET_LEVELS = (30, 100, 300, 1000, 3000)
NOISE_LEVELS: tuple[Noise, ...] = (0.0, 0.0, 0.0, 1.0, 3.0, BY_POINT)
BOX_LEVELS: tuple[Box, ...] = ("plausible", "plausible", "plausible", "wide", "wide", "narrow")
MOST_PER_DIMENSION_OF_SLOW = 100
REPEATS = 3


class Case(NamedTuple):
    """A subject, and the trace that an optimiser left on it."""

    subject: Subject
    optimiser: str
    runs: Runs
    evaluations_per_dimension: int
    noise: Noise
    box: Box
    seed: int

    @property
    def name(self) -> str:
        """All that tells it from other cases."""
        noise = "by_point" if self.noise == BY_POINT else f"sd_{self.noise:g}"
        trace = f"{self.optimiser}-{self.runs}-{self.evaluations_per_dimension}-{noise}-{self.box}-{self.seed}"
        return f"{self.subject.name}-{trace}"

    @property
    def kind(self) -> str:
        """The kind of its subject."""
        return self.subject.kind

    @property
    def science(self) -> bool:
        """A model as scientists write it."""
        return self.subject.science

    @property
    def hard(self) -> bool:
        """A hard subject, a narrow start box, or one run only."""
        return self.subject.hard or self.box == "narrow" or self.runs == "one"

    @property
    def noisy(self) -> bool:
        """Whether its evaluations carry noise."""
        return self.noise == BY_POINT or self.noise > 0

    @property
    def noise_sd(self) -> float:
        """The usual standard deviation of its noise."""
        return 1.0 if self.noise == BY_POINT else float(self.noise)

    def attributes(self) -> dict[str, object]:
        """What a line of results says of the case."""
        return {
            "subject": self.subject.name,
            "kind": self.kind,
            "science": self.science,
            "hard": self.hard,
            "hard_subject": self.subject.hard,
            "optimiser": self.optimiser,
            "runs": self.runs,
            "evaluations_per_dimension": self.evaluations_per_dimension,
            "noise": self.noise,
            "box": self.box,
            "seed": self.seed,
            "half": halves()[self.name],
        }


def compose(subjects: Sequence[Subject], stream: int, rows: int = ROWS) -> list[Case]:
    """Return at least `rows` cases, each subject at least once."""
    if not subjects:
        return []
    n = max(rows, len(subjects))
    return [
        _sensible(Case(subjects[row % len(subjects)], *levels, row))
        for row, levels in enumerate(
            zip(
                _column(OPTIMISER_LEVELS, n, [SEED, stream, 0]),
                _column(RUNS_LEVELS, n, [SEED, stream, 1]),
                _column(BUDGET_LEVELS, n, [SEED, stream, 2]),
                _column(NOISE_LEVELS, n, [SEED, stream, 3]),
                _column(BOX_LEVELS, n, [SEED, stream, 4]),
                strict=True,
            )
        )
    ]


def _column(levels: Sequence[Level], rows: int, seed: list[int]) -> list[Level]:
    """Return a level for each row, all as often as each other (some once more), in random order."""
    return [levels[place] for place in np.random.default_rng(seed).permutation(np.arange(rows) % len(levels))]


def _sensible(case: Case) -> Case:
    """Change what nobody does.

    Slow optimisers get small budgets; those that never leave their box are not given a narrow one, in which the
    posterior does not lie; random points have no runs.
    """
    if case.optimiser in MOST_OF_SLOW:
        most = MOST_PER_DIMENSION_OF_SLOW
        case = case._replace(evaluations_per_dimension=min(case.evaluations_per_dimension, most))
    if case.optimiser in BOXED and case.box == "narrow":
        case = case._replace(box="plausible")
    if case.optimiser == "random":
        case = case._replace(runs="several")
    return case


@cache
def all_cases() -> tuple[Case, ...]:
    """Return the cases of the zoo, those of science first."""
    for module in ("science", "shapes"):
        import_module(f"vsbq_bench.cases.{module}")  # which registers its subjects
    sides = (tuple(SCIENCE.values()), tuple(SHAPES.values()))
    return tuple(case for stream, subjects in enumerate(sides) for case in compose(subjects, stream))


@cache
def halves() -> dict[str, str]:
    """Return the half of each case by its name."""
    return split(all_cases())


@cache
def _by_name() -> dict[str, Case]:
    return {case.name: case for case in all_cases()}


def case_named(name: str) -> Case | None:
    """Return the case of that name, or None."""
    return _by_name().get(name)


def seeds_of(half: str) -> list[tuple[Case, int]]:
    """Return the cases of a half with the seeds of their fits: three for a third of them, one for the others."""
    if half not in HALVES:
        raise ValueError(f"half must be one of {', '.join(HALVES)}, got {half!r}")
    repeated = thrice(all_cases())
    chosen = [case for case in all_cases() if halves()[case.name] == half]
    return [(case, seed) for case in chosen for seed in range(REPEATS if case.name in repeated else 1)]


def trace_seed(case: Case) -> list[int]:
    """Return the seed of the trace, another one for each case."""
    return [case.seed, zlib.crc32(case.name.encode())]
