"""Keep every evaluation of an optimiser in a file, read it back, and merge the files of several machines."""

from vsbq.io.record import (
    Best,
    Merged,
    Recorder,
    RecorderError,
    StoredEvaluations,
    evaluations_from,
    is_store,
    merge,
    read_store,
)

__all__ = [
    "Best",
    "Merged",
    "Recorder",
    "RecorderError",
    "StoredEvaluations",
    "evaluations_from",
    "is_store",
    "merge",
    "read_store",
]
