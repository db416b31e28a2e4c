"""Where the density is not zero, in a posterior file: learnt surfaces, also in place of a function of the user."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vsbq.errors import EvaluationsError
from vsbq.io.files.container import Arrays
from vsbq.io.files.posterior_header import Header, SupportHeader, require
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq.posterior import Posterior
from vsbq.steps.support import InSupport, Support, Told, learn_support

__all__ = ["put_together_support", "take_apart_support", "told_again"]

#: Points at which a function of the user is asked, from components of the mixture that are wider by these factors.
ASKED = 4000
WIDER = (1.0, 2.0)

#: Draws that are asked for when the function is told again, and the share of them that have to be inside.
CHECKED = 200
LEAST_INSIDE = 0.5


def take_apart_support(posterior: Posterior) -> tuple[SupportHeader | None, Arrays]:
    """Header and arrays of a support; a function that the user told is replaced by what its answers show."""
    support = posterior.support
    if support is None:
        return None, {}
    arrays, stand_ins = _arrays("support", support), None
    if support.told is not None:
        learnt = _from_answers(support, posterior.mixture)
        stand_ins = 0 if learnt is None else len(learnt.surfaces)
        arrays |= {} if learnt is None else _arrays("stand_in", learnt)
    return SupportHeader(len(support.surfaces), stand_ins), arrays


def put_together_support(header: Header, arrays: Arrays) -> Support | None:
    """The support of a file, as surfaces alone."""
    kept = header.support
    if kept is None:
        return None
    learnt = _support("support", arrays) if kept.surfaces else None
    return _support("stand_in", arrays) if kept.stand_ins else learnt


def told_again(posterior: Posterior, header: Header, arrays: Arrays, in_support: InSupport) -> Posterior:
    """The posterior of a file with the function of the user in place of what stands in for it."""
    if header.support is None or header.support.stand_ins is None:
        raise EvaluationsError(
            "The posterior in this file was fitted without support=. Load it without, or fit again with support=."
        )
    told = Told(in_support, posterior.space)
    inside = float(told.inside(sample(posterior.mixture, CHECKED, np.random.default_rng(0))).mean())
    if inside < LEAST_INSIDE:
        raise EvaluationsError(
            f"support= is false at {100 * (1 - inside):.0f} % of the posterior in this file. Pass the function that it "
            "was fitted with."
        )
    d = posterior.dimension
    learnt = _support("support", arrays) if header.support.surfaces else Support(np.zeros(d), np.eye(d))
    support, refined = replace(learnt, told=told), posterior.refined
    if refined is not None:
        refined = replace(refined, region=replace(refined.region, support=support))
    return replace(posterior, support=support, refined=refined)


def _arrays(head: str, support: Support) -> Arrays:
    if not support.surfaces:
        return {}
    return {
        f"{head}_centre": support.centre,
        f"{head}_root": support.root,
        f"{head}_surfaces": np.stack(support.surfaces),
    }


def _support(head: str, arrays: Arrays) -> Support:
    centre, root, surfaces = (arrays[f"{head}_{name}"] for name in ("centre", "root", "surfaces"))
    require(np.linalg.matrix_rank(root) == len(root), f"'{head}_root' is singular")
    return Support(centre, root, tuple(surfaces))


def _from_answers(support: Support, mixture: Mixture) -> Support | None:
    """Surfaces that say about the same as a support near a mixture; None where it leaves all of that inside.

    The seed is always the same, so that a posterior always makes the same file.
    """
    rng = np.random.default_rng(0)
    wide = [mixture._replace(trils=factor * mixture.trils) for factor in WIDER]
    points = np.concatenate([sample(each, ASKED // len(wide), rng) for each in wide])
    inside = support.inside(points)
    if inside.all() or not inside.any():
        return None
    return learn_support(points[inside], log_pdf(mixture, points[inside]), points[~inside], rng)
