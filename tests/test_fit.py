"""The whole algorithm on small targets: truth, invariances, reproducibility, quiet."""

import logging
import sys
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import minimize

import vsbq
from vsbq.progress import Progress
from vsbq.settings import Steps
from vsbq.steps.mixture.starts import moved
from vsbq.steps.refine import Refinement, refine
from vsbq.steps.surrogate.shaped_data import SparseGP

ROOT = np.array([[1.0, 0.0], [0.8, 0.6]])
CENTRE = np.array([1.0, -2.0])
LOG_Z = 4.0


def cloud(rng, n=600, dimension=2, spread=2.5):
    """Points of many radii around the origin, as several optimiser runs leave them."""
    direction = rng.normal(size=(n, dimension))
    return direction * rng.uniform(0, spread, (n, 1))


def gaussian_evaluations(rng, n=600):
    points = CENTRE + cloud(rng, n) @ ROOT.T
    law = stats.multivariate_normal(CENTRE, ROOT @ ROOT.T)
    return points, law.logpdf(points) + LOG_Z


@pytest.fixture(scope="module")
def gaussian():
    points, log_density = gaussian_evaluations(np.random.default_rng(5))
    return points, log_density, vsbq.fit(points, log_density, names=["a", "b"], rng=1, progress=False)


def agrees(estimate, truth, tolerance):
    return abs(estimate - truth) < tolerance


def test_gaussian_is_recovered(gaussian):
    post = gaussian[2]
    assert agrees(post.elbo, LOG_Z, 0.01)
    assert not agrees(post.elbo, LOG_Z + 0.05, 0.01)  # the check can fail
    assert_allclose(post.mean(), CENTRE, atol=0.01)
    assert_allclose(post.cov(), ROOT @ ROOT.T, atol=0.02)
    assert_allclose(post.mode(), CENTRE, atol=0.02)
    assert post.elbo_sd < 0.02


def test_density_is_normalised_and_matches_the_truth(gaussian):
    post = gaussian[2]
    x = CENTRE + cloud(np.random.default_rng(0), 200, spread=1.0) @ ROOT.T
    truth = stats.multivariate_normal(CENTRE, ROOT @ ROOT.T).logpdf(x)
    assert_allclose(post.log_pdf(x), truth, atol=0.05)
    assert_allclose(post.surrogate.predict(x).mean, truth + LOG_Z, atol=0.05)
    assert_allclose(post.pdf(x[0]), np.exp(post.log_pdf(x[0])))
    assert isinstance(post.log_pdf(x[0]), float)


def test_adding_a_constant_shifts_the_elbo_by_it(gaussian):
    points, log_density, post = gaussian
    shifted = vsbq.fit(points, log_density + 1234.5, rng=1, progress=False)
    assert shifted.elbo - post.elbo == pytest.approx(1234.5, abs=1e-9)
    assert_array_equal(shifted.sample(50, rng=0), post.sample(50, rng=0))


def test_order_of_the_rows_changes_nothing(gaussian):
    points, log_density, post = gaussian
    order = np.random.default_rng(3).permutation(len(points))
    permuted = vsbq.fit(points[order], log_density[order], rng=1, progress=False)
    assert permuted.elbo == post.elbo
    assert_array_equal(permuted.sample(50, rng=0), post.sample(50, rng=0))


def test_same_rng_same_posterior_and_global_state_untouched(gaussian):
    points, log_density, post = gaussian
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    again = vsbq.fit(points, log_density, rng=np.random.default_rng(1), progress=False)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert again.elbo == post.elbo
    assert_array_equal(again.mixture.means, post.mixture.means)
    other = vsbq.fit(points, log_density, rng=2, progress=False)
    assert not np.array_equal(other.sample(5, rng=0), post.sample(5, rng=1))


def test_negated_values_give_the_same(gaussian):
    points, log_density, post = gaussian
    minimised = vsbq.fit(points, neg_log_density=-log_density, names=["a", "b"], rng=1, progress=False)
    assert minimised.elbo == post.elbo


