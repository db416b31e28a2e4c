"""Noise that is unknown, or not what it is said to be."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import vsbq
from vsbq.errors import VsbqWarning
from vsbq.history import NoiseFinding
from vsbq.steps.noise import NoiseCheck, settle_noise
from vsbq.steps.trim import Trim

SD = 1.5


def trace(log_density, rng, d=2, runs=12, steps=100):
    """Points that crowd at the end of each run, as an optimiser leaves them."""
    parts = []
    for _ in range(runs):
        end = rng.normal(0, 1.0, d)
        width = np.geomspace(3.0, 0.05, steps)[:, None]
        parts.append(end + width * rng.standard_normal((steps, d)))
    points = np.concatenate(parts)
    return points, log_density(points)


def normal(x):
    return -0.5 * (x**2).sum(axis=1)


def ridge(x):
    return -5 * (x[:, 1] - x[:, 0] ** 2) ** 2 - 0.5 * x[:, 0] ** 2


def two_modes(x):
    return np.logaddexp(-8 * ((x - 1) ** 2).sum(axis=1), -8 * ((x + 1) ** 2).sum(axis=1))


def settled(evaluations, **options) -> tuple[vsbq.Evaluations, NoiseFinding]:
    return settle_noise(evaluations, NoiseCheck(**options), Trim(), np.random.default_rng(3))


@pytest.mark.parametrize("density", [normal, ridge, two_modes])
@pytest.mark.parametrize("d", [2, 5])
def test_exact_evaluations_stay_exact(density, d):
    points, values = trace(density, np.random.default_rng(0), d)
    after, found = settled(vsbq.Evaluations(points, values))
    assert found.kind == "exact"
    assert after.log_density_sd is None


@pytest.mark.parametrize("density", [normal, ridge, two_modes])
def test_unknown_noise_is_estimated(density):
    rng = np.random.default_rng(1)
    points, values = trace(density, rng)
    noisy = vsbq.Evaluations(points, values + SD * rng.standard_normal(len(values)))
    with pytest.warns(VsbqWarning, match="No log_density_sd was given"):
        after, found = settled(noisy)
    assert found.kind == "estimated"
    assert found.sd == pytest.approx(SD, rel=0.15)
    np.testing.assert_array_equal(after.log_density_sd, found.sd)
    assert noisy.log_density_sd is None


@pytest.mark.parametrize("said", [0.5, 1.0, 2.0])
def test_given_noise_is_checked(said):
    rng = np.random.default_rng(2)
    points, values = trace(normal, rng)
    own = SD * rng.uniform(0.5, 1.5, len(values))
    noisy = vsbq.Evaluations(points, values + own * rng.standard_normal(len(values)), log_density_sd=said * own)
    with warnings.catch_warnings(record=True) as said_so:
        warnings.simplefilter("always")
        after, found = settled(noisy)
    assert found.kind == ("given" if said == 1.0 else "rescaled")
    assert len(said_so) == (0 if said == 1.0 else 1)
    np.testing.assert_allclose(after.log_density_sd, found.factor * said * own)
    assert found.factor * said == pytest.approx(1.0, rel=0.15)


def test_replicates_decide_where_there_are_enough():
    rng = np.random.default_rng(4)
    points = np.repeat(rng.normal(0, 1.5, (60, 2)), 3, axis=0)
    noisy = vsbq.Evaluations(points, normal(points) + SD * rng.standard_normal(len(points)))
    with pytest.warns(VsbqWarning, match="noisy"):
        _, found = settled(noisy)
    assert found.replicates == 120
    assert found.sd == pytest.approx(SD, rel=4 / np.sqrt(2 * 120))


def test_equal_replicates_say_nothing():
    points, values = trace(normal, np.random.default_rng(5))
    again = vsbq.Evaluations(np.concatenate([points, points]), np.concatenate([values, values]))
    _, found = settled(again)
    assert found.kind == "exact"
    assert found.replicates == 0  # copies of an evaluation are no replicates


def test_exact_ones_among_noisy_ones_are_left_alone():
    points, values = trace(normal, np.random.default_rng(6))
    sd = np.where(np.arange(len(values)) % 2, 5.0, 0.0)
    evaluations = vsbq.Evaluations(points, values, log_density_sd=sd)
    after, found = settled(evaluations)
    assert after is evaluations
    assert found.kind == "given"


def test_a_fit_that_was_not_told_the_noise():
    rng = np.random.default_rng(7)
    points, values = trace(normal, rng, runs=8)
    noisy = values + SD * rng.standard_normal(len(values))
    with pytest.warns(VsbqWarning, match="estimated"):
        post = vsbq.fit(points, noisy, rng=0, progress=False)
    told = vsbq.fit(points, noisy, log_density_sd=SD, rng=0, progress=False)
    assert post.history.noise.kind == "estimated"
    assert told.history.noise.kind == "given"
    assert abs(post.log_evidence - told.log_evidence) < 2 * told.log_evidence_sd
    np.testing.assert_allclose(post.summary().sd, told.summary().sd, rtol=0.1)


def test_rows_and_constants_do_not_matter():
    rng = np.random.default_rng(8)
    points, values = trace(normal, rng)
    values = values + SD * rng.standard_normal(len(values))
    order = rng.permutation(len(values))
    with pytest.warns(VsbqWarning):
        one = settled(vsbq.Evaluations(points, values))[1]
    with pytest.warns(VsbqWarning):
        other = settled(vsbq.Evaluations(points[order], values[order] + 512.0))[1]
    assert one == other


# Edges are not noise


def cut_by_a_plane(rng, n, d, depth):
    """A normal that falls by `depth` beyond a plane."""
    points, _ = trace(normal, rng, d, runs=4, steps=n // 4)
    beyond = points.sum(axis=1) > rng.uniform(-0.5, 0.5) * np.sqrt(d)
    return points, np.where(beyond, normal(points) - depth, normal(points))


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("depth", [np.inf, 100.0, 30.0, 10.0, 5.0])
def test_an_edge_is_not_noise(depth, d):
    for seed, n in enumerate([100, 200, 400, 800]):
        points, values = cut_by_a_plane(np.random.default_rng([seed, d]), n, d, depth)
        _, found = settled(vsbq.Evaluations(points, values, check_sign=False))
        assert found.kind == "exact"


@pytest.mark.parametrize("depth", [np.inf, 30.0])
def test_noise_is_found_beside_an_edge(depth):
    """A control: what is left after the edge still tells."""
    rng = np.random.default_rng(2)
    points, values = cut_by_a_plane(rng, 1200, 2, depth)
    noisy = vsbq.Evaluations(points, values + SD * rng.standard_normal(len(values)), check_sign=False)
    with pytest.warns(VsbqWarning):
        _, found = settled(noisy)
    assert found.kind == "estimated"
    assert found.sd == pytest.approx(SD, rel=0.25)


# What is practically exact, or far too noisy, is plausible input


@pytest.mark.parametrize("sd", [1e-12, 1e-9, 3e-6, 1e-3, 1e8, 1e12])
def test_any_given_noise_is_an_answer(sd):
    points, values = trace(normal, np.random.default_rng(6), runs=4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", VsbqWarning)
        after, found = settled(vsbq.Evaluations(points, values, log_density_sd=sd))
    assert found.kind == ("given" if sd < 0.1 else "rescaled")
    assert np.isfinite(after.log_density_sd).all()


def test_noise_far_above_a_practically_exact_one_is_found():
    rng = np.random.default_rng(7)
    points, values = trace(normal, rng)
    with pytest.warns(VsbqWarning, match="times the noise"):
        after, found = settled(
            vsbq.Evaluations(points, values + SD * rng.standard_normal(len(values)), log_density_sd=1e-9)
        )
    assert found.kind == "rescaled"
    assert np.median(after.log_density_sd) == pytest.approx(SD, rel=0.25)


def test_copies_are_no_replicates():
    rng = np.random.default_rng(8)
    points, values = trace(normal, rng, runs=4)
    values = values + SD * rng.standard_normal(len(values))
    again = np.append(np.arange(len(points)), np.arange(200))
    twice = vsbq.Evaluations(points[again], values[again], log_density_sd=SD)
    after, found = settled(twice)
    assert found.kind == "given"  # as replicates they would say that there is hardly any noise
    assert found.replicates == 0
    np.testing.assert_array_equal(after.log_density_sd, SD)
