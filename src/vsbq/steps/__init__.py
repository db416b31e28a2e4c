"""The algorithm, step by step: noise, trim, surrogate, mixture, refinement; `vsbq.fit` calls them in this order."""
