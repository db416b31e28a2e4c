"""Thresholds and shaping noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import reference
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.shaping import shaping_sd


@pytest.mark.parametrize("d", reference.DEPTHS)
def test_depths_of_the_table(d):
    assert [contour_depth(10.0, d), contour_depth(20.0, d)] == pytest.approx(reference.DEPTHS[d], abs=0.006)


@pytest.mark.parametrize("n", [0.5, 1.0, 3.0, 10.0, 20.0])
def test_one_dimension_is_the_parabola(n):
    assert contour_depth(n, 1) == pytest.approx(n**2 / 2)


@pytest.mark.parametrize("d", [1, 3, 8])
def test_the_contour_holds_the_mass_that_n_sigma_hold_in_one_dimension(d, rng):
    x = rng.normal(size=(20_000, d))
    below = 0.5 * (x**2).sum(axis=1)
    inside = (below <= contour_depth(1.0, d)).astype(float)
    assert reference.agree(inside, 1 - 2 * stats.norm.sf(1.0))
    assert not reference.agree(inside, 0.65)


def test_depth_rises_with_contour_and_dimension():
    depths = np.array([[contour_depth(n, d) for n in (1.0, 2.0, 5.0, 10.0, 20.0)] for d in (1, 2, 5, 10)])
    assert (np.diff(depths, axis=0) > 0).all()
    assert (np.diff(depths, axis=1) > 0).all()


@pytest.mark.parametrize("sd_med", [1.0, 0.5])
def test_shaping_is_the_formula(sd_med, rng):
    below = np.concatenate([[0.0, 60.0], rng.uniform(0, 300, 50)])
    got = shaping_sd(below, 60.0, 0.03, sd_med, 0.05)
    assert_allclose(got, reference.shaping_sd(below, 60.0, 0.03, sd_med, 0.05), rtol=1e-12)


def test_shaping_by_hand():
    below = np.array([0.0, 25.0, 50.0, 150.0])
    assert_allclose(shaping_sd(below, 50.0, 0.01, 1.0, 0.05), [0.01, 0.1, 1.0, 6.0], rtol=1e-12)


def test_shaping_rises_and_has_no_jump():
    below = np.linspace(0, 120, 100_001)
    sd = shaping_sd(below, 60.0, 0.03, 1.0, 0.05)
    assert (np.diff(sd) > 0).all()
    assert np.diff(sd).max() < 1e-3
