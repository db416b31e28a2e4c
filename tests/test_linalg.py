"""Products into arrays that exist, and the symmetric matrix of a lower triangle."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vsbq.numerics import linalg


@pytest.mark.parametrize("order_a", "CF")
@pytest.mark.parametrize("order_b", "CF")
def test_a_product_into_an_array_is_the_product(rng, order_a, order_b):
    a, b = rng.standard_normal((4, 3)), rng.standard_normal((3, 5))
    a, b = np.asarray(a, order=order_a), np.asarray(b, order=order_b)
    whole = np.full((4, 9), np.nan, order="F")
    found = linalg.product(a, b, whole[:, 2:7])
    assert np.shares_memory(found, whole)
    assert_allclose(whole[:, 2:7], a @ b, rtol=1e-13)
    assert np.isnan(whole[:, :2]).all()
    assert np.isnan(whole[:, 7:]).all()


def test_an_array_in_the_other_order_is_filled_as_well(rng):
    a, b, out = rng.standard_normal((4, 3)), rng.standard_normal((3, 5)), np.full((4, 5), np.nan)
    linalg.product(a, b, out)
    assert_allclose(out, a @ b, rtol=1e-13)


@pytest.mark.parametrize("m", [1, linalg.TILE - 1, linalg.TILE, 2 * linalg.TILE + 7])
def test_a_lower_triangle_is_mirrored(rng, m):
    a = rng.standard_normal((m, m))
    kept, found = a.copy(), linalg.mirror_lower(a)
    assert np.array_equal(found, found.T)
    assert np.array_equal(np.tril(found), np.tril(a))
    assert np.array_equal(a, kept)


def test_factorising_leaves_the_matrix_as_it_was(rng):
    a = rng.standard_normal((6, 6))
    a = np.asfortranarray(a @ a.T + np.eye(6))
    kept = a.copy()
    factor, jitter = linalg.jittered_cholesky(a, 2.0, 1e-3)
    assert jitter == 1e-3
    assert_allclose(factor @ factor.T, kept + 2e-3 * np.eye(6), rtol=1e-13)
    assert_allclose(linalg.cholesky(a) @ linalg.cholesky(a).T, kept, rtol=1e-13)
    assert np.array_equal(a, kept)
