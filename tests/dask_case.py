"""A real Dask cluster of two processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import distributed


@contextmanager
def two_workers(folder: Path) -> Iterator[Any]:
    """A client of two worker processes with one thread each, whose files go to a folder."""
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    cluster = distributed.LocalCluster(**settings, local_directory=str(folder))
    with cluster, distributed.Client(cluster) as client:
        yield client
