"""Sums over all rows of a table: in this process, or part by part on a Dask cluster.

The parts are the same wherever they are summed, and are added in their order, so that the result is the same to the
last bit with one worker or with many.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from vsbq.errors import EvaluationsError, VsbqError
from vsbq.large.sample import checked
from vsbq.large.tables import Table, spans
from vsbq.numerics.threads import one_blas_thread
from vsbq.steps.surrogate.complete import Recipe, Rows, Sums, sums_of

__all__ = ["total_sums"]

#: Rows that are summed at a time, whatever is read at a time, and rows of a part: some seconds of work with hundreds of
#: inducing points, so that sending its sums is nothing.
BLOCK = 2**13
PART = 2**19

#: Parts that a cluster has at a time, for each of its threads.
AHEAD = 2


def total_sums(recipe: Recipe, table: Table, factor: float, chunk: int, client: Any) -> Sums:
    """What all rows add up to. Standard deviations are multiplied by `factor`, or are minus it where it is negative."""
    ranges = list(spans(0, table.rows, PART))
    if client is None:
        parts: Iterator[Sums] = (part_sums(recipe, table, each, factor, chunk) for each in ranges)
    else:
        parts = _on_dask(client, recipe, table, ranges, factor, chunk)
    total = next(parts)
    for part in parts:
        total = total.plus(part)
    return total


def part_sums(
    recipe: Recipe, table: Table, rows: tuple[int, int], factor: float, chunk: int, first: int | None = None
) -> Sums:
    """What some rows add up to; `first` is the number of the first one for the user, if that is another one."""
    shift = 0 if first is None else first - rows[0]

    def blocks() -> Iterator[Rows]:
        for start, stop in spans(*rows, max(chunk // BLOCK, 1) * BLOCK):
            piece = checked(table.read(start, stop), start + shift, recipe.space.bounds)
            piece = piece._replace(sd=piece.sd * factor if factor >= 0 else 0.0 * piece.sd - factor)
            for first_row, end in spans(0, len(piece.values), BLOCK):
                yield Rows(*(column[first_row:end] for column in piece))

    with one_blas_thread():
        return sums_of(recipe, blocks())


def _on_dask(
    client: Any, recipe: Recipe, table: Table, ranges: list[tuple[int, int]], factor: float, chunk: int
) -> Iterator[Sums]:
    """Parts in their order; one whose worker is lost is summed again elsewhere, by Dask."""
    distributed, quiet = _distributed(client), import_module("dask.config")
    waiting: list[Any] = []
    ahead = max(AHEAD * sum(client.nthreads().values()), AHEAD)
    pending = iter(ranges)

    def submit() -> None:
        for start, stop in pending:
            piece, first = table.part(start, stop)
            with quiet.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
                task = client.submit(
                    part_sums, recipe, piece, (first, first + stop - start), factor, chunk, start, pure=False
                )
            waiting.append(task)
            return

    try:
        for _ in range(ahead):
            submit()
        while waiting:
            done = waiting.pop(0)
            try:
                found: Sums = done.result()
            except distributed.KilledWorker as error:
                raise EvaluationsError(
                    "A part of the sums has cost the cluster several workers. Give its workers more memory, or lower "
                    "Settings.max_inducing."
                ) from error
            submit()
            yield found
    finally:
        for task in waiting:
            task.cancel()


def _distributed(client: Any) -> Any:
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise ImportError("a client needs Dask: pip install 'vsbq[dask]'") from error
    if not isinstance(client, distributed.Client):
        raise VsbqError(f"client is a {type(client).__name__}. Pass a distributed.Client, or leave it out.")
    return distributed
