"""Steps 2 and 3 of an update: surrogate and mixture go on from the earlier ones, if what is new agrees with these.

New evaluations are a test that the earlier surrogate could not prepare for. If it has predicted them within its error
bars, what it has learnt stands: hyperparameters and coordinates stay, inducing points and factors are made of all
evaluations. Otherwise, and where there are so few evaluations that each has a say in what is learnt, it is learnt anew.
The new surrogate in turn is a test of the earlier mixture: if its importance weights are as even as those with which
the rounds of a fit end, the mixture stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vsbq.data.evaluations import Evaluations
from vsbq.numerics.contours import contour_depth
from vsbq.numerics.shaping import shaping_sd
from vsbq.posterior import Posterior
from vsbq.posterior.diagnosis import THRESHOLDS
from vsbq.posterior.diagnosis.measures import Rows
from vsbq.progress import logger
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.mixture.same import SameMixture
from vsbq.steps.surrogate.going_on import GoingOn
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Shaping, SparseGP

__all__ = ["going_on", "surprise"]


def going_on(post: Posterior, together: Evaluations, steps: Steps) -> Steps:
    """The steps of an update, whose new evaluations are the last ones: from the earlier surrogate where it may stay as
    it is, else as they are."""
    how, earlier, old = steps.surrogate, post.surrogate, post.evaluations
    if not (isinstance(how, SparseGP) and isinstance(earlier, Surrogate)) or post.history is None or old is None:
        return steps
    if len(together) < 2 * how.coarse[-1].points * post.dimension:  # the new ones are part of what is learnt from
        return steps
    found = surprise(post, together.take(np.arange(len(old), len(together))), how.shaping)
    logger.info("update: the new evaluations are missed by %.2g of the standard deviations stated", found)
    if THRESHOLDS.limit("surrogate").level(found) != "trusted":
        return steps
    history, mixture = post.history.surrogate, steps.mixture
    mixture = SameMixture(mixture) if isinstance(mixture, VariationalMixture) else mixture
    return replace(steps, surrogate=GoingOn(how, earlier, history.shaping_strength, history.miss), mixture=mixture)


def surprise(post: Posterior, new: Evaluations, shaping: Shaping) -> float:
    """Root mean square error of the earlier surrogate at new evaluations, in the standard deviations that it states,
    with noise and the noise of shaping, as for blocks that are held out; infinite where it says nothing."""
    model, rows, history = post.surrogate, Rows.of(post), post.history
    finite = np.isfinite(new.log_density)
    if model is None or rows is None or history is None or not finite.all():
        return np.inf
    u = model.space.forward(new.points)
    values = new.log_density - model.offset + model.space.log_jacobian(u)
    top = float(model.mean(rows.points[np.argsort(-rows.values)[:100]]).max())
    threshold = contour_depth(shaping.depth, post.dimension)
    shaped = shaping_sd(np.maximum(top - values, 0.0), threshold, shaping.sd_min, shaping.sd_med, shaping.slope)
    noise = np.zeros(len(new)) if new.log_density_sd is None else new.log_density_sd
    total = model.variance(u) + noise**2 + (history.surrogate.shaping_strength * shaped) ** 2
    return float(np.sqrt(np.mean((values - model.mean(u)) ** 2 / total)))
