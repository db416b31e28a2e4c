"""Readers of what other libraries and files hold; `Evaluations.from_...` calls them.

Two optimisers forget their evaluations but tell them to whoever listens: `CMATrace` listens to pycma and
`NevergradTrace` to Nevergrad. `vsbq.Recorder` serves every other one.
"""

from vsbq.io.readers.cma_runs import CMATrace
from vsbq.io.readers.nevergrad_runs import NevergradTrace

__all__ = ["CMATrace", "NevergradTrace"]
