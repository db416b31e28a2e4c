"""What is said of values that are no log density: by their own shape, or by what they are called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vsbq.data.findings import Finding
from vsbq.data.losses import LOSS_WORDS, Kind, is_called_log_density, kind_of, loss_word

if TYPE_CHECKING:
    from vsbq.data.evaluations import Evaluations

__all__ = ["loss_findings"]

#: Losses by whose name the posterior would be flattened.
FLATTENING = frozenset({"mse", "rmse", "r2", "mae"})

#: A posterior that ends where the density is zero may be flat up to there: more zeros than this share are such an end.
MOST_ZEROS = 0.05

#: How to make a log density of the usual losses.
CURE = (
    "The log likelihood of n normal residuals of standard deviation s is -SSE / (2 * s**2), or -n * MSE / (2 * s**2)."
)


def loss_findings(finite: Evaluations, zeros: int, values_name: str | None) -> Iterator[Finding]:
    """A warning where values fall as no log density does, and one question where they alone cannot tell.

    `zeros` is how many further evaluations have a density of zero. The topic "loss" is for what no fit can repair;
    "kind of values" for what is likely a loss, but could be a log density.
    """
    values = finite.log_density
    word = None if values_name is None else loss_word(values_name)
    closed = np.isfinite(finite.bounds.lower) & np.isfinite(finite.bounds.upper)
    kind = kind_of(finite.points, values, boxed=bool(closed.all()))
    if kind == "density":
        share = float(np.mean(values < 1e-6 * values.max()))
        message = f"No value is negative and {share:.0%} are next to zero, as those of a density. Pass its logarithm."
        yield Finding("warning", "loss", message)
    elif word is not None:
        message = f"The values are called '{values_name}', which may be {LOSS_WORDS[word]}. Are they a log density?"
        yield Finding("warning" if word in FLATTENING or kind == "flat" else "info", "loss", message)
    elif zeros <= MOST_ZEROS * len(values) and kind in ("flat", "shallow"):
        yield _by_shape(finite, kind)
    elif kind == "unknown" and finite.log_prior is None and not (values_name and is_called_log_density(values_name)):
        message = (
            f"The best value is {float(values.max()):.3g}. A loss with the sign changed is below zero as well, and R² "
            f"below one, so that values cannot tell: is this a log density with all factors? {CURE}"
        )
        yield Finding("info", "loss", message)


def _by_shape(finite: Evaluations, kind: Kind) -> Finding:
    values = finite.log_density
    drop = float(values.max() - np.quantile(values, 0.01))
    if kind == "flat":
        message = (
            f"The values hardly fall off: 99 % are within {drop:.3g} of the best, less than a posterior that the "
            "evaluations surround would show. Either they cover only the top of it, or the values are no log density: "
            "a mean square, its root, R² or an unlogged density would make the posterior far too wide. "
        )
        return Finding("warning", "loss", message + CURE)
    message = (
        f"The best value is {float(values.max()):.3g}, and the others fall little below it for the region that was "
        "explored. Minus a mean square, minus its root, and R² look like this, and would make the posterior far too "
        f"wide. {CURE} Nothing is wrong if this is a log density of which constants were left out."
    )
    return Finding("warning", "kind of values", message)
