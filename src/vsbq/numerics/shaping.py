"""Thresholds of 'low density' (Supplement C.1) and the shaping noise (Eq. 27)."""

from __future__ import annotations

import numpy as np
from scipy.special import erfc
from scipy.stats import chi2

from vsbq._typing import Float, ndarray

#: The contour of a normal within which nearly all of a posterior is.
POSTERIOR = 3.0


def contour_depth(n_sigma: float, dimension: int) -> float:
    """How far below its top, in nats, a D-dimensional normal is on its n-sigma contour.

    The paper's [Δy](n) is a quantile of twice that difference; in log-density units it is half of it.
    """
    return float(chi2.isf(erfc(n_sigma / np.sqrt(2.0)), dimension) / 2)


def shaping_sd(
    below_top: Float[ndarray, " n"], threshold: float, sd_min: float, sd_med: float, slope: float
) -> Float[ndarray, " n"]:
    """σ_shape(Δy) of Eq. 27: from sd_min at the top to sd_med at the threshold, then linear."""
    rho = np.clip(below_top / threshold, 0.0, 1.0)
    rise = np.exp((1 - rho) * np.log(sd_min) + rho * np.log(sd_med))
    return rise + slope * np.maximum(below_top - threshold, 0.0)
