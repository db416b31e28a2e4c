"""New evaluations beside those of a posterior, and the fit of them all."""

from __future__ import annotations

import warnings

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.analysis.going_on import going_on
from vsbq.data import validation as door
from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning
from vsbq.fit import fit
from vsbq.posterior import Posterior
from vsbq.randomness import RandomState, Seed
from vsbq.settings import Settings, Steps
from vsbq.steps.support import InSupport

__all__ = ["joined", "told_support", "update"]


def update(
    post: Posterior,
    points: ArrayLike | Evaluations,
    log_density: ArrayLike | None = None,
    log_density_sd: ArrayLike | None = None,
    log_prior: ArrayLike | None = None,
    *,
    settings: Settings | Steps | None = None,
    rng: RandomState = None,
    seed: Seed = None,
    progress: bool | None = None,
) -> Posterior:
    """The posterior from new evaluations and the earlier ones together; see `Posterior.update`."""
    together = joined(post, points, log_density, log_density_sd, log_prior)
    steps = settings if isinstance(settings, Steps) else (settings or Settings()).steps()
    steps = going_on(post, together, steps)
    return fit(together, support=told_support(post), settings=steps, start=post, rng=rng, seed=seed, progress=progress)


def told_support(post: Posterior) -> InSupport | None:
    """The function with which the user told where the density is not zero, for the next fit; None without one."""
    told = None if post.support is None else post.support.told
    return None if told is None else told.in_support


def joined(
    post: Posterior,
    points: ArrayLike | Evaluations,
    log_density: ArrayLike | None,
    log_density_sd: ArrayLike | None = None,
    log_prior: ArrayLike | None = None,
) -> Evaluations:
    """The evaluations of a posterior together with new ones, of which there may be few."""
    old = post.evaluations
    if old is None or post.prior_change is not None:
        why = "does not hold its evaluations, as in a compact file" if old is None else "has another prior than they"
        raise VsbqError(
            f"This posterior {why}, so that new ones cannot be added. Join them yourself, old + new, and fit again."
        )
    if isinstance(points, Evaluations):
        if any(extra is not None for extra in (log_density, log_density_sd, log_prior)):
            raise EvaluationsError("An Evaluations already holds its log densities, noise and prior; pass it alone.")
        _check_noise(old, points.log_density_sd)
        return _as_noisy_as_found(post, old, points.log_density_sd) + points
    _check_noise(old, log_density_sd)
    new = _new_rows(old, points, log_density, log_density_sd, log_prior)
    old = _as_noisy_as_found(post, old, new.sd)
    prior = _both_priors(old, new)
    together = Evaluations(
        np.concatenate([old.points, new.points]),
        np.concatenate([old.log_density, new.log_density]),
        log_density_sd=_both_sd(old.log_density_sd, new.sd, len(old), len(new.points)),
        bounds=old.bounds,
        plausible_bounds=old.plausible_bounds,
        names=old.names,
        log_prior=prior,
        tag=old.tag,
        check_sign=False,
    )
    lost = ["Left out the log prior, which the new evaluations lack."] if _loses_prior(old, prior) else []
    return together._with_notes([*old.notes, f"Added {len(new.points)} evaluations to {len(old)}.", *lost])


def _check_noise(old: Evaluations, log_density_sd: ArrayLike | None) -> None:
    """Refuse new evaluations of unknown noise beside noisy ones."""
    if old.log_density_sd is not None and log_density_sd is None:
        raise EvaluationsError(
            "The earlier evaluations are noisy. Say how noisy the new ones are with log_density_sd, 0 if they are not."
        )


def _as_noisy_as_found(post: Posterior, old: Evaluations, new_sd: Float[ndarray, " k"] | None) -> Evaluations:
    """The earlier evaluations with the noise that the fit estimated, where the new ones come with theirs.

    Without a standard deviation they would count as exact beside the new ones. If all are without one, it is estimated
    again, from all of them.
    """
    found = None if post.history is None else post.history.noise
    if new_sd is None or old.log_density_sd is not None or found is None or found.kind != "estimated":
        return old
    return old.with_sd(np.full(len(old), found.sd))


def _new_rows(
    old: Evaluations,
    points: ArrayLike,
    log_density: ArrayLike | None,
    log_density_sd: ArrayLike | None,
    log_prior: ArrayLike | None,
) -> door.Rows:
    """New evaluations, checked by their own row numbers; a single point may come without brackets."""
    if log_density is None:
        raise EvaluationsError("The log densities of the new points are missing. Pass them as log_density.")
    values = np.atleast_1d(door.read_numbers(log_density, "log_density"))
    x = door.read_numbers(points, "points")
    x = x[None] if x.shape == (old.dimension,) and values.shape == (1,) else x
    if values.ndim != 1 or x.ndim > 2 or x.shape[1:] not in ((), (old.dimension,)):
        raise EvaluationsError(
            f"New points have one row of {old.dimension} numbers and one log density each, but are of shape {x.shape} "
            f"and {values.shape}."
        )
    rows = door.apply_nonfinite(door.read_rows(x, values, log_density_sd, log_prior), "raise")
    return door.apply_outside(rows, old.bounds, old.names, "raise")


def _both_sd(
    old: Float[ndarray, " n"] | None, new: Float[ndarray, " k"] | None, before: int, after: int
) -> Float[ndarray, " m"] | None:
    """Noise of old and new evaluations; zero where there is none on one side."""
    if old is None and new is None:
        return None
    return np.concatenate([np.zeros(before) if old is None else old, np.zeros(after) if new is None else new])


def _both_priors(old: Evaluations, new: door.Rows) -> Float[ndarray, " m"] | None:
    """The log prior of old and new evaluations: where it is the same number everywhere, also of new ones without it."""
    if old.log_prior is None:
        if new.log_prior is not None:
            raise EvaluationsError(
                "The earlier evaluations hold no log prior, so that of the new ones is of no use. Leave log_prior out; "
                "the log density has the prior in it."
            )
        return None
    added = new.log_prior
    if added is None and np.ptp(old.log_prior) == 0:
        added = np.full(len(new.points), old.log_prior[0])
    return None if added is None else np.concatenate([old.log_prior, added])


def _loses_prior(old: Evaluations, prior: Float[ndarray, " m"] | None) -> bool:
    """Whether the prior is lost, with a warning if it is."""
    lost = old.log_prior is not None and prior is None
    if lost:
        warnings.warn(
            "The earlier evaluations hold their log prior, the new ones do not: it is left out, and the prior of the "
            "updated posterior cannot be changed later. Pass log_prior to update to keep it.",
            VsbqWarning,
            stacklevel=5,
        )
    return lost
