"""Step 2: a sparse Gaussian process of the log density. The door is `fit_sparse_gp`, which hands over a `Surrogate`."""

from vsbq.steps.surrogate.fit import fit_sparse_gp
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import Shaping, SparseGP

__all__ = ["Shaping", "SparseGP", "Surrogate", "fit_sparse_gp"]
