"""Step 3: a mixture of Gaussians by sparse Bayesian quadrature. The door is `fit_variational`."""

from vsbq.steps.mixture.fit import VariationalMixture, fit_variational

__all__ = ["VariationalMixture", "fit_variational"]
