"""Multisensory causal inference: did the chair move where the screen said it did?

The model of the paper's section "Multisensory causal inference" (the 'Fixed' rule of Acerbi, Dokka, Angelaki & Ma,
2018). A trial has the heading of a chair and of a visual field; the observer measures both with noise and answers
"same" if the measurements are less than κ apart, or guesses with probability λ. With Δ the difference of the headings,

    P(same) = λ/2 + (1 - λ) [Φ((Δ + κ)/σ) - Φ((Δ - κ)/σ)],   σ² = σ_vis(c)² + σ_vest².

The published trials are not part of the project: `read_trials` reads them from a table, `simulate_trials` makes a
participant of the same design.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.random import Generator
from scipy.special import ndtr

from vsbq._typing import Bool, Float, Int, ndarray
from vsbq_bench.spline_prior import SplineTrapezoid

__all__ = [
    "BOUNDS",
    "NAMES",
    "PLAUSIBLE_BOUNDS",
    "PRIOR",
    "SIMULATED_PARAMETERS",
    "MultisensoryTrials",
    "log_density",
    "read_trials",
    "simulate_trials",
]

LEVELS = 3
NAMES = ("sigma_vis_1", "sigma_vis_2", "sigma_vis_3", "sigma_vest", "lapse", "kappa")
COLUMNS = ("coherence_level", "vestibular_deg", "visual_deg", "response")
SAME, DIFFERENT = 1, 2


def _box(low: list[float], high: list[float]) -> Float[ndarray, "d 2"]:
    box = np.array([low, high]).T
    box.flags.writeable = False
    return box


BOUNDS = _box([0.5] * 4 + [0.005, 0.25], [80.0] * 4 + [0.5, 180.0])
PLAUSIBLE_BOUNDS = _box([1.0] * 4 + [0.01, 1.0], [40.0] * 4 + [0.2, 45.0])
PRIOR = SplineTrapezoid(BOUNDS, PLAUSIBLE_BOUNDS)

# The published design: at each level a mean heading and a disparity around it, in degrees; no disparity twice as often.
MEAN_HEADINGS = np.linspace(-25.0, 25.0, 11)
DISPARITIES = np.array([-40.0, -20.0, -10.0, -5.0, 0.0, 0.0, 5.0, 10.0, 20.0, 40.0])
TRIALS_PER_LEVEL = (372, 374, 323)

SIMULATED_PARAMETERS = (4.5, 5.5, 9.0, 5.5, 0.03, 10.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class MultisensoryTrials:
    """What a participant was shown and answered.

    `level` is the visual coherence of a trial as 0, 1 or 2, in the order of the three sigma_vis; headings are in
    degrees; `same` is the answer.
    """

    level: Int[ndarray, " n"]
    vestibular: Float[ndarray, " n"]
    visual: Float[ndarray, " n"]
    same: Bool[ndarray, " n"]


def read_trials(path: Path | str) -> MultisensoryTrials:
    """Read a table with the columns coherence_level (1 to 3), vestibular_deg, visual_deg, response (1 same, 2 not).

    Raises ValueError that names the lines at fault.
    """
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or [])]
        if missing:
            raise ValueError(f"{path} lacks the columns {', '.join(missing)}")
        rows, faults = [], []
        for row in reader:
            try:
                rows.append(_parse(row))
            except ValueError as error:
                faults.append(f"line {reader.line_num}: {error}")
    if faults:
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise ValueError(f"{path}: {'; '.join(faults[:5])}{more}")
    if not rows:
        raise ValueError(f"{path} has no trials")
    level, vestibular, visual, response = np.array(rows).T
    return MultisensoryTrials(
        level=level.astype(int) - 1, vestibular=vestibular, visual=visual, same=np.equal(response, SAME)
    )


def _parse(row: Mapping[str, str | None]) -> list[float]:
    """Return one line as numbers in the order of `COLUMNS`; raise ValueError with what is wrong."""
    values = []
    for name in COLUMNS:
        try:
            values.append(float(row[name] or ""))
        except ValueError:
            raise ValueError(f"{name} is {row[name]!r}, not a number") from None
        if not isfinite(values[-1]):
            raise ValueError(f"{name} is {row[name]}, not finite")
    if values[0] not in range(1, LEVELS + 1):
        raise ValueError(f"coherence_level is {row['coherence_level']}, not 1, 2 or 3")
    if values[3] not in (SAME, DIFFERENT):
        raise ValueError(f"response is {row['response']}, neither 1 (same) nor 2 (different)")
    return values


def simulate_trials(rng: Generator) -> MultisensoryTrials:
    """Return a participant of the published design who follows the model with `SIMULATED_PARAMETERS`."""
    level = np.repeat(np.arange(LEVELS), TRIALS_PER_LEVEL)
    disparity = rng.choice(DISPARITIES, len(level))
    mean = rng.choice(MEAN_HEADINGS, len(level))
    *visual_sd, vestibular_sd, lapse, kappa = SIMULATED_PARAMETERS
    noise_sd = np.hypot(np.array(visual_sd)[level], vestibular_sd)
    measured = disparity + noise_sd * rng.standard_normal(len(level))
    guesses = rng.random(len(level)) < lapse
    same = np.where(guesses, rng.random(len(level)) < 0.5, np.abs(measured) < kappa)
    return MultisensoryTrials(level=level, vestibular=mean + disparity / 2, visual=mean - disparity / 2, same=same)


def log_density(trials: MultisensoryTrials) -> Callable[[Float[ndarray, "n 6"]], Float[ndarray, " n"]]:
    """Return the log of prior times likelihood as a function of rows of parameters; -inf where the prior is zero."""
    return partial(_log_density, _count(trials))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Counts:
    """Answers by level and size of the disparity: the likelihood depends on a trial through these alone."""

    level: Int[ndarray, " g"]
    disparity: Float[ndarray, " g"]
    same: Float[ndarray, " g"]
    different: Float[ndarray, " g"]


def _count(trials: MultisensoryTrials) -> _Counts:
    keys = np.column_stack([trials.level, np.abs(trials.vestibular - trials.visual)])
    groups, member = np.unique(keys, axis=0, return_inverse=True)
    same = np.bincount(member, weights=trials.same, minlength=len(groups))
    different = np.bincount(member, weights=~trials.same, minlength=len(groups))
    return _Counts(level=groups[:, 0].astype(int), disparity=groups[:, 1], same=same, different=different)


def _log_density(counts: _Counts, points: Float[ndarray, "n 6"]) -> Float[ndarray, " n"]:
    result = PRIOR.log_density(points)
    inside = result > -np.inf
    result[inside] += _log_likelihood(counts, points[inside])
    result[~inside] = -np.inf  # also where a coordinate is NaN
    return result


def _log_likelihood(counts: _Counts, points: Float[ndarray, "n 6"]) -> Float[ndarray, " n"]:
    noise_sd = np.hypot(points[:, :LEVELS], points[:, 3:4])[:, counts.level]
    lapse, kappa = points[:, 4:5], points[:, 5:6]
    # Tails of Φ on the side of the disparity: neither line takes a small difference of numbers close to one.
    near, far = ndtr((kappa - counts.disparity) / noise_sd), ndtr((-kappa - counts.disparity) / noise_sd)
    within = near - far
    beyond = far + ndtr((counts.disparity - kappa) / noise_sd)
    log_same = np.log(0.5 * lapse + (1 - lapse) * within)
    log_different = np.log(0.5 * lapse + (1 - lapse) * beyond)
    result: ndarray = log_same @ counts.same + log_different @ counts.different
    return result
