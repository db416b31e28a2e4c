"""What the user gets: the posterior, its marginals and its summary."""

from vsbq.posterior.marginal import Marginal
from vsbq.posterior.posterior import Posterior
from vsbq.posterior.prior import PriorChange
from vsbq.posterior.summary import Summary
from vsbq.randomness import RandomState

__all__ = ["Marginal", "Posterior", "PriorChange", "RandomState", "Summary"]
