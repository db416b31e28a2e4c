"""The shaping noise (Eq. 27)."""

from __future__ import annotations

import numpy as np

from vsbq._typing import Float, ndarray


def shaping_sd(
    below_top: Float[ndarray, " n"], threshold: float, sd_min: float, sd_med: float, slope: float
) -> Float[ndarray, " n"]:
    """σ_shape(Δy) of Eq. 27: from sd_min at the top to sd_med at the threshold, then linear."""
    rho = np.clip(below_top / threshold, 0.0, 1.0)
    rise = np.exp((1 - rho) * np.log(sd_min) + rho * np.log(sd_med))
    return rise + slope * np.maximum(below_top - threshold, 0.0)
