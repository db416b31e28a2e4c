"""Another prior: weights and new fits against conjugate normals, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import vsbq
from vsbq.data.bounds import Bounds
from vsbq.data.transform import InferenceSpace
from vsbq.errors import EvaluationsError
from vsbq.history import Elbo
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.posterior.prior import LogPrior
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.refine import Refinement
from vsbq.steps.support import learn_support
from vsbq.steps.surrogate.fit import SparseGP

SETTINGS = Steps(
    surrogate=SparseGP(inducing_per_dimension=25, turn=False),
    mixture=VariationalMixture(max_components=3),
    refinement=Refinement(draws=15_000),
)

#: Likelihood: a normal density of some data at the parameters. Prior: an independent normal for each of them.
DATA, NOISE = np.array([1.0, -0.5]), np.array([0.8, 1.2])
CENTRE, WIDTH = np.array([0.0, 0.0]), np.array([2.0, 2.0])


def log_likelihood(x):
    return stats.norm.logpdf(DATA, x, NOISE).sum(axis=-1)


def normal_prior(centre, width):
    return lambda x: stats.norm.logpdf(x, centre, width).sum(axis=-1)


old_prior = normal_prior(CENTRE, WIDTH)


def exact(centre, width):
    """Mean, sd and log evidence of the conjugate posterior."""
    precision = NOISE**-2.0 + np.asarray(width) ** -2.0
    mean = (DATA / NOISE**2 + np.asarray(centre) / np.asarray(width) ** 2) / precision
    evidence = stats.norm.logpdf(DATA, centre, np.hypot(NOISE, width)).sum()
    return mean, precision**-0.5, float(evidence)


def evaluated(n=500, seed=0, **options):
    rng = np.random.default_rng(seed)
    x = rng.normal(DATA, 1.8, (n, 2))
    return vsbq.Evaluations(x, log_likelihood=log_likelihood(x), log_prior=old_prior(x), names=["a", "b"], **options)


@pytest.fixture(scope="module")
def post():
    return vsbq.fit(evaluated(), settings=SETTINGS, rng=1, progress=False)


@pytest.fixture(scope="module")
def bare(post):
    """The same without knowledge of the prior."""
    known = post.evaluations
    return replace(post, evaluations=vsbq.Evaluations(known.points, known.log_density, names=known.names))


def agrees(post, centre, width, effective):
    """Whether moments and evidence are the conjugate ones, up to four standard errors of the draws and a thousandth."""
    mean, sd, evidence = exact(centre, width)
    slack = 4 / np.sqrt(effective) + 0.005
    np.testing.assert_array_less(np.abs(post.mean() - mean) / sd, slack)
    np.testing.assert_array_less(np.abs(np.sqrt(np.diagonal(post.cov())) / sd - 1), slack)
    draws = post.sample(4000, rng=2)
    np.testing.assert_array_less(np.abs(draws.mean(axis=0) - mean) / sd, slack + 4 / np.sqrt(4000))
    assert abs(post.log_evidence - evidence) < 4 * post.log_evidence_sd + 1e-3
    x = draws[:300]
    truth = stats.norm.logpdf(x, mean, sd).sum(axis=1)
    assert np.abs(post.log_pdf(x) - truth).max() < 0.05 + slack
    for i in range(2):
        share = post.marginal(i).cdf(mean[i] + sd[i] * np.array([-1.0, 0.0, 1.0]))
        np.testing.assert_allclose(share, stats.norm.cdf([-1.0, 0.0, 1.0]), atol=slack / 2)


# An old prior that is not the one of the evaluations

new_prior = normal_prior([0.5, 0.5], [1.0, 1.0])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (normal_prior([0.0, 0.0], [1.0, 2.0]), r"in \d+ of 500 rows \(rows .* more\): it is .*, not .*, in row \d+"),
        (lambda x: old_prior(x) + 3.4, r"by the same \+3\.4 in all 500 rows: the evidence would be off"),
        (lambda x: old_prior(x) - 1e-3, r"by the same -0\.001 in all"),
        (lambda x: -old_prior(x), "in its sign in all 500 rows.*not minus it"),
        (lambda x: np.exp(old_prior(x)), "Pass the log density of the prior"),
        (lambda x: old_prior(x[:, ::-1] * [1.0, 1.5]), "it is .*, not"),
        (lambda x: np.where(x[:, 0] > 2.5, -np.inf, old_prior(x)), r"is -inf in \d+ rows whose log density is finite"),
        (lambda x: np.full(len(x), -np.inf), r"is -inf in 500 rows"),
    ],
)
def test_a_wrong_old_prior_is_refused(post, wrong, words):
    with pytest.raises(EvaluationsError, match=words):
        post.with_prior(new_prior, old_log_prior=wrong)


def test_the_old_prior_may_be_rounded(post):
    """As from a table with six digits, or from single precision."""
    for rough in (lambda x: np.float32(old_prior(x)), lambda x: np.round(old_prior(x), 4)):
        assert post.with_prior(new_prior, old_log_prior=rough, rng=3).prior_change is not None


def test_one_row_tells(post):
    """The wrong row has its number in the evaluations, whatever comes before it."""
    known = post.evaluations
    prior, density = np.array(known.log_prior), np.array(known.log_density)
    prior[3] += 0.5
    prior[:2], density[:2] = -np.inf, -np.inf
    seen = vsbq.Evaluations(known.points, density, log_prior=prior, names=known.names)
    with pytest.raises(EvaluationsError, match=r"in 1 of 498 rows \(row 3\)"):
        replace(post, evaluations=seen).with_prior(new_prior, old_log_prior=old_prior)


def test_without_a_known_prior_only_its_zeros_are_checked(bare):
    with pytest.raises(EvaluationsError, match="whose log density is finite"):
        bare.with_prior(new_prior, old_log_prior=lambda x: np.where(x[:, 0] > 2.5, -np.inf, 0.0))


def test_after_a_change_the_old_prior_is_the_new_one(post):
    moved = post.with_prior(new_prior, old_log_prior=old_prior, rng=3)
    for each in (moved, replace(moved, evaluations=None)):
        assert each.with_prior(old_prior, old_log_prior=new_prior, rng=3).prior_change is not None
        with pytest.raises(EvaluationsError, match="differs from that of the"):
            each.with_prior(new_prior, old_log_prior=old_prior)


# By weights


@pytest.mark.parametrize(
    ("centre", "width"), [([0.5, 0.5], [1.0, 1.0]), ([0.0, 0.0], [3.0, 4.0]), ([1.0, -1.0], [2.0, 0.7])]
)
def test_weights_give_the_conjugate_posterior(post, centre, width):
    moved = post.with_prior(normal_prior(centre, width), old_log_prior=old_prior, rng=3)
    assert moved.prior_change is not None
    assert moved.prior_change.effective_draws > 1000
    agrees(moved, centre, width, moved.prior_change.effective_draws)


def test_the_check_against_the_truth_can_fail(post):
    moved = post.with_prior(normal_prior([0.5, 0.5], [1.0, 1.0]), old_log_prior=old_prior, rng=3)
    with pytest.raises(AssertionError):
        agrees(moved, CENTRE, WIDTH, moved.prior_change.effective_draws)
    with pytest.raises(AssertionError):
        agrees(post, [0.5, 0.5], [1.0, 1.0], 40_000)


def test_the_density_is_proper_and_agrees_with_the_draws(post):
    """On a grid: it integrates to one, and gives the draws' mean."""
    moved = post.with_prior(normal_prior([0.5, 0.5], [0.6, 1.0]), old_log_prior=old_prior, rng=3)
    axis = np.linspace(-6, 6, 241)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    mass = moved.pdf(grid) * (axis[1] - axis[0]) ** 2
    error = 4 / np.sqrt(moved.prior_change.effective_draws)
    assert abs(mass.sum() - 1) < error + 2e-3
    sd = np.sqrt(np.diagonal(moved.cov()))
    np.testing.assert_array_less(np.abs(mass @ grid - moved.sample(20_000, rng=0).mean(axis=0)) / sd, 2 * error)
    assert mass[:50].sum() < 0.5  # negative control: a part of the grid does not hold it all


