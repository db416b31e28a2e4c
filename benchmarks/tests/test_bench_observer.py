"""The observer of twelve parameters: its odds, its answers, its smooth likelihood, its prior and its stored truth."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from vsbq_bench import observer as model
from vsbq_bench.behaviour import EXPERIMENTS, own_truth_path
from vsbq_bench.observer import (
    BOUNDS,
    JITTER,
    PLAUSIBLE_BOUNDS,
    PRIOR,
    SIMULATED_PARAMETERS,
    log_density,
    log_odds,
    noise_sd,
    probability_same,
    simulate_trials,
)

TYPICAL = np.array(SIMULATED_PARAMETERS)
# A low p_common: coincidences near the mean of the headings do not convince, those far from it do.
SCEPTIC = np.array([5.0, 1.5, 3.0, 7.0, 0.04, 0.05, 0.02, 0.05, 3.0, 16.0, 0.3, 0.02])
# Noise that grows so fast that a far measurement says little.
SHORT_SIGHTED = np.array([8.0, 4.0, 9.0, 20.0, 0.12, 0.1, 0.15, 0.08, -6.0, 40.0, 0.7, 0.1])
OBSERVERS = {"typical": TYPICAL, "sceptic": SCEPTIC, "short_sighted": SHORT_SIGHTED}
CHAIRS, SCREENS = np.array([-25.0, 0.0, 15.0]), np.array([-20.0, 10.0])


@pytest.fixture(scope="module")
def trials():
    return simulate_trials(np.random.default_rng(1))


@pytest.fixture
def no_data(monkeypatch):
    monkeypatch.delenv("VSBQ_DATA", raising=False)


# The observer


def odds_by_quadrature(x_vest, sd_vest, x_vis, sd_vis, belief):
    """Bayes' rule with the integrals over headings done numerically."""
    mu, sigma, p_common = belief

    def evidence(*measured):
        def joint(s):
            return norm.pdf(s, mu, sigma) * np.prod([norm.pdf(x, s, sd) for x, sd in measured])

        near = [mu, *(x for x, _ in measured)]
        return quad(joint, mu - 12 * sigma, mu + 12 * sigma, points=near, limit=200, epsabs=0, epsrel=1e-9)[0]

    one = evidence((x_vest, sd_vest), (x_vis, sd_vis))
    two = evidence((x_vest, sd_vest)) * evidence((x_vis, sd_vis))
    return np.log(p_common * one) - np.log((1 - p_common) * two)


def test_odds_are_those_of_bayes_rule(rng):
    for _ in range(10):
        x, sd = rng.uniform(-30, 30, 2), rng.uniform(2, 12, 2)
        belief = np.array([rng.uniform(-5, 5), rng.uniform(5, 30), rng.uniform(0.1, 0.9)])
        found = log_odds(x[:1], sd[:1], x[1:], sd[1:], belief)
        assert_allclose(found, odds_by_quadrature(x[0], sd[0], x[1], sd[1], belief), rtol=1e-6, atol=1e-6)


def simulated_share(point, level, chair, screen, n, rng, at_measurement=True):
    """How often an attentive observer says "same", trial by trial; the control knows its noise only straight ahead."""
    base, w = point[[0, 1 + level]], point[[4, 5 + level]]
    x_vest = rng.normal(chair, base[0] * np.sqrt(1 + (w[0] * chair) ** 2), n)
    x_vis = rng.normal(screen, base[1] * np.sqrt(1 + (w[1] * screen) ** 2), n)
    w = w if at_measurement else [0.0, 0.0]
    v_vest, v_vis = base[0] ** 2 * (1 + (w[0] * x_vest) ** 2), base[1] ** 2 * (1 + (w[1] * x_vis) ** 2)
    mu, sigma, p_common = point[8:11]
    prior = sigma**2
    two = norm.logpdf(x_vest, mu, np.sqrt(v_vest + prior)) + norm.logpdf(x_vis, mu, np.sqrt(v_vis + prior))
    # the first measurement by itself, then the second one given the first
    gain = prior / (prior + v_vest)
    expected, left = mu + gain * (x_vest - mu), prior * (1 - gain)
    one = norm.logpdf(x_vest, mu, np.sqrt(v_vest + prior)) + norm.logpdf(x_vis, expected, np.sqrt(v_vis + left))
    odds = np.log(p_common) - np.log(1 - p_common) + one - two
    return (odds > rng.logistic(0.0, JITTER, n)).mean()


