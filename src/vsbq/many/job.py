"""One of many fits: what a process is handed, what it does, and what it hands back."""

from __future__ import annotations

import hashlib
import traceback
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from vsbq._version import __version__
from vsbq.data.evaluations import Evaluations
from vsbq.errors import FitError, Message, VsbqError
from vsbq.fit import fit
from vsbq.io.files.posterior_file import packed
from vsbq.io.files.posterior_header import Origin
from vsbq.many.guard import guarded
from vsbq.many.result import Failure, Row
from vsbq.posterior import Posterior
from vsbq.settings import Settings, Steps

__all__ = ["Job", "Outcome", "failed", "row_of", "run", "stream"]


def stream(seed: int, name: str) -> np.random.Generator:
    """The random numbers of one of many fits: they depend on the seed of all and on its own name, nothing else.

    `vsbq.fit(evaluations, rng=vsbq.many.stream(seed, name))` repeats one fit of `vsbq.fit_many(..., rng=seed)`.
    """
    return np.random.default_rng(int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()))


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """A fit that is to be done. With `origin` the bytes of its file are handed back, else the posterior itself."""

    name: str
    evaluations: Evaluations
    settings: Settings | Steps | None
    seed: int
    origin: Origin | None = None
    version: str = __version__


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """A row of the table with the posterior or its file; or a failure."""

    row: Row | None = None
    posterior: Posterior | None = None
    file: bytes | None = None
    failure: Failure | None = None


def run(job: Job) -> Outcome:
    """Do one fit, in whatever process this is; an error is part of the outcome."""
    start = perf_counter()
    try:
        if job.version != __version__:
            raise FitError(
                f"The process for this fit has vsbq {__version__}, the one that asked for it {job.version}. Install "
                "the same version on all machines."
            )
        with guarded() as heard:
            post = fit(job.evaluations, settings=job.settings, rng=stream(job.seed, job.name), progress=False)
        row = replace(row_of(job.name, post, job.seed, tuple(heard)), seconds=perf_counter() - start)
        if job.origin is None:
            return Outcome(row=row, posterior=post)
        return Outcome(row=row, file=packed(post, job.origin._replace(warnings=tuple(heard))))
    except Exception as error:
        return failed(error)


def row_of(name: str, post: Posterior, seed: int, warnings: tuple[str, ...]) -> Row:
    """What the table says of a posterior."""
    return Row(
        name=name,
        evaluations=0 if post.evaluations is None else len(post.evaluations),
        dimension=post.dimension,
        log_evidence=post.log_evidence,
        log_evidence_sd=post.log_evidence_sd,
        seconds=sum(post.history.seconds.values()) if post.history else 0.0,
        seed=seed,
        warnings=warnings,
    )


def failed(error: BaseException) -> Outcome:
    """The outcome of a fit that ended with an error."""
    message = error.message if isinstance(error, VsbqError) else Message(str(error) or type(error).__name__)
    told = "".join(traceback.format_exception(error))
    return Outcome(failure=Failure(kind=type(error).__name__, message=message, traceback=told))
