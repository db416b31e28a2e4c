"""One parameter of a posterior, for every kind of bound."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import reference
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.posterior.marginal import Marginal

INF = np.inf
KINDS = {"open": (-INF, INF), "lower": (2.0, INF), "upper": (-INF, -1.0), "both": (-3.0, 5.0)}


def marginal_of(kind, log_weights, means, sds, centre=0.2, scale=0.4):
    low, high = KINDS[kind]
    edge = 1e-9 * (high - low) if kind == "both" else (0.0 if kind == "open" else 1e-6)
    space = InferenceSpace(
        Bounds(np.array([low]), np.array([high])), np.array([edge]), np.array([centre]), np.array([scale])
    )
    return Marginal("x", space, np.asarray(log_weights), np.asarray(means), np.asarray(sds))


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def marginal(kind, rng):
    log_weights, means, trils = reference.random_mixture(rng, 3, 1)
    return marginal_of(kind, log_weights, means[:, 0], trils[:, 0, 0])


def draws_of(marginal, n, rng):
    component = rng.choice(len(marginal.means), size=n, p=np.exp(marginal.log_weights))
    u = marginal.means[component] + marginal.sds[component] * rng.normal(size=n)
    return marginal.space.inverse(u[:, None])[:, 0]


# The density


def test_pdf_integrates_to_one(marginal):
    u = np.linspace(-12.0, 12.0, 40_001)[:, None]
    x = marginal.space.inverse(u)[:, 0]  # a fine grid where the mass is, whatever the bounds
    assert np.trapezoid(marginal.pdf(x), x) == pytest.approx(1.0, abs=1e-5)


def test_pdf_is_the_slope_of_the_cdf(marginal):
    x = marginal.quantile(np.linspace(0.05, 0.95, 19))
    h = 1e-5
    assert_allclose(marginal.pdf(x), (marginal.cdf(x + h) - marginal.cdf(x - h)) / (2 * h), rtol=1e-5)


def test_log_pdf_is_the_log_of_the_pdf(marginal):
    x = marginal.quantile(np.linspace(0.05, 0.95, 19))
    assert_allclose(np.exp(marginal.log_pdf(x)), marginal.pdf(x), rtol=1e-12)


@pytest.mark.parametrize("kind", ["lower", "upper", "both"])
def test_there_is_nothing_outside_the_bounds(marginal, kind):
    low, high = KINDS[kind]
    outside = np.array([bound + step for bound, step in ((low, -1.0), (high, 1.0)) if np.isfinite(bound)])
    assert_allclose(marginal.pdf(outside), 0.0)
    assert (marginal.log_pdf(outside) == -INF).all()
    assert_allclose(marginal.cdf(outside), (outside > 0.5 * (max(low, -9) + min(high, 9))).astype(float))


def test_known_distributions():
    """One component: normal, shifted log-normal, its mirror image, and the uniform."""
    one = ([0.0], [0.0], [1.0], 0.0, 1.0)
    x = np.linspace(0.1, 0.9, 9)
    assert_allclose(marginal_of("open", *one).pdf(x), stats.norm.pdf(x), rtol=1e-10)
    assert_allclose(marginal_of("lower", *one).pdf(2 + x), stats.lognorm.pdf(x, 1.0), rtol=1e-10)
    assert_allclose(marginal_of("upper", *one).pdf(-1 - x), stats.lognorm.pdf(x, 1.0), rtol=1e-10)
    assert_allclose(marginal_of("both", *one).pdf(-3 + 8 * x), 1 / 8, rtol=1e-7)


# Distribution function and quantiles


def test_quantile_inverts_the_cdf(marginal):
    q = np.concatenate([[1e-3], np.linspace(0.01, 0.99, 25), [1 - 1e-3]])
    assert_allclose(marginal.cdf(marginal.quantile(q)), q, rtol=1e-7)


def test_cdf_inverts_the_quantile(marginal):
    x = marginal.space.inverse(np.linspace(-2.0, 2.0, 21)[:, None])[:, 0]
    assert_allclose(marginal.quantile(marginal.cdf(x)), x, rtol=1e-8)


def test_cdf_rises_from_zero_to_one(marginal):
    x = marginal.space.inverse(np.linspace(-9.0, 9.0, 500)[:, None])[:, 0]
    cdf = marginal.cdf(x)
    assert (np.diff(cdf) >= 0).all()
    assert cdf[0] < 1e-4
    assert cdf[-1] > 1 - 1e-4


def test_the_extreme_quantiles_are_the_bounds(marginal, kind):
    assert_allclose(marginal.quantile([0.0, 1.0]), KINDS[kind])


@pytest.mark.parametrize("q", [-0.1, 1.1, [0.5, 2.0], np.nan])
def test_a_share_that_is_none_is_refused(marginal, q):
    with pytest.raises(ValueError, match="between 0 and 1"):
        marginal.quantile(q)


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (0,)])
def test_shapes_go_through(marginal, shape):
    q = np.full(shape, 0.5)
    x = marginal.quantile(q)
    for result in (x, marginal.pdf(x), marginal.log_pdf(x), marginal.cdf(x)):
        assert np.shape(result) == shape


# Moments


def test_moments_agree_with_draws(marginal, rng):
    x = draws_of(marginal, 20_000, rng)
    assert reference.agree(x, marginal.mean())
    assert not reference.agree(x, marginal.mean() + 0.2 * x.std())
    assert reference.agree((x - marginal.mean()) ** 2, marginal.sd() ** 2)
    assert not reference.agree((x - marginal.mean()) ** 2, 1.5 * marginal.sd() ** 2)


def test_draws_agree_with_quantiles(marginal, rng):
    x = draws_of(marginal, 20_000, rng)
    for q in (0.05, 0.5, 0.95):
        assert reference.agree((x <= marginal.quantile(q)).astype(float), q)


def test_moments_of_known_distributions():
    one = ([0.0], [0.0], [1.0], 0.0, 1.0)
    uniform, normal, log_normal = (marginal_of(kind, *one) for kind in ("both", "open", "lower"))
    assert (uniform.mean(), uniform.sd()) == pytest.approx((1.0, 8 / np.sqrt(12)), rel=1e-6)
    assert (normal.mean(), normal.sd()) == pytest.approx((0.0, 1.0), abs=1e-12)
    known = stats.lognorm(1.0)
    assert (log_normal.mean(), log_normal.sd()) == pytest.approx((2 + known.mean(), known.std()), rel=1e-9)


def test_moments_of_an_open_mixture_are_exact(rng):
    log_weights, means, trils = reference.random_mixture(rng, 4, 1)
    marginal = marginal_of("open", log_weights, means[:, 0], trils[:, 0, 0])
    mean, cov = reference.mixture_moments(np.exp(log_weights), means, trils)
    assert marginal.mean() == pytest.approx(0.2 + 0.4 * mean[0], rel=1e-10)
    assert marginal.sd() == pytest.approx(0.4 * np.sqrt(cov[0, 0]), rel=1e-10)
