"""Which fits the study is made of, and which half each belongs to: a rule that knows names and no result.

Every case of the zoo is fitted as it is and with five kinds of sabotage, and every problem of the paper with all kinds.
The kinds go round: case after case takes the next ones that can be applied to it. A fit of the zoo belongs to the half
of its case. Fits of the paper's problems are ordered by kind and by the SHA-256 of their names, and dealt out
alternately. Thresholds may be chosen from the development half only.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import cycle
from typing import NamedTuple

from vsbq_bench.cases.cases import all_cases, halves
from vsbq_bench.cases.split import HALVES
from vsbq_bench.trust.sabotage import SABOTAGES

__all__ = ["PAPER", "Trial", "half_of", "population"]

#: Kinds of sabotage for each case, beside none.
PER_CASE = 5

#: Problems of the paper and of the older zoo with exact traces of CMA-ES, and evaluations per dimension.
PAPER = {
    "two_moons": 1000,
    "rosenbrock_gaussian": 500,
    "lumpy": 300,
    "three_modes": 300,
    "student": 300,
    "bounded": 300,
    "half_bounded": 300,
}


class Trial(NamedTuple):
    """A fit of the study: a case of the zoo or a problem of the paper, and what is done to its trace."""

    place: str
    sabotage: str

    @property
    def name(self) -> str:
        """All that tells it from other trials."""
        return f"{self.place} / {self.sabotage}"


@cache
def population() -> tuple[Trial, ...]:
    """All trials, mixed by a hash, so that the first ones are a sample of all."""
    trials = [*_of_the_zoo(), *(Trial(place, kind) for place in PAPER for kind in SABOTAGES)]
    return tuple(sorted(trials, key=lambda trial: _digest(f"order of {trial.name}")))


def _of_the_zoo() -> Iterator[Trial]:
    kinds = cycle([kind for kind in SABOTAGES if kind != "none"])
    for case in all_cases():
        yield Trial(case.name, "none")
        taken = 0
        while taken < PER_CASE:
            kind = next(kinds)
            if not (SABOTAGES[kind].exact and case.noisy) and not (SABOTAGES[kind].several and case.runs == "one"):
                yield Trial(case.name, kind)
                taken += 1


@cache
def _paper_halves() -> dict[str, str]:
    kinds = list(SABOTAGES)
    trials = [Trial(place, kind) for place in PAPER for kind in kinds]
    ordered = sorted(trials, key=lambda trial: (kinds.index(trial.sabotage), _digest(trial.name)))
    return {trial.name: HALVES[k % 2] for k, trial in enumerate(ordered)}


def half_of(trial: Trial) -> str:
    """ "development" or "validation"."""
    return _paper_halves()[trial.name] if trial.place in PAPER else halves()[trial.place]


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()
