"""Listeners for optimisers that forget their evaluations: `CMATrace`, `LmfitTrace`, `NevergradTrace`.

`Evaluations.from_...` reads what other libraries and files hold; `vsbq.Recorder` serves every optimiser.
"""

from vsbq.io.readers import CMATrace, LmfitTrace, NevergradTrace

__all__ = ["CMATrace", "LmfitTrace", "NevergradTrace"]
