"""A table whose reader is killed once, in a module that workers can import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsbq.large.tables import ArrayTable
from vsbq.steps.surrogate.complete import Rows


def trace(n, seed=0, noise=0.0):
    """A standard normal in two dimensions, as an optimiser leaves it behind."""
    rng = np.random.default_rng([n, seed])
    points = rng.standard_normal((n, 2)) * np.exp(rng.uniform(-2, 1.2, n))[:, None]
    return points, -0.5 * (points**2).sum(axis=1) + noise * rng.standard_normal(n)


@dataclass(frozen=True, eq=False)
class KilledOnceTable(ArrayTable):
    """Files whose rows kill the first worker that reads them from the middle on."""

    flag: str = ""
    parent: int = 0

    def read(self, start: int, stop: int) -> Rows:
        if start >= self.rows // 2 and os.getpid() != self.parent:
            try:
                Path(self.flag).touch(exist_ok=False)
            except FileExistsError:
                return super().read(start, stop)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().read(start, stop)