def test_quiet_unless_asked(gaussian, capfd):
    points, log_density, _ = gaussian
    vsbq.fit(points[:150], log_density[:150], rng=1, progress=False)
    assert capfd.readouterr() == ("", "")
    vsbq.fit(points[:150], log_density[:150], rng=1, progress=True)
    assert "mixture" in capfd.readouterr().err
    assert not logging.getLogger().handlers or logging.getLogger("vsbq").handlers


def test_log_records_name_the_stages(gaussian, caplog):
    points, log_density, _ = gaussian
    with caplog.at_level(logging.INFO, logger="vsbq"):
        vsbq.fit(points[:150], log_density[:150], rng=1, progress=False)
    text = caplog.text
    assert all(stage in text for stage in ("trim:", "surrogate:", "mixture:"))


def test_an_evaluations_takes_no_second_set_of_values(gaussian):
    points, log_density, _ = gaussian
    evaluations = vsbq.Evaluations(points, log_density)
    with pytest.raises(vsbq.EvaluationsError, match="bounds was given as well"):
        vsbq.fit(evaluations, bounds=[(-9, 9), (-9, 9)])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("log_likelihood", "vsbq.Evaluations(points, ..., log_likelihood=...)"),
        ("noise", "log_density_sd="),
        ("random_state", "Did you mean 'rng'?"),
        ("bound", "Did you mean 'bounds'?"),
    ],
)
def test_an_option_that_fit_does_not_know_leads_to_the_right_one(gaussian, option, words):
    points, log_density, _ = gaussian
    with pytest.raises(TypeError, match="fit has no option") as caught:
        vsbq.fit(points, log_density, **{option: 1})
    assert words in str(caught.value)
    assert "'plausible_bounds'" in str(caught.value)


def test_bounded_and_half_bounded_parameters(rng):
    """A beta and a gamma: everything stays inside, the density integrates to one, marginals are right."""
    beta, gamma = stats.beta(2, 5), stats.gamma(4, scale=0.5)
    x = np.column_stack([rng.uniform(0.001, 0.999, 1500), rng.uniform(0.01, 9.0, 1500)])
    x[0, 0] = 0.0  # exactly on a bound
    values = beta.logpdf(np.clip(x[:, 0], 1e-9, 1)) + gamma.logpdf(x[:, 1]) - 3.0
    post = vsbq.fit(x, values, bounds=[(0, 1), (0, None)], rng=1, progress=False)
    assert agrees(post.elbo, -3.0, 0.02)
    draws = post.sample(4000, rng=1)
    assert ((draws[:, 0] >= 0) & (draws[:, 0] <= 1)).all()
    assert (draws[:, 1] >= 0).all()
    q = [0.05, 0.5, 0.95]
    assert_allclose(post.quantile(q), np.column_stack([beta.ppf(q), gamma.ppf(q)]), atol=0.05)
    a, b = np.linspace(1e-6, 1 - 1e-6, 301), np.linspace(1e-6, 12, 601)
    grid = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1)
    mass = np.trapezoid(np.trapezoid(post.pdf(grid.reshape(-1, 2)).reshape(301, 601), b, axis=1), a)
    assert mass == pytest.approx(1.0, abs=1e-3)
    assert post.history.trimmed.at_edge == 1
    assert post.log_pdf([1.5, 1.0]) == -np.inf


def test_zero_density_is_knowledge(rng):
    """A normal cut in half: the evaluations on the forbidden side say −inf."""
    x = cloud(rng, 1500)
    values = np.where(x[:, 0] > -1.0, -0.5 * (x**2).sum(axis=1), -np.inf)
    post = vsbq.fit(x, values, rng=1, progress=False)
    assert post.history.trimmed.zero_density > 50
    truth = np.log(2 * np.pi) + stats.norm.logsf(-1.0)
    assert agrees(post.elbo, truth, 0.15)
    assert (post.sample(4000, rng=0)[:, 0] < -1.3).mean() < 0.02


