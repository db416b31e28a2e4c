"""Marginals of a posterior and what follows from them: means, covariances, quantiles and the summary."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.posterior.marginal import NODES, DrawnMarginal, Marginal
from vsbq.posterior.summary import Summary

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior

__all__ = ["cov", "marginal", "mean", "quantile", "summary"]


def marginal(post: Posterior, parameter: int | str) -> Marginal:
    """The marginal of one parameter: that of the mixture, corrected by the draws of the refinement."""
    i = post.names.index(parameter) if isinstance(parameter, str) else range(post.dimension)[parameter]
    one = post.space.columns([i])
    sds = np.linalg.norm(post.mixture.trils[:, i], axis=1)
    plain = Marginal(post.names[i], one, post.mixture.log_weights, post.mixture.means[:, i], sds)
    if post.refined is None:
        return plain
    corrected = plain.corrected(post.refined.points[:, i], *post.refined.both_weights)
    if post.prior_change is None:
        return corrected
    return DrawnMarginal.of(corrected, post.refined.points[:, i], post.refined.weights - post.refined.mixture_weights)


def mean(post: Posterior) -> Float[ndarray, " d"]:
    """Mean of each parameter."""
    return np.array([one.mean() for one in _marginals(post)])


def quantile(post: Posterior, q: ArrayLike) -> Float[ndarray, ...]:
    """Quantiles of each parameter: shape (D,) for one share, (len(q), D) for several."""
    return np.stack([one.quantile(q) for one in _marginals(post)], axis=-1)


def summary(post: Posterior) -> Summary:
    """Mean, sd and the central 90 % interval of each parameter."""
    low, middle, high = quantile(post, [0.05, 0.5, 0.95])
    return Summary(post.names, mean(post), _sd(post), low, middle, high)


def cov(post: Posterior) -> Float[ndarray, "d d"]:
    """Covariance: the mixture's, moved by what the refined draws say is different, with the sds of the marginals."""
    if post.refined is None:
        return _mixture_cov(post)
    plain = replace(post, refined=None)
    centre = mean(plain)
    x = post.space.inverse(post.refined.points) - centre
    moved = post.refined.shift(x)
    products = post.refined.shift(np.einsum("ni,nj->nij", x, x).reshape(len(x), -1)).reshape(len(centre), -1)
    together = _mixture_cov(plain) + products - np.outer(moved, moved)
    turn = _sd(post) / np.sqrt(np.diagonal(together))
    return together * np.outer(turn, turn)


def _mixture_cov(post: Posterior) -> Float[ndarray, "d d"]:
    """Covariance of the mixture, by Gauss–Hermite quadrature per component."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    sigma = np.einsum("kij,klj->kil", post.mixture.trils, post.mixture.trils)
    out = np.empty((post.dimension, post.dimension))
    marginals = _marginals(post)
    centre = [one.mean() for one in marginals]
    for i, first in enumerate(marginals):
        a = first.means[:, None] + first.sds[:, None] * nodes
        x = first.space.inverse(a.reshape(-1, 1)).reshape(a.shape) - centre[i]
        out[i, i] = np.exp(first.log_weights) @ (x**2 @ weights)
        for j in range(i):
            slope = sigma[:, i, j] / first.sds**2
            rest = np.sqrt(np.maximum(sigma[:, j, j] - slope * sigma[:, i, j], 0.0))
            b = marginals[j].means[:, None] + (slope * first.sds)[:, None] * nodes
            inner = b[:, :, None] + rest[:, None, None] * nodes
            y = marginals[j].space.inverse(inner.reshape(-1, 1)).reshape(inner.shape) @ weights - centre[j]
            out[i, j] = out[j, i] = np.exp(first.log_weights) @ ((x * y) @ weights)
    return out


def _marginals(post: Posterior) -> list[Marginal]:
    return [marginal(post, i) for i in range(post.dimension)]


def _sd(post: Posterior) -> Float[ndarray, " d"]:
    return np.array([one.sd() for one in _marginals(post)])