def test_evidence_moves_by_the_mean_ratio_and_its_error_grows(post):
    moved = post.with_prior(normal_prior([0.5, 0.5], [1.0, 1.0]), old_log_prior=old_prior, rng=3)
    assert moved.log_evidence == pytest.approx(post.log_evidence + moved.prior_change.log_mean)
    assert moved.refined.evidence.monte_carlo_error > post.refined.evidence.monte_carlo_error
    assert moved.elbo <= moved.log_evidence + 4 * (moved.elbo_estimate.monte_carlo_error + moved.log_evidence_sd)
    assert moved.elbo > moved.log_evidence - 0.2


def test_the_same_prior_changes_nothing(post):
    moved = post.with_prior(old_prior, old_log_prior=old_prior, rng=3)
    x = post.sample(200, rng=0)
    np.testing.assert_allclose(moved.log_pdf(x), post.log_pdf(x), atol=1e-12)
    np.testing.assert_allclose(moved.mean(), post.mean(), atol=0.01)
    assert moved.log_evidence == pytest.approx(post.log_evidence, abs=1e-12)


def test_there_and_back_needs_no_old_prior_the_second_time(post):
    there = post.with_prior(normal_prior([0.5, 0.5], [1.5, 1.5]), old_log_prior=old_prior)
    back = there.with_prior(old_prior)
    assert back.prior_change is not None
    x = post.sample(200, rng=0)
    np.testing.assert_allclose(back.log_pdf(x), post.log_pdf(x), atol=4 / np.sqrt(back.prior_change.effective_draws))
    assert back.log_evidence == pytest.approx(post.log_evidence, abs=0.05)


