"""How to repeat it: versions, settings, random numbers, a fingerprint of the evaluations, and lines of code."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import scipy

from vsbq._version import __version__
from vsbq.data.evaluations import Evaluations
from vsbq.markup import Markup, bullets, code, element, facts, fold, joined, paragraph
from vsbq.posterior import Posterior
from vsbq.settings import Settings, Steps, choices, nested, written

__all__ = ["fingerprint", "how_to_repeat"]


def how_to_repeat(posterior: Posterior, settings: Settings | Steps | None, rng: str | None, log: str | None) -> Markup:
    """The section for whoever wants the same again."""
    return element(
        "section",
        element("h2", "How to repeat it"),
        facts(_versions(posterior, rng)),
        element("h3", "Settings"),
        *_settings(posterior, settings),
        element("h3", "Use the posterior"),
        paragraph(
            "If the posterior was saved, with ",
            element("code", 'post.save("posterior.npz")'),
            " or by the command line, these lines load it; nothing in the file is executed.",
        ),
        code(_loading(posterior), "Code that loads the posterior"),
        *([fold("Log of the fit", code(log, "Log of the fit"), class_="log")] if log else []),
        id="repeat",
    )


def _versions(posterior: Posterior, rng: str | None) -> list[tuple[str, str]]:
    history = posterior.history
    fitted = "not recorded" if history is None else history.version
    noted = None if history is None else history.rng
    return [
        ("fitted with vsbq", fitted),
        ("report written with vsbq", __version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("random numbers (rng)", rng or noted or "not recorded"),
        ("fingerprint of the evaluations", fingerprint(posterior.evaluations)),
    ]


def fingerprint(evaluations: Evaluations | None) -> str:
    """The first 16 hex digits of the SHA-256 of points, log densities and noise: the same for the same evaluations."""
    if evaluations is None:
        return "the evaluations are not in this file"
    digest = hashlib.sha256()
    for array in (evaluations.points, evaluations.log_density, evaluations.log_density_sd):
        if array is not None:
            digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()[:16]


# Settings


def _settings(posterior: Posterior, settings: Settings | Steps | None) -> list[Markup]:
    """Those that are told, with all their values; else what the fit has noted of its own."""
    noted = None if posterior.history is None else posterior.history.settings
    if settings is not None:
        lines = [str(choice) for choice in choices(settings)]
        return [_different(lines), fold("All settings", _tree(settings), class_="settings")]
    if noted is not None:
        return [_different(noted)]
    words = "The settings were not recorded. Unless someone chose others, they are the default."
    return [paragraph(words, class_="absent")]


def _different(lines: Sequence[str]) -> Markup:
    if not lines:
        return paragraph("All settings are the default ones.")
    return joined(paragraph("Different from the default:"), bullets(element("code", line) for line in lines))


def _tree(settings: Any) -> Markup:
    items = []
    for each in fields(settings):
        value = getattr(settings, each.name)
        if nested(value):
            items.append(joined(element("code", each.name), _tree(value)))
        else:
            items.append(element("code", f"{each.name} = {written(value)}"))
    return bullets(items)


def _loading(posterior: Posterior) -> str:
    version = __version__ if posterior.history is None else posterior.history.version
    first = posterior.names[0] if len(posterior.names[0]) <= 40 else 0
    return (
        f'# pip install "vsbq=={version}"\n'
        "import vsbq\n\n"
        'post = vsbq.load("posterior.npz")\n'
        "print(post.summary())\n"
        "draws = post.sample(1000, rng=1)  # one row each, one column per parameter\n"
        f"post.marginal({first!r}).quantile([0.025, 0.975])\n"
    )
