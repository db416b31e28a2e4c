"""Suggest, evaluate, update: the loop, when it ends, and what it says of itself."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.analysis.suggest import MOST_POINTS, suggestions
from vsbq.analysis.update import update
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning, count_in_words
from vsbq.improve.advice import advise
from vsbq.improve.calls import Answers, LogDensity, Workers, in_turn, through
from vsbq.improve.ledger import Ledger, noise_of
from vsbq.improve.settled import settled
from vsbq.io.record import Recorder
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import LEVELS
from vsbq.posterior.improvement import Improvement, ImprovementStep
from vsbq.progress import CountedProgress
from vsbq.randomness import RandomState
from vsbq.settings import Settings, Steps

__all__ = ["improve"]

#: A batch has so many points for each parameter, and at least so many.
PER_PARAMETER = 2
LEAST_BATCH = 10

#: Nothing is gained if so many batches in a row, and this share of all calls, leave the verdict, its reasons and the
#: error of the evidence as they were; an error that falls by less than this factor has not fallen.
PATIENCE = 3
PATIENT_SHARE = 1 / 3
FALLS = 0.95

Caller = Callable[[LogDensity, Float[ndarray, "n d"]], Answers]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """What the user wants."""

    log_density: LogDensity
    max_calls: int
    batch: int
    log_density_sd: float | None
    settings: Settings | Steps | None
    seed: int

    def stream(self, calls: int) -> np.random.Generator:
        """Random numbers that are never the same after another number of calls, whoever made them."""
        return np.random.default_rng([self.seed, calls])


def improve(
    post: Posterior,
    log_density: LogDensity,
    max_calls: int,
    *,
    batch: int | None = None,
    workers: int = 1,
    executor: Any = None,
    record: str | os.PathLike[str] | Recorder | None = None,
    log_density_sd: float | None = None,
    settings: Settings | Steps | None = None,
    rng: RandomState = None,
    progress: bool | None = None,
) -> Posterior:
    """The posterior after calls of the model where they help most; `improvement` of the result says how it went.

    Points are suggested, evaluated and added, batch after batch, until the verdict is "trusted", the calls are used up,
    or nothing is gained any more. Exceptions, NaN and +inf are failed calls: they count, and are kept in the record,
    but do not stop the others. −inf says that the density is zero there. Only if all calls of the first batch fail,
    that is an error.

    Args:
        post: a posterior with surrogate and evaluations, as `vsbq.fit` makes it.
        log_density: takes one point (D,) and returns the log density, with all constants as before, or a pair of it
            and the standard deviation of its noise.
        max_calls: of `log_density`, failed ones included.
        batch: points between two fits; by default 2 for each parameter, at least 10, and a multiple of the workers.
        workers: processes of this machine for the calls; more than one need joblib (`vsbq[many]`).
        executor: in place of workers: an executor of concurrent.futures, or a `distributed.Client` of Dask. It stays
            open.
        record: a path, or a `vsbq.Recorder`: every call is kept in its file as soon as it has returned. After a kill,
            the same call of `improve` goes on from there: what the file holds counts as called, and is not called
            again.
        log_density_sd: noise of calls that return no standard deviation of their own.
        settings: of the fits, as in `vsbq.fit`.
        rng: None, an integer or a NumPy Generator.
        progress: show a bar of the calls; None shows it in a terminal only, False prints nothing.
    """
    _check(post, log_density, max_calls, log_density_sd)
    seed = int(np.random.default_rng(rng).integers(2**63))
    plan = _Plan(
        log_density=log_density,
        max_calls=max_calls,
        batch=_batch(batch, post.dimension, workers),
        log_density_sd=log_density_sd,
        settings=settings,
        seed=seed,
    )
    with closing(Ledger.opened(record, post)) as ledger, _calling(workers, executor) as call:
        bar = CountedProgress(max_calls, progress, unit="call")
        try:
            return _Loop(plan, ledger, call, bar).run(post)
        finally:
            bar.close()


def _check(post: Posterior, log_density: Any, max_calls: Any, sd: Any) -> None:
    """Refuse what could only fail after the first calls."""
    if not callable(log_density):
        raise EvaluationsError(f"log_density must be a function of one point, but is {log_density!r:.60}.")
    if type(max_calls) is not int or max_calls < 1:
        raise EvaluationsError(f"max_calls is {max_calls!r:.60}. Give the number of calls, 1 or more.")
    if sd is not None and not (isinstance(sd, int | float | np.number) and 0 <= sd < np.inf):
        raise EvaluationsError(f"log_density_sd is {sd!r:.60}. Give one number that is not negative.")
    if post.surrogate is None or post.evaluations is None or post.prior_change is not None:
        raise VsbqError(
            "This posterior can't be improved: it comes from a compact file, or its prior was changed. Take the one "
            "that was fitted, or load a file that was saved with compact=False."
        )


def _batch(given: int | None, dimension: int, workers: Any) -> int:
    if type(workers) is not int or workers < 1:
        raise EvaluationsError(f"workers is {workers!r:.60}. Give the number of processes, 1 or more.")
    if given is None:
        return -(-max(PER_PARAMETER * dimension, LEAST_BATCH) // workers) * workers
    if type(given) is not int or not 1 <= given <= MOST_POINTS:
        raise EvaluationsError(f"batch is {given!r:.60}. Give a whole number from 1 to {MOST_POINTS}.")
    return given


@contextmanager
def _calling(workers: int, executor: Any) -> Iterator[Caller]:
    """Where calls are made."""
    if executor is not None:
        if workers != 1:
            raise EvaluationsError("Both workers and executor are given. Pass executor alone: it has its own workers.")
        if not callable(getattr(executor, "submit", None)) or getattr(executor, "asynchronous", False):
            raise EvaluationsError(
                f"executor is a {type(executor).__name__}. Pass an executor of concurrent.futures, or a "
                "distributed.Client that is not asynchronous."
            )
        yield lambda f, points: through(executor, f, points)
    elif workers == 1:
        yield in_turn
    else:
        pool = Workers(workers)
        try:
            yield pool
        finally:
            pool.close()


class _Loop:
    """The state of an improvement."""

    def __init__(self, plan: _Plan, ledger: Ledger, call: Caller, bar: CountedProgress) -> None:
        self.plan, self.ledger, self.call, self.bar = plan, ledger, call, bar
        self.steps: list[ImprovementStep] = []
        self.heard: list[str] = []
        self.seen: list[tuple[int, Posterior]] = []  # posteriors, with the number of values that are new in them

    def run(self, post: Posterior) -> Posterior:
        """From the first step to the last."""
        self.steps.append(_step(post, 0, 0))
        self.seen = [(0, post)]
        self.bar.count(f"{post.verdict}", self.ledger.calls)
        if (earlier := self.ledger.calls - self.plan.batch) > 0:  # so that the last batch is a test here, too
            post = self._updated(post, earlier)
        if self.ledger.calls:
            post = self._updated(post)
        while not (ended := self._ended(post)):
            self._evaluate(post)
            post = self._updated(post)
        improvement = Improvement(tuple(self.steps), ended, advise(post, self.steps))
        self._warn(post, improvement)
        return replace(post, improvement=improvement)

    def _evaluate(self, post: Posterior) -> None:
        """One batch of calls; each is kept when it returns."""
        left = self.plan.max_calls - self.ledger.calls
        stream, failed = self.plan.stream(self.ledger.calls), self.ledger.failed
        points = suggestions(post, min(self.plan.batch, left), stream, pending=failed).points
        why = []
        with closing(self.call(self.plan.log_density, points)) as answers:
            for i, answer in answers:
                self.ledger.add(points[i], answer)
                why += [] if answer.failure is None else [answer.failure]
                left -= 1
                self.bar.count(f"{post.verdict}, {count_in_words(left, 'call')} left")
        if len(why) == self.ledger.calls:
            raise VsbqError(f"All {count_in_words(len(why), 'call')} of log_density failed. The first: {why[0]}")

    def _updated(self, post: Posterior, calls: int | None = None) -> Posterior:
        """The posterior with what is new, of the first so many calls, and a step."""
        calls = self.ledger.calls if calls is None else calls
        known = self.ledger.take(calls)
        if len(known.values):
            sd, stream = noise_of(known, post, self.plan.log_density_sd), self.plan.stream(calls)
            self.bar.say(f"fitting with {count_in_words(calls, 'call')}")
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", VsbqWarning)
                post = update(
                    *(post, known.points, known.values, sd), settings=self.plan.settings, rng=stream, progress=False
                )
            self.heard += [str(each.message) for each in caught]
            post = self._tested(post, len(known.values))
        self.steps.append(_step(post, calls, self.ledger.failures(calls)))
        return post

    def _tested(self, post: Posterior, values: int) -> Posterior:
        """With findings on what as many values as a batch has, or more, have changed."""
        count = self.seen[-1][0] + values
        self.seen.append((count, post))
        while self.seen[1][0] <= count - self.plan.batch:
            del self.seen[0]
        known, before = self.seen[0]
        return replace(post, diagnosis=post.diagnose().with_findings(settled(before, post, count - known)))

    def _ended(self, post: Posterior) -> str:
        """Why there is nothing more to be done; empty if there is."""
        calls = count_in_words(self.ledger.calls, "call")
        if post.verdict == "trusted":
            return f"Trusted after {calls}."
        if self.ledger.calls >= self.plan.max_calls:
            return f"Still {post.verdict} after {calls}, which is all there were."
        if self._all_failed():
            return f"Stopped after {calls}: all of the last batch failed."
        if self._nothing_gained():
            return f"Stopped after {calls}: the last {self._patience()} batches gained nothing."
        return ""

    def _all_failed(self) -> bool:
        if len(self.steps) < 2:
            return False
        before, last = self.steps[-2:]
        return last.failed - before.failed == last.calls - before.calls > 0

    def _patience(self) -> int:
        return max(PATIENCE, round(PATIENT_SHARE * self.plan.max_calls / self.plan.batch))

    def _nothing_gained(self) -> bool:
        """Whether the last batches have left everything as the best one before them had it."""
        last, before = self.steps[-self._patience() :], self.steps[: -self._patience()]
        return bool(before) and min(map(_badness, before)) <= min(map(_badness, last)) and not _falls(before, last)

    def _warn(self, post: Posterior, improvement: Improvement) -> None:
        """What the user should know, once: the verdict of the last posterior, and what its fits had to say beside."""
        others = [words for words in dict.fromkeys(self.heard) if not words.startswith("The fit is ")]
        for words in others:
            warnings.warn(words, VsbqWarning, stacklevel=5)
        if improvement.advice:
            words = f"{improvement.ended} {post.diagnose().headline} {improvement.advice}"
            warnings.warn(words, VsbqWarning, stacklevel=5)


def _step(post: Posterior, calls: int, failed: int) -> ImprovementStep:
    reasons = tuple(finding.name for finding in post.diagnose().reasons)
    return ImprovementStep(calls, failed, post.verdict, post.log_evidence, post.log_evidence_sd, reasons)


def _badness(step: ImprovementStep) -> tuple[int, int]:
    """Smaller is better."""
    return LEVELS.index(step.verdict), len(step.reasons)


def _falls(before: list[ImprovementStep], last: list[ImprovementStep]) -> bool:
    return min(step.log_evidence_sd for step in last) < FALLS * min(step.log_evidence_sd for step in before)
