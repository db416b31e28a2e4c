"""The refined posterior against the slow way: the surrogate on a fine grid."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp
from toy import Known, edges_at, normal, one_normal

import reference
import vsbq
from vsbq.numerics import weights as rules
from vsbq.numerics.mixture import sample
from vsbq.numerics.weights import weigh
from vsbq.posterior.marginal import KNOTS, Correction
from vsbq.progress import Progress
from vsbq.steps.mixture.starts import moved
from vsbq.steps.refine import (
    LEAST_KNOWN,
    Refinement,
    _guessed,
    _held_out_sd,
    _side_sd,
    _support_sd,
    _trend_sd,
    _untrusted,
    refine,
    surrogate_sd,
)
from vsbq.steps.region import Stray, TrustedRegion
from vsbq.steps.surrogate.model import Surrogate

QUIET = Progress(1, False)


def log_banana(x):
    """A curved ridge, normalised, with a bound at x1 = 3 that it does not feel."""
    return -0.5 * x[:, 0] ** 2 - 0.5 * ((x[:, 1] - 0.5 * x[:, 0] ** 2) / 0.5) ** 2 - np.log(2 * np.pi * 0.5)


@pytest.fixture(scope="module")
def post():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform([-4, -2], [4, 8], (600, 2)), rng.normal([0, 0.5], [1.2, 1.0], (900, 2))])
    return vsbq.fit(x, log_banana(x), bounds=[(None, None), (-5.0, None)], rng=1, progress=False)


@pytest.fixture(scope="module")
def grid(post):
    """A fine grid of inference space, its cell, and the refined log density there without its constant."""
    half = 4.5 * np.linalg.norm(post.mixture.trils, axis=2).max(axis=0)
    low, high = (post.mixture.means - half).min(axis=0), (post.mixture.means + half).max(axis=0)
    axes = [np.linspace(*ends, 400) for ends in zip(low, high, strict=True)]
    u = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    cell = float(np.log(axes[0][1] - axes[0][0]) + np.log(axes[1][1] - axes[1][0]))
    return u, cell


def in_the_surrogates_space(post):
    """Mixture and region of a posterior in the coordinates of its surrogate."""
    return moved(post.mixture, post.space, post.surrogate.space), post.refined.region


def test_evidence_is_that_of_the_surrogate(post, grid):
    u, cell = grid
    x = post.space.inverse(u)
    turned = post.surrogate.space.forward(x)
    mean = post.refined.region.log_density(turned)
    inside = np.isfinite(mean)
    jacobian = post.space.log_jacobian(u) - post.surrogate.space.log_jacobian(turned)
    slow = logsumexp((mean + jacobian)[inside]) + cell + post.refined.evidence.outside
    error = 4 * post.refined.evidence.monte_carlo_error + 1e-3
    assert abs(post.refined.evidence.value - slow) < error
    assert not abs(post.refined.evidence.value + 0.05 - slow) < error
    assert abs(post.log_evidence) < 0.02  # and the surrogate is right


def test_density_is_proper_and_agrees_with_the_draws(post, grid):
    u, cell = grid
    log_density = post.log_pdf(post.space.inverse(u)) + post.space.log_jacobian(u)
    mass = np.exp(log_density + cell)
    assert mass.sum() == pytest.approx(1.0, abs=0.01)
    draws = post.sample(20_000, rng=2)
    of_draws = post.log_pdf(draws)
    expected = mass @ (log_density - post.space.log_jacobian(u))
    error = 4 * of_draws.std() / np.sqrt(len(of_draws)) + 0.005
    assert abs(of_draws.mean() - expected) < error
    assert not abs(post.log_pdf(draws + np.array([0.3, 0.0])).mean() - expected) < error
    x = post.space.inverse(u)
    assert_allclose(draws.mean(axis=0), mass @ x / mass.sum(), atol=0.03)
    assert_allclose(post.mean(), mass @ x / mass.sum(), atol=0.01)
    centred = x - mass @ x / mass.sum()
    assert_allclose(post.cov(), (mass[:, None] * centred).T @ centred / mass.sum(), atol=0.03)


def test_refinement_is_nearer_to_the_truth_than_the_mixture(post):
    one = replace(post, mixture=_single(post), refined=None)
    mixture, region = in_the_surrogates_space(one_with(post, one))
    refined, fit = refine(mixture, region, Refinement(), np.random.default_rng(3), QUIET)
    assert abs(refined.evidence.value + post.offset) < 0.05
    x = np.random.default_rng(4).normal(size=(4000, 2)) * [1.0, 0.5]
    x[:, 1] += 0.5 * x[:, 0] ** 2
    coarse, fine = one.log_pdf(x), post.log_pdf(x)
    truth = log_banana(x)
    assert np.mean((fine - truth) ** 2) < 0.1 * np.mean((coarse - truth) ** 2)
    assert fit.effective_share < 0.9


def one_with(post, one):
    return replace(one, refined=post.refined)


def _single(post):
    mean = post.mixture.weights @ post.mixture.means
    shift = post.mixture.means - mean
    second = post.mixture.trils @ np.swapaxes(post.mixture.trils, 1, 2) + shift[:, :, None] * shift[:, None, :]
    cov = np.einsum("k,kij->ij", post.mixture.weights, second)
    return post.mixture._replace(log_weights=np.zeros(1), means=mean[None], trils=np.linalg.cholesky(cov)[None])


@pytest.mark.parametrize("method", ["importance", "sequential"])
def test_both_ways_give_the_same_evidence_and_draws(post, method, monkeypatch):
    mixture, region = in_the_surrogates_space(post)
    if method == "sequential":
        monkeypatch.setattr(rules, "WORST_SHAPE", -9.0)
        monkeypatch.setattr(rules, "EVEN_SHARE", 2.0)
    refined, fit = refine(mixture, region, Refinement(particles=4000), np.random.default_rng(5), QUIET)
    assert fit.method == method
    error = 4 * refined.evidence.monte_carlo_error + 4 * post.refined.evidence.monte_carlo_error
    assert abs(refined.evidence.value - post.refined.evidence.value) < error + 1e-3
    assert refined.weights.sum() == pytest.approx(1.0)
    draws = replace(post, refined=refined).sample(4000, rng=0)
    assert_allclose(draws.mean(axis=0), post.mean(), atol=4 * draws.std(axis=0).max() / np.sqrt(4000))
    assert_allclose(draws.std(axis=0), np.sqrt(np.diag(post.cov())), rtol=0.1)


def test_density_is_the_average_over_surrogates(post):
    """Functions drawn from the surrogate, exponentiated and averaged, at points of different variance."""
    _, region = in_the_surrogates_space(post)

    class Unsure(Surrogate):
        def variance(self, u):
            return 900 * super().variance(u)

    surrogate = Unsure(**{part.name: getattr(region.surrogate, part.name) for part in fields(Surrogate)})
    rng = np.random.default_rng(0)
    u = sample(in_the_surrogates_space(post)[0], 2000, rng)
    u = u[np.argsort(surrogate.variance(u))[::200]]
    doubtful = replace(region, surrogate=surrogate, most_variance=np.inf, most_mean=np.inf)
    draws = surrogate.mean(u) + np.sqrt(surrogate.variance(u)) * rng.standard_normal((200_000, len(u)))
    slow, error = np.exp(draws).mean(axis=0), np.exp(draws).std(axis=0) / np.sqrt(len(draws))
    fast = np.exp(doubtful.log_density(u))
    mild = surrogate.variance(u) < 2
    assert mild.sum() >= 5
    assert (np.abs(fast - slow) < 4 * error)[mild].all()
    assert (np.abs(np.exp(surrogate.mean(u)) - slow) > 4 * error)[mild].any()  # the mean's density is another one
    assert (doubtful.log_density(u) <= surrogate.mean(u) + doubtful.most_rise + 1e-12).all()


def test_a_mode_that_the_mixture_hardly_has_is_refound(post):
    """Sequential Monte Carlo moves mass to where the surrogate has it."""
    mixture, region = in_the_surrogates_space(post)
    off = mixture._replace(means=mixture.means + 0.7, trils=0.8 * mixture.trils)
    refined, fit = refine(off, region, Refinement(particles=4000), np.random.default_rng(6), QUIET)
    assert fit.method == "sequential"
    assert abs(refined.evidence.value - post.refined.evidence.value) < 0.15
    plain = sample(off, 4000, np.random.default_rng(0)).mean(axis=0)
    moved = refined.draw(4000, np.random.default_rng(0)).mean(axis=0)
    truth = mixture.weights @ mixture.means
    assert np.linalg.norm(moved - truth) < 0.25 * np.linalg.norm(plain - truth)


def test_nothing_is_refined_where_nothing_is_trusted(post):
    mixture, region = in_the_surrogates_space(post)
    refined, fit = refine(mixture, replace(region, most_mean=-1e9), Refinement(), np.random.default_rng(0), QUIET)
    assert refined is None
    assert fit.method == "none"
    assert fit.share_outside == pytest.approx(1.0)
    bare = replace(post, refined=None)
    assert bare.log_evidence == post.elbo
    assert bare.log_evidence_sd == post.elbo_sd
    failed = replace(bare, history=post.history._replace(refinement=fit))
    assert failed.log_evidence_sd == np.inf  # nothing is known of its error


def test_untrusted_mass_is_the_mixtures_and_counts_as_doubt(post):
    mixture, region = in_the_surrogates_space(post)
    middle = float(np.median(sample(mixture, 4000, np.random.default_rng(0))[:, 0]))
    half = replace(region, upper=np.array([middle, region.upper[1]]))
    refined, fit = refine(mixture, half, Refinement(), np.random.default_rng(1), QUIET)
    assert fit.share_outside == pytest.approx(0.5, abs=0.03)
    assert refined.evidence.value == pytest.approx(post.refined.evidence.value, abs=0.05)
    assert refined.evidence.sd > 0.6
    beyond = region.surrogate.space.from_plain(refined.points)[:, 0] > middle
    assert_allclose(refined.weights[beyond], refined.mixture_weights[beyond])


def test_uncertainty_of_the_evidence_is_that_of_the_quadrature(post):
    """Under the mixture itself the double integral of the covariance has a closed form."""
    mixture, region = in_the_surrogates_space(post)
    surrogate = region.surrogate
    u = sample(mixture, 20_000, np.random.default_rng(7))
    weights = np.full(len(u), 1 / len(u))
    rng = np.random.default_rng(8)
    found = np.mean([surrogate_sd(surrogate, u, weights, Refinement(), rng) ** 2 for _ in range(5)])
    assert found == pytest.approx(surrogate.expectation_variance(mixture), rel=0.2)


def test_blocks_move_the_evidence_by_what_their_absence_moves_the_mean(post):
    """Two blocks that shift the whole mean, one up and one down: the jackknife of the shifts themselves."""
    region = post.refined.region
    u = region.surrogate.space.from_plain(post.refined.points)

    def jackknife(*shifts):
        class Shifted(Surrogate):
            def changes(self, u):
                return np.array(shifts)[:, None] * np.ones(len(u))

        shifted = Shifted(**{part.name: getattr(region.surrogate, part.name) for part in fields(Surrogate)})
        elsewhere = replace(region, surrogate=shifted)
        return _held_out_sd(elsewhere, u, post.refined.weights, Refinement(), np.random.default_rng(0))

    assert jackknife(0.3, -0.1, -0.2) == pytest.approx(np.sqrt(2 / 3 * (0.3**2 + 0.1**2 + 0.2**2)))
    assert jackknife(7.0, -0.1, -0.9) == pytest.approx(jackknife(1.0, -0.1, -0.9))  # no gap may claim more than a nat
    assert jackknife(1.0, -0.1, -0.9) > jackknife(0.8, -0.1, -0.9)
    assert 0 < post.refined.evidence.held_out_sd < 0.1
    assert post.log_evidence_sd > post.refined.evidence.held_out_sd


# What the evidence may be off by, part by part, where each is known


def region_of(known=None, **options):
    """Of a standard normal in the plane, trusted far out unless something is said."""
    limits = {"most_variance": 1.0, "most_mean": 1.0} | options
    return TrustedRegion(known or Known(normal), np.full(2, -9.0), np.full(2, 9.0), **limits)


def of_draws(part, region, times=20):
    """A part of the evidence from independent draws of the density within the support."""
    found = []
    for seed in range(times):
        rng = np.random.default_rng(seed)
        u = rng.standard_normal((20_000, 2))
        weights = np.exp(region.log_support(u))
        found.append(part(region, u, weights / weights.sum(), Refinement(), rng))
    return found


@pytest.mark.parametrize("slope", [0.0, 0.7])
def test_an_open_trend_counts_as_far_as_the_posterior_is_not_its_zero(slope):
    """A constant of sd 0.3 that is open, and a slope, which has no effect on a symmetric posterior."""
    open_ = lambda u: np.stack([np.full(len(u), 0.3), slope * u[:, 0]])  # noqa: E731
    found = of_draws(_trend_sd, region_of(Known(normal, open_trends=open_)))
    assert np.median(found) == pytest.approx(0.3, abs=0.01)
    none = of_draws(_trend_sd, region_of(Known(normal)))
    assert max(none) == 0


def two_sides(right, left):
    """What is beyond one standard deviation on either side of the first axis is doubted."""
    return lambda u: np.where(u[:, 0] > 1, right, np.where(u[:, 0] < -1, left, 0.0))


@pytest.mark.parametrize(("right", "left"), [(0.5, 0.0), (0.5, 0.7), (900.0, 0.0), (0.01, 3.0), (900.0, 900.0)])
def test_sides_are_the_mass_beyond_as_far_as_it_is_doubted(right, left):
    doubted = stats.norm.sf(1.0) * sum(1 - np.exp(-doubt) for doubt in (right, left))
    found = of_draws(_side_sd, region_of(Known(normal, beyond=two_sides(right, left))))
    assert reference.agree(found, -np.log(1 - doubted))
    assert not reference.agree(found, -1.1 * np.log(1 - doubted))


@pytest.mark.parametrize(
    "known",
    [Known(normal), Known(normal, beyond=two_sides(0.5, 0.5))],
    ids=["no sides", "no mass beyond"],
)
def test_no_sides_are_no_doubt(known):
    assert _side_sd(region_of(known), np.zeros((9, 2)), np.full(9, 1 / 9), Refinement(), np.random.default_rng(0)) == 0


def untrusted(region, times=20):
    mixture = one_normal([0, 0], [1, 1])
    return [_untrusted(mixture, region, Refinement(), np.random.default_rng(seed)) for seed in range(times)]


@pytest.mark.parametrize("edge", [1.0, -0.5])
def test_mass_where_the_surrogate_is_not_trusted_counts(edge):
    known = Known(normal, lambda u: 4.0 * (u[:, 0] > edge))
    wanted = -np.log(stats.norm.cdf(edge))
    found = untrusted(region_of(known))
    assert np.mean(found) == pytest.approx(wanted, rel=0.03)
    assert np.std(found) / np.sqrt(len(found)) < 0.01 * wanted
    # Nothing is there where the density ends before trust does.
    assert max(untrusted(region_of(known, support=edges_at(edge - 0.3, d=2)))) < 1e-6


def test_mass_that_one_of_several_models_alone_sees_is_invented():
    def far_out(u):
        return 4.0 * (np.abs(u[:, 0]) > 2)

    class OneSeesMore(Known):
        def means(self, u):
            return normal(u) + far_out(u) * np.array([[0.0], [0.0], [2.0]])

    invented, plain = (np.mean(untrusted(region_of(kind(normal, far_out)))) for kind in (OneSeesMore, Known))
    assert invented == pytest.approx(plain)
    assert plain > 0.02


@pytest.mark.parametrize("known", [Known(normal), Known(normal, lambda u: np.full(len(u), 4.0))], ids=["all", "none"])
def test_where_all_or_nothing_is_trusted_nothing_is_untrusted(known):
    assert untrusted(region_of(known), 2) == [0.0, 0.0]


@pytest.mark.parametrize("edge", [1.0, -0.5])
def test_mass_where_the_surrogate_guesses_counts(edge):
    known = Known(normal, lambda u: 0.5 * (u[:, 0] > edge))
    found = of_draws(_guessed, region_of(known, guessed_variance=0.4))
    assert reference.agree(np.exp(-np.array(found)), stats.norm.cdf(edge))
    assert not reference.agree(np.exp(-np.array(found)), 0.95 * stats.norm.cdf(edge))
    assert of_draws(_guessed, region_of(known, guessed_variance=0.6), 1) == [0.0]


def test_a_posterior_that_is_all_guessed_is_far_off():
    known = Known(normal, lambda u: np.full(len(u), 0.5))
    assert of_draws(_guessed, region_of(known, guessed_variance=0.4), 1) == [-np.log(LEAST_KNOWN)]


def test_an_edge_that_may_be_elsewhere_moves_the_evidence():
    limits = np.linspace(-0.5, 1.5, 64)
    found = of_draws(_support_sd, region_of(support=edges_at(limits, d=2)))
    wanted = np.std(np.log(stats.norm.cdf(limits)))
    assert np.mean(found) == pytest.approx(wanted, rel=0.03)
    assert wanted > 0.2


@pytest.mark.parametrize("support", [None, edges_at(0.5, d=2)], ids=["no edge", "a known edge"])
def test_an_edge_that_is_known_does_not(support):
    assert of_draws(_support_sd, region_of(support=support), 1)[0] < 1e-9


#: Evaluations that are all but one at the nodes of a grid; at the last one, at the origin, the density is zero.
GRID = np.array([[x, y] for x in range(-9, 10) for y in range(-9, 10) if (x, y) != (0, 0)], dtype=float)
STRAY = Stray(np.zeros((1, 2)), GRID)


def test_mass_nearer_to_a_stray_zero_counts():
    """The origin's neighbours leave it the square of ±1/2."""
    found = of_draws(_support_sd, region_of(stray=STRAY))
    nearer = (2 * stats.norm.cdf(0.5) - 1) ** 2
    assert reference.agree(np.exp(-np.array(found)), 1 - nearer)
    assert not reference.agree(np.exp(-np.array(found)), 1 - 1.1 * nearer)


