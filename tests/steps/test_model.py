"""Every model of the log density keeps the promises of `LogDensityModel`, and any that does can take the place of the
sparse GP."""

from __future__ import annotations

from dataclasses import fields
from functools import cache

import conformance
import numpy as np
import pytest
from exact_gp import ExactGP, ExactGPStep, Located, noise_variance
from numpy.testing import assert_allclose
from scipy.special import betaln, gammaln
from toy import QUIET, banana, cloud

import vsbq
from seeds import SEED
from vsbq.io.files.posterior_file import PosteriorFileError
from vsbq.numerics import exact
from vsbq.numerics.mixture import MixtureGradient
from vsbq.settings import Settings, Steps, SurrogateStep
from vsbq.steps.model import LogDensityModel, predict
from vsbq.steps.surrogate import SparseGP, fit_sparse_gp
from vsbq.steps.trim import Trim, trim_evaluations

NOISE = 0.3


def gamma_times_beta(x):
    """Independent x1 ~ Gamma(4, 1) and x2 ~ Beta(3, 2), normalised."""
    first = 3 * np.log(x[:, 0]) - x[:, 0] - gammaln(4)
    return first + 2 * np.log(x[:, 1]) + np.log1p(-x[:, 1]) - betaln(3, 2)


def evaluations(n=150, noise=NOISE):
    """Around the posterior, with noise."""
    rng = np.random.default_rng([SEED, n])
    x = np.column_stack([rng.gamma(3.0, 1.5, n), rng.beta(2.0, 1.5, n)])
    values = gamma_times_beta(x) + noise * rng.standard_normal(n)
    return vsbq.Evaluations(x, values, log_density_sd=noise or None, bounds=[(0, None), (0, 1)])


def sparse_gp(training, rng):
    return fit_sparse_gp(training, SparseGP(inducing_per_dimension=30, turn=False), rng, QUIET)[0]


def turned_sparse_gp(training, rng):
    """With two sisters, whose coordinates are others again."""
    turned = training.turned(np.array([[1.1, 0.4], [-0.3, 0.9]]))
    return fit_sparse_gp(turned, SparseGP(inducing_per_dimension=30, sisters=2), rng, QUIET)[0]


def exact_gp(training, rng):
    return ExactGPStep().fit(training, rng, QUIET)[0]


def turned_exact_gp(training, rng):
    turned = ExactGPStep(rotation=np.array([[1.1, 0.4], [-0.3, 0.9]]))
    return turned.fit(training, rng, QUIET)[0]


@cache
def model_of(maker) -> LogDensityModel:
    return maker(trim_evaluations(evaluations(), Trim())[0], np.random.default_rng([SEED, 1]))


MAKERS = (sparse_gp, turned_sparse_gp, exact_gp, turned_exact_gp)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_conformance(maker, check, rng):
    check(model_of(maker), rng)


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_predictions_are_right_within_their_sd(maker):
    """At new points of the user's space; errors are of one function and go together, hence the factor."""
    model, new = model_of(maker), evaluations(301)
    high = gamma_times_beta(new.points) > gamma_times_beta(new.points).max() - 5
    found = model.predict(new.points[high])
    error = found.mean - gamma_times_beta(new.points[high])
    assert np.mean((error / found.sd) ** 2) < 4
    assert np.sqrt(np.mean(error**2)) < NOISE
    assert not np.mean(((error + 1.0) / found.sd) ** 2) < 4


# Each check has a model that fails it


class AsymmetricCovariance(ExactGP):
    def covariance(self, a, b):
        return super().covariance(a, b) * (1 + 0.1 * np.arange(len(a)))[:, None]


class CovarianceOfNothing(ExactGP):
    def covariance(self, a, b):
        return super().covariance(a, b) - 0.2 * self.prior_variance


class TakesTheWrongRows(ExactGP):
    def at(self, u):
        class Wrong(Located):
            def take(self, rows):
                return super().take(np.sort(rows))

        return Wrong(*super().at(u))


class KnowsTooMuch(ExactGP):
    def variance(self, u):
        return 0.5 * super().variance(u)


class CentresEveryBatch(ExactGP):
    def mean(self, u):
        return super().mean(u) - super().mean(u).mean()


