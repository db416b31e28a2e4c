"""The checks: what each asks, its number and threshold, and the pictures that show them."""

from __future__ import annotations

from vsbq.markup import Markup, element, joined, paragraph, table
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Finding
from vsbq.report.digits import count, plain, share
from vsbq.report.numbers import Support
from vsbq.report.pictures import Picture, enlargeable
from vsbq.report.reasons import the_reasons

__all__ = ["the_checks"]

NOTHING = "–"
WIDEST = "70rem"  # of the pictures of all checks

#: What each check asks, for a reader who meets its name for the first time.
QUESTIONS = {
    "input": "Are the values log densities of one model?",
    "cut off": "Does the posterior go on where the evaluations end?",
    "beyond": "How much of the probability is beyond the outermost evaluations?",
    "support": "How much lies where the surrogate only guesses?",
    "around": "May there be more probability where the surrogate is not trusted?",
    "unsure": "How much lies where the log density is not known well?",
    "surrogate": "Are evaluations that were held out predicted as well as claimed?",
    "held out": "Does the posterior rest on a few evaluations?",
    "sisters": "Do surrogates from different parts of the evaluations agree?",
    "mixture": "Is the mixture near the surrogate? A small number is bad.",
    "bound": "Is the ELBO near the log evidence?",
    "evidence": "How far may the log evidence be off?",
    "ignored": "Are there high evaluations that the surrogate does not follow?",
    "modes": "Does every separate region have enough evaluations?",
    "too few": "Could the evaluations have contradicted a wrong fit?",
    "noise": "Is the noise as stated?",
    "refits": "Do fits with other seeds agree?",
    "check": "Does the model itself agree?",
}


def the_checks(posterior: Posterior, support: Support | None, picture: Picture, reasons: dict[str, Picture]) -> Markup:
    """The section on the verdict."""
    found = posterior.diagnose()
    return element(
        "section",
        element("h2", "Did it work?"),
        paragraph(
            "The fit never called the model: it has put a smooth function, the ",
            element("strong", "surrogate"),
            ", through the evaluated log densities, and a ",
            element("strong", "mixture"),
            " of normal distributions under the surrogate. The checks ask whether the evaluations were enough for "
            "that. The verdict is that of the worst check; thresholds were chosen on fits whose truth is known. "
            "No check can see a mode that no evaluation has visited.",
        ),
        paragraph(_how_to_read_the_support(support, posterior.dimension)),
        the_reasons(found.reasons, reasons),
        element("h3", "Every check"),
        table(
            ["check", "level", "number", "threshold", "what it says"],
            [_row(finding) for finding in (*found.reasons, *_fine(found.findings))],
            label="Checks of the fit",
            class_="meanings",
            wide=False,
        ),
        _overview(picture),
        id="checks",
    )


def _fine(findings: tuple[Finding, ...]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "trusted"]


def _how_to_read_the_support(support: Support | None, dimension: int) -> str:
    if support is None:
        return (
            "The evaluations are not in this file, so that this page can't show where they lie under the posterior. "
            "A posterior saved without compact=True keeps them."
        )
    return (
        f"A posterior can be trusted only where the model was evaluated. {count(support.under)} of "
        f"{count(support.evaluations)} evaluations ({share(support.share)}) lie in the region that holds 99 % of the "
        f"probability, {count(support.under_core)} of them in its inner half. Ten for each parameter, {10 * dimension} "
        "here, are the least to hope for; in the corner plot, they should cover the whole of the posterior and "
        "surround it."
    )


def _row(finding: Finding) -> list[Markup | str]:
    level = element("span", finding.level, class_=f"level {finding.level}")
    number, threshold = (NOTHING if each is None else plain(each, 2) for each in (finding.number, finding.threshold))
    asked = QUESTIONS.get(finding.name)
    name = finding.name if asked is None else joined(finding.name, element("small", asked))
    return [name, level, number, threshold, f"{finding.message} {finding.remedy}".strip()]


def _overview(picture: Picture) -> Markup:
    if picture.missing:
        return paragraph(picture.missing, class_="absent")
    words = (
        "Findings against their thresholds; evaluations under the marginal that is nearest to a cut; the surrogate "
        "against the evaluations; its standard deviation under the posterior; the marginal that parts of the "
        "evaluations change most; and how evenly the draws are weighted."
    )
    alt = f"Pictures of the checks. {words}"
    return enlargeable(picture, "overview", alt=alt, caption=words, style=f"--widest:{WIDEST}")
