"""Calls of the user's model: here, in processes, or wherever an executor has them done; what they answer, and failures.

A call never stops the others: an exception, NaN and +inf are answers too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import perf_counter, time
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.errors import VsbqError
from vsbq.io.record.calls import Points, read_outcome
from vsbq.io.record.wrapper import LONGEST_FAILURE
from vsbq.many.pools import processes

__all__ = ["Answer", "Answers", "LogDensity", "Workers", "in_turn", "through"]

LogDensity = Callable[[Float[ndarray, " d"]], Any]

#: Answers with the number of the point, in the order in which they come.
Answers = Generator[tuple[int, "Answer"], None, None]

KILLED = "the process was killed, and again when it was alone"


class Answer(NamedTuple):
    """What a call gave: the value (NaN if it failed), the sd of its noise if it told one, when it began, how long it
    took, why it failed, and whether that was for the process and not for the call."""

    value: float
    sd: float | None
    started: float
    seconds: float | None
    failure: str | None = None
    lost: bool = False


def evaluate(f: LogDensity, x: Float[ndarray, " d"], token: str) -> Answer:
    """Call the model at one point. The token makes each call unlike all others, for executors that remember."""
    started, clock = time(), perf_counter()
    try:
        outcome = read_outcome(_answered(f(x.copy())), Points(x[None], True), None)
    except Exception as error:
        words = type(error).__name__
        with suppress(Exception):
            words += f": {error}"[:LONGEST_FAILURE]
        return Answer(np.nan, None, started, perf_counter() - clock, words)
    seconds, value = perf_counter() - clock, float(outcome.values[0])
    sd = None if outcome.sd is None else float(outcome.sd[0])
    if np.isnan(value) or value == np.inf or not (sd is None or np.isfinite(sd)):
        why = f"the log density is {value}" if not np.isfinite(value) else f"the sd of the noise is {sd}"
        return Answer(np.nan, None, started, seconds, why)
    return Answer(value, sd, started, seconds)


def _answered(result: Any) -> Any:
    if result is None:
        raise ValueError("log_density returned None")
    return result


def in_turn(f: LogDensity, points: Float[ndarray, "n d"]) -> Answers:
    """In this process, one after the other."""
    for i, x in enumerate(points):
        yield i, evaluate(f, x, "")


def through(executor: Any, f: LogDensity, points: Float[ndarray, "n d"]) -> Answers:
    """By an executor of concurrent.futures, or a client of Dask: whatever has `submit` and gives futures."""
    arrived: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    futures: list[Any] = []
    try:
        for i, x in enumerate(points):
            try:
                future = executor.submit(evaluate, f, x, uuid4().hex)
            except BrokenExecutor as error:
                arrived.put((i, error))
                continue
            except RuntimeError as error:
                raise VsbqError(f"The executor takes no calls ({error}). Pass one that is open.") from error
            futures.append(future)
            future.add_done_callback(partial(_arrive, arrived, i))
        for _ in points:
            i, ended = arrived.get()
            yield i, _fetched(ended)
    finally:
        for future in futures:
            future.cancel()


def _arrive(arrived: SimpleQueue[tuple[int, Any]], number: int, future: Any) -> None:
    arrived.put((number, future))


def _fetched(ended: Any) -> Answer:
    """The answer of a future; an error here is one of the executor, since those of the model are answers."""
    try:
        if isinstance(ended, Exception):
            raise ended
        answer: Answer = ended.result()
        return answer
    except Exception as error:
        words = f"{type(error).__name__}: {error!s:.300}"
        return Answer(np.nan, None, time(), None, words, isinstance(error, BrokenExecutor))


class Workers:
    """Processes of this machine, which end with this one. If one is killed, as by a system that is out of memory, what
    was under way is called once more, each call in a process of its own."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._executor = processes(count)

    def __call__(self, f: LogDensity, points: Float[ndarray, "n d"]) -> Answers:
        """All points, in the order in which they end."""
        lost = []
        for i, answer in through(self._executor, f, points):
            if answer.lost:
                lost.append(i)
            else:
                yield i, answer
        if lost:
            self.close()
            for i in lost:
                yield i, self._alone(f, points[i : i + 1])
            self._executor = processes(self._count)

    def _alone(self, f: LogDensity, point: Float[ndarray, "1 d"]) -> Answer:
        executor = processes(1)
        try:
            answer = next(answer for _, answer in through(executor, f, point))
        finally:
            executor.shutdown(kill_workers=True)
        return answer._replace(failure=KILLED) if answer.lost else answer

    def close(self) -> None:
        """End the processes."""
        self._executor.shutdown(kill_workers=True)
