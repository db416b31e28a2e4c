"""The checks: every finding with its number and threshold, and the pictures that show them."""

from __future__ import annotations

from vsbq.markup import Markup, element, paragraph, scroll, table
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Finding
from vsbq.report.digits import plain
from vsbq.report.pictures import CornerPicture

__all__ = ["the_checks"]

NOTHING = "–"


def the_checks(posterior: Posterior, picture: CornerPicture) -> Markup:
    """The section on the verdict."""
    found = posterior.diagnose()
    return element(
        "section",
        element("h2", "Did it work?"),
        paragraph(
            "The verdict is that of the worst check. Thresholds were chosen on fits whose truth is known. "
            "No check can see a mode that no evaluation has visited."
        ),
        table(
            ["check", "level", "number", "threshold", "what it says"],
            [_row(finding) for finding in found.findings],
            label="Checks of the fit",
            class_="meanings",
            wide=False,
        ),
        _figure(picture),
        id="checks",
    )


def _row(finding: Finding) -> list[Markup | str]:
    level = element("span", finding.level, class_=f"level {finding.level}")
    number, threshold = (NOTHING if each is None else plain(each, 2) for each in (finding.number, finding.threshold))
    return [finding.name, level, number, threshold, f"{finding.message} {finding.remedy}".strip()]


def _figure(picture: CornerPicture) -> Markup:
    if picture.missing:
        return paragraph(picture.missing, class_="absent")
    words = (
        "Findings against their thresholds; evaluations under the marginal that is nearest to a cut; the surrogate "
        "against the evaluations; its standard deviation under the posterior; the marginal that parts of the "
        "evaluations change most; and how evenly the draws are weighted."
    )
    size = {"width": str(picture.width), "height": str(picture.height)}
    image = element("img", src=picture.uri, alt=f"Pictures of the checks. {words}", **size)
    return element(
        "figure", scroll(image, "Pictures of the checks"), element("figcaption", words), class_="card-figure"
    )
