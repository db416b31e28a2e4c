"""The calls that were made: in memory, and in a recorder's file if there is one, from which they are taken up again."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.errors import EvaluationsError, VsbqError
from vsbq.improve.calls import Answer
from vsbq.io.record import Recorder, read_store
from vsbq.io.record.wrapper import make_rows
from vsbq.posterior import Posterior

__all__ = ["Known", "Ledger", "noise_of"]

#: The name under which calls are in a recorder's file: what an optimiser left there is none of ours.
RUN = "improve"


class Known(NamedTuple):
    """Values that are not yet in the posterior; sd is NaN where a call told none."""

    points: Float[ndarray, "n d"]
    values: Float[ndarray, " n"]
    sd: Float[ndarray, " n"]


class Ledger:
    """Every call, the failed ones too; `take` hands out each value once."""

    def __init__(self, post: Posterior, recorder: Recorder | None) -> None:
        self._recorder = recorder
        self._dimension = post.dimension
        self._points: list[Float[ndarray, " d"]] = []
        self._answers: list[tuple[float, float]] = []  # value and sd
        self._taken = 0
        if recorder is not None:
            self._read(recorder, post)

    @classmethod
    def opened(cls, record: str | os.PathLike[str] | Recorder | None, post: Posterior) -> Ledger:
        """With the calls that a file holds from before, but for those that the posterior knows."""
        if record is None:
            return cls(post, None)
        tag = record.tag if isinstance(record, Recorder) and post.tag is None else post.tag
        if isinstance(record, Recorder) and set(record.names) != set(post.names):
            raise EvaluationsError(
                f"The recorder is of {', '.join(record.names)}, the posterior of {', '.join(post.names)}. Pass the "
                "recorder of these parameters, or the path of a new file."
            )
        return cls(post, Recorder(record, names=post.names, bounds=post.bounds, tag=tag, run=RUN))

    def _read(self, recorder: Recorder, post: Posterior) -> None:
        stored = read_store(recorder)
        known = set() if post.evaluations is None else {row.tobytes() for row in post.evaluations.points}
        sds = np.full(len(stored), np.nan) if stored.log_density_sd is None else stored.log_density_sd
        for i, run in enumerate(stored.runs):
            if run == RUN and stored.points[i].tobytes() not in known:
                value = stored.log_density[i] if stored.failures[i] is None else np.nan
                self._points.append(stored.points[i])
                self._answers.append((float(value), float(sds[i])))

    def add(self, x: Float[ndarray, " d"], answer: Answer) -> None:
        """Keep the answer of a call; in a file it is safe when this returns."""
        if self._recorder is not None:
            value, sd = np.array([answer.value]), None if answer.sd is None else np.array([answer.sd])
            moment = (answer.started, answer.seconds)
            self._recorder.add(make_rows(x[None], value, sd, None, moment=moment, failure=answer.failure))
        self._points.append(x)
        self._answers.append((answer.value, np.nan if answer.sd is None else answer.sd))

    @property
    def calls(self) -> int:
        """All calls, failed ones included."""
        return len(self._answers)

    @property
    def failed(self) -> Float[ndarray, "k d"]:
        """The points whose calls failed."""
        points = [x for x, (value, _) in zip(self._points, self._answers, strict=True) if np.isnan(value)]
        return np.array(points).reshape(-1, self._dimension)

    def failures(self, calls: int) -> int:
        """How many of the first so many calls failed."""
        return sum(bool(np.isnan(value)) for value, _ in self._answers[:calls])

    def take(self, calls: int) -> Known:
        """The values of the first so many calls that were not handed out yet."""
        points = np.array(self._points[self._taken : calls]).reshape(-1, self._dimension)
        answers = np.array(self._answers[self._taken : calls], dtype=np.float64).reshape(-1, 2)
        self._taken = calls
        fine = ~np.isnan(answers[:, 0])
        return Known(points[fine], answers[fine, 0], answers[fine, 1])

    def close(self) -> None:
        """Close the file."""
        if self._recorder is not None:
            self._recorder.close()


def noise_of(known: Known, post: Posterior, told: float | None) -> Float[ndarray, " n"] | None:
    """Noise of new values: as their calls or the user told it; None where neither did and the earlier values came
    without it as well."""
    if told is not None:
        return np.where(np.isnan(known.sd), told, known.sd)
    missing = np.isnan(known.sd)
    earlier = None if post.evaluations is None else post.evaluations.log_density_sd
    if missing.all() and earlier is None:
        return None
    if missing.any():
        raise VsbqError(
            f"The {'earlier' if earlier is not None else 'other'} evaluations are noisy, and log_density returned "
            "values without the standard deviation of their noise. Return (value, sd), or pass log_density_sd to "
            "improve, 0 if they are exact. Values that are in the record are kept."
        )
    return known.sd
