"""Further fits of the same evaluations: does another seed, or do fewer evaluations, lead to the same posterior?"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from vsbq._typing import Int, ndarray
from vsbq.analysis.update import told_support
from vsbq.data.evaluations import Evaluations
from vsbq.data.runs import tell_runs
from vsbq.errors import VsbqError, VsbqWarning
from vsbq.fit import fit
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import THRESHOLDS, Diagnosis, Finding, Thresholds, diagnose, judged
from vsbq.posterior.diagnosis.distance import draws_distance
from vsbq.randomness import RandomState

__all__ = ["Refit", "diagnose_with", "refit"]

DRAWS = 4000

#: Share of the evaluations that a refit goes without.
LEFT_OUT = 0.2


class Refit(NamedTuple):
    """A further fit: what was different, the posterior or why there is none, and how far it is from the first one in
    marginals (total variation) and log evidence."""

    how: str
    posterior: Posterior | None
    distance: float
    evidence: float
    error: str = ""


def diagnose_with(
    post: Posterior, refits: int = 0, rng: RandomState = None, thresholds: Thresholds = THRESHOLDS
) -> Diagnosis:
    """The diagnosis of a posterior, with findings of so many further fits."""
    known = post.diagnosis if post.diagnosis is not None else diagnose(post)
    if refits < 0:
        raise ValueError(f"The number of refits is at least 0, not {refits}.")
    if refits == 0:
        return known
    return known.with_findings(_judge(refit(post, refits, rng), thresholds))


def refit(post: Posterior, number: int, rng: RandomState = None) -> list[Refit]:
    """So many further fits: another seed, without a fifth of the evaluations, then without each run."""
    if post.evaluations is None or post.prior_change is not None:
        raise VsbqError(
            "This posterior has no evaluations of its own to fit again, as in a compact file or after with_prior. "
            "Diagnose it without refits, or the posterior that it came from."
        )
    random = np.random.default_rng(rng)
    return [_fit_again(post, how, rows, random) for how, rows in islice(_plans(post.evaluations, random), number)]


def _plans(evaluations: Evaluations, rng: np.random.Generator) -> Iterator[tuple[str, Int[ndarray, " k"]]]:
    """What each further fit is made of: words, and the rows that it may use."""
    every = np.arange(len(evaluations))
    kept = len(every) - round(LEFT_OUT * len(every))
    yield "with another seed", every
    yield "without a fifth of the evaluations", np.sort(rng.permutation(every)[:kept])
    run = tell_runs(evaluations.points)
    for k in range(int(run.max()) + 1 if run.any() else 0):
        rows = np.flatnonzero(run == k)
        yield f"without the run in rows {rows[0]} to {rows[-1]}", np.flatnonzero(run != k)
    for _ in count():
        yield "with another seed", every
        yield "without a fifth of the evaluations", np.sort(rng.permutation(every)[:kept])


def _fit_again(post: Posterior, how: str, rows: Int[ndarray, " k"], rng: np.random.Generator) -> Refit:
    assert post.evaluations is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VsbqWarning)
            other = fit(post.evaluations.take(rows), support=told_support(post), rng=rng, progress=False)
    except VsbqError as error:
        return Refit(how, None, 1.0, np.inf, str(error))
    distance = draws_distance(
        post.space.forward(post.sample(DRAWS, rng=0)), post.space.forward(other.sample(DRAWS, rng=0))
    )
    return Refit(how, other, distance, abs(other.log_evidence - post.log_evidence))


def _judge(refits: list[Refit], limits: Thresholds) -> Iterator[Finding]:
    remedy = "The evaluations do not settle the posterior: evaluate what post.suggest(20) says, or start more runs."
    worst = max(refits, key=lambda one: one.distance)
    words = f"Fitted again {worst.how}, the posterior differs by {worst.distance:.0%} of its mass"
    words += f" (the most of {len(refits)} fits)." if len(refits) > 1 else "."
    if worst.posterior is None:
        words = f"Fitted again {worst.how}, there is no posterior: {worst.error}"
    yield judged("refits", worst.distance, limits.limit("refits"), words, remedy)
    worst = max(refits, key=lambda one: one.evidence)
    words = f"Fitted again {worst.how}, the log evidence differs by {worst.evidence:.2g}."
    yield judged("refit evidence", worst.evidence, limits.limit("refit evidence"), words, remedy)