def misses(point, truth, rng, n=40_000, **how):
    """Standard errors between simulated shares and probabilities, by level, chair and screen."""
    z = np.empty((3, len(CHAIRS), len(SCREENS)))
    for level, i, j in np.ndindex(z.shape):
        p = np.clip(truth[level, i, j], 1e-3, 1 - 1e-3)
        share = simulated_share(point, level, CHAIRS[i], SCREENS[j], n, rng, **how)
        z[level, i, j] = (share - truth[level, i, j]) / np.sqrt(p * (1 - p) / n)
    return np.abs(z)


@pytest.mark.parametrize("name", OBSERVERS)
def test_answers_are_those_of_a_simulated_observer(name, rng):
    point = OBSERVERS[name]
    truth = probability_same(CHAIRS, SCREENS, point)
    assert misses(point, truth, rng).max() < 4
    less = point.copy()
    less[10] -= 0.05
    assert misses(less, truth, rng).max() > 6
    assert misses(point, truth, rng, at_measurement=False).max() > 6


def test_a_coarser_grid_and_a_finer_one_agree(monkeypatch):
    usual = [probability_same(CHAIRS, SCREENS, point) for point in OBSERVERS.values()]
    monkeypatch.setattr(model, "FINENESS", 0.08)
    monkeypatch.setattr(model, "LONGEST_STEP", 0.1)
    monkeypatch.setattr(model, "REACH", 7.0)
    fine = [probability_same(CHAIRS, SCREENS, point) for point in OBSERVERS.values()]
    assert_allclose(usual, fine, atol=2e-6)
    monkeypatch.setattr(model, "FINENESS", 2.0)
    monkeypatch.setattr(model, "LONGEST_STEP", 2.0)
    coarse = [probability_same(CHAIRS, SCREENS, point) for point in OBSERVERS.values()]
    assert np.abs(np.subtract(coarse, fine)).max() > 1e-3


# The likelihood


def trial_by_trial(trials, point):
    total = PRIOR.log_density(point[None])[0]
    for level in range(3):
        for chair in np.unique(trials.vestibular):
            own = (trials.level == level) & (trials.vestibular == chair)
            for screen, same in zip(trials.visual[own], trials.same[own], strict=True):
                attentive = probability_same(np.array([chair]), np.array([screen]), point)[level, 0, 0]
                p_same = point[11] / 2 + (1 - point[11]) * attentive
                total += np.log(p_same if same else 1 - p_same)
    return total


def few(trials, rows):
    return replace(
        trials,
        level=trials.level[rows],
        vestibular=trials.vestibular[rows],
        visual=trials.visual[rows],
        same=trials.same[rows],
    )


def test_density_is_the_sum_over_trials(trials, rng):
    some = few(trials, rng.choice(len(trials.same), 60, replace=False))
    values = log_density(some)(np.stack(list(OBSERVERS.values())))
    assert_allclose(values, [trial_by_trial(some, point) for point in OBSERVERS.values()], rtol=1e-5)


def test_order_of_trials_and_of_points_does_not_matter(trials, rng):
    points = np.stack(list(OBSERVERS.values()))
    values = log_density(trials)(points)
    shuffled = few(trials, rng.permutation(len(trials.same)))
    assert_allclose(log_density(shuffled)(points[::-1]), values[::-1], rtol=1e-13)


def test_every_parameter_and_every_answer_counts(trials):
    value = log_density(trials)(TYPICAL[None])[0]
    for i in range(12):
        moved = TYPICAL.copy()
        moved[i] *= 1.2
        assert abs(log_density(trials)(moved[None])[0] - value) > 1e-3
    same = trials.same.copy()
    same[7] = not same[7]
    assert abs(log_density(replace(trials, same=same))(TYPICAL[None])[0] - value) > 1e-3