def test_a_prior_with_an_edge_cuts_the_posterior(post):
    """A half-normal of a and the old prior of b: exact answers of a truncated normal."""
    cut = 0.5

    def half(x):
        with np.errstate(divide="ignore"):
            return old_prior(x) + np.where(x[:, 0] > cut, np.log(1 / stats.norm.sf(cut, CENTRE[0], WIDTH[0])), -np.inf)

    moved = post.with_prior(half, old_log_prior=old_prior, rng=3)
    mean, sd, evidence = exact(CENTRE, WIDTH)
    truth = stats.truncnorm((cut - mean[0]) / sd[0], np.inf, mean[0], sd[0])
    slack = 4 / np.sqrt(moved.prior_change.effective_draws) + 0.01
    draws = moved.sample(4000, rng=0)
    assert (draws[:, 0] > cut).all()
    assert abs(draws[:, 0].mean() - truth.mean()) / truth.std() < slack + 4 / np.sqrt(4000)
    assert abs(moved.mean()[0] - truth.mean()) / truth.std() < slack
    assert abs(moved.marginal(0).sd() / truth.std() - 1) < slack
    assert abs(moved.cov()[0, 0] / truth.var() - 1) < 2 * slack
    shares = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    np.testing.assert_allclose(moved.marginal("a").cdf(truth.ppf(shares)), shares, atol=slack)
    assert moved.log_pdf([cut - 0.01, 0.0]) == -np.inf
    inside = np.array([cut + 0.2, mean[1]])
    expected = truth.logpdf(inside[0]) + stats.norm.logpdf(inside[1], mean[1], sd[1])
    assert moved.log_pdf(inside) == pytest.approx(expected, abs=0.05 + slack)
    gain = np.log(stats.norm.sf(cut, mean[0], sd[0]) / stats.norm.sf(cut, CENTRE[0], WIDTH[0]))
    assert abs(moved.log_evidence - evidence - gain) < 4 * moved.log_evidence_sd + 1e-3
    assert np.isfinite(moved.elbo)


def test_evaluations_carry_the_new_prior(post):
    new = normal_prior([0.5, 0.5], [1.0, 1.0])
    moved = post.with_prior(new, old_log_prior=old_prior)
    x = moved.evaluations.points
    np.testing.assert_allclose(moved.evaluations.log_density, log_likelihood(x) + new(x), atol=1e-9)
    np.testing.assert_allclose(moved.evaluations.log_prior, new(x))
    assert any("prior" in note for note in moved.evaluations.notes)


