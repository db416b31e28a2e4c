from pathlib import Path
from pickle import dumps, loads

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from scipy.stats import multivariate_t, norm

from vsbq_bench.timing import (
    BOUNDS,
    NAMES,
    PARTICIPANT,
    PLAUSIBLE_BOUNDS,
    PRIOR,
    TimingTrials,
    read_trials,
    simulate_trials,
    timing_log_density,
    timing_trials,
)

SHARED = Path(__file__).resolve().parents[3] / "shared"  # beside some checkouts only
published = pytest.mark.skipif(not (SHARED / "data" / "timing.csv").exists(), reason="needs the published data")
TRUE = np.array(PARTICIPANT)
NEAR = np.array([0.006, 0.006, 0.012, 0.012, 0.003])  # about a posterior standard deviation


def estimates(theta, measured):
    """Posterior mean on the observer's grid of 101 nodes, the node at zero without weight, over 1 + w_m²."""
    w_s, w_m, mu_p, sigma_p, _ = theta
    s = np.linspace(0, 2, 101)[1:]
    log_posterior = norm.logpdf(measured[:, None], s, w_s * s) + norm.logpdf(s, mu_p, sigma_p)
    posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
    posterior[:, -1] /= 2
    return posterior @ s / posterior.sum(axis=1) / (1 + w_m**2)


def bin_masses(theta, interval, responses, nodes=401, reach=5):
    """The definition: 401 measurements within 5 sd of the interval, all else given the measurement."""
    w_s, w_m, _, _, lapse = theta
    x = np.linspace(interval * (1 - reach * w_s), interval * (1 + reach * w_s), nodes)
    weights = norm.pdf(x, interval, w_s * interval)
    estimate = estimates(theta, x)[:, None]
    upper, lower = (norm.cdf(responses + side, estimate, w_m * estimate) for side in (0.01, -0.01))
    mass = np.trapezoid(weights[:, None] * (upper - lower), x, axis=0) / np.trapezoid(weights, x)
    return lapse * 0.02 / 2 + (1 - lapse) * mass


def twin_log_likelihood(theta, trials, **settings):
    total = 0.0
    for interval in np.unique(trials.intervals):
        responses, counts = np.unique(trials.responses[trials.intervals == interval], return_counts=True)
        total += counts @ np.log(bin_masses(theta, interval, responses, **settings))
    return total


def log_likelihood(trials, points):
    return timing_log_density(trials)(points) - PRIOR.log_density(points)


def write(folder, text):
    path = folder / "trials.csv"
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def trials():
    return timing_trials()


def test_near_the_posterior_it_is_the_definition(trials, rng):
    points = TRUE + NEAR * rng.uniform(-2, 2, (12, 5))
    points[:, 4] = points[:, 4].clip(0.011)
    twin = [twin_log_likelihood(theta, trials) for theta in points]
    assert_allclose(log_likelihood(trials, points), twin, rtol=0, atol=2e-3)
    # what is left is the mass beyond 5 sd, which the definition cuts off
    wider = [twin_log_likelihood(theta, trials, reach=6, nodes=801) for theta in points]
    assert_allclose(log_likelihood(trials, points), wider, rtol=0, atol=2e-4)


def test_across_the_prior_it_is_the_definition(trials, rng):
    points = np.concatenate([PRIOR.draw(8, rng), rng.uniform(*BOUNDS.T, (8, 5))])
    twin = [twin_log_likelihood(theta, trials) for theta in points]
    assert_allclose(log_likelihood(trials, points), twin, rtol=3e-4)


def test_every_response_has_a_probability():
    every_bin = (np.arange(100) + 0.5) * 0.02
    trials = [TimingTrials(np.array([0.75]), np.array([response])) for response in every_bin]
    mass = [np.exp(log_likelihood(trial, TRUE[None])[0]) for trial in trials]
    assert_allclose(sum(mass), 1, atol=1e-6)
    assert_allclose(min(mass), PARTICIPANT[4] / 100, rtol=1e-6)


def test_repeated_trials_add_up_in_any_order(trials, rng):
    order = rng.permutation(len(trials.intervals))
    doubled = TimingTrials(np.tile(trials.intervals[order], 2), np.tile(trials.responses[order], 2))
    assert_allclose(log_likelihood(doubled, TRUE[None]), 2 * log_likelihood(trials, TRUE[None]), rtol=1e-12)


def test_rows_do_not_depend_on_their_company(trials, rng):
    points = np.concatenate([PRIOR.draw(20, rng), np.zeros((2, 5)), PRIOR.draw(20, rng)])
    log_density = timing_log_density(trials)
    alone = [log_density(point[None])[0] for point in points]
    assert_allclose(log_density(points), alone, rtol=1e-12)
    assert_array_equal(np.isneginf(alone), np.isin(np.arange(42), [20, 21]))
    assert log_density(np.empty((0, 5))).shape == (0,)


