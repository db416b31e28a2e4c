"""Models of choices and response times."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit, ndtr, xlog1py, xlogy

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.cases.science.laws import Beta, Gamma, LogNormal, Normal, Uniform
from vsbq_bench.cases.science.model import Model

__all__ = ["choice_history", "psychometric", "q_learning", "wald"]

# Psychometric function

LEVELS = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
TRIALS_PER_LEVEL = 20


def psychometric() -> Model:
    """Return a detection experiment with guess and lapse rates, both most probable at zero."""
    rng = np.random.default_rng([41, 1])
    hits = rng.binomial(TRIALS_PER_LEVEL, 0.01 + 0.98 * ndtr((LEVELS - 0.4) / 1.1)).astype(float)
    return Model(
        name="psychometric",
        laws={
            "threshold": Normal(0.0, 2.0),
            "width": LogNormal(1.0, 0.7),
            "guess": Beta(1.0, 10.0),
            "lapse": Beta(1.0, 10.0),
        },
        log_likelihood=partial(_psychometric, hits),
        plausible_bounds=np.array([[-2.0, 2.0], [0.4, 3.0], [0.005, 0.2], [0.005, 0.2]]),
    )


def _psychometric(hits: Float[ndarray, " l"], points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    threshold, width, guess, lapse = points.T[:, :, None]
    p = np.clip(guess + (1 - guess - lapse) * ndtr((LEVELS - threshold) / width), 0.0, 1.0)
    result: ndarray = (xlogy(hits, p) + xlog1py(TRIALS_PER_LEVEL - hits, -p)).sum(axis=1)
    return result


# Two-interval choice with history


class Choices(NamedTuple):
    """One row per trial: signed evidence, the choice (1 or 0) and what the last trial leaves behind, as -1 or 1."""

    evidence: Float[ndarray, " t"]
    chosen: Float[ndarray, " t"]
    last_choice: Float[ndarray, " t"]
    last_win: Float[ndarray, " t"]


def choice_history() -> Model:
    """Return a two-interval choice with a bias, a pull of the last choice and of the last rewarded side, and lapses."""
    return Model(
        name="choice_history",
        laws={
            "sensitivity": LogNormal(1.0, 0.8),
            "bias": Normal(0.0, 1.0),
            "stay": Normal(0.0, 1.0),
            "win_stay": Normal(0.0, 1.0),
            "lapse": Beta(1.0, 15.0),
        },
        log_likelihood=partial(_choice_history, _simulate_choices(250)),
        plausible_bounds=np.array([[0.3, 3.0], [-1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0], [0.005, 0.15]]),
    )


def _simulate_choices(trials: int) -> Choices:
    rng = np.random.default_rng([41, 2])
    evidence = rng.normal(0.0, 1.2, trials)
    table = np.zeros((trials, 3))
    choice, win = 0.0, 0.0
    for t in range(trials):
        p = 0.03 / 2 + 0.97 * expit(1.4 * evidence[t] + 0.2 + 0.3 * choice + 0.5 * win)
        chosen = float(rng.random() < p)
        table[t] = chosen, choice, win
        choice = 2 * chosen - 1
        win = choice if choice * evidence[t] > 0 else 0.0
    return Choices(evidence, *table.T)


def _choice_history(data: Choices, points: Float[ndarray, "n 5"]) -> Float[ndarray, " n"]:
    drive = points[:, :4] @ np.stack([data.evidence, np.ones(len(data.evidence)), data.last_choice, data.last_win])
    lapse = points[:, 4:]
    p = lapse / 2 + (1 - lapse) * expit(drive * (2 * data.chosen - 1))
    result: ndarray = np.log(p).sum(axis=1)
    return result


# Reinforcement learning


class Bandit(NamedTuple):
    """Choices of one of two arms, and whether each was rewarded."""

    arm: Int[ndarray, " t"]
    reward: Float[ndarray, " t"]


def q_learning() -> Model:
    """Return a learner of two arms, with a rate for gains, one for losses, a softmax and perseveration."""
    return Model(
        name="q_learning",
        laws={
            "alpha_gain": Uniform(0.0, 1.0),
            "alpha_loss": Uniform(0.0, 1.0),
            "beta": Gamma(2.0, 3.0),
            "perseveration": Normal(0.0, 1.0),
        },
        log_likelihood=partial(_q_learning, _simulate_bandit(120)),
        plausible_bounds=np.array([[0.05, 0.95], [0.05, 0.95], [0.5, 10.0], [-1.0, 1.0]]),
    )


def _simulate_bandit(trials: int) -> Bandit:
    rng = np.random.default_rng([41, 3])
    value, last = np.full(2, 0.5), 0.0
    arms, rewards = np.zeros(trials, dtype=np.int64), np.zeros(trials)
    for t in range(trials):
        arm = int(rng.random() < expit(4.0 * (value[1] - value[0]) + 0.3 * last))
        good = 1 if (t // 30) % 2 else 0
        rewards[t] = float(rng.random() < (0.75 if arm == good else 0.25))
        error = rewards[t] - value[arm]
        value[arm] += (0.45 if error > 0 else 0.08) * error
        arms[t], last = arm, 2.0 * arm - 1.0
    return Bandit(arms, rewards)


def _q_learning(data: Bandit, points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    gain, loss, beta, perseveration = np.ascontiguousarray(points.T)
    value = np.full((2, len(points)), 0.5)
    drives = np.empty((len(data.arm), len(points)))
    last = 0.0
    for t, (arm, reward) in enumerate(zip(data.arm, data.reward, strict=True)):
        side = 2.0 * arm - 1.0
        drives[t] = side * (beta * (value[1] - value[0]) + perseveration * last)
        # With values between 0 and 1, the error has the sign that the reward says.
        value[arm] += (gain if reward > 0 else loss) * (reward - value[arm])
        last = side
    result: ndarray = log_expit(drives).sum(axis=0)
    return result


# Response times


def wald() -> Model:
    """Return response times of two conditions as first passages of a drift; none is faster than `t0`, -inf beyond."""
    rng = np.random.default_rng([41, 4])
    threshold, t0 = 0.9, 0.3
    times = np.stack([t0 + rng.wald(threshold / drift, threshold**2, 60) for drift in (3.2, 2.0)])
    return Model(
        name="wald",
        laws={
            "drift_easy": LogNormal(2.0, 0.6),
            "drift_hard": LogNormal(2.0, 0.6),
            "threshold": LogNormal(1.0, 0.6),
            "t0": Uniform(0.0, 1.0),
        },
        log_likelihood=partial(_wald, times),
        plausible_bounds=np.array([[1.0, 5.0], [1.0, 5.0], [0.4, 2.0], [0.05, 0.6]]),
    )


def _wald(times: Float[ndarray, "2 t"], points: Float[ndarray, "n 4"]) -> Float[ndarray, " n"]:
    decision = times - points[:, 3, None, None]
    threshold, drift = points[:, 2, None, None], points[:, :2, None]
    logs = np.log(threshold) - 0.5 * np.log(2 * np.pi * decision**3)
    logs -= (threshold - drift * decision) ** 2 / (2 * decision)
    result: ndarray = logs.sum(axis=(1, 2))
    return np.where(decision.min(axis=(1, 2)) > 0, result, -np.inf)
