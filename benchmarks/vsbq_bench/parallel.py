"""Jobs in several processes, their results as they come; lines that are appended whole, so that a run can go on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from vsbq_bench.lines import _drop_cut_line
from vsbq_bench.trust.study import _short

__all__ = ["append_lines", "in_processes"]

Job = TypeVar("Job")
Result = TypeVar("Result")

#: Each process has one thread: matrices are small, and several processes share the cores.
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def in_processes(run: Callable[[Job], Result], jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Result]]:
    """Each job with its result, as they end; with one process in this one and in order."""
    if processes == 1:
        yield from ((job, run(job)) for job in jobs)
        return
    for name in THREADS:
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        under_way = {pool.submit(run, job): job for job in jobs}
        try:
            for future in as_completed(under_way):
                yield under_way[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add lines of JSON to a file, after a last one that was cut short is dropped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _drop_cut_line(path)
    with path.open("a", encoding="utf-8") as out:
        out.writelines(json.dumps(_short(line), allow_nan=False, ensure_ascii=False) + "\n" for line in lines)
