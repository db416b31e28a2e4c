"""How to repeat it: versions, settings, random numbers, a fingerprint of the evaluations, and lines of code."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy

from vsbq._version import __version__
from vsbq.data.evaluations import Evaluations
from vsbq.markup import Markup, bullets, code, element, facts, fold, joined, paragraph
from vsbq.posterior import Posterior
from vsbq.settings import Settings, Steps

__all__ = ["fingerprint", "how_to_repeat"]


def how_to_repeat(posterior: Posterior, settings: Settings | Steps | None, rng: str | None, log: str | None) -> Markup:
    """The section for whoever wants the same again."""
    return element(
        "section",
        element("h2", "How to repeat it"),
        facts(_versions(posterior, rng)),
        element("h3", "Settings"),
        *_settings(settings),
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
    fitted = "not recorded" if posterior.history is None else posterior.history.version
    return [
        ("fitted with vsbq", fitted),
        ("report written with vsbq", __version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("NumPy", np.__version__),
        ("SciPy", scipy.__version__),
        ("random numbers (rng)", rng or "not recorded"),
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


def _settings(settings: Settings | Steps | None) -> list[Markup]:
    if settings is None:
        return [
            paragraph(
                "The settings were not recorded. Unless someone chose others, they are the default.", class_="absent"
            )
        ]
    changed = _changes(settings)
    first = (
        joined(paragraph("Different from the default:"), bullets(map(_line, changed)))
        if changed
        else paragraph("All settings are the default ones.")
    )
    return [first, fold("All settings", _tree(settings), class_="settings")]


class _Change(NamedTuple):
    """Dotted name of a setting, its value, and the default."""

    name: str
    value: Any
    usual: Any


def _changes(settings: Any, prefix: str = "") -> list[_Change]:
    """Fields that differ from what they are by default, those of nested settings included."""
    found = []
    for field in fields(settings):
        value, usual = getattr(settings, field.name), _default(field)
        if _nested(value) and type(value) is type(usual):
            found += _changes(value, f"{prefix}{field.name}.")
        elif value != usual:
            found.append(_Change(f"{prefix}{field.name}", value, usual))
    return found


def _nested(value: Any) -> bool:
    """Whether a setting is an object with settings of its own."""
    return is_dataclass(value) and not isinstance(value, type)


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return None if field.default is MISSING else field.default


def _line(change: _Change) -> Markup:
    return joined(element("code", f"{change.name} = {_written(change.value)}"), f" (default {_written(change.usual)})")


def _tree(settings: Any) -> Markup:
    items = []
    for field in fields(settings):
        value = getattr(settings, field.name)
        if _nested(value):
            items.append(joined(element("code", field.name), _tree(value)))
        else:
            items.append(element("code", f"{field.name} = {_written(value)}"))
    return bullets(items)


def _written(value: Any) -> str:
    if isinstance(value, type):
        return value.__name__
    if is_dataclass(value):
        return type(value).__name__
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


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