def test_a_stray_zero_adds_to_an_edge_that_may_be_elsewhere():
    support = edges_at(np.linspace(-0.5, 1.5, 64), d=2)
    edge, stray, both = (
        np.array(of_draws(_support_sd, region_of(**parts), 5))
        for parts in (
            {"support": support},
            {"support": edges_at(9.0, d=2), "stray": STRAY},
            {"support": support, "stray": STRAY},
        )
    )
    assert (both > edge + 0.01).all()
    assert stray.mean() == pytest.approx(-np.log(1 - (2 * stats.norm.cdf(0.5) - 1) ** 2), rel=0.1)


def test_a_posterior_all_of_which_is_at_stray_zeros_is_far_off():
    alone = Stray(np.zeros((1, 2)), np.full((2, 2), 1e3) * [[1], [-1]])
    assert of_draws(_support_sd, region_of(stray=alone), 1) == [-np.log(LEAST_KNOWN)]


def test_outside_the_region_the_mixture_ends_at_the_edge_too():
    """Half of what is not trusted is where the density is zero."""

    class Settled(Known):
        def covariance(self, a, b):
            return np.zeros((len(a), len(b)))

    known, mixture, found = Settled(normal, lambda u: 4.0 * (u[:, 1] > 1)), one_normal([0, 0], [1, 1]), {}
    for name, support in {"open": None, "cut": edges_at(0.0, d=2)}.items():
        region = region_of(known, support=support)
        refined, fit = refine(mixture, region, Refinement(), np.random.default_rng(0), QUIET)
        beyond = refined.points[:, 0] > 0
        found[name] = refined.weights[beyond].sum(), refined.mixture_weights[beyond].sum(), fit.share_outside
    assert_allclose(found["open"], [0.5, 0.5, stats.norm.sf(1.0)], atol=0.01)
    assert_allclose(found["cut"], [0.0, 0.0, stats.norm.sf(1.0)], atol=0.01)


