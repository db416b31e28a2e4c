"""Keep every evaluation of an optimiser in a file, read it back, and merge the files of several machines."""

from vsbq.io.record.merge import Merged, merge
from vsbq.io.record.problem import RecorderError
from vsbq.io.record.reading import StoredEvaluations, evaluations_from, read_store
from vsbq.io.record.recorder import Best, Recorder
from vsbq.io.record.store import is_store

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