@pytest.mark.parametrize(("low", "direction"), [(-60.0, [1.0, 0.0]), (-60.0, [0.6, 0.8]), (-1e6, [0.6, 0.8])])
def test_a_cliff_is_seen(low, direction, rng, monkeypatch):
    """A normal cut in half by values that the shaping would hide, or that trimming would drop."""
    x = cloud(rng, 1500)
    values = np.where(x @ direction > -1.0, -0.5 * (x**2).sum(axis=1), low)
    truth = np.log(2 * np.pi) + stats.norm.logsf(-1.0)
    post = vsbq.fit(x, values, rng=1, progress=False)
    assert agrees(post.log_evidence, truth, 0.05)
    assert post.support is not None
    assert (post.sample(4000, rng=0) @ direction < -1.3).mean() < 0.02
    monkeypatch.setattr(sys.modules["vsbq.fit"], "MOST_CLIFFS", 0)
    without = vsbq.fit(x, values, rng=1, progress=False)
    assert not agrees(without.log_evidence, truth, 0.05)


def in_half(x):
    return x.sum(axis=1) < 0.3


def test_a_told_support_is_exact(rng):
    """A normal that ends at a plane where nothing was evaluated beyond it."""
    x = 1.5 * rng.normal(size=(400, 2))
    x = x[in_half(x)]
    y = -0.5 * (x**2).sum(axis=1)
    truth = np.log(2 * np.pi) + stats.norm.logcdf(0.3 / np.sqrt(2))
    post = vsbq.fit(x, y, support=in_half, rng=0, progress=False)
    assert agrees(post.log_evidence, truth, 0.02)
    assert post.refined.evidence.support_sd == 0
    assert in_half(post.sample(4000, rng=0)).all()
    assert not agrees(vsbq.fit(x, y, rng=0, progress=False).log_evidence, truth, 0.02)  # the surrogate goes on beyond


def test_a_told_support_has_to_agree_with_the_evaluations(rng):
    x = rng.normal(size=(100, 2))
    with pytest.raises(vsbq.EvaluationsError, match="with a finite log density have none"):
        vsbq.fit(x, -0.5 * (x**2).sum(axis=1), support=in_half, rng=0, progress=False)
    with pytest.raises(vsbq.EvaluationsError, match="returns n booleans"):
        vsbq.fit(x, -0.5 * (x**2).sum(axis=1), support=lambda x: x, rng=0, progress=False)


def test_noise_that_differs_from_point_to_point(rng):
    points, log_density = gaussian_evaluations(rng, 2000)
    sd = rng.uniform(0.2, 3.0, len(points))
    noisy = log_density + sd * rng.standard_normal(len(points))
    post = vsbq.fit(points, noisy, log_density_sd=sd, rng=1, progress=False)
    assert 0.005 < post.elbo_sd < 0.3
    assert agrees(post.elbo, LOG_Z, 4 * post.elbo_sd)
    assert not agrees(post.elbo, LOG_Z + 1.0, 4 * post.elbo_sd)
    assert_allclose(post.mean(), CENTRE, atol=0.25)


def test_replicates_of_a_noisy_point_are_merged(rng):
    points, log_density = gaussian_evaluations(rng, 300)
    points, log_density = np.repeat(points, 4, axis=0), np.repeat(log_density, 4)
    noisy = log_density + rng.standard_normal(len(points))
    post = vsbq.fit(points, noisy, log_density_sd=1.0, rng=1, progress=False)
    assert post.history.trimmed.merged == 900
    assert agrees(post.elbo, LOG_Z, 4 * post.elbo_sd + 0.01)


def test_two_modes_keep_their_masses(rng):
    weights, centres, sd = np.array([0.7, 0.3]), np.array([[-3.0, 0.0], [3.0, 1.0]]), 0.7

    def log_density(x):
        logs = [
            np.log(w) + stats.multivariate_normal(c, sd**2).logpdf(x) for w, c in zip(weights, centres, strict=True)
        ]
        return np.logaddexp(*logs)

    points = np.concatenate([c + cloud(rng, 800, spread=2.0) for c in centres])
    post = vsbq.fit(points, log_density(points), rng=1, progress=False)
    assert agrees(post.elbo, 0.0, 0.02)
    assert (post.sample(20_000, rng=0)[:, 0] < 0).mean() == pytest.approx(0.7, abs=0.02)


