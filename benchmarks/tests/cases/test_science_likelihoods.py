"""Slow and obvious twins: one set of parameters at a time, one observation after the other, laws of SciPy."""

from math import factorial, log, prod

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from vsbq_bench.cases.science import MODELS, behaviour, hierarchies, life, physics


def data_of(model):
    """What the likelihood was given: its arguments."""
    return getattr(model.log_likelihood, "args", ())


def psychometric(hits, x):
    total = 0.0
    for level, count in zip(behaviour.LEVELS, hits, strict=True):
        p = x[2] + (1 - x[2] - x[3]) * stats.norm.cdf(level, x[0], x[1])
        # the choices are given in order, so there is no binomial coefficient
        total += count * np.log(p) + (behaviour.TRIALS_PER_LEVEL - count) * np.log(1 - p)
    return total


def choice_history(data, x):
    total = 0.0
    for t, evidence in enumerate(data.evidence):
        drive = x[0] * evidence + x[1] + x[2] * data.last_choice[t] + x[3] * data.last_win[t]
        p = x[4] / 2 + (1 - x[4]) / (1 + np.exp(-drive))
        total += np.log(p if data.chosen[t] == 1 else 1 - p)
    return total


def q_learning(data, x):
    value, last, total = [0.5, 0.5], None, 0.0
    for arm, reward in zip(data.arm, data.reward, strict=True):
        attraction = [
            x[2] * value[i] + (x[3] / 2 * (1 if last == i else -1) if last is not None else 0) for i in (0, 1)
        ]
        total += attraction[arm] - np.logaddexp(*attraction)
        error = reward - value[arm]
        value[arm] += (x[0] if error > 0 else x[1]) * error
        last = arm
    return total


def wald(times, x):
    # SciPy's invgauss(mu, scale) has mean mu · scale and shape `scale`; a first passage has mean a/v and shape a².
    laws = [stats.invgauss(1 / (x[2] * v), loc=x[3], scale=x[2] ** 2) for v in x[:2]]
    return sum(law.logpdf(row).sum() for law, row in zip(laws, times, strict=True))


def epidemic(cases, x):
    def slope(_, y):
        infection = x[0] / x[1] * y[0] * y[1] / life.PEOPLE
        return [-infection, infection - y[1] / x[1]]

    days = np.arange(life.DAYS + 1.0)
    found = integrate.solve_ivp(slope, (0, days[-1]), [life.PEOPLE - x[2], x[2]], t_eval=days, rtol=1e-10, atol=1e-8)
    mean = -x[3] * np.diff(found.y[0])
    return stats.nbinom.logpmf(cases, x[4], x[4] / (x[4] + mean)).sum()


def fitzhugh_nagumo(observed, x):
    def slope(_, y):
        return [x[2] * (y[0] - y[0] ** 3 / 3 + y[1]), -(y[0] - x[0] + x[1] * y[1]) / x[2]]

    times = np.arange(1.0, life.NERVE_TIMES + 1)
    found = integrate.solve_ivp(slope, (0, times[-1]), [-1.0, 1.0], t_eval=times, rtol=1e-10, atol=1e-10)
    return stats.norm.logpdf(observed, found.y.T, x[3]).sum()


def dose_response(response, x):
    dose, middle = 10**life.LOG_DOSES, 10 ** x[2]
    return stats.norm.logpdf(response, x[0] + (x[1] - x[0]) / (1 + (middle / dose) ** x[3]), x[4]).sum()


def gompertz(measured, x):
    size = x[0] * np.exp(-x[1] * np.exp(-x[2] * life.AGES))
    return stats.norm.logpdf(measured, size, x[3] * size ** x[4]).sum()


def michaelis_menten(rates, x):
    mean = x[0] * life.SUBSTRATE / (x[1] + life.SUBSTRATE)
    good, bad = stats.norm.pdf(rates, mean, x[2]), stats.norm.pdf(rates, mean, 10 * x[2])
    return np.log((1 - x[3]) * good + x[3] * bad).sum()


def capture_recapture(counts, x):
    """A multinomial law of how many animals were caught how often, for a whole number of animals."""
    animals = round(x[0])
    shares = stats.betabinom.pmf(np.arange(life.OCCASIONS + 1), life.OCCASIONS, x[1] * x[2], (1 - x[1]) * x[2])
    each = [animals - int(counts.sum()), *(int(count) for count in counts)]
    ways = factorial(animals) // prod(factorial(count) for count in each)
    return log(ways) + sum(count * log(share) for count, share in zip(each, shares, strict=True))


def two_exponentials(signal, x):
    t = physics.DELAYS
    return stats.norm.logpdf(signal, x[0] * np.exp(-x[1] * t) + x[2] * np.exp(-x[3] * t), x[4]).sum()


def damped_oscillator(data, x):
    wave = x[0] * np.exp(-x[2] * data.times) * np.cos(2 * np.pi * x[1] * data.times + x[3])
    return stats.norm.logpdf(data.values, wave, x[4]).sum()


def dead_time(counts, x):
    true = x[0] * np.exp(-np.log(2) * physics.MINUTES / x[1]) + x[2]
    # of a second, m counts leave 1 - m τ in which the detector sees: m = r (1 - m τ)
    return stats.poisson.logpmf(counts, 1 / (1 / true + x[3] * 1e-6)).sum()