def test_mirrored_headings_are_those_of_a_mirrored_prior(trials):
    turned = replace(trials, vestibular=-trials.vestibular, visual=-trials.visual)
    mirrored = SCEPTIC.copy()
    mirrored[8] *= -1
    assert_allclose(log_density(turned)(mirrored[None]), log_density(trials)(SCEPTIC[None]), rtol=1e-9)


def test_corners_are_finite_and_outside_is_minus_infinity(trials, rng):
    target, (low, high) = log_density(trials), BOUNDS.T
    margin = 0.02 * (high - low)
    corners = np.where(rng.random((8, 12)) < 0.5, low + margin, high - margin)
    assert np.isfinite(target(corners)).all()
    for i in range(12):
        outside = np.tile(TYPICAL, (4, 1))
        outside[:, i] = low[i], high[i], high[i] + 1.0, np.nan
        assert (target(outside) == -np.inf).all()


def roughness(target, centre, direction):
    """What the best cubic leaves of the log density, on a line so short that a smooth function is one."""
    t = np.linspace(-1.0, 1.0, 31)
    values = target(centre + 2e-3 * t[:, None] * direction)
    return np.abs(values - np.polyval(np.polyfit(t, values, 3), t)).max()


def test_likelihood_is_smooth(trials, rng, monkeypatch):
    target = log_density(trials)
    lines = [(centre, centre * rng.standard_normal(12)) for centre in OBSERVERS.values() for _ in range(3)]
    lines += [(c, 0.1 * (PLAUSIBLE_BOUNDS[:, 1] - c)) for c in rng.uniform(*PLAUSIBLE_BOUNDS.T, (3, 12))]
    assert max(roughness(target, *line) for line in lines) < 2e-5
    monkeypatch.setattr(model, "FINENESS", 1.0)
    assert max(roughness(target, *line) for line in lines) > 1e-3


# Prior, participant, problem


def test_prior_is_normalised_parameter_by_parameter():
    middle = PLAUSIBLE_BOUNDS.mean(axis=1)
    at_middle = PRIOR.log_density(middle[None])[0]
    total = 0.0
    for i, (low, high) in enumerate(BOUNDS):
        grid = np.linspace(low, high, 200_001)[1:-1]
        points = np.tile(middle, (len(grid), 1))
        points[:, i] = grid
        relative = np.exp(PRIOR.log_density(points) - at_middle)
        total += np.log(relative.sum() * (high - low) / 200_000)
    assert abs(at_middle + total) < 1e-6


def test_draws_of_the_prior_are_inside(rng):
    draws = PRIOR.draw(2000, rng)
    assert draws.shape == (2000, 12)
    assert np.isfinite(PRIOR.log_density(draws)).all()


def test_noise_grows_with_eccentricity():
    assert_allclose(noise_sd(np.array([0.0, -20.0, 20.0]), 4.0, 0.05), 4 * np.sqrt([1.0, 2.0, 2.0]))


def test_participant_answers_as_the_model_says(rng):
    """Over many participants, the answers to the design have the probabilities of the likelihood."""
    hits = expected = variance = 0.0
    for _ in range(30):
        trials = simulate_trials(rng)
        chairs, chair = np.unique(trials.vestibular, return_inverse=True)
        screens, screen = np.unique(trials.visual, return_inverse=True)
        attentive = probability_same(chairs, screens, TYPICAL)[trials.level, chair, screen]
        p = TYPICAL[11] / 2 + (1 - TYPICAL[11]) * attentive
        near = np.abs(trials.vestibular - trials.visual) <= 10
        hits += trials.same[near].sum()
        expected += p[near].sum()
        variance += (p * (1 - p))[near].sum()
    assert abs(hits - expected) < 4 * np.sqrt(variance)
    assert abs(hits - 1.05 * expected) > 4 * np.sqrt(variance)


def test_models_of_one_table_keep_their_truths_apart(tmp_path):
    paths = {own_truth_path(experiment, tmp_path / "mine.csv") for experiment in EXPERIMENTS[1:]}
    assert paths == {tmp_path / "mine.truth.npz", tmp_path / "mine.observer.truth.npz"}
