"""What went in: counts, noise, bounds, and what the audit has to say."""

from __future__ import annotations

import numpy as np

from vsbq.data.audit import Finding, audit
from vsbq.data.evaluations import Evaluations
from vsbq.history import History
from vsbq.markup import Markup, element, facts, joined, paragraph, readable, shortened, table
from vsbq.posterior import Posterior
from vsbq.report.digits import count, given, interval, plain

__all__ = ["what_went_in"]

LONGEST_MESSAGE = 800
LONGEST_NAME = 160


def what_went_in(posterior: Posterior) -> Markup:
    """The section on the evaluations."""
    return element(
        "section",
        element("h2", "What went in"),
        _lead(posterior),
        facts(
            [
                *_tag(posterior.tag),
                *_counts(posterior.history, posterior.evaluations),
                *_values(posterior.evaluations),
                *_noise_found(posterior.history),
            ]
        ),
        element("h3", "Audit of the evaluations"),
        _audit(posterior.evaluations),
        element("h3", "Parameters and their bounds"),
        _bounds(posterior),
        id="input",
    )


def _lead(posterior: Posterior) -> Markup:
    known = (
        "Each evaluation is a point, that is a value for every parameter, and the log density of the model there: the "
        "log of likelihood times prior. An optimiser or another program made them; the model was not called again "
        "for this page."
    )
    if posterior.evaluations is None:
        known += (
            " The evaluations themselves are not stored with this posterior; what follows is what is known of them."
        )
    return paragraph(known)


def _tag(tag: str | None) -> list[tuple[str, str]]:
    return [] if tag is None else [("tag of model and data", element("bdi", shortened(tag, LONGEST_NAME)))]


def _counts(history: History | None, evaluations: Evaluations | None) -> list[tuple[str, str]]:
    if history is None:
        given = "not recorded" if evaluations is None else count(len(evaluations))
        return [("evaluations given", given), ("what became of them", "not recorded")]
    trimmed = history.trimmed
    return [
        ("evaluations given", count(trimmed.given)),
        ("used for the fit", count(trimmed.kept)),
        ("left out as far too low", _with_note(trimmed.trimmed, "they say nothing about where the posterior is")),
        ("merged because the point was repeated", count(trimmed.merged)),
        *([("steps of finite differences, used as gradients", count(trimmed.steps))] if trimmed.steps else []),
        ("with a density of zero (−inf)", _with_note(trimmed.zero_density, "they tell where the density ends")),
        ("on a bound, moved inwards by a tiny distance", count(trimmed.at_edge)),
    ]


def _with_note(number: int, note: str) -> str:
    return f"{count(number)} ({note})" if number else "0"


def _values(evaluations: Evaluations | None) -> list[tuple[str, str]]:
    if evaluations is None:
        return []
    finite = evaluations.log_density[np.isfinite(evaluations.log_density)]
    if not len(finite):
        return [("log densities", "none is finite")]
    return [
        ("best log density", given(float(finite.max()), 6)),
        ("lowest finite log density", given(float(finite.min()), 6)),
        ("noise of the log densities as given", _noise(evaluations)),
        ("prior", "part of the log densities" if evaluations.log_prior is None else "also known by itself"),
    ]


def _noise(evaluations: Evaluations) -> Markup:
    sd = evaluations.log_density_sd
    if sd is None:
        return joined("none: taken as exact")
    if float(np.ptp(sd)) == 0:
        return joined("standard deviation ", given(float(sd[0])), " everywhere")
    low, middle, high = (plain(float(value), 2) for value in np.quantile(sd, [0.0, 0.5, 1.0]))
    return joined("standard deviations from ", low, " to ", high, ", median ", middle)


def _noise_found(history: History | None) -> list[tuple[str, str]]:
    if history is None or history.noise is None:
        return []
    return [("noise as the fit found it", history.noise.words or "as stated")]


def _audit(evaluations: Evaluations | None) -> Markup:
    if evaluations is None:
        return paragraph("There is nothing to audit: the evaluations are not in this file.", class_="absent")
    found = audit(evaluations)
    verdict = f"{len(found.warnings)} of the {len(found.findings)} findings call for attention."
    return joined(
        paragraph(verdict if found.warnings else "Nothing found that calls for attention."),
        element("ul", *map(_finding, found.findings), class_="findings"),
    )


def _finding(finding: Finding) -> Markup:
    word = "attention" if finding.severity == "warning" else "note"
    badge = element("span", word, class_=f"badge {finding.severity}")
    topic = element("strong", finding.topic)
    return element(
        "li", badge, " ", element("span", topic, ": ", element("bdi", shortened(finding.message, LONGEST_MESSAGE)))
    )


def _bounds(posterior: Posterior) -> Markup:
    plausible = None if posterior.evaluations is None else posterior.evaluations.plausible_bounds
    head = ["parameter", "no.", "lower bound", "upper bound", *(["plausible range"] if plausible else [])]
    rows = []
    for i, name in enumerate(posterior.names):
        low, high = (given(end) if np.isfinite(end) else "open" for end in posterior.bounds.pair(i))
        row = [element("bdi", readable(name, LONGEST_NAME)), str(i + 1), low, high]
        rows.append([*row, interval(*plausible.pair(i))] if plausible else row)
    note = "The density is zero outside the hard bounds. An open side has none."
    return joined(table(head, rows, label="Parameters and their bounds", class_="numbers names"), paragraph(note))
