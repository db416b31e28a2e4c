"""What `Posterior.improve` did: a verdict after each batch of calls, and why it ended."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Improvement", "ImprovementStep"]


class ImprovementStep(NamedTuple):
    """The posterior after so many calls of the model, of which some failed."""

    calls: int
    failed: int
    verdict: str
    log_evidence: float
    log_evidence_sd: float
    reasons: tuple[str, ...]  # names of the findings that speak against it

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        why = f" ({', '.join(self.reasons)})" if self.reasons else ""
        evidence = f"log evidence {self.log_evidence:.3f} ± {self.log_evidence_sd:.2g}"
        return f"{self.calls:>5} calls{failed}: {evidence}, {self.verdict}{why}"


class Improvement(NamedTuple):
    """The steps, from the posterior that was there to the last one; why there are no more of them; and, if the last one
    is not trusted, what it would take."""

    steps: tuple[ImprovementStep, ...]
    ended: str
    advice: str

    @property
    def calls(self) -> int:
        """How often the model was called."""
        return self.steps[-1].calls

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        return {"steps": [step._asdict() for step in self.steps], "ended": self.ended, "advice": self.advice}

    def __str__(self) -> str:
        return "\n".join([*map(str, self.steps), self.ended, *filter(None, [self.advice])])
