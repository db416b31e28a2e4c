"""Listeners for optimisers that forget their evaluations: `CMATrace` for pycma, `NevergradTrace` for Nevergrad.

`Evaluations.from_...` reads what other libraries and files hold; `vsbq.Recorder` serves every optimiser.
"""

from vsbq.io.readers import CMATrace, NevergradTrace

__all__ = ["CMATrace", "NevergradTrace"]
