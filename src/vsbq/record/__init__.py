"""Keep every evaluation of an optimiser in a file, read it back, and merge the files of several machines."""

from vsbq.record.merge import Merged, merge
from vsbq.record.problem import RecorderError
from vsbq.record.reading import StoredEvaluations, evaluations_from, read_store
from vsbq.record.recorder import Best, Recorder
from vsbq.record.store import is_store

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
