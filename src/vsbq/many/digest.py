"""Whether two fits are of the same evaluations and with the same settings: digests of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.errors import VsbqError
from vsbq.settings import Settings, Steps

__all__ = ["digest_of_evaluations", "digest_of_settings"]


def digest_of_evaluations(evaluations: Evaluations) -> str:
    """SHA-256 of all that a fit takes from evaluations, to the last bit; remarks on how they were read don't count."""
    boxes = (evaluations.bounds, evaluations.plausible_bounds)
    sides = [side for box in boxes for side in ((None, None) if box is None else (box.lower, box.upper))]
    columns = (evaluations.points, evaluations.log_density, evaluations.log_density_sd, evaluations.log_prior)
    digest = hashlib.sha256(json.dumps([evaluations.names, evaluations.tag]).encode())
    for array in (*columns, *sides):
        digest.update(f"{None if array is None else array.shape}".encode())
        if array is not None:
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def digest_of_settings(settings: Settings | Steps | None) -> str:
    """SHA-256 of what each step is told; `Settings` and the `Steps` that it makes have the same."""
    steps = settings if isinstance(settings, Steps) else (settings or Settings()).steps()
    return hashlib.sha256(json.dumps(_described(steps), sort_keys=True).encode()).hexdigest()


def _described(value: Any) -> Any:
    """A setting as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_described(item) for item in value]
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if is_dataclass(value):
        return {"type": _described(type(value))} | {
            each.name: _described(getattr(value, each.name)) for each in fields(value)
        }
    raise VsbqError(
        f"The settings hold a {type(value).__name__}, and it can't be told whether two of them are the same, so that "
        "posteriors in a folder can't be matched. Make it a frozen dataclass of numbers and texts, or leave out folder."
    )
