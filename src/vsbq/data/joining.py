"""Whether two sets of evaluations are of the same problem, by their tags among others, and what they have together."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.data import validation as door
from vsbq.data.evaluations import Evaluations
from vsbq.data.signs import duplicate_groups
from vsbq.errors import Argument, EvaluationsError, count_in_words, names_in_words

__all__ = ["check_same_problem", "join", "joined_prior", "joined_sd", "joined_tag"]


def join(one: Evaluations, other: Evaluations) -> Evaluations:
    """Both sets of evaluations as one, validated again; its notes say what was joined."""
    check_same_problem(one, other)
    prior, prior_notes = joined_prior(one, other)
    tag, tag_notes = joined_tag(one, other)
    together = Evaluations(
        np.concatenate([one.points, other.points]),
        np.concatenate([one.log_density, other.log_density]),
        log_density_sd=joined_sd(one, other),
        bounds=one.bounds,
        plausible_bounds=one.plausible_bounds or other.plausible_bounds,
        names=one.names,
        log_prior=prior,
        check_sign=False,
        tag=tag,
    )
    notes = [f"Joined {len(one)} and {len(other)} evaluations.", *prior_notes, *tag_notes]
    return together._with_notes([*notes, *one.notes, *other.notes])


def check_same_problem(one: Evaluations, other: Evaluations) -> None:
    """Refuse evaluations of other parameters, other bounds, another tag or another log density."""
    if one.names != other.names:
        raise EvaluationsError(
            f"The parameters are {names_in_words(one.names)} on one side and {names_in_words(other.names)} on the "
            "other. Join only evaluations of the same parameters in the same order."
        )
    if one.bounds != other.bounds:
        names = [n for i, n in enumerate(one.names) if one.bounds.pair(i) != other.bounds.pair(i)]
        raise EvaluationsError(
            f"The bounds of {names_in_words(names)} differ between the two. Pass the same bounds to both."
        )
    if None not in (one.plausible_bounds, other.plausible_bounds) and one.plausible_bounds != other.plausible_bounds:
        raise EvaluationsError(
            "The plausible bounds differ between the two. Pass the same ones to both, or to only one."
        )
    if None not in (one.tag, other.tag) and one.tag != other.tag:
        raise EvaluationsError(
            f"The tag is {one.tag!r:.80} on one side and {other.tag!r:.80} on the other, so they are of different "
            "models or data. Join only evaluations of the same log density; if these are, use ",
            Argument("tag", said="with_tag"),
            ".",
        )
    _check_same_offset(one, other)


def _check_same_offset(one: Evaluations, other: Evaluations) -> None:
    """Points on both sides tell whether a constant, or the model, changed in between."""
    points = np.concatenate([one.points, other.points])
    first = duplicate_groups(points)[len(one) :]
    shared = np.flatnonzero((first < len(one)) & np.isfinite(other.log_density))
    shared = shared[np.isfinite(one.log_density[first[shared]])]
    gap = other.log_density[shared] - one.log_density[first[shared]]
    if len(gap) > 1 and np.ptp(gap) < door.DISAGREEMENT < np.abs(gap).min():
        raise EvaluationsError(
            f"{count_in_words(len(gap), 'pair')} of rows with the same point differ by {gap[0]:.4g} between the two: "
            "another constant, or another model. Join only evaluations of the same log density."
        )


def joined_sd(one: Evaluations, other: Evaluations) -> Float[ndarray, " n"] | None:
    """The noise of both; noise-free evaluations have a standard deviation of zero."""
    if one.log_density_sd is None and other.log_density_sd is None:
        return None
    return np.concatenate([np.zeros(len(e)) if e.log_density_sd is None else e.log_density_sd for e in (one, other)])


def joined_prior(one: Evaluations, other: Evaluations) -> tuple[Float[ndarray, " n"] | None, list[str]]:
    """The log prior, if both sides have one, with a note if only one has."""
    if one.log_prior is not None and other.log_prior is not None:
        return np.concatenate([one.log_prior, other.log_prior]), []
    known = one.log_prior is not None or other.log_prior is not None
    return None, ["Left out the log prior, which only one side has."] if known else []


def joined_tag(one: Evaluations, other: Evaluations) -> tuple[str | None, list[str]]:
    """The tag of both; where only one side has one it stands for all, since joining says that they belong together."""
    if one.tag == other.tag:
        return one.tag, []
    tag = other.tag if one.tag is None else one.tag
    bare = one if one.tag is None else other
    return tag, [f"Counted {count_in_words(len(bare), 'evaluation')} without a tag as of {tag!r:.80}."]
