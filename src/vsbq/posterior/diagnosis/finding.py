"""A verdict on a fit, and the findings that it rests on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from vsbq.posterior.diagnosis.thresholds import THRESHOLDS
from vsbq.tables import badge, caption, notebook_table

__all__ = ["LEVELS", "Diagnosis", "Finding", "Verdict"]

Verdict = Literal["trusted", "doubtful", "rejected"]

#: From the best to the worst.
LEVELS: tuple[Verdict, ...] = ("trusted", "doubtful", "rejected")


class Finding(NamedTuple):
    """One check: what was measured, what it was compared with, what it means, and what to do.

    `number` is None where nothing could be measured. `remedy` is empty where there is nothing to do.
    """

    name: str
    level: str
    number: float | None
    threshold: float | None
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.level:<9} {self.name}: {self.message}" + (f" {self.remedy}" if self.remedy else "")


class Diagnosis(NamedTuple):
    """Whether a posterior can be used: "trusted", "doubtful" or "rejected", and every finding, in a fixed order."""

    verdict: str
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> Diagnosis:
        """The verdict is that of the worst finding."""
        every = tuple(findings)
        worst = max((LEVELS.index(_level(finding.level)) for finding in every), default=1)
        return cls(LEVELS[worst], every)

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """The findings that speak against the fit, the worst level first, within a level in their own order."""
        return tuple(one for level in ("rejected", "doubtful") for one in self.findings if one.level == level)

    @property
    def causes(self) -> tuple[str, ...]:
        """Names of the reasons; where the checks only speak against the fit together, those that most of it is from."""
        names = [finding.name for finding in self.reasons]
        main = THRESHOLDS.main({finding.name: finding.number for finding in self.findings})
        return tuple(dict.fromkeys([*names, *main])) if "together" in names else tuple(names)

    def finding(self, name: str) -> Finding:
        """The finding of that name; raises KeyError if there is none."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)

    @property
    def headline(self) -> str:
        """The verdict and its one or two main reasons in a few sentences."""
        if not self.reasons:
            return "The fit is trusted: no check speaks against it."
        return " ".join([f"The fit is {self.verdict}.", *(finding.message for finding in self.reasons[:2])])

    def with_findings(self, findings: Iterable[Finding]) -> Diagnosis:
        """The same with more findings; one of the same name takes the place of the earlier one."""
        new = tuple(findings)
        names = {finding.name for finding in new}
        return Diagnosis.of([*(finding for finding in self.findings if finding.name not in names), *new])

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, for JSON."""
        return {"verdict": self.verdict, "findings": [finding._asdict() for finding in self.findings]}

    def __str__(self) -> str:
        fine = [finding.name for finding in self.findings if finding.level == "trusted"]
        lines = [f"Verdict: {self.verdict}", *(f"  {finding}" for finding in self.reasons)]
        return "\n".join([*lines, f"  without objection: {', '.join(fine)}"] if fine else lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Every finding, those that speak against the fit first."""
        fine = [finding for finding in self.findings if finding.level == "trusted"]
        rows = [
            [finding.name, badge(finding.level), _brief(finding.number), _brief(finding.threshold), _words(finding)]
            for finding in (*self.reasons, *fine)
        ]
        head = ["check", "level", "number", "threshold", "what it means"]
        return notebook_table(head, rows, above=caption("Verdict: ", badge(self.verdict)), words=True)


def _brief(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


def _words(finding: Finding) -> str:
    return f"{finding.message} {finding.remedy}".rstrip()


def _level(word: str) -> Verdict:
    """A level by its word."""
    for level in LEVELS:
        if word == level:
            return level
    raise ValueError(f"A level is one of {', '.join(LEVELS)}, not {word!r}.")
