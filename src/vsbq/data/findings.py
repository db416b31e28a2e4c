"""One thing worth knowing about evaluations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """One thing worth knowing: a plain sentence with its numbers and, for a warning, the remedy."""

    severity: Literal["info", "warning"]
    topic: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity:<8}{self.topic}: {self.message}"
