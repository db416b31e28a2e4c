"""How a stored truth was checked: two ways to the evidence, and chains beside the weights.

The numbers are those of the posterior of standard normal numbers (see `Model`), and are stored as JSON in `Truth.made`.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from vsbq_bench.truth import Truth

__all__ = ["WAYS", "Checks", "checks_of"]

WAYS = ("integral", "grid", "weights")


class Checks(NamedTuple):
    """First importance weights, from which the draws are; a second way to the evidence; and a third, tempering.

    `shape` is the Pareto shape of the weights' tail. `second_way` is an integral in closed form or in one dimension,
    quadrature on a grid, or weights of another proposal, which alone have a share and a shape; a grid's error is how
    far a coarser grid is from it. `worst_z` is the largest difference of 2 D moments between chains and weights, in
    standard errors, and `distinct` the share of draws that are not repeated.
    """

    log_evidence: float
    log_evidence_sd: float
    share: float
    shape: float
    second_way: str
    second_log_evidence: float
    second_log_evidence_sd: float
    second_share: float | None
    second_shape: float | None
    tempered_log_evidence: float
    worst_z: float
    distinct: float
    seed: int

    @property
    def evidence_z(self) -> float:
        """Return the difference of both evidences in standard errors."""
        error = (self.log_evidence_sd**2 + self.second_log_evidence_sd**2) ** 0.5
        return abs(self.log_evidence - self.second_log_evidence) / error

    def dump(self) -> str:
        """Return the numbers as text."""
        return json.dumps(self._asdict())

    def objections(self) -> list[str]:
        """Say what keeps the truth from being trusted; nothing if all is well."""
        found = {
            f"the log evidence is known to {self.log_evidence_sd:.4f} only": self.log_evidence_sd >= 0.01,
            f"the second log evidence is known to {self.second_log_evidence_sd:.4f} only": self.second_log_evidence_sd
            >= 0.01,
            f"the log evidences differ by {self.evidence_z:.1f} standard errors": not self.evidence_z < 3,
            f"the Pareto shape is {self.shape:.2f}": not self.shape < 0.5,
            f"the effective share is {self.share:.2f}": not self.share > 0.2,
            f"the second Pareto shape is {self.second_shape}": self.second_way == "weights"
            and not (self.second_shape or 0.0) < 0.5,
            f"chains and weights differ by {self.worst_z:.1f} standard errors": not self.worst_z < 4,
            f"only {self.distinct:.3f} of the draws are distinct": not self.distinct > 0.99,
        }
        return [words for words, wrong in found.items() if wrong]


def checks_of(truth: Truth) -> Checks:
    """Read the checks of a stored truth."""
    return Checks(**json.loads(truth.made))