def test_saving(post, tmp_path):
    moved = post.with_prior(normal_prior([0.5, 0.5], [1.0, 1.0]), old_log_prior=old_prior)
    with pytest.raises(vsbq.PosteriorFileError, match="compact=True"):
        moved.save(tmp_path / "moved.npz")
    assert not list(tmp_path.iterdir())
    again = vsbq.load(moved.save(tmp_path / "moved.npz", compact=True))
    sd = np.sqrt(np.diagonal(moved.cov()))
    np.testing.assert_array_less(np.abs(again.mean() - moved.mean()) / sd, 0.1)
    assert again.log_evidence == moved.log_evidence


# Bounded parameters: a rate in (0, 1) after 7 of 20 successes, and a positive scale with one gamma observation


def rate_and_scale(x):
    return stats.binom.logpmf(7, 20, x[..., 0]) + stats.gamma.logpdf(2.0, 3.0, scale=x[..., 1])


def flat_and_exponential(x):
    return -x[1]  # of one point


def beta_and_exponential(x):
    return stats.beta.logpdf(x[:, 0], 5.0, 5.0) - x[:, 1]


@pytest.fixture(scope="module")
def bounded():
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.uniform(0.02, 0.95, 500), rng.gamma(4.0, 0.5, 500)])
    made = vsbq.Evaluations(x, log_likelihood=rate_and_scale(x), log_prior=-x[:, 1], bounds=[(0, 1), (0, None)])
    return vsbq.fit(made, settings=SETTINGS, rng=0, progress=False)


def agrees_with_the_beta(moved, effective):
    truth = stats.beta(12, 18)
    rate = quad(lambda p: stats.binom.pmf(7, 20, p) * stats.beta.pdf(p, 5, 5), 0, 1)[0]
    scale = quad(lambda s: stats.gamma.pdf(2.0, 3.0, scale=s) * np.exp(-s), 0, np.inf)[0]
    slack = 4 / np.sqrt(effective) + 0.02
    assert abs(moved.mean()[0] - truth.mean()) / truth.std() < slack
    assert abs(moved.marginal(0).sd() / truth.std() - 1) < slack
    assert abs(moved.marginal(0).cdf(truth.median()) - 0.5) < slack / 2
    assert abs(moved.sample(4000, rng=0)[:, 0].mean() - truth.mean()) / truth.std() < slack + 4 / np.sqrt(4000)
    assert abs(moved.log_evidence - np.log(rate * scale)) < 4 * moved.log_evidence_sd + 0.01
    assert moved.log_pdf([-0.1, 1.0]) == -np.inf


def test_bounded_parameters_by_weights(bounded):
    moved = bounded.with_prior(beta_and_exponential, old_log_prior=flat_and_exponential, rng=1)
    agrees_with_the_beta(moved, moved.prior_change.effective_draws)
    with pytest.raises(AssertionError):
        agrees_with_the_beta(bounded, 20_000)


@pytest.mark.slow
def test_bounded_parameters_by_a_new_fit(bounded):
    moved = bounded.with_prior(beta_and_exponential, rng=1)
    assert moved.prior_change is None
    agrees_with_the_beta(moved, 20_000)


def test_a_flat_prior_of_the_evaluations_is_known_as_a_function(post, bare):
    """The evaluations hold the whole log density as likelihood, and a flat prior."""
    known = post.evaluations
    flat = vsbq.Evaluations(known.points, known.log_density, log_prior=-3.0, names=known.names)
    moved = replace(post, evaluations=flat).with_prior(lambda x: -3.0 + 0.1 * x[:, 0])
    other = bare.with_prior(lambda x: 0.1 * x[:, 0], old_log_prior=lambda x: np.zeros(len(x)))
    assert moved.prior_change is not None
    assert moved.log_evidence == pytest.approx(other.log_evidence)
    assert moved.log_evidence != pytest.approx(post.log_evidence)


# By a new fit


