"""Evidence, and how the fit went: every number with a sentence that says what it means."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import NamedTuple

from vsbq.history import ERRORS, Evidence, History, RefinedFit, SurrogateFit, VariationalFit
from vsbq.markup import Markup, element, facts, joined, paragraph, table
from vsbq.posterior import Posterior
from vsbq.report.digits import count, in_power, plain, seconds, share, small

__all__ = ["how_it_went", "the_evidence"]

STEPS = {
    "trim": "sort the evaluations and leave out those that are far too low",
    "surrogate": "fit a smooth surrogate, a sparse Gaussian process, to the log densities",
    "mixture": "fit a mixture of normal distributions to the surrogate",
    "refinement": "correct the mixture towards the surrogate where that can be trusted",
    "diagnosis": "look for reasons to doubt the result",
}


class _Row(NamedTuple):
    """A quantity, its value, and what it means."""

    name: str
    value: str
    meaning: str


# Evidence


def the_evidence(posterior: Posterior) -> Markup:
    """The section on the log evidence."""
    value, sd = posterior.log_evidence, posterior.log_evidence_sd
    cards = [
        _card("log evidence", in_power(value, sd), "of the model, ± one standard deviation"),
        _card("ELBO", in_power(posterior.elbo, posterior.elbo_sd), "evidence lower bound, of the surrogate"),
        _card("log evidence to base 10", in_power(value / log(10), sd / log(10)), "the same in powers of ten"),
    ]
    rows = _parts(posterior.evidence_estimate if posterior.refined is None else posterior.refined.evidence)
    return element(
        "section",
        element("h2", "Evidence"),
        paragraph(
            "The evidence is the probability of the data under the model, averaged over the prior; models of the same "
            "data are compared by it. With equal odds before, a difference of 1 in the log evidence makes one model "
            "2.7 times as probable as the other, a difference of 3 about 20 times."
        ),
        element("div", *cards, class_="cards"),
        paragraph(_how_to_read_them(posterior)),
        element("h3", "What the log evidence may be off by"),
        facts(rows),
        paragraph(
            element("strong", "Only as good as its constants. "),
            "The number is the evidence of the model only if the log densities held a normalised prior and every "
            "constant of the likelihood. With a constant left out it is shifted by that constant, and a comparison is "
            "fair only where all models share it. The posterior itself does not depend on such constants.",
            class_="note",
        ),
        id="evidence",
    )


def _card(name: str, value: str, note: str) -> Markup:
    parts = [("name", name), ("value", value), ("note", note)]
    return element("div", *(element("span", text, class_=kind) for kind, text in parts), class_="card")


def _how_to_read_them(posterior: Posterior) -> Markup:
    gap = posterior.log_evidence - posterior.elbo
    here = f"it is {abs(gap):.2f} {'below' if gap < 0 else 'above'} it" if abs(gap) >= 0.01 else "they agree"
    if gap < -0.05:
        here += ", because the log evidence allows for what the surrogate does not know and the ELBO does not"
    return joined(
        element("strong", "How to read them. "),
        "The numbers are natural logarithms. They come from a surrogate, a smooth function through the evaluated log "
        "densities. The standard deviations say how far the surrogate's own uncertainty reaches: well below 1 is good; "
        "several units mean that the evaluations leave much open. They say nothing about what no evaluation has seen. "
        "The ELBO (evidence lower bound) is what a mixture of normal distributions finds of the surrogate's evidence. "
        f"The log evidence is usually near it; here {here}.",
    )


def _parts(evidence: Evidence | None) -> list[tuple[str, str]]:
    if evidence is None:
        return [("where the log evidence comes from", "the ELBO itself: this posterior was not refined")]
    return _errors(evidence._asdict())


def _errors(fields: Mapping[str, float]) -> list[tuple[str, str]]:
    """Every field but the value itself, so that none that is added later is left out; the largest first."""
    parts = dict(sorted(((name, part) for name, part in fields.items() if name != "value"), key=lambda each: -each[1]))
    return [(ERRORS.get(name, f"from {name.replace('_', ' ')}"), small(value)) for name, value in parts.items()]


# How the fit went


def how_it_went(posterior: Posterior) -> Markup:
    """The section on the fit."""
    history = posterior.history
    title = element("h2", "How the fit went")
    if history is None:
        absent = paragraph("This posterior carries no record of its fit.", class_="absent")
        return element("section", title, absent, id="fit")
    rows = [*_surrogate_rows(history.surrogate), *_mixture_rows(history.variational), *_refinement_rows(history)]
    return element(
        "section",
        title,
        paragraph(
            "The fit has a few steps, each built on the one before. The table after them has the numbers that tell how "
            "well each step did. Log densities are natural logarithms. Their unit is the nat: one nat is a factor of "
            "2.7 in the density."
        ),
        _steps(history),
        element("h3", "Numbers of the fit"),
        table(["quantity", "value", "what it means"], rows, label="Numbers of the fit", class_="meanings", wide=False),
        id="fit",
    )


def _steps(history: History) -> Markup:
    rows = [[name, seconds(spent), STEPS.get(name, "")] for name, spent in history.seconds.items()]
    rows.append(["all steps", seconds(sum(history.seconds.values())), ""])
    return table(["step", "time", "what it does"], rows, label="Steps of the fit", class_="meanings", wide=False)


def _surrogate_rows(fit: SurrogateFit) -> list[_Row]:
    return [
        _Row(
            "inducing points",
            count(fit.inducing),
            "Places on which the surrogate rests; more of them follow finer detail.",
        ),
        _Row(
            "miss",
            joined(small(fit.miss), " nats"),
            "By how much the surrogate misses the high evaluations beyond their noise. Up to about 0.1 is good; more "
            "means that the log density has detail that the surrogate can't follow.",
        ),
        _Row(
            "shaping strength",
            plain(fit.shaping_strength, 2),
            "How strongly low evaluations were played down, as a factor of the usual amount. High values mean that "
            "they did not fit a smooth curve.",
        ),
        _Row(
            "coordinates",
            "turned" if fit.rotated else "as given",
            "Whether the surrogate works in turned coordinates, which helps with strongly correlated parameters.",
        ),
        _Row(
            "bound", plain(fit.bound, 5), "What the fit of the surrogate maximised. It compares fits of the same data."
        ),
        _Row(
            "numerical trouble",
            joined(f"{fit.failures} failed steps, jitter ", plain(fit.jitter, 2)),
            "Singular matrices that were skipped, and what was added to the diagonal of the others. None and a tiny "
            "number are normal.",
        ),
    ]


def _mixture_rows(fit: VariationalFit) -> list[_Row]:
    starts = [element("li", f"{name}: ", plain(value, 6)) for name, value in fit.starts]
    return [
        _Row("components", count(fit.components), "Normal distributions in the mixture."),
        _Row(
            "ELBO of the starts",
            element("ul", *starts) if starts else "not recorded",
            "The mixture is fitted from several starts. Values close together mean that the start hardly matters.",
        ),
    ]


def _refinement_rows(history: History) -> list[_Row]:
    fit = history.refinement
    if fit is None:
        return [_Row("refinement", "not done", "The mixture is the posterior.")]
    rows = [_Row("refinement", _method(fit), "How the mixture was corrected towards the surrogate.")]
    if fit.method != "none":
        rows += _weights(fit)
    outside = (
        "Share of the probability where the surrogate only guesses, because evaluations are missing there. It should "
        "be below a few per cent."
    )
    return [*rows, _Row("share outside", share(fit.share_outside), outside)]


def _weights(fit: RefinedFit) -> list[_Row]:
    return [
        _Row(
            "Pareto shape",
            plain(fit.pareto_shape, 2),
            "How uneven the weights from mixture to surrogate are. Below 0.7 they can be relied on; where they can't, "
            "sequential Monte Carlo takes their place.",
        ),
        _Row(
            "effective share",
            share(fit.effective_share),
            "Share of the draws that the weights leave effective. Close to 100 % means that the mixture already was "
            "what the surrogate says.",
        ),
    ]


def _method(fit: RefinedFit) -> str:
    if fit.method == "importance":
        return "importance weights"
    if fit.method == "sequential":
        return f"sequential Monte Carlo in {fit.steps} steps"
    if fit.method == "none":
        return "not possible: the mixture lies where the surrogate is not trusted"
    return fit.method
