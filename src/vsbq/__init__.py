"""Turn the log-density evaluations an optimiser left behind into a posterior."""

from vsbq._version import __version__
from vsbq.audit import audit
from vsbq.errors import EvaluationsError, FitError, VsbqError
from vsbq.evaluations import Evaluations
from vsbq.files.posterior_file import PosteriorFileError, load
from vsbq.fit import Settings, fit
from vsbq.posterior import Posterior

__all__ = [
    "Evaluations",
    "EvaluationsError",
    "FitError",
    "Posterior",
    "PosteriorFileError",
    "Settings",
    "VsbqError",
    "__version__",
    "audit",
    "fit",
    "load",
]
