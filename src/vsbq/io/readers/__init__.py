"""Readers of what other libraries and files hold; `Evaluations.from_...` calls them.

Three libraries forget their evaluations but tell them to whoever listens: `CMATrace` listens to pycma, `LmfitTrace` to
lmfit and `NevergradTrace` to Nevergrad. `vsbq.Recorder` serves every other one.
"""

from vsbq.io.readers.cma_runs import CMATrace
from vsbq.io.readers.lmfit_runs import LmfitTrace
from vsbq.io.readers.nevergrad_runs import NevergradTrace

__all__ = ["CMATrace", "LmfitTrace", "NevergradTrace"]
