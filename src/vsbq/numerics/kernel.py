"""The Gaussian kernel (Eq. 16) and the negative quadratic mean (Eq. 17), with their hyperparameters as one vector.

The exponent of a kernel value, the output scale and the noise that will divide it are one inner product of augmented
vectors, so a whole matrix costs one thin product and one `exp` in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vsbq._typing import Float, ndarray
from vsbq.numerics.linalg import product


class Hyperparameters(NamedTuple):
    """θ of the Gaussian process: kernel (log ℓ, log σ_f) and mean (m₀, μ, log ω)."""

    log_scales: Float[ndarray, " d"]
    log_output: float
    mean_top: float
    mean_location: Float[ndarray, " d"]
    mean_log_widths: Float[ndarray, " d"]

    def pack(self) -> Float[ndarray, " p"]:
        """All hyperparameters as one vector of length 3D + 2."""
        return np.concatenate(
            [self.log_scales, [self.log_output, self.mean_top], self.mean_location, self.mean_log_widths]
        )

    @classmethod
    def unpack(cls, theta: Float[ndarray, " p"]) -> Hyperparameters:
        """The inverse of `pack`."""
        d = (len(theta) - 2) // 3
        return cls(theta[:d], float(theta[d]), float(theta[d + 1]), theta[d + 2 : 2 * d + 2], theta[2 * d + 2 :])

    @property
    def output_variance(self) -> float:
        """σ_f², the kernel at zero distance."""
        return float(np.exp(2 * self.log_output))


def left_vectors(points: Float[ndarray, "m d"], hyp: Hyperparameters) -> Float[ndarray, "m d+2"]:
    """Rows (z/ℓ, 2 log σ_f − |z/ℓ|²/2, 1), to be multiplied with `right_vectors`."""
    z = (points - hyp.mean_location) / np.exp(hyp.log_scales)
    half_norm = 0.5 * np.einsum("md,md->m", z, z)
    return np.column_stack([z, 2 * hyp.log_output - half_norm, np.ones(len(z))])


def right_vectors(
    points: Float[ndarray, "n d"], hyp: Hyperparameters, log_divisor: Float[ndarray, " n"] | float = 0.0
) -> Float[ndarray, "n d+2"]:
    """Rows (x/ℓ, 1, −|x/ℓ|²/2 − log divisor): the kernel column of x comes out divided by `exp(log_divisor)`."""
    x = (points - hyp.mean_location) / np.exp(hyp.log_scales)
    last = -0.5 * np.einsum("nd,nd->n", x, x) - log_divisor
    return np.column_stack([x, np.ones(len(x)), last])


def kernel(a: Float[ndarray, "m d"], b: Float[ndarray, "n d"], hyp: Hyperparameters) -> Float[ndarray, "m n"]:
    """κ(a, b) of Eq. 16."""
    exponent = product(left_vectors(a, hyp), right_vectors(b, hyp).T)
    np.minimum(exponent, 2 * hyp.log_output, out=exponent)
    return np.exp(exponent, out=exponent)


def mean(points: Float[ndarray, "n d"], hyp: Hyperparameters) -> Float[ndarray, " n"]:
    """m(x) of Eq. 17: m₀ − ½ Σ (x − μ)²/ω²."""
    r = (points - hyp.mean_location) / np.exp(hyp.mean_log_widths)
    return hyp.mean_top - 0.5 * np.einsum("nd,nd->n", r, r)


def mean_gradient(
    points: Float[ndarray, "n d"], hyp: Hyperparameters, upstream: Float[ndarray, " n"]
) -> tuple[float, Float[ndarray, " d"], Float[ndarray, " d"]]:
    """Σ_n upstream_n ∂m(x_n) with respect to (m₀, μ, log ω)."""
    widths = np.exp(hyp.mean_log_widths)
    r = (points - hyp.mean_location) / widths
    return float(upstream.sum()), (upstream @ r) / widths, upstream @ (r * r)
