"""Marginals of a posterior and what follows from them: means, covariances, quantiles and the summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vsbq._typing import ArrayLike, Float, ndarray
from vsbq.errors import ArgumentError, count_in_words, names_in_words, nearest
from vsbq.markup import element
from vsbq.posterior.density import CutDraws
from vsbq.posterior.marginal import NODES, DrawnMarginal, Marginal
from vsbq.posterior.summary import LEVEL, Summary, ends_of
from vsbq.tables import badge, caption

if TYPE_CHECKING:
    from vsbq.posterior.posterior import Posterior
    from vsbq.steps.refine import Refined

__all__ = ["as_html", "cov", "marginal", "mean", "quantile", "summary"]


def marginal(post: Posterior, parameter: int | str) -> Marginal:
    """The marginal of one parameter: that of the mixture, corrected by the draws of the refinement, or by what the
    support leaves of the mixture."""
    i = _number(post, parameter)
    plain, draws = _of_mixture(post, i), _draws(post)
    if draws is None:
        return plain
    share = _share(draws)
    corrected = plain.corrected(draws.points[:, i], draws.weights, draws.mixture_weights, share)
    if post.prior_change is None and post.support is None:
        return corrected
    return DrawnMarginal.of(corrected, draws.points[:, i], draws.weights - share * draws.mixture_weights, share)


def _number(post: Posterior, parameter: int | str) -> int:
    """The number of a parameter that was named, or counted from 0 (from the end, if negative)."""
    if isinstance(parameter, str):
        if parameter in post.names:
            return post.names.index(parameter)
        close = f" {nearest(parameter, post.names)}" if len(post.names) > 1 else ""
        known = f" The parameters are {names_in_words(post.names, 30)}." if "There are" not in close else ""
        raise ArgumentError(f"There is no parameter {parameter!r:.60}.{close}{known}")
    if not -post.dimension <= parameter < post.dimension:
        raise ArgumentError(
            f"There is no parameter number {parameter}: they count from 0 to {post.dimension - 1} "
            f"({names_in_words(post.names, 30)})."
        )
    return range(post.dimension)[parameter]


def _of_mixture(post: Posterior, i: int) -> Marginal:
    """The marginal of the mixture alone."""
    sds = np.linalg.norm(post.mixture.trils[:, i], axis=1)
    return Marginal(post.names[i], post.space.columns([i]), post.mixture.log_weights, post.mixture.means[:, i], sds)


def _draws(post: Posterior) -> Refined | CutDraws | None:
    """Draws with weights towards the posterior and towards its mixture; None where the two are the same."""
    return post.cut if post.refined is None else post.refined


def _share(draws: Refined | CutDraws) -> float:
    """How far what is known of the mixture exactly counts: the less, the less of it is left."""
    return float(np.exp(draws.log_mass)) if isinstance(draws, CutDraws) else 1.0


def mean(post: Posterior) -> Float[ndarray, " d"]:
    """Mean of each parameter."""
    return np.array([one.mean() for one in _marginals(post)])


def quantile(post: Posterior, q: ArrayLike) -> Float[ndarray, ...]:
    """Quantiles of each parameter: shape (D,) for one share, (len(q), D) for several."""
    return np.stack([one.quantile(q) for one in _marginals(post)], axis=-1)


def summary(post: Posterior, level: float = LEVEL) -> Summary:
    """Mean, sd, median and a central interval of each parameter."""
    below, above = ends_of(level)
    low, middle, high = quantile(post, [below, 0.5, above])
    verdict = None if post.diagnosis is None else post.diagnosis.verdict
    return Summary(post.names, mean(post), _sd(post), low, middle, high, level, verdict)


def as_html(post: Posterior) -> str:
    """The summary under the evidence and the verdict, for a notebook."""
    found = summary(post)
    count = count_in_words(post.dimension, "parameter")
    evidence = f"log evidence {post.log_evidence:.3f} ± {post.log_evidence_sd:.3f}, ELBO {post.elbo:.3f}"
    verdict = () if found.verdict is None else (badge(found.verdict), " ")
    above = caption(*verdict, element("b", f"Posterior of {count}"), f": {evidence}")
    return found.as_html(above)


def cov(post: Posterior) -> Float[ndarray, "d d"]:
    """Covariance: the mixture's, moved by what the draws say is different, with the sds of the marginals."""
    of_mixture, draws = [_of_mixture(post, i) for i in range(post.dimension)], _draws(post)
    if draws is None:
        return _mixture_cov(post, of_mixture)
    x = post.space.inverse(draws.points) - [one.mean() for one in of_mixture]
    share = _share(draws)
    more = draws.weights - share * draws.mixture_weights
    moved, products = more @ x, np.einsum("n,ni,nj->ij", more, x, x, optimize=True)
    together = share * _mixture_cov(post, of_mixture) + products - np.outer(moved, moved)
    turn = _sd(post) / np.sqrt(np.diagonal(together))
    return np.asarray(together * np.outer(turn, turn))


def _mixture_cov(post: Posterior, marginals: list[Marginal]) -> Float[ndarray, "d d"]:
    """Covariance of the mixture, by Gauss–Hermite quadrature per component."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    sigma = np.einsum("kij,klj->kil", post.mixture.trils, post.mixture.trils)
    out = np.empty((post.dimension, post.dimension))
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
