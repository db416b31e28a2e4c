"""The top of the page: what this is, and whether it can be used."""

from __future__ import annotations

from datetime import date

from vsbq.errors import count_in_words
from vsbq.markup import Markup, bullets, element, joined, paragraph, readable, shortened
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Finding
from vsbq.report.digits import count
from vsbq.report.reasons import place_of

__all__ = ["masthead"]

VERDICTS = {
    "trusted": "No check speaks against this posterior. A mode that no evaluation has seen would not be noticed.",
    "doubtful": "It may be right, but the evaluations do not show that it is. Read the reasons before you use it.",
    "rejected": "Do not use this posterior. The reasons say what is wrong and what to do.",
}
SHOWN_NAMES = 12
LONGEST_TITLE = 200


def masthead(posterior: Posterior, title: str, today: date, pictured: frozenset[str]) -> Markup:
    """Title, the verdict with links to the pictures of its reasons, and what the page is about."""
    return element(
        "header",
        element("h1", shortened(title, LONGEST_TITLE)),
        _verdict(posterior, pictured),
        paragraph(_about(posterior, today), class_="byline"),
    )


def _about(posterior: Posterior, today: date) -> Markup:
    names = [element("bdi", readable(name)) for name in posterior.names[:SHOWN_NAMES]]
    more = len(posterior.names) - len(names)
    listed = joined(*(part for name in names for part in (", ", name))).removeprefix(", ")
    return joined(
        f"{count_in_words(posterior.dimension, 'parameter')} (",
        Markup(listed),
        f" and {more} more)" if more else ")",
        f" · {_evaluations(posterior)} of a model's log density · written on ",
        element("time", f"{today.day} {today:%B} {today.year}", datetime=today.isoformat()),
    )


def _evaluations(posterior: Posterior) -> str:
    if posterior.evaluations is not None:
        return f"{count(len(posterior.evaluations))} evaluations"
    if posterior.history is not None:
        return f"{count(posterior.history.trimmed.given)} evaluations"
    return "number of evaluations not recorded"


def _verdict(posterior: Posterior, pictured: frozenset[str]) -> Markup:
    """The first line: whether the posterior can be used, why not, and what to do, each remedy once."""
    found = posterior.diagnose()
    reasons = [bullets(_reason(finding, pictured) for finding in found.reasons)] if found.reasons else []
    remedies = list(dict.fromkeys(finding.remedy for finding in found.reasons if finding.remedy))
    to_do = [paragraph(element("strong", "What to do. "), " ".join(remedies))] if remedies else []
    return element(
        "div",
        paragraph(element("strong", f"Verdict: {found.verdict}. "), VERDICTS[found.verdict]),
        *reasons,
        *to_do,
        class_=f"verdict {found.verdict}",
        role="note",
    )


def _reason(finding: Finding, pictured: frozenset[str]) -> Markup:
    if finding.name not in pictured:
        return joined(finding.message)
    return joined(finding.message, " ", element("a", "See the picture", href=f"#{place_of(finding.name)}"), ".")
