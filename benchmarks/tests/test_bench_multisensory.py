from math import erfc, hypot, log, sqrt
from pathlib import Path
from pickle import dumps, loads

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from vsbq.numerics.em import weighted_em
from vsbq.numerics.mixture import Mixture, log_pdf, sample
from vsbq_bench.multisensory import (
    BOUNDS,
    NAMES,
    PLAUSIBLE_BOUNDS,
    PRIOR,
    SIMULATED_PARAMETERS,
    MultisensoryTrials,
    log_density,
    read_trials,
    simulate_trials,
)

SHARED = Path(__file__).resolve().parents[3] / "shared"  # beside some checkouts only
DATA, TRUTH = SHARED / "data" / "multisensory.csv", SHARED / "truth" / "multisensory.npz"
HEADER = "coherence_level,vestibular_deg,visual_deg,response\n"


def upper_tail(x):
    return erfc(x / sqrt(2)) / 2


def trial_by_trial(trials, point):
    """The formula of the module, one trial after the other, sign of the disparity and all."""
    *visual_sd, vestibular_sd, lapse, kappa = (float(value) for value in point)
    total = float(PRIOR.log_density(np.asarray(point)[None])[0])
    for level, chair, screen, same in zip(trials.level, trials.vestibular, trials.visual, trials.same, strict=True):
        sd, gap = hypot(visual_sd[level], vestibular_sd), chair - screen
        within = upper_tail((-gap - kappa) / sd) - upper_tail((-gap + kappa) / sd)
        p_same = lapse / 2 + (1 - lapse) * within
        total += log(p_same if same else 1 - p_same)
    return total


@pytest.fixture
def trials():
    return simulate_trials(np.random.default_rng(1))


def test_density_is_the_sum_over_trials(trials, rng):
    points = np.concatenate([rng.uniform(*PLAUSIBLE_BOUNDS.T, (20, 6)), rng.uniform(*BOUNDS.T, (20, 6))])
    assert_allclose(log_density(trials)(points), [trial_by_trial(trials, point) for point in points], rtol=1e-10)


def test_every_parameter_and_every_answer_counts(trials):
    point = np.array([SIMULATED_PARAMETERS])
    value = log_density(trials)(point)[0]
    for i in range(6):
        moved = point.copy()
        moved[0, i] *= 1.5
        assert abs(log_density(trials)(moved)[0] - value) > 1e-3
    same = trials.same.copy()
    same[7] = not same[7]
    changed = MultisensoryTrials(level=trials.level, vestibular=trials.vestibular, visual=trials.visual, same=same)
    assert abs(log_density(changed)(point)[0] - value) > 1e-3


def test_order_and_side_of_the_disparity_do_not_matter(trials, rng):
    order = rng.permutation(len(trials.same))
    mirrored = MultisensoryTrials(
        level=trials.level[order],
        vestibular=trials.visual[order],
        visual=trials.vestibular[order],
        same=trials.same[order],
    )
    points = rng.uniform(*PLAUSIBLE_BOUNDS.T, (10, 6))
    assert_allclose(log_density(mirrored)(points), log_density(trials)(points), rtol=1e-13)


def test_corners_are_finite_and_outside_is_minus_infinity(trials, rng):
    width = BOUNDS[:, 1] - BOUNDS[:, 0]
    corner = np.where(rng.random((200, 6)) < 0.5, BOUNDS[:, 0] + 1e-9 * width, BOUNDS[:, 1] - 1e-9 * width)
    assert np.isfinite(log_density(trials)(corner)).all()
    inside = np.tile(SIMULATED_PARAMETERS, (6, 1))
    for edge in (
        BOUNDS[:, 0],
        BOUNDS[:, 1],
        BOUNDS[:, 0] - 1,
        BOUNDS[:, 1] + 1,
        np.full(6, np.inf),
        np.full(6, np.nan),
    ):
        outside = np.where(np.eye(6, dtype=bool), edge, inside)
        assert (log_density(trials)(outside) == -np.inf).all()


def test_density_of_no_points_is_empty(trials):
    assert log_density(trials)(np.empty((0, 6))).shape == (0,)


def test_density_survives_a_trip_to_another_process(trials):
    density = log_density(trials)
    point = np.array([SIMULATED_PARAMETERS])
    assert_allclose(loads(dumps(density))(point), density(point), rtol=0)


def test_boxes_cannot_be_changed_and_have_names():
    assert len(NAMES) == len(BOUNDS) == len(PLAUSIBLE_BOUNDS) == 6
    with pytest.raises(ValueError, match="read-only"):
        BOUNDS[0, 0] = 0.0


