"""Models with a hierarchy or many parameters: schools, test items, volatilities, players."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.random import Generator
from scipy.special import expit, log_expit, logsumexp

from vsbq._typing import Float, Int, ndarray
from vsbq_bench.cases.science.laws import Beta, HalfCauchy, HalfNormal, Law, LogNormal, Normal
from vsbq_bench.cases.science.model import Model, Warp, truth_name
from vsbq_bench.problems import Problem
from vsbq_bench.truth import load_truth

__all__ = [
    "centred_schools",
    "eight_schools",
    "item_response",
    "paired_comparison",
    "solved_centred_schools",
    "volatility",
]

LOG_ROOT_TWO_PI = 0.5 * np.log(2 * np.pi)

# Schools

SCHOOLS = 8
STANDARD_ERRORS = np.array([14.0, 9.0, 16.0, 11.0, 9.0, 12.0, 10.0, 18.0])
MU_SD, TAU_SCALE = 10.0, 5.0
SCHOOL_BOX = np.array([[-10.0, 20.0], [0.5, 20.0]])


def _effects() -> Float[ndarray, " s"]:
    """Simulate the estimates of eight trials of a coaching programme."""
    rng = np.random.default_rng([45, 1])
    return 6.0 + 3.0 * rng.standard_normal(SCHOOLS) + STANDARD_ERRORS * rng.standard_normal(SCHOOLS)


def eight_schools() -> Model:
    """Return eight trials with a common mean and spread, each effect in units of the spread."""
    return Model(
        name="eight_schools",
        laws=_school_laws("eta"),
        log_likelihood=partial(_scaled_schools, _effects()),
        plausible_bounds=np.concatenate([SCHOOL_BOX, np.tile([-1.5, 1.5], (SCHOOLS, 1))]),
        log_evidence=partial(_schools_evidence, _effects()),
    )


def centred_schools() -> Model:
    """Return the same trials with the effects themselves: a funnel where the spread is small."""
    edges = np.tile([-np.inf, np.inf], (SCHOOLS + 2, 1))
    edges[1, 0] = 0.0
    return Model(
        name="centred_schools",
        laws=_school_laws("theta"),
        log_likelihood=partial(_schools, _effects()),
        plausible_bounds=np.concatenate([SCHOOL_BOX, np.tile([-10.0, 25.0], (SCHOOLS, 1))]),
        edges=edges,
        warp=Warp(_to_effects, _from_effects),
        log_evidence=partial(_schools_evidence, _effects()),
    )


def solved_centred_schools() -> Problem:
    """Return the centred problem with the truth of the other one, of which it is another view."""
    truth = load_truth(truth_name("eight_schools"))
    points = _to_effects(truth.check_points)
    values = truth.check_values - _from_effects(points)[1]
    problem = centred_schools().solved(replace(truth, check_points=points, check_values=values))
    return replace(problem, draw=_draw_effects)


def _draw_effects(n: int, rng: Generator) -> Float[ndarray, "n d"]:
    return _to_effects(load_truth(truth_name("eight_schools")).draw(n, rng))


def _school_laws(name: str) -> dict[str, Law]:
    laws: dict[str, Law] = {"mu": Normal(0.0, MU_SD), "tau": HalfCauchy(TAU_SCALE)}
    return laws | {f"{name}{i + 1}": Normal(0.0, 1.0) for i in range(SCHOOLS)}


def _to_effects(points: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
    return np.column_stack([points[:, :2], points[:, :1] + points[:, 1:2] * points[:, 2:]])


def _from_effects(points: Float[ndarray, "n d"]) -> tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]:
    scaled = (points[:, 2:] - points[:, :1]) / points[:, 1:2]
    return np.column_stack([points[:, :2], scaled]), SCHOOLS * np.log(points[:, 1])


def _schools(effects: Float[ndarray, " s"], points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    z = (effects - points[:, 2:]) / STANDARD_ERRORS
    result: ndarray = -0.5 * (z**2).sum(axis=1) - np.log(STANDARD_ERRORS).sum() - SCHOOLS * LOG_ROOT_TWO_PI
    return result


def _scaled_schools(effects: Float[ndarray, " s"], points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    return _schools(effects, _to_effects(points))


def _schools_evidence(effects: Float[ndarray, " s"]) -> float:
    """Integrate the effects and their mean as Gaussians, and the spread by the midpoint rule over its quantiles."""
    share = (np.arange(20_000) + 0.5) / 20_000
    tau = TAU_SCALE * np.tan(np.pi / 2 * share)[:, None]
    precision = 1 / (tau**2 + STANDARD_ERRORS**2)
    total = precision.sum(axis=1) + MU_SD**-2
    centre = (precision @ effects) / total
    misfit = (precision * effects**2).sum(axis=1) - total * centre**2
    logs = 0.5 * np.log(precision).sum(axis=1) - 0.5 * np.log(total) - np.log(MU_SD) - 0.5 * misfit
    return float(logsumexp(logs) - np.log(len(tau)) - SCHOOLS * LOG_ROOT_TWO_PI)


# Test items

ITEMS = 6
PATTERNS = (np.arange(2**ITEMS)[:, None] >> np.arange(ITEMS)) & 1
ABILITY, ABILITY_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)


def item_response() -> Model:
    """Return discrimination and difficulty of six test items, the ability of every pupil integrated out."""
    rng = np.random.default_rng([45, 2])
    slope, difficulty = np.exp(0.4 * rng.standard_normal(ITEMS)), np.linspace(-1.8, 1.8, ITEMS)
    ability = rng.standard_normal((150, 1))
    solved = rng.random((150, ITEMS)) < expit(slope * (ability - difficulty))
    counts = np.bincount(solved @ (1 << np.arange(ITEMS)), minlength=2**ITEMS).astype(float)
    slopes: dict[str, Law] = {f"a{i + 1}": LogNormal(1.0, 0.7) for i in range(ITEMS)}
    return Model(
        name="item_response",
        laws=slopes | {f"b{i + 1}": Normal(0.0, 2.0) for i in range(ITEMS)},
        log_likelihood=partial(_item_response, counts),
        plausible_bounds=np.repeat([[0.4, 2.5], [-2.5, 2.5]], ITEMS, axis=0),
    )


def _item_response(counts: Float[ndarray, " c"], points: Float[ndarray, "n 12"]) -> Float[ndarray, " n"]:
    seen = counts > 0
    drive = points[:, :ITEMS, None] * (ABILITY - points[:, ITEMS:, None])
    # log P(pattern | ability) = Σ solved · drive + Σ log(1 − P): the logit is linear in what was solved
    logs = np.matmul(PATTERNS[seen].astype(float), drive) + log_expit(-drive).sum(axis=1)[:, None, :]
    chances = np.exp(logs) @ (ABILITY_WEIGHTS / ABILITY_WEIGHTS.sum())
    result: ndarray = np.log(chances) @ counts[seen]
    return result


# Volatility

MONTHS = 9


def volatility() -> Model:
    """Return returns of nine months whose log variance wanders: level, persistence, spread and every log variance."""
    rng = np.random.default_rng([45, 3])
    start = np.concatenate([[0.0, 0.8, 0.7], rng.standard_normal(MONTHS)])
    returns = np.exp(_wander(start[None])[0, 3:] / 2) * rng.standard_normal(MONTHS)
    hyper: dict[str, Law] = {"mu": Normal(0.0, 1.0), "phi": Beta(5.0, 2.0), "sigma": HalfNormal(1.0)}
    edges = np.tile([-np.inf, np.inf], (MONTHS + 3, 1))
    edges[1:3] = [[0.0, 1.0], [0.0, np.inf]]
    return Model(
        name="volatility",
        laws=hyper | {f"h{t + 1}": Normal(0.0, 1.0) for t in range(MONTHS)},
        log_likelihood=partial(_volatility, returns),
        plausible_bounds=np.concatenate([[[-1.0, 1.0], [0.4, 0.95], [0.2, 1.5]], np.tile([-2.0, 2.0], (MONTHS, 1))]),
        edges=edges,
        warp=Warp(_wander, _unwander),
    )


def _wander(points: Float[ndarray, "n d"]) -> Float[ndarray, "n d"]:
    """From innovations to log variances: each is pulled to the level by 1 − φ and pushed by σ."""
    mu, phi, sigma = points[:, :3].T
    result = points.copy()
    result[:, 3] = mu + sigma * points[:, 3]
    for t in range(4, points.shape[1]):
        result[:, t] = mu + phi * (result[:, t - 1] - mu) + sigma * points[:, t]
    return result


def _unwander(points: Float[ndarray, "n d"]) -> tuple[Float[ndarray, "n d"], Float[ndarray, " n"]]:
    mu, phi, sigma = points[:, :3].T[:, :, None]
    away = points[:, 3:] - mu
    pushed = np.column_stack([away[:, :1], away[:, 1:] - phi * away[:, :-1]]) / sigma
    return np.column_stack([points[:, :3], pushed]), MONTHS * np.log(sigma[:, 0])


def _volatility(returns: Float[ndarray, " t"], points: Float[ndarray, "n d"]) -> Float[ndarray, " n"]:
    h = points[:, 3:]
    result: ndarray = (-0.5 * returns**2 * np.exp(-h) - 0.5 * h - LOG_ROOT_TWO_PI).sum(axis=1)
    return result


# Players

PLAYERS = 15


def paired_comparison() -> Model:
    """Return the strengths of fifteen players after eighty games; only differences of strengths decide a game."""
    rng = np.random.default_rng([45, 4])
    strength = 1.5 * rng.standard_normal(PLAYERS)
    first = rng.integers(PLAYERS, size=80)
    second = (first + rng.integers(1, PLAYERS, size=80)) % PLAYERS
    won = rng.random(80) < expit(strength[first] - strength[second])
    winner, loser = np.where(won, first, second), np.where(won, second, first)
    return Model(
        name="paired_comparison",
        laws={f"strength{i + 1}": Normal(0.0, 1.5) for i in range(PLAYERS)},
        log_likelihood=partial(_paired_comparison, winner, loser),
        plausible_bounds=np.tile([-2.5, 2.5], (PLAYERS, 1)),
    )


def _paired_comparison(
    winner: Int[ndarray, " g"], loser: Int[ndarray, " g"], points: Float[ndarray, "n 15"]
) -> Float[ndarray, " n"]:
    result: ndarray = log_expit(points[:, winner] - points[:, loser]).sum(axis=1)
    return result
