"""Thin wrappers of LAPACK and BLAS: in place where it matters, and a Cholesky whose jitter is raised and reported.

The wheels of NumPy and SciPy each bring their own BLAS with its own threads, and the idle threads of one spin for a
while on the cores that the other wants. Code that needs triangular solves (SciPy only) therefore takes its large
products from here as well: alternating between the two slows both down.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack

from vsbq._typing import Float, ndarray

#: Relative jitter on a kernel matrix, and how far it may be raised before the matrix counts as hopeless.
FIRST_JITTER = 1e-10
LAST_JITTER = 1e-4

#: Rows and columns that are mirrored at a time: two such tiles stay in the cache.
TILE = 64


class NotPositiveDefinite(ArithmeticError):
    """A kernel matrix had no Cholesky factor even with the largest jitter."""


def cholesky(a: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """Lower Cholesky factor in Fortran order; raises `NotPositiveDefinite`."""
    return _cholesky_of(np.array(a, order="F"))


def _cholesky_of(own: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """The factor of a matrix in Fortran order that nobody else needs: it is overwritten."""
    factor, info = lapack.dpotrf(own, lower=1, clean=1, overwrite_a=1)
    if info != 0 or not np.isfinite(factor[-1, -1]):
        raise NotPositiveDefinite(f"leading minor {info} is not positive")
    return factor


def jittered_cholesky(
    a: Float[ndarray, "m m"], scale: float, first: float = FIRST_JITTER
) -> tuple[Float[ndarray, "m m"], float]:
    """Cholesky factor of a + jitter·scale·I and the relative jitter that it took, raised tenfold on each failure."""
    jitter = first
    while True:
        try:
            raised = np.array(a, order="F")
            np.einsum("ii->i", raised)[:] += jitter * scale
            return _cholesky_of(raised), jitter
        except NotPositiveDefinite:
            jitter *= 10
            if jitter > LAST_JITTER:
                raise


def product(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    """a @ b for matrices, in Fortran order, by SciPy's BLAS and without a copy of contiguous arguments; into `out` (in
    Fortran order) if that is given."""
    flip_a, flip_b = _is_c(a), _is_c(b)
    left, right = (a.T if flip_a else a), (b.T if flip_b else b)
    if out is None:
        return blas.dgemm(1.0, left, right, trans_a=int(flip_a), trans_b=int(flip_b))
    found = blas.dgemm(1.0, left, right, beta=0.0, c=out, trans_a=int(flip_a), trans_b=int(flip_b), overwrite_c=1)
    if not np.shares_memory(found, out):
        out[...] = found
    return out


def product_vector(a: ndarray, x: ndarray) -> ndarray:
    """a @ x for a matrix and a vector, by SciPy's BLAS, which does not take matrices without rows."""
    if not len(a):
        return np.zeros(0)
    flip = _is_c(a)
    return blas.dgemv(1.0, a.T if flip else a, x, trans=int(flip))


def _is_c(a: ndarray) -> bool:
    return bool(a.flags.c_contiguous and not a.flags.f_contiguous)


def solve_lower(factor: Float[ndarray, "m m"], b: ndarray, *, transpose: bool = False) -> ndarray:
    """L⁻¹ b, or L⁻ᵀ b with `transpose`; `b` is a vector or a matrix and is not changed."""
    if b.ndim == 2 and b.shape[1] >= len(factor):
        return times_lower(inverse_lower(factor), b, transpose=transpose)
    matrix = b if b.ndim == 2 else b[:, None]
    solved = blas.dtrsm(1.0, factor, matrix, lower=1, trans_a=int(transpose))
    return solved if b.ndim == 2 else solved[:, 0]


def inverse_lower(factor: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """L⁻¹. A product with it is two to five times as fast as a triangular solve, and as accurate: the error of both is
    bounded by that of the rows of L⁻¹."""
    inverse, info = lapack.dtrtri(factor, lower=1)
    if info != 0:
        raise NotPositiveDefinite("a zero on the diagonal of a Cholesky factor")
    return inverse


def times_lower(lower: Float[ndarray, "m m"], b: Float[ndarray, "m n"], *, transpose: bool = False) -> ndarray:
    """L b or Lᵀ b for a lower triangular matrix."""
    return blas.dtrmm(1.0, lower, b, lower=1, trans_a=int(transpose))


def times_lower_in_place(lower: Float[ndarray, "m m"], b: Float[ndarray, "m n"]) -> None:
    """Replace b (Fortran order) by L b."""
    found = blas.dtrmm(1.0, lower, b, lower=1, overwrite_b=1)
    if found.base is not b and found is not b and not np.shares_memory(found, b):
        b[...] = found


def inverse_from_cholesky(factor: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """(L Lᵀ)⁻¹ as a full symmetric matrix."""
    inverse, info = lapack.dpotri(factor, lower=1)
    if info != 0:
        raise NotPositiveDefinite("a zero on the diagonal of a Cholesky factor")
    return mirror_lower(inverse)


def mirror_lower(a: Float[ndarray, "m m"]) -> Float[ndarray, "m m"]:
    """The symmetric matrix whose lower triangle is that of `a`."""
    out = np.array(a, order="F")
    for start in range(0, len(out), TILE):
        here, after = slice(start, start + TILE), slice(start + TILE, None)
        tile = np.tril(out[here, here])
        out[here, here] = tile + np.tril(tile, -1).T
        out[here, after] = out[after, here].T
    return out


def log_determinant(factor: Float[ndarray, "m m"]) -> float:
    """log |L Lᵀ|."""
    return 2.0 * float(np.log(np.diagonal(factor)).sum())
