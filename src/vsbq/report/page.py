"""The report: one HTML page with everything in it, for someone who has never heard of the method.

It loads nothing: its style and pictures are inside, it has no scripts, and its own security policy forbids both.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from datetime import date
from importlib.resources import files
from pathlib import Path

from vsbq._version import __version__
from vsbq.errors import ArgumentError, lists_options
from vsbq.markup import Markup, element, joined, shortened
from vsbq.posterior import Posterior
from vsbq.report.checks import the_checks
from vsbq.report.inputs import what_went_in
from vsbq.report.numbers import Numbers
from vsbq.report.opening import masthead
from vsbq.report.pictures import corner_picture, diagnosis_picture
from vsbq.report.process import how_it_went, the_evidence
from vsbq.report.reasons import reason_pictures
from vsbq.report.repeat import how_to_repeat
from vsbq.report.results import the_posterior
from vsbq.settings import Settings, Steps

__all__ = ["write_report"]

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
HEAD = 4096  # bytes of a page in which its marks are
CONTENTS = {
    "posterior": "The parameters",
    "evidence": "Evidence",
    "checks": "Did it work?",
    "fit": "How the fit went",
    "input": "What went in",
    "repeat": "How to repeat it",
}


@lists_options("post.report")
def write_report(
    posterior: Posterior,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    overwrite: bool = False,
    log: str | None = None,
    settings: Settings | Steps | None = None,
    rng: int | str | None = None,
    seed: int | str | None = None,
) -> Path:
    """Write a self-contained HTML page about a posterior and return its path, with ".html" added if it had no suffix.

    Args:
        posterior: from a fit or a file; what a compact file leaves out, the page says is not there.
        path: of the page; it appears under its name only when it is complete.
        title: of the page.
        overwrite: replace a file of that name whatever it is. An earlier report on the same parameters is replaced
            anyway, so that a script can run twice.
        log: text of the fit's log, folded in at the end.
        settings: of the fit, if the posterior does not know them.
        rng: the seed of the fit, or a word about it.
        seed: another word for `rng`.
    """
    if rng is not None and seed is not None:
        raise ArgumentError("rng and seed mean the same, but both are given. Pass one of them.")
    target = _target(Path(path), posterior, overwrite)
    said = seed if rng is None else rng
    page = _page(posterior, title or "Posterior report", settings, None if said is None else str(said), log)
    _write(target, page)
    return target


def _target(path: Path, posterior: Posterior, overwrite: bool) -> Path:
    if path.is_dir():
        raise IsADirectoryError(
            f"'{path}' is a folder. Give the report a name in it, such as '{path / 'report.html'}'."
        )
    target = path if path.suffix else path.with_name(path.name + ".html")
    if target.exists() and not overwrite and not _is_of(posterior, target):
        raise FileExistsError(
            f"'{target}' exists and is no report of vsbq on these parameters. Pass overwrite=True to replace it, or "
            "choose another name."
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(f"There is no folder '{target.parent}' to write '{target.name}' in. Create it first.")
    return target


def _mark(posterior: Posterior) -> Markup:
    """What tells a report on these parameters from every other page."""
    told = json.dumps([posterior.names, posterior.tag])
    return element("meta", name="vsbq-report-on", content=hashlib.sha256(told.encode()).hexdigest())


def _is_of(posterior: Posterior, target: Path) -> bool:
    """Whether a file is an earlier report on the same parameters."""
    try:
        with target.open("rb") as stream:
            return _mark(posterior).encode() in stream.read(HEAD)
    except OSError:
        return False


def _write(target: Path, page: str) -> None:
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(page.encode("utf-8"))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _page(
    posterior: Posterior, title: str, settings: Settings | Steps | None, rng: str | None, log: str | None
) -> Markup:
    numbers = Numbers.of(posterior)
    reasons = reason_pictures(posterior)
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        masthead(posterior, title, date.today(), frozenset(reasons)),
        _navigation(),
        element(
            "main",
            the_posterior(posterior, numbers, corner_picture(posterior)),
            the_evidence(posterior),
            the_checks(posterior, numbers.support, diagnosis_picture(posterior), reasons),
            how_it_went(posterior),
            what_went_in(posterior),
            how_to_repeat(posterior, settings, rng, log),
            id="content",
        ),
        element("footer", f"Written by vsbq {__version__}. This page loads nothing from the network."),
    )
    return joined(
        Markup("<!DOCTYPE html>\n"), element("html", _head(title, _mark(posterior)), body, lang="en-GB"), "\n"
    )


def _head(title: str, mark: Markup) -> Markup:
    style = files("vsbq.report").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="generator", content=f"vsbq {__version__}"),
        mark,
        element("title", shortened(title, 120)),
        element("style", Markup(style)),
    )


def _navigation() -> Markup:
    links = [element("li", element("a", words, href=f"#{name}")) for name, words in CONTENTS.items()]
    return element("nav", element("ul", *links), aria_label="Contents")
