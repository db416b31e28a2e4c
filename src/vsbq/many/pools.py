"""Where fits are done: here one after the other, in processes of this machine, or on a Dask cluster.

Each way takes jobs from an iterator, no more of them at a time than it has use for, and yields them with their outcome
in the order in which they end. Jobs don't know of each other, so that the way makes no difference to any outcome.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from importlib import import_module
from itertools import islice
from typing import Any

from vsbq.errors import FitError, VsbqError
from vsbq.many.job import Job, Outcome, failed, run

__all__ = ["in_processes", "in_turn", "on_dask", "processes"]

Ended = Generator[tuple[Job, Outcome], None, None]

#: One thread for each library that could do a matrix product.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")

#: Jobs that a Dask cluster has at a time: so many for each of its threads, and at least so many.
JOBS_PER_THREAD = 3
LEAST_JOBS = 32


def in_turn(jobs: Iterator[Job]) -> Ended:
    """In this process, one after the other."""
    for job in jobs:
        yield job, run(job)


# Processes of this machine


def in_processes(jobs: Iterator[Job], workers: int) -> Ended:
    """In processes of this machine, which end with this one.

    If a process is killed, as by a system that is out of memory, all fits that were under way start again, each in a
    process of its own; one whose process is killed again has failed.
    """
    more = True
    while more:
        lost: list[Job] = []
        more = yield from _until_one_is_killed(jobs, workers, lost)
        for job in lost:
            yield job, _alone(job)


def _until_one_is_killed(
    jobs: Iterator[Job], workers: int, lost: list[Job]
) -> Generator[tuple[Job, Outcome], None, bool]:
    """Outcomes of all jobs, unless a process is killed: then what was under way is lost, and there may be more."""
    executor = processes(workers)
    running: dict[Future[Outcome], Job] = {}
    try:
        while not lost:
            for job in islice(jobs, workers + 1 - len(running)):
                running[_submit(executor, job)] = job
            if not running:
                return False
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield from _ended(future, running.pop(future), lost)
        for future in wait(running).done:  # the pool is broken, so that all have ended
            yield from _ended(future, running.pop(future), lost)
        return True
    finally:
        executor.shutdown(kill_workers=True)


def _ended(future: Future[Outcome], job: Job, lost: list[Job]) -> Ended:
    error = future.exception()
    if isinstance(error, BrokenExecutor):
        lost.append(job)
    else:
        yield job, future.result() if error is None else failed(error)


def _alone(job: Job) -> Outcome:
    """A job in a process that does nothing else."""
    executor = processes(1)
    try:
        future = _submit(executor, job)
        error = future.exception()
    finally:
        executor.shutdown(kill_workers=True)
    if isinstance(error, BrokenExecutor):
        why = (
            "The process of this fit was killed, and again when it was alone. If the machine was out of memory, lower "
            "Settings.max_inducing, or fit fewer evaluations."
        )
        return failed(FitError(why))
    return future.result() if error is None else failed(error)


def _submit(executor: Any, job: Job) -> Future[Outcome]:
    """The future of a job; of one that failed where no process is left to take it."""
    try:
        future: Future[Outcome] = executor.submit(run, job)
    except BrokenExecutor as error:
        future = Future()
        future.set_exception(error)
    return future


def processes(workers: int) -> Any:
    """Processes that need no guard in the user's script, since they don't import it."""
    try:
        loky = import_module("joblib.externals.loky")
    except ImportError as error:
        raise ImportError(
            "several processes need joblib: pip install 'vsbq[many]'. With workers=1 nothing is needed."
        ) from error
    return loky.ProcessPoolExecutor(workers, env=ONE_THREAD, initializer=_end_with, initargs=(os.getpid(),))


def _end_with(parent: int) -> None:
    """In a new process: end soon after the one that started it, even if that is killed and can tell nobody.

    Ctrl-C in a terminal reaches all processes: it is left to the one that started the others.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


# A Dask cluster


def on_dask(jobs: Iterator[Job], client: Any) -> Ended:
    """On the workers of a Dask client. A job whose worker is lost is run again elsewhere, by Dask."""
    distributed, quiet = _distributed(client), import_module("dask.config")
    running: dict[Any, Job] = {}
    ready = distributed.as_completed(raise_errors=False)
    try:
        while True:
            room = max(LEAST_JOBS, JOBS_PER_THREAD * sum(client.nthreads().values())) - len(running)
            for job in islice(jobs, room):
                # Data go with the task, not ahead of it: what is scattered is lost with the worker that holds it.
                with quiet.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
                    future = client.submit(run, job, pure=False)
                running[future] = job
                ready.add(future)
            if not running:
                return
            future = next(ready)
            yield running.pop(future), _fetched(future)
    finally:
        client.cancel(list(running))


def _fetched(future: Any) -> Outcome:
    """The outcome of a future; an error here is one of the cluster, since those of fits are part of their outcome."""
    try:
        outcome: Outcome = future.result()
        return outcome
    except Exception as error:
        why = f"The cluster gave this fit up ({type(error).__name__}: {error!s:.300}). "
        lost = failed(FitError(why, "Look at the logs of its workers; vsbq must be installed on all of them."))
        future.release()
        return lost


def _distributed(client: Any) -> Any:
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise ImportError("fits on a cluster need Dask: pip install 'vsbq[dask]'.") from error
    if not isinstance(client, distributed.Client) or client.asynchronous:
        raise VsbqError(
            f"client is a {type(client).__name__}. Pass a distributed.Client that is not asynchronous, such as "
            "distributed.Client(address)."
        )
    return distributed