def test_a_new_fit_gives_the_conjugate_posterior(post):
    moved = post.with_prior(normal_prior([0.5, 0.5], [1.0, 1.0]), rng=3, settings=SETTINGS)
    assert moved.prior_change is None
    assert moved.surrogate is not None
    assert any("old_log_prior=" in note for note in moved.evaluations.notes)
    agrees(moved, [0.5, 0.5], [1.0, 1.0], 20_000)


@pytest.mark.slow
def test_a_hopeless_change_is_fitted_anew(post):
    centre, width = [-1.5, 1.5], [0.15, 0.15]
    moved = post.with_prior(normal_prior(centre, width), old_log_prior=old_prior, rng=3, settings=SETTINGS)
    assert moved.prior_change is None
    mean, sd, _ = exact(centre, width)
    np.testing.assert_array_less(np.abs(moved.mean() - mean) / sd, 1.0)
    assert (np.abs(post.mean() - mean) / sd > 5).any()  # negative control


@pytest.fixture
def fits(monkeypatch):
    """What a new fit would be given, instead of the fit."""
    given = []

    def note(evaluations, **options):
        given.append((evaluations, options))
        return replace(small(), evaluations=evaluations)

    monkeypatch.setattr("vsbq.analysis.prior_change.fit", note)
    return given


def small() -> Posterior:
    space = InferenceSpace(Bounds.parse(None, 2), np.zeros(2), np.zeros(2), np.ones(2))
    return Posterior(
        ("a", "b"), space, Mixture(np.zeros(1), np.zeros((1, 2)), np.eye(2)[None]), Elbo(0, 0, 0), 0.0, None, None, None
    )


HOPELESS = normal_prior([-3.0, 4.0], [0.1, 0.1])


@pytest.mark.parametrize("kind", ["with their prior", "without it"])
def test_a_hopeless_change_goes_to_a_new_fit_of_the_right_evaluations(post, bare, fits, kind):
    start = post if kind == "with their prior" else bare
    start.with_prior(HOPELESS, old_log_prior=old_prior, rng=3, settings=SETTINGS)
    ((given, options),) = fits
    assert options["settings"] is SETTINGS
    x = start.evaluations.points
    np.testing.assert_array_equal(given.points, x)
    np.testing.assert_allclose(given.log_density, log_likelihood(x) + HOPELESS(x), rtol=1e-9)
    np.testing.assert_allclose(given.log_prior, HOPELESS(x))
    assert any("leaves only" in note or "worth only" in note for note in given.notes)


def test_a_posterior_without_draws_is_fitted_anew(post, fits):
    replace(post, refined=None).with_prior(normal_prior([0.5, 0.5], [1, 1]), old_log_prior=old_prior)
    assert any("compact" in note for note in fits[0][0].notes)


def test_mass_where_the_old_prior_is_zero_is_not_weighted(bare, fits):
    """Weights can't tell what the likelihood is where the old prior was zero, and neither can those evaluations."""

    def narrow(x):
        return np.where(x[:, 0] > 0.5, old_prior(x), -np.inf)

    known = bare.evaluations
    density = np.where(known.points[:, 0] > 0.5, known.log_density, -np.inf)
    cut = replace(bare, evaluations=vsbq.Evaluations(known.points, density, names=known.names))
    cut.with_prior(old_prior, old_log_prior=narrow, rng=0)
    given = fits[0][0]
    assert any("old prior is zero and the new one is not" in note for note in given.notes)
    assert any("Left out" in note for note in given.notes)
    assert (given.points[:, 0] > 0.5).all()
    assert len(given) == (bare.evaluations.points[:, 0] > 0.5).sum()


def test_evaluations_where_the_new_prior_is_zero_stay_as_knowledge(post, fits):
    def right(x):
        return np.where(x[:, 0] > 0.5, old_prior(x), -np.inf)

    post.with_prior(right)
    given = fits[0][0]
    assert len(given) == len(post.evaluations)
    np.testing.assert_array_equal(np.isneginf(given.log_density), given.points[:, 0] <= 0.5)


# What is refused


