"""The top of the page: what this is, and the few numbers to look at first."""

from __future__ import annotations

from datetime import date

from vsbq.errors import count_in_words
from vsbq.markup import Markup, element, joined, paragraph, readable, shortened
from vsbq.posterior import Posterior
from vsbq.report.digits import count, in_power, share
from vsbq.report.numbers import Numbers, Support

__all__ = ["first_look", "masthead"]

VERDICTS = {
    "trusted": "No check speaks against this posterior. A mode that no evaluation has seen would not be noticed.",
    "doubtful": "It may be right, but the evaluations do not show that it is. Read the reasons before you use it.",
    "rejected": "Do not use this posterior. The reasons say what is wrong and what to do.",
}
SHOWN_NAMES = 12
LONGEST_TITLE = 200


def masthead(posterior: Posterior, title: str, today: date) -> Markup:
    """Title, the verdict, the page in a sentence, and what it is about."""
    return element(
        "header",
        element("h1", shortened(title, LONGEST_TITLE)),
        _verdict(posterior),
        paragraph(
            "This page tells what is known about the parameters of a model after an optimiser (or any other program) "
            "has evaluated it at many points: how probable each value is, how sure that is, and what it rests on. ",
            "The model was not called again for it.",
            class_="lead",
        ),
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
        f" · {_evaluations(posterior)} · written on ",
        element("time", f"{today.day} {today:%B} {today.year}", datetime=today.isoformat()),
    )


def _evaluations(posterior: Posterior) -> str:
    if posterior.evaluations is not None:
        return f"{count(len(posterior.evaluations))} evaluations"
    if posterior.history is not None:
        return f"{count(posterior.history.trimmed.given)} evaluations"
    return "number of evaluations not recorded"


def _verdict(posterior: Posterior) -> Markup:
    """The first line: whether the posterior can be used, and why not."""
    found = posterior.diagnose()
    reasons = [element("li", f"{finding.message} ", element("em", finding.remedy)) for finding in found.reasons]
    more = [element("ul", *reasons)] if reasons else []
    return element(
        "div",
        paragraph(element("strong", f"Verdict: {found.verdict}. "), VERDICTS[found.verdict]),
        *more,
        class_=f"verdict {found.verdict}",
        role="note",
    )


def first_look(posterior: Posterior, numbers: Numbers) -> Markup:
    """The numbers that speak for or against the fit."""
    evidence = in_power(posterior.log_evidence, posterior.log_evidence_sd)
    elbo = in_power(posterior.elbo, posterior.elbo_sd)
    cards = [_card("log evidence", evidence, "of the model, ± one standard deviation")]
    cards += [_card("ELBO", elbo, "a bound for the surrogate, not for your model")]
    if numbers.support is not None:
        under = joined(count(numbers.support.under), element("small", f" ({share(numbers.support.share)})"))
        cards.append(_card("evaluations under the posterior", under, f"of {count(numbers.support.evaluations)} in all"))
    return element(
        "section",
        element("h2", "At a glance"),
        element("div", *cards, class_="cards"),
        *_reweighted(posterior),
        paragraph(_how_to_read_the_bound(posterior)),
        paragraph(_how_to_read_the_support(numbers.support, posterior.dimension)),
        id="glance",
    )


def _reweighted(posterior: Posterior) -> list[Markup]:
    if posterior.prior_change is None:
        return []
    words = (
        "This posterior was turned to another prior by new weights, without a new fit. The log densities hold the new "
        "prior; how the fit went is told of the fit it came from."
    )
    return [paragraph(element("strong", "Another prior. "), words, class_="note")]


def _card(name: str, value: str, note: str) -> Markup:
    return element(
        "div",
        element("span", name, class_="name"),
        element("span", value, class_="value"),
        element("span", note, class_="note"),
        class_="card",
    )


def _how_to_read_the_bound(posterior: Posterior) -> Markup:
    gap = posterior.log_evidence - posterior.elbo
    here = f"it is {abs(gap):.2f} {'below' if gap < 0 else 'above'} it" if abs(gap) >= 0.01 else "they agree"
    if gap < -0.05:
        here += ", because the log evidence allows for what the surrogate does not know and the ELBO does not"
    return joined(
        element("strong", "How to read them. "),
        "The posterior comes from a surrogate, a smooth curve through the evaluations. The standard deviations say how "
        "far the surrogate's own uncertainty reaches: well below 1 is good; several units mean that the evaluations "
        "leave much open. They say nothing about what no evaluation has seen. The log evidence is usually near "
        f"the ELBO, which is a bound for the surrogate only; here {here}.",
    )


def _how_to_read_the_support(support: Support | None, dimension: int) -> str:
    if support is None:
        return (
            "The evaluations are not in this file, so that this page can't show where they lie under the posterior. "
            "A posterior saved without compact=True keeps them."
        )
    return (
        f"A posterior can be trusted only where the model was evaluated. {count(support.under)} evaluations lie in the "
        f"region that holds 99 % of the probability, {count(support.under_core)} of them in its inner half. Ten for "
        f"each parameter, {10 * dimension} here, are the least to hope for; in the figures below, the evaluations "
        "should cover the whole of the posterior and surround it."
    )
