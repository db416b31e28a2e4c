"""Greedy selection in blocks against the plain rule, pivot by pivot."""

from __future__ import annotations

import numpy as np
import pytest

import reference
from vsbq.numerics import exact, sgpr
from vsbq.numerics.inducing import BLOCK, ENOUGH, SHORTLIST, greedy_inducing
from vsbq.numerics.kernel import Hyperparameters


def make(rng, n, width, noise_spread=1.0):
    """Hyperparameters with unit length scales, points in a square of some width, uneven noise."""
    theta = np.concatenate([np.zeros(2), [0.3, 0.0], np.zeros(4)])
    return theta, rng.uniform(0.0, width, (n, 2)), np.exp(noise_spread * rng.normal(size=n))


@pytest.mark.parametrize(
    ("n", "count"),
    [(60, 20), (SHORTLIST, 3 * BLOCK), (SHORTLIST + 1, 3 * BLOCK), (3 * SHORTLIST, 4 * BLOCK + 5)],
)
def test_blocks_choose_what_the_plain_rule_chooses(n, count, rng):
    theta, points, noise = make(rng, n, width=15.0)
    wanted = reference.greedy(reference.kernel(theta, points, points), noise, count)
    got = greedy_inducing(Hyperparameters.unpack(theta), points, noise, count)
    assert got.tolist() == wanted


def test_the_shortlist_has_to_be_renewed_within_blocks(rng):
    """Points with the least noise crowd in one corner: the list is used up long before its pivots are."""
    theta, points, noise = make(rng, 3 * SHORTLIST, width=15.0, noise_spread=0.0)
    noise = 1.0 + 1e-3 * rng.uniform(size=len(points))
    crowd = np.arange(SHORTLIST)
    points[crowd] = 0.2 * rng.uniform(size=(SHORTLIST, 2))
    noise[crowd] *= 0.5
    wanted = reference.greedy(reference.kernel(theta, points, points), noise, 40)
    assert sum(row >= SHORTLIST for row in wanted[:BLOCK]) > BLOCK // 2
    assert greedy_inducing(Hyperparameters.unpack(theta), points, noise, 40).tolist() == wanted


def test_noise_decides_where_the_points_go(rng):
    theta, points, noise = make(rng, 700, width=15.0)
    hyp = Hyperparameters.unpack(theta)
    quiet = np.where(points[:, 0] < 7.5, 1e-2, 1e2)
    chosen = greedy_inducing(hyp, points, quiet, 30)
    assert (points[chosen, 0] < 7.5).all()
    assert set(chosen.tolist()) != set(greedy_inducing(hyp, points, noise, 30).tolist())


def test_a_constant_factor_of_the_noise_is_no_matter(rng):
    theta, points, noise = make(rng, 700, width=15.0)
    hyp = Hyperparameters.unpack(theta)
    one, other = (greedy_inducing(hyp, points, factor * noise, 50) for factor in (1.0, 64.0))
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("count", [1, 5, 30, 1000])
def test_rows_are_distinct_and_as_many_as_there_are(count, rng):
    theta, points, noise = make(rng, 30, width=30.0)
    chosen = greedy_inducing(Hyperparameters.unpack(theta), points, noise, count)
    assert len(set(chosen.tolist())) == len(chosen) == min(count, 30)


def test_copies_of_a_point_are_not_chosen_twice(rng):
    theta, points, noise = make(rng, 25, width=30.0)
    copies, noise = np.tile(points, (40, 1)), np.tile(noise, 40)
    chosen = greedy_inducing(Hyperparameters.unpack(theta), copies, noise, 200)
    assert len(chosen) == len(np.unique(copies[chosen], axis=0)) == 25


# When there are enough


def left_over(theta, points, noise, chosen):
    """½ Tr((K − Q) S⁻¹) with dense matrices."""
    cov = reference.kernel(theta, points, points)
    cross = cov[chosen]
    explained = (cross * np.linalg.solve(cov[np.ix_(chosen, chosen)] + 1e-10 * np.eye(len(chosen)), cross)).sum(axis=0)
    return 0.5 * ((np.diag(cov) - explained) / noise).sum()


def test_there_are_enough_where_more_can_bring_nothing(rng):
    theta, points, noise = make(rng, 400, width=6.0, noise_spread=0.3)
    chosen = greedy_inducing(Hyperparameters.unpack(theta), points, noise, 400)
    assert BLOCK < len(chosen) < 400
    assert len(chosen) % BLOCK == 0
    assert left_over(theta, points, noise, chosen) <= ENOUGH
    assert left_over(theta, points, noise, chosen[:-BLOCK]) > ENOUGH  # and not a block too late


def test_noise_says_how_many_are_enough(rng):
    theta, points, noise = make(rng, 400, width=6.0)
    hyp = Hyperparameters.unpack(theta)
    counts = [len(greedy_inducing(hyp, points, factor * noise, 400)) for factor in (1e-4, 1.0, 1e6)]
    assert counts[0] > counts[1] > counts[2]
    assert counts[2] <= BLOCK


def test_what_more_would_bring_is_small(rng):
    """Over functions of the prior, evidence exceeds the bound by at most twice the trace on average, and by at least
    once the trace (Burt et al. 2019)."""
    theta, points, noise = make(rng, 150, width=6.0, noise_spread=0.3)
    hyp = Hyperparameters.unpack(theta)
    root = np.linalg.cholesky(reference.kernel(theta, points, points) + np.diag(noise))
    values = reference.prior_mean(theta, points) + (root @ rng.standard_normal((150, 40))).T
    enough = greedy_inducing(hyp, points, noise, 150)
    for chosen, negligible in ((enough, True), (enough[: len(enough) // 3], False)):
        gain = np.array(
            [
                exact.evidence_and_gradient(theta, points, y, noise).value
                - sgpr.fit_factors(hyp, points[chosen], points, y, noise)[1]
                for y in values
            ]
        )
        error, left = 4 * gain.std() / np.sqrt(len(gain)), left_over(theta, points, noise, chosen)
        assert left - error - 1e-6 < gain.mean() < 2 * left + error + 1e-6
        assert (gain.mean() < 2 * ENOUGH) == negligible
