"""Step 3: a mixture of Gaussians by sparse Bayesian quadrature. The door is `fit_variational`."""

from vsbq.steps.mixture.fit import fit_variational
from vsbq.steps.mixture.policy import VariationalMixture

__all__ = ["VariationalMixture", "fit_variational"]