def t2_relaxation(magnitude, x):
    return stats.rice.logpdf(magnitude, x[0] * np.exp(-physics.ECHOES / x[1]) / x[2], scale=x[2]).sum()


def slowness(z, matter, w):
    return 1 / np.sqrt(matter * (1 + z) ** 3 + (1 - matter) * (1 + z) ** (3 + 3 * w))


def supernovae(data, x):
    total = 0.0
    for z, magnitude, sd in zip(data.redshift, data.magnitude, data.sd, strict=True):
        distance = (1 + z) * 299792.458 / x[0] * integrate.quad(slowness, 0, z, args=(x[1], x[2]))[0]
        total += stats.norm.logpdf(magnitude, x[3] + 5 * np.log10(distance * 1e6 / 10), sd)
    return total


def on_off(x):
    return stats.poisson.logpmf(7, x[0] + x[1]) + stats.poisson.logpmf(24, 4 * x[1])


def radiocarbon(x):
    curve = x[0]
    for size, period, phase in physics.WIGGLES:
        curve += size * np.sin(2 * np.pi * x[0] / period + phase)
    return stats.norm.logpdf(physics.MEASURED_AGE, curve, physics.MEASURED_SD)


def logistic_cauchy(data, x):
    p = 1 / (1 + np.exp(-data.design @ x))
    return stats.bernoulli.logpmf(data.outcome, p).sum()


def robust_regression(data, x):
    return stats.t.logpdf(data.outcome, x[4], data.design @ x[:3], x[3]).sum()


def zero_inflated(data, x):
    rate, absent = np.exp(data.design @ x[:3]), 1 / (1 + np.exp(-(x[3] + x[4] * data.design[:, 2])))
    return np.log(absent * (data.outcome == 0) + (1 - absent) * stats.poisson.pmf(data.outcome, rate)).sum()


def ordinal_probit(predictor, rating, x):
    edges = np.concatenate([[-np.inf], x[1:], [np.inf]])
    chances = [
        stats.norm.cdf(edges[r + 1] - x[0] * p) - stats.norm.cdf(edges[r] - x[0] * p)
        for p, r in zip(predictor, rating, strict=True)
    ]
    return np.log(chances).sum()


def gaussian_mixture(values, x):
    return np.log(x[4] * stats.norm.pdf(values, x[0], x[2]) + (1 - x[4]) * stats.norm.pdf(values, x[1], x[3])).sum()


def gp_hyperparameters(squares, values, x):
    covariance = x[1] ** 2 * np.exp(-squares / (2 * x[0] ** 2)) + x[2] ** 2 * np.eye(len(values))
    return stats.multivariate_normal(np.zeros(len(values)), covariance).logpdf(values)


def ar2(series, x):
    return sum(
        stats.norm.logpdf(series[t], x[0] * series[t - 1] + x[1] * series[t - 2], x[2]) for t in range(2, len(series))
    )


def change_point(events, x):
    """A Poisson process: the log rate at every event, less the mean number of events."""
    rates = [x[0] if event < x[2] else x[1] for event in events]
    return np.log(rates).sum() - x[0] * x[2] - x[1] * (10 - x[2])


def eight_schools(effects, x):
    return stats.norm.logpdf(effects, x[0] + x[1] * x[2:], hierarchies.STANDARD_ERRORS).sum()


def centred_schools(effects, x):
    return stats.norm.logpdf(effects, x[2:], hierarchies.STANDARD_ERRORS).sum()


def item_response(counts, x):
    total = 0.0
    ability = np.linspace(-9.0, 9.0, 3001)
    for pattern in np.flatnonzero(counts):
        chance = stats.norm.pdf(ability)
        for item in range(hierarchies.ITEMS):
            p = 1 / (1 + np.exp(-x[item] * (ability - x[hierarchies.ITEMS + item])))
            chance = chance * (p if pattern >> item & 1 else 1 - p)
        total += counts[pattern] * np.log(integrate.trapezoid(chance, ability))
    return total


def volatility(returns, x):
    return stats.norm.logpdf(returns, 0.0, np.exp(x[3:] / 2)).sum()


def paired_comparison(winner, loser, x):
    return sum(np.log(1 / (1 + np.exp(x[b] - x[a]))) for a, b in zip(winner, loser, strict=True))


ROUGH = {"epidemic": 1e-3, "fitzhugh_nagumo": 2e-2, "item_response": 2e-2}  # by steps and nodes of fixed number


@pytest.mark.parametrize("name", MODELS)
def test_likelihood_is_that_of_its_twin(name, rng):
    model = MODELS[name]()
    box = model.plausible_bounds
    points = rng.uniform(box[:, 0], box[:, 1], (200, len(box)))
    if name == "capture_recapture":
        points[:, 0] = np.round(points[:, 0])
    points = points[np.isfinite(model.log_density(points))][:6]
    expected = [globals()[name](*data_of(model), x) for x in points]
    assert_allclose(model.log_likelihood(points), expected, rtol=1e-7, atol=ROUGH.get(name, 1e-6))