def test_one_parameter(rng):
    x = rng.uniform(-6, 6, 300)
    post = vsbq.fit(x, stats.norm.logpdf(x, 1.0, 0.8), rng=1, progress=False)
    assert agrees(post.elbo, 0.0, 0.01)
    assert post.mean() == pytest.approx([1.0], abs=0.01)


def test_the_algorithm_as_printed(gaussian):
    points, log_density, _ = gaussian
    with pytest.warns(vsbq.VsbqWarning, match="was not refined"):
        post = vsbq.fit(points, log_density, settings=vsbq.Settings.paper(), rng=1, progress=False)
    assert len(post.mixture.means) == 50
    assert agrees(post.elbo, LOG_Z, 0.1)  # diagonal components of a correlated normal
    scales = np.einsum("kii->ki", post.mixture.trils)
    assert_allclose(scales / scales[:, :1], np.tile(scales[0] / scales[0, 0], (50, 1)))
    assert_allclose(post.mixture.trils, scales[:, :, None] * np.eye(2))


def test_too_steep_a_target_says_so(rng):
    points = cloud(rng, 400)
    with pytest.raises(vsbq.FitError, match="within reach of the best"):
        vsbq.fit(points, -1e9 * (points**2).sum(axis=1), rng=1, progress=False)


def test_table_and_frame(gaussian):
    post = gaussian[2]
    table = post.summary()
    assert str(table).splitlines()[1].startswith("a ")
    assert table.to_dict()["b"]["mean"] == pytest.approx(-2.0, abs=0.02)
    frame = post.to_dataframe(100, rng=0)
    assert list(frame.columns) == ["a", "b"]
    assert len(frame) == 100
    assert "ELBO" in repr(post)
    assert post.marginal("b").mean() == post.marginal(1).mean() == post.mean()[1]