class ExpectsTheMean(ExactGP):
    """At the centres of the components."""

    def expectation(self, mixture):
        return float(mixture.weights @ self.mean(mixture.means)), super().expectation(mixture)[1]


class HalfTheSlope(ExactGP):
    def expectation(self, mixture):
        value, slope = super().expectation(mixture)
        return value, MixtureGradient(slope.weights, slope.means, 0.5 * slope.trils)


class IgnoresTheEvaluations(ExactGP):
    def expectation_variance(self, mixture):
        return self.prior_variance


class ForgetsTheVolume(ExactGP):
    def predict(self, x):
        found = predict(self, x)
        u = self.space.forward(np.atleast_2d(x))
        return found._replace(mean=found.mean + self.space.log_jacobian(u))


class ChangesEverywhere(ExactGP):
    def changes(self, u):
        return super().changes(u) + 0.1


class DoubtsAll(ExactGP):
    def doubt_beyond(self, u):
        return super().doubt_beyond(u) + 0.1


class TrendOfTheMoment(ExactGP):
    def trends(self, u):
        return super().trends(u) * len(u)


class OfTwoMinds(ExactGP):
    """Which differ by more than it admits."""

    def means(self, u):
        return self.mean(u) + np.array([[9.0], [-9.0]])


class NeedsAPoint(ExactGP):
    def mean(self, u):
        return super().mean(u) if len(u) else np.zeros(1)


class Boastful(ExactGP):
    tested = 2.0


FAULTS = (
    (Boastful, conformance.has_all_parts),
    (CentresEveryBatch, conformance.answers_do_not_depend_on_what_is_asked_with_them),
    (KnowsTooMuch, conformance.variance_is_the_diagonal_of_the_covariance),
    (KnowsTooMuch, conformance.located_points_tell_the_same),
    (TakesTheWrongRows, conformance.located_points_tell_the_same),
    (AsymmetricCovariance, conformance.covariance_is_symmetric_and_positive),
    (CovarianceOfNothing, conformance.covariance_is_symmetric_and_positive),
    (KnowsTooMuch, conformance.far_away_nothing_is_known),
    (ExpectsTheMean, conformance.expectation_is_that_of_the_mean),
    (HalfTheSlope, conformance.gradient_is_that_of_the_expectation),
    (IgnoresTheEvaluations, conformance.variance_of_the_expectation_is_the_mean_covariance),
    (IgnoresTheEvaluations, conformance.a_narrow_mixture_is_a_point),
    (ForgetsTheVolume, conformance.predict_speaks_the_users_space),
    (ChangesEverywhere, conformance.changes_are_one_row_a_block),
    (DoubtsAll, conformance.there_is_no_doubt_among_the_evaluations),
    (TrendOfTheMoment, conformance.trends_are_the_same_for_each_point),
    (OfTwoMinds, conformance.means_average_to_the_mean),
    (NeedsAPoint, conformance.no_points_have_no_answers),
)


@pytest.mark.parametrize(("fault", "check"), FAULTS, ids=lambda part: part.__name__)
def test_the_check_can_fail(fault, check, rng):
    sound = model_of(turned_exact_gp)
    parts = {part.name: getattr(sound, part.name) for part in fields(ExactGP)}
    broken = fault(**parts | ({"tested": 2.0} if fault is Boastful else {}))
    with pytest.raises(AssertionError):
        check(broken, rng)


def test_every_check_has_a_model_that_fails_it():
    assert {check for _, check in FAULTS} == set(conformance.CHECKS)


def test_leaving_a_block_out_is_fitting_without_it():
    """The exact GP's own closed form, against a fit."""
    training, model = trim_evaluations(evaluations(), Trim())[0], model_of(exact_gp)
    u = conformance.places(model, np.random.default_rng(0))
    assert len(model.without) == 8
    for change, weights in zip(model.changes(u), model.without, strict=True):
        kept = ~np.isclose(weights, -model.factors.weights, rtol=1e-6)
        assert 0 < kept.sum() < len(training)
        columns = (training.points, training.values, noise_variance(training))
        rest = exact.fit_factors(model.hyp, *(column[kept] for column in columns))
        assert_allclose(change, exact.predict(model.hyp, rest, u)[0] - model.mean(u), atol=1e-6)
        assert np.abs(change).max() > 1e-3


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_beyond_the_evaluations_there_is_doubt_on_every_side(maker):
    model = model_of(maker)
    for direction in (*np.eye(2), *-np.eye(2)):
        doubt = model.doubt_beyond(np.array([[9.0], [18.0]]) * direction)
        assert doubt[1] > 3 * doubt[0] > 0


