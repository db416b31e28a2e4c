"""Fits of more evaluations than fit in memory, or than one machine sums in reasonable time."""

from vsbq.large.run import fit_large

__all__ = ["fit_large"]