def test_simulated_participant_has_the_published_design(trials):
    assert_allclose(np.bincount(trials.level), [372, 374, 323])
    gaps = trials.vestibular - trials.visual
    assert set(gaps) == {-40, -20, -10, -5, 0, 5, 10, 20, 40}
    assert set((trials.vestibular + trials.visual) / 2) == set(np.arange(-25.0, 26.0, 5.0))
    assert abs(np.mean(gaps == 0) - 0.2) < 4 * sqrt(0.2 * 0.8 / len(gaps))


def test_simulated_answers_follow_the_model():
    streams = [simulate_trials(np.random.default_rng(seed)) for seed in range(40)]
    *visual_sd, vestibular_sd, lapse, kappa = SIMULATED_PARAMETERS
    for level in range(3):
        for gap in (0, 10, 20):
            same = np.concatenate(
                [t.same[(t.level == level) & (np.abs(t.vestibular - t.visual) == gap)] for t in streams]
            )
            sd = hypot(visual_sd[level], vestibular_sd)
            truth = lapse / 2 + (1 - lapse) * (norm.cdf(gap + kappa, scale=sd) - norm.cdf(gap - kappa, scale=sd))
            assert abs(same.mean() - truth) < 4.5 * sqrt(truth * (1 - truth) / len(same))


def test_reading_gives_back_what_was_written(tmp_path, trials):
    rows = zip(trials.visual, trials.level + 1, trials.vestibular, np.where(trials.same, 1, 2), strict=True)
    path = tmp_path / "trials.csv"
    lines = "".join(f"{screen},{level},{chair},{answer}\n" for screen, level, chair, answer in rows)
    path.write_text("\ufeffvisual_deg,coherence_level,vestibular_deg,response\n" + lines, encoding="utf-8")
    again = read_trials(path)
    for name in ("level", "vestibular", "visual", "same"):
        assert_allclose(getattr(again, name), getattr(trials, name), rtol=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coherence_level,visual_deg,response\n1,2,1\n", "lacks the columns vestibular_deg"),
        ("", "lacks the columns"),
        (HEADER, "no trials"),
        (HEADER + "1,0,0,1\n4,0,0,1\n", "line 3: coherence_level is 4"),
        (HEADER + "1.5,0,0,1\n", "line 2: coherence_level is 1.5"),
        (HEADER + "1,0,0,1\n1,0,0,1\n1,0,0,0\n", "line 4: response is 0"),
        (HEADER + "1,zero,0,1\n1,0,,1\n", "line 2: vestibular_deg is 'zero'.*line 3: visual_deg is ''"),
        (HEADER + "1,0\n", "line 2: visual_deg is None"),
        (HEADER + "1,nan,0,1\n", "line 2: vestibular_deg is nan, not finite"),
        (HEADER + "9,0,0,1\n" * 8, "line 6: .*; and 3 more"),
    ],
)
def test_bad_tables_are_refused_with_the_line(tmp_path, text, message):
    path = tmp_path / "trials.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_trials(path)


def proposal(draws, rng, components=12):
    """A mixture fitted to draws, a little wider than they are, with a tenth of its mass in one wide component."""
    root, even = np.linalg.cholesky(np.cov(draws, rowvar=False)), np.full(len(draws), 1 / len(draws))
    start = Mixture(
        np.full(components, -log(components)), rng.choice(draws, components), np.tile(0.6 * root, (components, 1, 1))
    )
    fitted = weighted_em(start, draws, even, 20, caution=0.0)
    return Mixture(
        np.append(fitted.log_weights + log(0.9), log(0.1)),
        np.vstack([fitted.means, draws.mean(axis=0)]),
        np.concatenate([1.1 * fitted.trils, 1.5 * root[None]]),
    )


@pytest.mark.skipif(not (DATA.exists() and TRUTH.exists()), reason="no published trials beside this checkout")
def test_evidence_of_the_published_trials(rng):
    density = log_density(read_trials(DATA))
    with np.load(TRUTH) as truth:
        samples, log_evidence = truth["samples"].astype(float), float(truth["log_Z"])
    low, width = BOUNDS[:, 0], BOUNDS[:, 1] - BOUNDS[:, 0]
    law = proposal(ndtri((samples[::4] - low) / width), rng)
    z = sample(law, 60_000, rng)
    log_jacobian = (norm.logpdf(z) + np.log(width)).sum(axis=1)
    weights = np.exp(density(low + width * ndtr(z)) + log_jacobian - log_pdf(law, z) - log_evidence)
    error = weights.std() / weights.mean() / sqrt(len(weights))
    assert error < 0.004
    assert abs(log(weights.mean())) < 4.5 * error + 0.002