def test_log_density_includes_the_prior(trials):
    points = np.stack([TRUE, TRUE])
    points[1, 4] = 0.0125  # a quarter up the ramp of lambda
    ratio = np.diff(timing_log_density(trials)(points)) - np.diff([twin_log_likelihood(t, trials) for t in points])
    assert_allclose(ratio, np.log(3 * 0.25**2 - 2 * 0.25**3), atol=2e-3)


def test_log_density_survives_a_trip_to_another_process(trials):
    log_density = timing_log_density(trials)
    assert_array_equal(loads(dumps(log_density))(TRUE[None]), log_density(TRUE[None]))


def test_corners_of_the_box_are_finite(trials):
    corners = np.stack(np.meshgrid(*(BOUNDS + np.array([1e-4, -1e-4])), indexing="ij"), axis=-1).reshape(-1, 5)
    assert np.isfinite(timing_log_density(trials)(corners)).all()


def test_constants_fit_each_other():
    assert len(NAMES) == len(BOUNDS) == len(PLAUSIBLE_BOUNDS) == len(TRUE)
    assert ((BOUNDS[:, 0] < PLAUSIBLE_BOUNDS[:, 0]) & (PLAUSIBLE_BOUNDS[:, 1] < BOUNDS[:, 1])).all()
    with pytest.raises(ValueError, match="read-only"):
        BOUNDS[0, 0] = 5.0


def test_simulated_participant_follows_the_model(rng):
    trials = simulate_trials(rng)
    values, counts = np.unique(trials.intervals, return_counts=True)
    assert_allclose(values, [0.6, 0.675, 0.75, 0.825, 0.9, 0.975])
    assert (counts == 252).all()
    bins = np.round(trials.responses / 0.02 - 0.5)
    assert_allclose(trials.responses, (bins + 0.5) * 0.02, rtol=1e-12)
    every_bin = (np.arange(100) + 0.5) * 0.02
    scores = []
    for interval in values:
        mass = bin_masses(TRUE, interval, every_bin)
        mean = mass @ every_bin
        square = mass @ (every_bin - mean) ** 2
        fourth = mass @ (every_bin - mean) ** 4
        off = trials.responses[trials.intervals == interval] - mean
        scores.append(off.mean() / np.sqrt(square / 252))
        scores.append(((off**2).mean() - square) / np.sqrt((fourth - square**2) / 252))
    assert np.abs(scores).max() < 4.5
    # the model knows its own parameters from wrong ones
    wrong = TRUE + np.diag([0.05, 0.05, 0.1, 0.2, 0.1])
    assert (log_likelihood(trials, TRUE[None]) > log_likelihood(trials, wrong) + 5).all()


def test_without_a_file_the_participant_is_always_the_same(rng):
    assert_array_equal(timing_trials().responses, timing_trials().responses)
    assert not np.array_equal(simulate_trials(rng).responses, timing_trials().responses)


def test_reading_gives_what_was_written(tmp_path):
    path = write(tmp_path, "trial,response_s,interval_s\n1,0.61,0.600\n2,0.81,0.975\n")
    trials = timing_trials(path)
    assert_array_equal(trials.intervals, [0.6, 0.975])
    assert_array_equal(trials.responses, [0.61, 0.81])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("interval,response_s\n0.6,0.61\n", r"trials.csv: no column interval_s; it has \['interval', 'response_s'\]"),
        ("", "no column interval_s and response_s; it has none"),
        ("interval_s,response_s\n", "there is no trial"),
        ("interval_s,response_s\n0.6,0.61\n0.6,soon\n0.6,0.61\n0.6\n", "must be numbers; they are not in lines 3, 5$"),
        ("interval_s,response_s\n0.6,nan\n", "not in lines 2$"),
        ("interval_s,response_s\n0.6,0.61\n-0.6,0.61\n", "every interval must be above 0.*1 are not, in trials 2 "),
        ("interval_s,response_s\n0.6,2.61\n", "every response must be from 0 to 2 s; 1 are not, in trials 1 "),
        ("interval_s,response_s\n" + 12 * "9,0.6\n", "12 are not, in trials 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_trials(write(tmp_path, text))


@published
def test_published_evidence_by_importance_sampling(rng):
    log_density = timing_log_density(read_trials(SHARED / "data" / "timing.csv"))
    with np.load(SHARED / "truth" / "timing.npz") as truth:
        draws, log_evidence = truth["samples"], float(truth["log_Z"])
    low, high = BOUNDS.T
    u = logit((draws - low) / (high - low))
    proposal = multivariate_t(u.mean(axis=0), np.cov(u.T), df=8)
    proposed = proposal.rvs(4000, random_state=rng)
    share = expit(proposed)
    log_jacobian = np.log((high - low) * share * (1 - share)).sum(axis=1)
    log_weight = log_density(low + (high - low) * share) + log_jacobian - proposal.logpdf(proposed) - log_evidence
    weight = np.exp(log_weight)
    error = weight.std() / np.sqrt(len(weight))
    assert abs(weight.mean() - 1) < 4 * error
    assert error < 0.06