# In the place of the sparse GP


def data(n=140):
    rng = np.random.default_rng([SEED, 7])
    x = np.concatenate([np.array([0.0, 0.7]) + cloud(rng, n // 2), rng.uniform([-3, -2], [3, 5], (n - n // 2, 2))])
    return x, banana(x)


@cache
def posterior(kind):
    steps = {
        "default": Settings(),
        "exact": Steps(surrogate=ExactGPStep()),
        "turned": Steps(surrogate=ExactGPStep(rotation=np.array([[1.0, 0.5], [-0.2, 1.2]]))),
    }
    return vsbq.fit(*data(), bounds=[(None, None), (-6, None)], settings=steps[kind], rng=SEED, progress=False)


def test_it_is_a_step():
    assert isinstance(ExactGPStep(), SurrogateStep)
    assert not isinstance(SparseGP(), SurrogateStep)


@pytest.mark.parametrize("kind", ["exact", "turned"])
def test_the_posterior_of_an_exact_gp_is_right(kind):
    post = posterior(kind)
    assert isinstance(post.surrogate, ExactGP)
    assert post.history.surrogate.rotated == (kind == "turned")
    error = 3 * post.log_evidence_sd
    assert abs(post.log_evidence) < error < 0.6
    assert_allclose(post.mean(), [0.0, 0.5], atol=0.1)
    assert_allclose(np.sqrt(np.diag(post.cov())), [1.0, 0.75**0.5], rtol=0.1)
    draws = post.sample(4000, rng=0)
    x = np.random.default_rng(0).standard_normal((4000, 2))
    truth = np.column_stack([x[:, 0], 0.5 * x[:, 0] ** 2 + 0.5 * x[:, 1]])
    for f in (lambda y: y[:, 0] ** 2, lambda y: y[:, 1], lambda y: y[:, 0] ** 2 * y[:, 1]):
        assert f(draws).mean() == pytest.approx(f(truth).mean(), abs=0.25 * f(truth).std())


def test_it_agrees_with_the_default():
    one, other = posterior("exact"), posterior("default")
    both = np.hypot(one.log_evidence_sd, other.log_evidence_sd)
    assert abs(one.log_evidence - other.log_evidence) < 3 * both < 0.6
    assert_allclose(one.mean(), other.mean(), atol=0.1)
    x = other.sample(2000, rng=1)
    assert np.mean((one.log_pdf(x) - other.log_pdf(x)) ** 2) < 0.1**2
    assert not np.mean((one.log_pdf(x + 0.3) - other.log_pdf(x)) ** 2) < 0.1**2


@pytest.mark.parametrize("kind", ["exact", "turned"])
def test_it_is_refined(kind):
    post = posterior(kind)
    assert post.history.refinement.method in {"importance", "sequential"}
    assert post.refined.evidence.held_out_sd > 0
    assert post.log_evidence >= post.elbo - 4 * post.elbo_estimate.monte_carlo_error - 0.05
    truth = banana(post.sample(1000, rng=2))
    assert np.mean(np.abs(post.log_pdf(post.sample(1000, rng=2)) - truth)) < 0.15


@pytest.mark.parametrize("kind", ["exact", "turned"])
def test_it_suggests(kind):
    post = posterior(kind)
    new = post.suggest(3, rng=0)
    assert new.shape == (3, 2)
    assert len(np.unique(new, axis=0)) == 3
    assert (new[:, 1] > -6).all()
    # Where it is unsure: more so than at its own draws.
    assert post.surrogate.predict(new).sd.mean() > post.surrogate.predict(post.sample(500, rng=0)).sd.mean()


def test_a_file_says_that_it_can_only_hold_the_mixture(tmp_path):
    post = posterior("exact")
    with pytest.raises(PosteriorFileError, match="compact=True"):
        post.save(tmp_path / "post.npz")
    assert list(tmp_path.iterdir()) == []
    again = vsbq.load(post.save(tmp_path / "post.npz", compact=True))
    assert again.log_evidence == post.log_evidence
    assert_allclose(again.mixture.means, post.mixture.means)