def test_neither_way(bare):
    with pytest.raises(EvaluationsError, match=r"old_log_prior=.*log_prior="):
        bare.with_prior(normal_prior([0.5, 0.5], [1.0, 1.0]))
    with pytest.raises(EvaluationsError, match="not in this posterior"):
        replace(bare, evaluations=None).with_prior(normal_prior([0.5, 0.5], [1.0, 1.0]))
    with pytest.raises(EvaluationsError, match=r"worth only|leaves only"):
        replace(bare, evaluations=None).with_prior(HOPELESS, old_log_prior=old_prior)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (lambda x: np.full(len(x), np.nan), "nan"),
        (lambda x: np.full(len(x), np.inf), "inf"),
        (lambda x: "high", "no number"),
        (lambda x: np.zeros((3, 7)), "no number"),
    ],
)
def test_priors_that_are_none(post, prior, words):
    with pytest.raises(EvaluationsError, match=words):
        post.with_prior(prior, old_log_prior=old_prior)


def test_an_error_of_the_users_function_is_shown_as_it_is(post):
    def broken(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        post.with_prior(broken, old_log_prior=old_prior)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: -0.5 * (x**2).sum(axis=-1),
        lambda x: -0.5 * (x**2).sum(),
        lambda x: -0.5 * (x[0] ** 2 + x[1] ** 2),
        lambda x: float(-0.5 * x @ x),
        lambda x: -0.5 * (x**2).sum(axis=1, keepdims=True),
        lambda x: [-0.5 * (row**2).sum() for row in x],
        stats.multivariate_normal(np.zeros(2)).logpdf,
    ],
)
def test_functions_of_many_points_or_of_one(rng, function):
    x = rng.normal(size=(9, 2))
    prior = LogPrior.of(function, x, "The prior")
    flat = -np.log(2 * np.pi) if hasattr(function, "__self__") else 0.0
    for rows in (x, x[:2], x[:1]):
        np.testing.assert_allclose(prior(rows), -0.5 * (rows**2).sum(axis=1) + flat, atol=1e-12)


# Where the density is not zero


def in_half(x):
    return x[:, 0] < 1.0


@pytest.fixture(scope="module")
def told():
    """The same model, the parameters of one half alone being possible, as the user says."""
    seen = evaluated()
    seen = seen.take(np.flatnonzero(in_half(seen.points)))
    return vsbq.fit(seen, support=in_half, settings=SETTINGS, rng=1, progress=False)


def test_new_weights_keep_to_the_support(told):
    moved = told.with_prior(new_prior, old_log_prior=old_prior, rng=3)
    assert moved.prior_change is not None
    assert moved.support is told.support
    assert in_half(moved.sample(4000, rng=0)).all()
    x = np.random.default_rng(0).normal(DATA, 1.0, (500, 2))
    np.testing.assert_array_equal(np.isneginf(moved.log_pdf(x)), ~in_half(x))
    mean, sd, evidence = exact([0.5, 0.5], [1.0, 1.0])
    cut = stats.truncnorm(-np.inf, (1.0 - mean[0]) / sd[0], mean[0], sd[0])
    assert abs(moved.log_evidence - evidence - stats.norm.logcdf((1.0 - mean[0]) / sd[0])) < 0.02
    np.testing.assert_allclose(moved.mean(), [cut.mean(), mean[1]], atol=0.03)
    np.testing.assert_allclose(np.sqrt(np.diagonal(moved.cov())), [cut.std(), sd[1]], atol=0.03)
    # The mixture is cut off at the edge, so that its bound is one and no mass beyond counts against it.
    assert moved.log_evidence - 0.3 < moved.elbo < moved.log_evidence + 0.01


def test_a_new_fit_is_told_the_support(told, fits):
    told.with_prior(new_prior, rng=3)
    assert fits[0][1]["support"] is in_half


def test_a_learnt_support_is_learnt_anew(post, fits):
    u = post.space.forward(post.sample(1000, rng=0))
    inside = in_half(post.space.inverse(u))
    learnt = learn_support(u[inside], np.zeros(inside.sum()), u[~inside], np.random.default_rng(0))
    replace(post, support=learnt).with_prior(new_prior, rng=3)
    assert fits[0][1]["support"] is None
