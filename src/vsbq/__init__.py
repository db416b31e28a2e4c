"""Turn the log-density evaluations an optimiser left behind into a posterior."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vsbq._version import __version__
from vsbq.analysis.comparison import Comparison, ComparisonError, compare
from vsbq.analysis.group_comparison import GroupComparison, compare_groups
from vsbq.data.audit import audit
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, FitError, VsbqError, VsbqWarning
from vsbq.fit import fit
from vsbq.io.files.exports import ExportError
from vsbq.io.files.posterior_file import PosteriorFileError, load
from vsbq.posterior import Posterior
from vsbq.settings import Settings

if TYPE_CHECKING:
    from vsbq import readers, record, report
    from vsbq.io.record import Recorder, RecorderError
    from vsbq.large.run import fit_large
    from vsbq.many.result import ManyFits
    from vsbq.many.run import fit_many

__all__ = [
    "Comparison",
    "ComparisonError",
    "Evaluations",
    "EvaluationsError",
    "ExportError",
    "FitError",
    "GroupComparison",
    "ManyFits",
    "Posterior",
    "PosteriorFileError",
    "Recorder",
    "RecorderError",
    "Settings",
    "VsbqError",
    "VsbqWarning",
    "__version__",
    "audit",
    "compare",
    "compare_groups",
    "fit",
    "fit_large",
    "fit_many",
    "load",
    "readers",
    "record",
    "report",
]


def __getattr__(name: str) -> Any:
    """Load what not everybody needs on first use; a Python without SQLite still fits posteriors."""
    if name in {"Recorder", "RecorderError"}:
        return getattr(import_module("vsbq.record"), name)
    if name == "fit_large":
        return getattr(import_module("vsbq.large"), name)
    if name in {"ManyFits", "fit_many"}:
        return getattr(import_module("vsbq.many"), name)
    if name in {"many", "readers", "record", "report"}:
        return import_module(f"vsbq.{name}")
    raise AttributeError(f"module 'vsbq' has no attribute '{name}'")