def test_all_parts_count_and_here_none_is_large(post):
    evidence = post.refined.evidence
    assert evidence.support_sd == evidence.untested == 0.0
    assert max(evidence.sides, evidence.untrusted, evidence.guessed) < 0.05
    for name in ("sides", "untrusted", "guessed", "support_sd"):
        assert evidence._replace(**{name: 3.0}).sd == pytest.approx(3.0, rel=0.01)


# Weights


def test_heavy_tails_are_noticed():
    rng = np.random.default_rng(0)
    light = weigh(0.1 * rng.standard_normal(4000))
    heavy = weigh(1.5 * rng.exponential(size=4000))  # weights with a Pareto tail of shape 1.5
    assert light.shape < 0.5
    assert heavy.shape > 0.9
    for found in (light, heavy):
        assert found.weights.sum() == pytest.approx(1.0)
    equal = weigh(np.full(100, -3.0))
    assert (equal.shape, equal.log_mean) == (0.0, -3.0)


def test_larger_log_weights_give_larger_weights():
    log_weights = np.random.default_rng(1).normal(size=1000)
    weights = weigh(log_weights).weights
    assert np.corrcoef(np.argsort(np.argsort(weights)), np.argsort(np.argsort(log_weights)))[0, 1] > 0.999


def test_draws_are_distinct_as_long_as_the_weights_allow(post):
    n = len(post.refined.points) // 4
    assert len(np.unique(post.sample(n, rng=0), axis=0)) > 0.98 * n
    many = 2 * len(post.refined.points)
    assert len(post.sample(many, rng=0)) == many
    assert post.sample(0).shape == (0, 2)