def test_wrong_points_are_refused(gaussian):
    post = gaussian[2]
    with pytest.raises(ValueError, match="2 coordinates"):
        post.log_pdf([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        post.quantile(1.5)
    with pytest.raises(ValueError, match="at least 0"):
        post.sample(-1)


# Where arithmetic is hard


def test_few_evaluations_of_a_banana():
    """The bound of this fit once exceeded what any model can reach, by rounding errors, and led astray."""
    rng = np.random.default_rng([40, 0])
    x = 1.5 * rng.normal(size=(40, 2))
    x[:, 1] += 0.5 * (x[:, 0] ** 2 - 1)
    y = -0.5 * (x[:, 0] ** 2 + (x[:, 1] - 0.5 * (x[:, 0] ** 2 - 1)) ** 2)
    post = vsbq.fit(x, y, rng=0, progress=False)
    assert abs(post.log_evidence - np.log(2 * np.pi)) < 0.1
    assert post.log_evidence_sd < 0.5


def test_a_mode_at_a_bound_reached_from_many_starts(rng):
    """L-BFGS-B ends on the bound again and again: many evaluations share its coordinate."""
    points, bounds = [], [(0.0, 1.0)] * 3

    def negative(x):
        points.append(x.copy())
        return 6 * x[0] + 0.5 * (((x[1:] - 0.4) / 0.1) ** 2).sum()

    for _ in range(30):
        minimize(negative, rng.uniform(0, 1, 3), method="L-BFGS-B", bounds=bounds)
    x = np.clip(points, 0.0, 1.0)
    y = -np.array([negative(row) for row in x])
    post = vsbq.fit(x, y, bounds=bounds, rng=0, progress=False)
    truth = np.log((1 - np.exp(-6)) / 6) + np.log(2 * np.pi * 0.01)
    assert abs(post.log_evidence - truth) < 3 * post.log_evidence_sd + 0.1


def test_errors_of_arithmetic_come_in_words(monkeypatch, rng):
    def broken(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    monkeypatch.setattr(sys.modules["vsbq.fit"], "fit_surrogate", broken)
    x = rng.normal(size=(50, 2))
    with pytest.raises(vsbq.errors.FitError, match=r"SVD did not converge.*rescale"):
        vsbq.fit(x, -0.5 * (x**2).sum(axis=1), rng=0, progress=False)


def test_settings_for_floating_point_errors_do_not_matter(rng):
    x = rng.normal(size=(60, 1))
    with np.errstate(all="raise"):
        strict = vsbq.fit(x, -0.5 * x[:, 0] ** 2, rng=0, progress=False)
    assert strict.log_evidence == vsbq.fit(x, -0.5 * x[:, 0] ** 2, rng=0, progress=False).log_evidence


# The stated error


def test_the_error_grows_where_it_cannot_be_tested(rng):
    """Of the same surrogate, with fewer and fewer evaluations held out."""
    x = 1.5 * rng.normal(size=(80, 2))
    post = vsbq.fit(x, -0.5 * (x**2).sum(axis=1) - 0.1 * x[:, 0] ** 4, rng=0, progress=False)
    sds = []
    for tested in (1.0, 0.5, 0.0):
        surrogate = replace(post.surrogate, tested=tested)
        region = replace(post.refined.region, surrogate=surrogate)
        mixture = moved(post.mixture, post.space, surrogate.space)
        refined, _ = refine(mixture, region, Refinement(), np.random.default_rng(0), Progress(1, False))
        sds.append(refined.evidence.untested)
    assert sds[0] == 0
    assert sds[1] == pytest.approx(5 * refined.evidence.surrogate_sd * np.sqrt(0.5))
    assert sds[2] == pytest.approx(5 * refined.evidence.surrogate_sd)


def test_what_the_outermost_evaluations_decide_is_in_the_error(rng):
    """Of a density that is no normal one side only was evaluated, against all of it."""
    x = 1.5 * rng.normal(size=(400, 2))
    y = -0.5 * (x**2).sum(axis=1) - 0.1 * x[:, 0] ** 4
    truth = 0.5 * np.log(2 * np.pi) + np.log(quad(lambda a: np.exp(-0.5 * a**2 - 0.1 * a**4), -9, 9)[0])
    whole = vsbq.fit(x, y, rng=0, progress=False)
    side = x[:, 0] < 0.5
    cut = vsbq.fit(x[side], y[side], rng=0, progress=False)
    assert whole.refined.evidence.sides < 1e-3
    assert cut.refined.evidence.sides > 3e-3
    for post in (whole, cut):
        assert abs(post.log_evidence - truth) < 3 * post.log_evidence_sd


def test_inducing_points_are_capped():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    settings = Steps(surrogate=SparseGP(max_inducing=60))
    post = vsbq.fit(x, -0.5 * (x**2).sum(axis=1) + 0.1 * np.sin(9 * x[:, 0]), settings=settings, rng=0, progress=False)
    assert post.history.surrogate.inducing <= 60


def test_what_is_open_about_the_edge_is_in_the_error(rng):
    """A normal that ends at a plane, from few evaluations and from many."""
    sds = []
    for n in (60, 1000):
        x = 1.5 * rng.normal(size=(n, 2))
        y = np.where(in_half(x), -0.5 * (x**2).sum(axis=1), -np.inf)
        post = vsbq.fit(x, y, rng=0, progress=False)
        truth = np.log(2 * np.pi) + stats.norm.logcdf(0.3 / np.sqrt(2))
        assert abs(post.log_evidence - truth) < 3 * post.log_evidence_sd
        assert post.log_evidence_sd < 0.5
        sds.append(post.refined.evidence.support_sd)
    assert sds[0] > 3 * sds[1] > 0
    inside = np.isfinite(y)
    without = vsbq.fit(x[inside], y[inside], rng=0, progress=False)
    assert without.support is None
    assert without.refined.evidence.support_sd == 0


def test_a_tag_stays_with_the_posterior(rng):
    x = rng.normal(size=(40, 1))
    assert vsbq.fit(x, -0.5 * x[:, 0] ** 2, tag="study 1", rng=0, progress=False).tag == "study 1"
