"""A posterior whose density ends at an edge: values, draws and moments of what is left, refined or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import vsbq
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.history import Elbo
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.support import DRAWS, Support, Told
from vsbq.steps.surrogate.shaped_data import SparseGP

EDGE = 0.4
SMALL = Steps(surrogate=SparseGP(inducing_per_dimension=20), mixture=VariationalMixture(max_components=4))
ROOT = np.array([[1.0, 0.0], [0.6, 0.8]])
SPACE = InferenceSpace(Bounds(np.full(2, -np.inf), np.full(2, np.inf)), np.zeros(2), np.array([1.0, -1.0]), np.ones(2))

#: The first parameter of what is left, and the factor of the second that goes with it.
LEFT = stats.truncnorm(-np.inf, EDGE - 1.0, 1.0, 1.0)


def in_support(x):
    return x[:, 0] < EDGE


def learnt(edge, steepness):
    """A support whose edge is a plane of the first parameter, at the same place in all of its draws."""
    surface = np.zeros((6, DRAWS))
    surface[0], surface[1] = steepness * (edge - 1.0), -steepness
    return Support(np.zeros(2), np.eye(2), (surface,))


TOLD = Support(np.zeros(2), np.eye(2), told=Told(in_support, SPACE))


def cut_normal(support):
    """A correlated normal around (1, −1) as a mixture, cut by a support."""
    mixture = Mixture(np.zeros(1), np.zeros((1, 2)), ROOT[None])
    return Posterior(("a", "b"), SPACE, mixture, Elbo(0.0, 0.0, 0.0), 0.0, None, None, None, support=support)


@pytest.fixture(scope="module", params=["told", "learnt"])
def cut(request):
    return cut_normal(TOLD if request.param == "told" else learnt(EDGE, 1e9))


@pytest.fixture(scope="module")
def refined():
    """A fit of a normal with unit sds around the origin that ends at x₁ = 0.4, as the user says."""
    x = np.random.default_rng(0).normal(size=(300, 2)) * 1.5
    x = x[in_support(x)]
    return vsbq.fit(x, -0.5 * (x**2).sum(axis=1), support=in_support, settings=SMALL, rng=1, progress=False)


def test_nothing_is_drawn_beyond_the_edge(cut):
    x = cut.sample(4000, rng=0)
    assert x.shape == (4000, 2)
    assert in_support(x).all()
    assert stats.kstest(x[:, 0], LEFT.cdf).pvalue > 1e-3
    assert not stats.kstest(x[:, 0], stats.norm(1.0, 1.0).cdf).pvalue > 1e-3  # the check can fail


def test_draws_near_a_soft_edge_are_kept_by_their_probability():
    """Each draw is asked once: asked again and again, those near the edge would all be gone in the end."""
    x = cut_normal(learnt(1.0, 2.0)).sample(20_000, rng=0)[:, 0]
    grid = np.linspace(-5, 6, 2001)
    density = stats.norm.pdf(grid, 1.0) / (1 + np.exp(-2.0 * (1.0 - grid)))
    mean = (grid * density).sum() / density.sum()
    assert abs(x.mean() - mean) < 4 * x.std() / np.sqrt(len(x))


def test_a_support_that_leaves_nothing_does_not_hang():
    nowhere = replace(TOLD, told=Told(lambda x: np.zeros(len(x), dtype=bool), SPACE))
    assert cut_normal(nowhere).sample(10, rng=0).shape == (10, 2)


def test_the_density_is_zero_beyond_the_edge_and_normalised(cut):
    x = np.random.default_rng(1).normal([0.5, -1.0], 1.0, (1000, 2))
    found, inside = cut.log_pdf(x), in_support(x)
    assert_array_equal(np.isneginf(found), ~inside)
    normal = stats.multivariate_normal([1.0, -1.0], ROOT @ ROOT.T).logpdf(x[inside])
    assert_allclose(found[inside], normal - stats.norm.logcdf(EDGE - 1.0), atol=0.03)
    assert cut.log_pdf(x[~inside][0]) == -np.inf
    assert cut.log_pdf(np.empty((0, 2))).shape == (0,)


def test_the_edge_itself_is_asked_for_as_it_is():
    """On its way to inference space and back a point may move by a rounding error."""
    exact = np.nextafter(EDGE, np.inf)
    for value in (EDGE, exact, 0.1 + 0.3):
        assert cut_normal(TOLD).log_pdf([value, 0.0]) == -np.inf


def test_moments_are_of_what_is_left(cut):
    mean = np.array([LEFT.mean(), -1.0 + 0.6 * (LEFT.mean() - 1.0)])
    slope = np.array([1.0, 0.6])
    cov = LEFT.var() * np.outer(slope, slope) + np.diag([0.0, 0.64])
    assert_allclose(cut.mean(), mean, atol=0.02)
    assert_allclose(cut.cov(), cov, atol=0.02)
    assert abs(cut.mean()[0] - 1.0) > 0.5  # the mixture's own is elsewhere
    q = np.array([0.05, 0.5, 0.95])
    assert_allclose(cut.quantile(q)[:, 0], LEFT.ppf(q), atol=0.04)
    x = cut.sample(20_000, rng=3)
    assert_allclose(np.quantile(x[:, 1], q), cut.quantile(q)[:, 1], atol=0.05)
    table = cut.summary()
    assert_allclose(table.sd, np.sqrt(np.diagonal(cov)), atol=0.02)


def test_marginals_end_at_the_edge(cut):
    one = cut.marginal("a")
    assert one.cdf(EDGE + 0.1) > 0.99
    assert one.pdf(EDGE + 0.3) < 0.01
    assert_allclose(one.cdf([-1.0, 0.0]), LEFT.cdf([-1.0, 0.0]), atol=0.01)


def test_without_a_support_moments_are_those_of_the_mixture():
    plain = cut_normal(None)
    assert plain.cut is None
    assert_allclose(plain.mean(), [1.0, -1.0], atol=1e-12)
    assert_allclose(plain.cov(), ROOT @ ROOT.T, atol=1e-12)


@pytest.mark.parametrize("without", [False, True], ids=["refined", "mixture"])
def test_a_fit_keeps_to_what_it_was_told(refined, without):
    post = replace(refined, refined=None) if without else refined
    left = stats.truncnorm(-np.inf, EDGE)
    assert in_support(post.sample(4000, rng=0)).all()
    x = np.random.default_rng(1).normal(size=(1000, 2))
    found, inside = post.log_pdf(x), in_support(x)
    assert_array_equal(np.isneginf(found), ~inside)
    slack = 0.3 if without else 0.05
    truth = -0.5 * (x**2).sum(axis=1) - np.log(2 * np.pi) - stats.norm.logcdf(EDGE)
    near = inside & ((x**2).sum(axis=1) < 4)
    assert np.median(np.abs(found - truth)[near]) < slack
    assert_allclose(post.mean(), [left.mean(), 0.0], atol=0.05)
    assert_allclose(np.sqrt(np.diagonal(post.cov())), [left.std(), 1.0], atol=0.05)
    assert post.log_evidence == pytest.approx(np.log(2 * np.pi) + stats.norm.logcdf(EDGE), abs=0.3 if without else 0.03)


def test_the_mode_may_be_at_the_edge(cut):
    """The normal is highest beyond it."""
    a, b = cut.mode()
    assert EDGE - 0.02 < a < EDGE
    assert b == pytest.approx(-1.0 + 0.6 * (EDGE - 1.0), abs=0.05)
