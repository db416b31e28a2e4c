"""A picture for each reason of a verdict that is not "trusted"."""

from __future__ import annotations

from vsbq.markup import Markup, element, joined
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import Finding
from vsbq.report.pictures import Picture, reason_picture

__all__ = ["place_of", "reason_pictures", "the_reasons"]

#: What the picture of each finding shows; findings that are missing here have none.
CAPTIONS = {
    "input": "The evaluations in the order in which they came: their log density, in nats below the best.",
    "open": "The standard deviation of the surrogate at draws of the posterior. What is right of the line is not known "
    "well enough.",
    "cut off": "The posterior of the parameter that is cut off (blue), with the evaluations (grey, right axis). The "
    "dashed line is where the evaluations end before the posterior does.",
    "beyond": "The posterior of the parameter that is nearest to a cut (blue), with the evaluations (grey, right "
    "axis). The tails should reach low evaluations on both sides.",
    "support": "Points in and around the posterior: how high the surrogate is there, against the distance from the "
    "middle of the posterior. Orange points lie where the surrogate is not trusted; they should be far below the "
    "line, which is the best evaluation.",
    "around": "Points in and around the posterior: how high the surrogate is there, against the distance from the "
    "middle of the posterior. Orange points lie where the surrogate is not trusted; they should be far below the "
    "line, which is the best evaluation.",
    "unsure": "The standard deviation of the surrogate at draws of the posterior. What is right of the line is not "
    "known well enough.",
    "surrogate": "How far the surrogate misses blocks of evaluations that it had not seen, in the standard deviations "
    "that it states. Bars should be about 1; the line is the threshold.",
    "held out": "The marginal that changes most: without each block of evaluations (grey), by each of the surrogates "
    "(orange), and the posterior (blue). They should lie on each other.",
    "sisters": "The marginal that changes most: without each block of evaluations (grey), by each of the surrogates "
    "(orange), and the posterior (blue). They should lie on each other.",
    "mixture": "How much of the probability the heaviest draws hold. The curve should be near the black line, on which "
    "all draws weigh the same.",
    "bound": "The ELBO and the log evidence, with one standard deviation. They should be near each other.",
    "evidence": "The parts of the error of the log evidence, in nats, the largest first.",
    "ignored": "What the surrogate says against what was evaluated, in nats below the best. Points below the line are "
    "evaluations that the posterior ignores.",
    "modes": "The separate regions of the posterior: the probability that each holds, and how many distinct "
    "evaluations there are in it.",
    "too few": "The posterior of one parameter (blue), with the evaluations (grey, right axis): few of them lie high "
    "under the posterior.",
    "noise": "What the surrogate says against what was evaluated, in nats below the best. The scatter around the line "
    "should be as wide as the noise that was stated.",
    "together": "How far the number of each check is on its way from what usable fits have, at zero, to a doubt, at "
    "one. The sum of the bars counts.",
}


def place_of(name: str) -> str:
    """The id of a finding's picture on the page."""
    return "why-" + name.replace(" ", "-")


def reason_pictures(posterior: Posterior) -> dict[str, Picture]:
    """The pictures of the reasons by the name of the finding, where there is something to draw."""
    drawn = {
        finding.name: reason_picture(posterior, finding)
        for finding in posterior.diagnose().reasons
        if finding.name in CAPTIONS
    }
    return {name: picture for name, picture in drawn.items() if not picture.missing}


def the_reasons(reasons: tuple[Finding, ...], pictures: dict[str, Picture]) -> Markup:
    """The pictures beside each other, each under its finding."""
    figures = [_figure(finding, pictures[finding.name]) for finding in reasons if finding.name in pictures]
    if not figures:
        return joined()
    return joined(element("h3", "The reasons in pictures"), element("div", *figures, class_="reasons"))


def _figure(finding: Finding, picture: Picture) -> Markup:
    words = CAPTIONS[finding.name]
    image = element(
        "img",
        src=picture.uri,
        alt=f"{finding.message} The picture shows: {words}",
        width=str(picture.width),
        height=str(picture.height),
    )
    title = element("strong", finding.name, class_=f"level {finding.level}")
    caption = element("figcaption", title, ": ", finding.message, element("br"), words)
    return element("figure", image, caption, id=place_of(finding.name))
