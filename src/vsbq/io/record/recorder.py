"""The recorder: whatever an optimiser evaluates on its way is kept, in a file, for later."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import uuid4

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.data.bounds import Bounds, BoundsLike
from vsbq.errors import EvaluationsError, count_in_words, names_in_words
from vsbq.io.record.calls import Batch, Returns, read_noise, read_numbers, read_points
from vsbq.io.record.file import full_path, is_there
from vsbq.io.record.problem import Problem, RecorderError
from vsbq.io.record.reader import describe
from vsbq.io.record.store import Row, Store
from vsbq.io.record.wrapper import Recorded, make_rows

__all__ = ["Best", "Recorder"]


class Best(NamedTuple):
    """The evaluation with the highest finite log density."""

    point: Float[ndarray, " d"]
    log_density: float


class Recorder:
    """Keeps every evaluation of an objective in a file, for any optimiser.

        rec = vsbq.Recorder("fits.db", names=["a", "b"], bounds=[(0, 1), (-5, 5)], tag="model v3, subject 12")
        best = scipy.optimize.minimize(rec.minimise(f), [0.5, 0])
        post = vsbq.fit(vsbq.Evaluations.from_recorder("fits.db"))

    A file that exists is continued, if tag, names and bounds are the same as then; else it is refused and left as it
    is. An evaluation is safe once the wrapped call has returned: it survives `kill -9`, and only a power cut or a crash
    of the operating system may take the last few. Threads and processes may share a recorder (it can be pickled), and
    several may write to one file; for several machines use one file each, and `vsbq.record.merge`.

    Args:
        path: the file, made if it does not exist.
        names: of the parameters, in the order in which the objective gets them. To continue a file, names and bounds
            may both be left out.
        bounds: hard bounds outside which the density is zero, in any form that `Evaluations` takes.
        plausible_bounds: where most of the posterior is expected.
        tag: what tells this model and these data from others, so that their evaluations never mix.
        run: the name of this run, to tell it later from others in the file; a new one if left out.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        names: Sequence[str] | None = None,
        bounds: BoundsLike = None,
        plausible_bounds: BoundsLike = None,
        tag: str | None = None,
        run: str | None = None,
    ) -> None:
        self._path = full_path(path)
        problem = _read_problem(self._path, names, bounds, plausible_bounds, tag)
        self._store = Store(self._path, problem, _read_run(run))
        self._closed = self._shared = False
        self._store.open()

    def minimise(
        self,
        f: Callable[..., Any],
        *,
        returns: Returns | None = None,
        log_prior: Callable[..., Any] | None = None,
        batch: Batch = "rows",
    ) -> Recorded:
        """Wrap a cost, that is a negative log density, for an optimiser that minimises.

        The wrapped function takes and returns exactly what `f` does. The point is its first argument (an array, a list
        or a dict by name), or its first arguments if these are single numbers, or its arguments by name; other
        arguments are passed on. If `f` raises an exception, the failure is recorded and the exception goes on.

        Args:
            f: returns one number for a point, or n for a batch of n points; or a pair of this and the standard
                deviation of its noise, or of this and its gradient.
            returns: "value", "value_and_sd" or "value_and_gradient". If left out, it is seen from the shapes: a second
                number per point is a standard deviation, one per coordinate a gradient.
            log_prior: if given, `f` is the negative log likelihood, and the optimiser gets the negative log posterior.
                Called with the point as an array, or with the (n, D) array of a batch; kept in a column of its own.
            batch: "rows" if a batch has shape (n, D), "columns" if (D, n).
        """
        return self._wrap(f, -1.0, returns, log_prior, batch)

    def maximise(
        self,
        f: Callable[..., Any],
        *,
        returns: Returns | None = None,
        log_prior: Callable[..., Any] | None = None,
        batch: Batch = "rows",
    ) -> Recorded:
        """Wrap a log density, for an optimiser that maximises or for a sampler; otherwise as `minimise`.

        With `log_prior`, `f` is the log likelihood.
        """
        return self._wrap(f, 1.0, returns, log_prior, batch)

    def _wrap(self, f: Any, sign: float, returns: Any, log_prior: Any, batch: Any) -> Recorded:
        for label, value in (("f", f), ("log_prior", log_prior or f)):
            if not callable(value):
                raise EvaluationsError(f"{label} must be a function, but is {value!r}.")
        for label, value, known in (("returns", returns or "value", Returns), ("batch", batch, Batch)):
            if value not in get_args(known):
                raise EvaluationsError(f"{label}={value!r} is not known. Use one of {names_in_words(get_args(known))}.")
        if log_prior is not None and returns == "value_and_gradient":
            raise EvaluationsError(
                "With log_prior the gradient would lack the prior's part. Leave log_prior out, and wrap the negative "
                "log posterior with its own gradient."
            )
        return Recorded(self, f, sign, returns=returns, log_prior=log_prior, batch=batch)

    def record(
        self,
        x: Any,
        log_density: ArrayLike | float,
        sd: ArrayLike | float | None = None,
        log_prior: ArrayLike | float | None = None,
    ) -> None:
        """Record one point or a batch (n, D) by hand, as in a loop of ask and tell.

        Give the log density, so -cost if the optimiser minimises; it includes the log prior, which may be given apart.
        """
        started, points = time.time(), read_points(x, self.names)
        n = len(points.rows)
        values = read_numbers(log_density, n, "log_density")
        noise = None if sd is None else read_noise(sd, n, "sd")
        prior = None if log_prior is None else read_numbers(log_prior, n, "log_prior")
        self.add(make_rows(points.rows, values, noise, prior, moment=(started, None)))

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows of the file as they are; `record` is the friendlier way."""
        self._check_not_closed()
        self._store.add(rows)

    def check_open(self) -> None:
        """Refuse to go on after `close`, or without the file."""
        self._check_not_closed()
        self._store.check_in_place()

    def _check_not_closed(self) -> None:
        if self._closed:
            raise RecorderError(f"The recorder of '{self._path}' is closed. Make a new one to go on with the file.")

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    @property
    def run(self) -> str:
        """The name of this run."""
        return self._store.run

    @property
    def tag(self) -> str:
        """What tells this model and these data from others."""
        return self._store.problem.tag

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self._store.problem.names

    @property
    def bounds(self) -> Bounds:
        """The hard bounds."""
        return self._store.problem.bounds

    @property
    def plausible_bounds(self) -> Bounds | None:
        """The plausible bounds, if there are any."""
        return self._store.problem.plausible_bounds

    @property
    def best(self) -> Best | None:
        """The best evaluation in the file, of all runs and processes, or None if none is finite."""
        self.check_open()
        found = self._store.best()
        return None if found is None else Best(np.frombuffer(found[0], "<f8").astype(np.float64), found[1])

    def __len__(self) -> int:
        """How many evaluations are in the file, of all runs and processes, failed ones included."""
        self.check_open()
        return int((self._store.ask("SELECT count(*) FROM evaluation") or (0,))[0])

    def __bool__(self) -> bool:
        return True

    def __fspath__(self) -> str:
        return str(self._path)

    def __repr__(self) -> str:
        tag = f", tag '{self.tag}'" if self.tag else ""
        end = f"parameters {names_in_words(self.names)}{tag})"
        try:
            count, best = count_in_words(len(self), "evaluation"), self.best
        except RecorderError:
            return f"Recorder('{self._path}', {'closed' if self._closed else 'not readable'}, {end}"
        top = "no finite log density" if best is None else f"best log density {best.log_density:.6g}"
        return f"Recorder('{self._path}', {count}, {top}, {end}"

    def close(self) -> None:
        """Close the file; calls of wrapped functions are refused from then on."""
        self._closed = True
        if not self._shared:
            self._store.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self._path), self._store.problem, self.run, self._store.origin, self._closed)


@functools.cache
def _shared_store(path: str, problem: Problem, run: str, origin: str) -> Store:
    """The store of all recorders that came to this process in a pickle: one by one, with every task of a pool."""
    return Store(Path(path), problem, run, origin)


def _reopened(path: str, problem: Problem, run: str, origin: str, closed: bool) -> Recorder:
    copy = object.__new__(Recorder)
    copy._path, copy._closed, copy._shared = Path(path), closed, True
    copy._store = _shared_store(path, problem, run, origin)
    return copy


def _read_problem(
    path: Path, names: Sequence[str] | None, bounds: BoundsLike, plausible: BoundsLike, tag: str | None
) -> Problem:
    if names is not None:
        return Problem.parse(names, bounds, plausible, tag)
    if not is_there(path):
        raise EvaluationsError(f"names is needed to begin '{path}'. Pass one name for every parameter.")
    there = describe(path)
    return Problem.parse(there.names, there.bounds if bounds is None else bounds, plausible, tag)


def _read_run(run: str | None) -> str:
    if run is None:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S')} {uuid4().hex[:6]}"
    if not isinstance(run, str) or not run:
        raise EvaluationsError(f"run must be a string that is not empty, but is {run!r}. Pass str(run).")
    return run