# Marginals


def test_marginals_agree_with_the_draws(post):
    draws = post.space.inverse(post.refined.points)
    for i in range(2):
        marginal = post.marginal(i)
        order = np.argsort(draws[:, i])
        slow = np.cumsum(post.refined.weights[order])
        q = np.linspace(0.02, 0.98, 49)
        by_draws = draws[order, i][np.searchsorted(slow, q)]
        assert_allclose(marginal.cdf(marginal.quantile(q)), q, atol=1e-9)
        assert_allclose(marginal.cdf(by_draws), q, atol=0.01)
        x = np.linspace(*marginal.quantile([1e-6, 1 - 1e-6]), 20_001)
        assert np.trapezoid(marginal.pdf(x), x) == pytest.approx(1.0, abs=1e-3)
        assert marginal.mean() == pytest.approx(float(np.trapezoid(x * marginal.pdf(x), x)), abs=1e-2)


def test_correction_without_difference_is_none():
    share = np.random.default_rng(0).uniform(size=1000)
    same = np.full(1000, 1e-3)
    correction = Correction.between(share, same, same)
    x = np.linspace(0, 1, 101)
    assert_allclose(correction.share(x), x, atol=1e-12)
    assert_allclose(correction.slope(x), 1.0, atol=1e-9)
    assert len(correction.refined) == KNOTS


def test_correction_follows_the_weights():
    """Twice the mass below the median, half of it above."""
    share = np.random.default_rng(0).uniform(size=200_000)
    mixture = np.full(len(share), 1 / len(share))
    weights = np.where(share < 0.5, 4 / 3, 2 / 3) * mixture
    correction = Correction.between(share, weights, mixture)
    assert correction.share(np.array([0.25, 0.5, 0.75])) == pytest.approx([1 / 3, 2 / 3, 5 / 6], abs=0.01)


def test_refined_draws_are_plain(post):
    """Whatever the coordinates of the surrogate, draws are in those of the posterior."""
    mixture, region = in_the_surrogates_space(post)
    refined, _ = refine(mixture, region, Refinement(), np.random.default_rng(0), QUIET)
    found = refined.weights @ post.space.inverse(refined.points)
    assert_allclose(found, post.mean(), atol=0.05 * np.sqrt(np.diag(post.cov())).max())
