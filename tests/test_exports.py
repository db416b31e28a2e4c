"""Where a posterior goes next, each with the real library: ArviZ, getdist, corner, Cobaya's format, emcee, dynesty."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats

import vsbq
from vsbq.data.bounds import Bounds
from vsbq.data.evaluations import Evaluations
from vsbq.data.transform import InferenceSpace
from vsbq.history import Elbo
from vsbq.io.files import exports
from vsbq.io.files.exports import ExportError, safe_names
from vsbq.numerics.mixture import Mixture
from vsbq.posterior import Posterior
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.refine import Refinement
from vsbq.steps.surrogate.fit import SparseGP

MEAN = np.array([1.0, -2.0])
COV = np.array([[0.5, 0.3], [0.3, 0.8]])
TARGET = stats.multivariate_normal(MEAN, COV)


@pytest.fixture(scope="module")
def post() -> Posterior:
    """A real fit of a normal density with log evidence 3, some of whose evaluations are far too low to be used."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.multivariate_normal(MEAN, 2 * COV, 300), rng.uniform(40, 60, (10, 2))])
    settings = Steps(
        surrogate=SparseGP(inducing_per_dimension=25, turn=False),
        mixture=VariationalMixture(max_components=2),
        refinement=Refinement(draws=10_000),
    )
    made = Evaluations(x, TARGET.logpdf(x) + 3.0, log_prior=-1.0, names=["a", "b"])
    return vsbq.fit(made, settings=settings, rng=1, progress=False)


def by_hand(names=("rate", "scale", "low"), bounds=((0, 1), (0, None), (None, 2))) -> Posterior:
    """A normal in inference space, with a bound of every kind."""
    d = len(names)
    space = InferenceSpace(Bounds.parse(list(bounds), d), np.full(d, 1e-9), np.zeros(d), np.ones(d))
    trils = np.tril(0.2 * np.ones((d, d)))[None] + 0.3 * np.eye(d)
    post = Posterior(
        tuple(names), space, Mixture(np.zeros(1), np.zeros((1, d)), trils), Elbo(0.0, 0.1, 0.0), 0.0, *[None] * 3
    )
    x = post.sample(50, rng=0)
    return replace(post, evaluations=Evaluations(x, post.log_pdf(x), log_density_sd=0.1, bounds=bounds, names=names))


@pytest.fixture(scope="module")
def figures():
    """Figures are drawn without a screen, and none stays open."""
    mpl.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def imported(name: str):
    """A package for plots, unless it does not go with the Matplotlib that is here (arviz-plots 0.8 and 3.11 do not)."""
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError) as error:
        pytest.skip(f"{name} can't be imported here: {error}")


# ArviZ


def test_draws_evaluations_and_fit_are_in_the_tree(post):
    tree = post.to_arviz(500, rng=3, chains=None)
    draws = post.sample(500, rng=3)
    assert tree["posterior"].dataset.sizes == {"sample": 500}
    np.testing.assert_array_equal(tree["posterior"]["a"], draws[:, 0])
    np.testing.assert_array_equal(tree["posterior"]["b"], draws[:, 1])
    np.testing.assert_allclose(tree["sample_stats"]["lp"], post.log_pdf(draws))
    data = tree["evaluations_data"].dataset
    assert data.sizes == {"evaluation": 310}
    np.testing.assert_array_equal(data["b"], post.evaluations.points[:, 1])
    np.testing.assert_array_equal(data["log_density"], post.evaluations.log_density)
    np.testing.assert_array_equal(data["log_prior"], -1.0)
    assert "log_density_sd" not in data
    assert data["used"].sum() == post.history.trimmed.kept == 300
    assert not data["used"][300:].any()
    fit = tree["fit"].dataset
    assert float(fit["log_evidence"]) == post.log_evidence
    assert float(fit["elbo_sd"]) == post.elbo_sd
    assert dict(zip(fit["stage"].values.tolist(), fit["seconds"].values, strict=True)) == post.history.seconds
    assert tree.attrs["inference_library_version"] == vsbq.__version__
    assert "tag" not in tree.attrs


def test_chains_if_asked_for(post):
    tree = post.to_arviz(402, rng=3, chains=4)
    assert tree["posterior"].dataset.sizes == {"chain": 4, "draw": 100}
    assert tree["sample_stats"]["lp"].dims == ("chain", "draw")
    for n, chains in ((0, None), (3, 4), (3, 0)):
        with pytest.raises(ExportError, match="one draw in each"):
            post.to_arviz(n, chains=chains)


def test_used_is_left_out_where_it_is_not_known(post):
    assert "used" not in replace(post, history=None).to_arviz(10)["evaluations_data"].dataset
    other = replace(post, evaluations=post.evaluations.take(np.arange(200)))  # not those of the fit
    assert "used" not in other.to_arviz(10)["evaluations_data"].dataset
    assert "evaluations_data" not in replace(post, evaluations=None).to_arviz(10).children


def test_used_with_duplicates(rng):
    x = np.repeat(rng.normal(size=(60, 2)), 2, axis=0)
    x[0:2] = 90.0
    made = Evaluations(x, -0.5 * (x**2).sum(axis=1))
    from vsbq.history import History
    from vsbq.steps.trim import Trim, trim_evaluations

    _, trimmed = trim_evaluations(made, Trim())
    post = replace(by_hand(("x1", "x2"), (None, None)), history=History(trimmed, *[None] * 2, {}, ""), evaluations=made)
    used = exports._used_rows(post, made)
    np.testing.assert_array_equal(used, np.arange(120) >= 2)


def test_noise_is_in_the_tree():
    np.testing.assert_array_equal(by_hand().to_arviz(10)["evaluations_data"]["log_density_sd"], 0.1)


@pytest.mark.parametrize("chains", [None, 4])
def test_summary_of_arviz(post, chains):
    import arviz_stats

    kind = {"sample_dims": ["sample"], "kind": "stats"} if chains is None else {}
    table = arviz_stats.summary(post.to_arviz(4000, rng=0, chains=chains), round_to="none", **kind)
    assert list(table.index) == ["a", "b"]
    np.testing.assert_allclose(table["mean"], MEAN, atol=4 * np.sqrt(0.8 / 4000) + 0.01)
    np.testing.assert_allclose(table["sd"], np.sqrt(np.diagonal(COV)), atol=0.05)
    if chains is not None:
        assert (table["r_hat"] < 1.02).all()


def test_arviz_takes_what_it_gets_as_it_is(post):
    """No argument on either side: means, and draws that are independent, as they are."""
    import arviz_stats

    table = arviz_stats.summary(post.to_arviz(seed=0), round_to="none")
    np.testing.assert_allclose(table["mean"], MEAN, atol=4 * np.sqrt(0.8 / 4000) + 0.01)
    assert (table["ess_bulk"] > 3000).all()
    assert (table["r_hat"] < 1.01).all()
    assert post.to_arviz()["posterior"].dataset.sizes == {"chain": 4, "draw": 1000}


def test_plots_of_arviz(post, figures, tmp_path):
    arviz_plots = imported("arviz_plots")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people
        drawn = arviz_plots.plot_dist(post.to_arviz(500, rng=0), backend="matplotlib")
        drawn.savefig(tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size > 5000
    assert set(drawn.viz["plot"].data_vars) >= {"a", "b"}


ODD = ("a b", "θ", "x/y", "x_y", "sample", "log_density", "evaluation", "..", " z ")


def test_odd_names(tmp_path):
    import xarray

    post = by_hand(ODD, [None] * len(ODD))
    tree = post.to_arviz(20, rng=0, chains=None)
    renamed = json.loads(tree.attrs["renamed"])
    assert set(renamed.values()) == {"x/y", "sample", "log_density", "evaluation", "..", " z "}
    draws = post.sample(20, rng=0)
    back = {old: new for new, old in renamed.items()}
    for i, name in enumerate(ODD):
        np.testing.assert_array_equal(tree["posterior"][back.get(name, name)], draws[:, i])
        np.testing.assert_array_equal(tree["evaluations_data"][back.get(name, name)], post.evaluations.points[:, i])
    pytest.importorskip("h5netcdf")
    tree.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    again = xarray.open_datatree(tmp_path / "tree.nc", engine="h5netcdf")
    np.testing.assert_array_equal(again["posterior"]["θ"], draws[:, 1])
    again.close()


def test_ordinary_names_stay(post):
    assert post.to_arviz(5).attrs["renamed"] == "{}"
    assert post.to_arviz(5, chains=1).attrs["renamed"] == "{}"
    assert "draw" in by_hand(("draw",), [None]).to_arviz(5, chains=None)["posterior"].dataset
    assert "sample" in by_hand(("sample",), [None]).to_arviz(5)["posterior"].dataset


def test_safe_names_never_collide():
    assert safe_names(["a/b", "a_b", "a_b_"], ["x"], "/") == ("a_b__", "a_b", "a_b_")
    assert safe_names(["x", "x_"], ["x"], "/") == ("x__", "x_")
    assert safe_names(["/"], [], "/") == ("_",)


def test_netcdf_round_trip(post, tmp_path):
    arviz_base = pytest.importorskip("arviz_base")
    pytest.importorskip("h5netcdf")
    tree = replace(post, evaluations=post.evaluations.with_tag("subject 3")).to_arviz(50, rng=0)
    tree.to_netcdf(tmp_path / "tree.nc", engine="h5netcdf")
    again = arviz_base.convert_to_datatree(str(tmp_path / "tree.nc"))
    for group in ("posterior", "sample_stats", "evaluations_data", "fit"):
        assert set(again[group].dataset.variables) == set(tree[group].dataset.variables)
        for name, column in tree[group].dataset.data_vars.items():
            np.testing.assert_array_equal(again[group][name].values, column.values)
    assert again.attrs["inference_library"] == "vsbq"
    assert again.attrs["tag"] == "subject 3"
    again.close()


# getdist and corner


def test_getdist(post):
    samples = post.to_getdist(4000, rng=0)
    np.testing.assert_array_equal(samples.samples, post.sample(4000, rng=0))
    np.testing.assert_allclose(samples.getMeans(), MEAN, atol=4 * np.sqrt(0.8 / 4000) + 0.01)
    np.testing.assert_allclose(samples.cov(), COV, atol=0.06)
    np.testing.assert_allclose(samples.loglikes, -post.log_pdf(samples.samples))
    assert samples.getEffectiveSamples() == pytest.approx(4000)
    assert samples.getUpper("a") is None


def test_getdist_knows_the_bounds_and_odd_names(figures):
    samples = by_hand(("rate of x", "s_1", r"\lambda*"), ((0, 1), (0, None), (None, 2))).to_getdist(2000, rng=0)
    assert samples.getParamNames().list() == ["rate_of_x", "s_1", r"\lambda_"]
    assert [samples.getLower(name) for name in samples.getParamNames().list()] == [0.0, 0.0, None]
    assert [samples.getUpper(name) for name in samples.getParamNames().list()] == [1.0, None, 2.0]
    assert samples.getParamNames().labels() == [r"\mathrm{rate\ of\ x}", r"\mathrm{s\_1}", r"\lambda*"]
    from getdist import plots

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people
        plotter = plots.get_subplot_plotter()
        plotter.triangle_plot(samples, filled=True)
    assert len(plotter.fig.axes) >= 6


def test_getdist_labels(post):
    assert post.to_getdist(100, labels=[r"\alpha", "B"]).getParamNames().labels() == [r"\alpha", "B"]
    with pytest.raises(ExportError, match="1 labels for 2"):
        post.to_getdist(100, labels=["A"])


def test_corner_takes_the_data_frame(post, figures):
    corner = imported("corner")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people
        one = corner.corner(post.to_dataframe(2000, rng=0), labels=list(post.names))
    labels = {axes.get_xlabel() for axes in one.axes} | {axes.get_ylabel() for axes in one.axes}
    assert {"a", "b"} <= labels


# Cobaya


def test_covmat(post, tmp_path):
    path = post.save_covmat(tmp_path / "start.covmat")
    assert path.read_text().splitlines()[0] == "# a b"
    np.testing.assert_allclose(np.loadtxt(path), post.cov(), rtol=1e-9)
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        post.save_covmat(path)
    assert path.read_text() == "mine"
    assert post.save_covmat(path, overwrite=True).read_text() == post.covmat_text()
    with pytest.raises(ExportError, match="'a b'"):
        by_hand(("a b",), [None]).covmat_text()


# Samplers


def test_an_emcee_run_starts_where_this_ends(post):
    """No burn-in: a short run from the ensemble has the right moments, up to four of its own standard errors."""
    import emcee

    start = post.start_ensemble(20, rng=0)
    sampler = emcee.EnsembleSampler(20, 2, TARGET.logpdf, vectorize=True)
    sampler._random = np.random.RandomState(1)  # emcee's own way to be seeded
    sampler.run_mcmc(start, 1000)
    assert 0.3 < sampler.acceptance_fraction.mean() < 0.9
    chain = sampler.get_chain(flat=True)
    time = sampler.get_autocorr_time(tol=0)
    error = np.sqrt(np.diagonal(COV) * time / len(chain))
    np.testing.assert_array_less(np.abs(chain.mean(axis=0) - MEAN), 4 * error)
    np.testing.assert_array_less(
        np.abs(chain.std(axis=0) ** 2 / np.diagonal(COV) - 1), 4 * np.sqrt(2 * time / len(chain))
    )
    early = sampler.get_chain()[:20].mean(axis=(0, 1))
    np.testing.assert_array_less(np.abs(early - MEAN), 4 * np.sqrt(np.diagonal(COV) / 20))


def test_walkers_are_distinct_and_strictly_inside():
    post = by_hand()
    start = post.start_ensemble(3000, rng=0)
    assert start.shape == (3000, 3)
    assert len(np.unique(start, axis=0)) == 3000
    assert ((start > post.bounds.lower) & (start < post.bounds.upper)).all()
    assert np.isfinite(post.log_pdf(start)).all()
    np.testing.assert_array_equal(start, post.start_ensemble(3000, rng=0))


def test_more_walkers_than_draws(post):
    """The refinement holds 10,000 draws; the rest comes from the mixture."""
    start = post.start_ensemble(15_000, rng=0)
    assert len(np.unique(start, axis=0)) == 15_000


def test_walkers_that_can_not_be():
    narrow = by_hand(("x",), [None])
    narrow = replace(narrow, mixture=Mixture(np.zeros(1), np.ones((1, 1)), np.full((1, 1, 1), 1e-17)))
    with pytest.raises(ExportError, match="Rescale"):
        narrow.start_ensemble(10)
    with pytest.raises(ExportError, match="at least one walker"):
        narrow.start_ensemble(0)


def test_mass_matrix_is_the_covariance_in_stans_coordinates():
    post = by_hand()
    found = post.mass_matrix(rng=0)
    x = post.sample(20_000, rng=0)
    free = np.column_stack([np.log(x[:, 0] / (1 - x[:, 0])), np.log(x[:, 1]), np.log(2 - x[:, 2])])
    np.testing.assert_allclose(found.inverse, np.cov(free.T), rtol=1e-6)
    np.testing.assert_allclose(found.matrix @ found.inverse, np.eye(3), atol=1e-9)
    assert found.coordinates == ("logit((x - 0) / (1 - 0))", "log(x - 0)", "log(2 - x)")
    # The scale is exp of a normal: its covariance is known.
    exact = float(post.mixture.trils[0, 1] @ post.mixture.trils[0, 1])
    assert found.inverse[1, 1] == pytest.approx(exact, rel=4 * np.sqrt(2 / 20_000))
    user = post.mass_matrix("user", rng=0)
    np.testing.assert_allclose(user.inverse, np.cov(x.T))
    assert user.coordinates == ("x", "x", "x")
    with pytest.raises(Exception, match="space"):
        post.mass_matrix("other")


def test_live_points_are_drawn_from_the_prior_they_bring(rng):
    """Unit cube, points and density agree: q integrates to one over the bounds, and the points have its quantiles."""
    post = by_hand(("rate",), [(0, 1)])
    live = post.live_points(2000, rng=0)
    np.testing.assert_allclose(live.prior_transform(live.unit), live.points)
    np.testing.assert_allclose(live.prior_transform(live.unit[3]), live.points[3])
    np.testing.assert_allclose(live.log_pdf(live.points), live.log_prior)
    # Evenly in inference space: towards the bounds the density is steep, though there is little mass.
    u = np.linspace(-5.9, 5.9, 4001)[:, None]
    mass = np.exp(live.log_pdf(post.space.inverse(u)) + post.space.log_jacobian(u)) * (u[1, 0] - u[0, 0])
    assert mass.sum() == pytest.approx(1.0, abs=2e-3)
    below = np.interp(live.points[:, 0], post.space.inverse(u)[:, 0], np.cumsum(mass))
    assert stats.kstest(below, "uniform").pvalue > 1e-4
    assert stats.kstest(stats.norm.cdf(live.points[:, 0], 0.5, 0.2), "uniform").pvalue < 1e-4  # negative control
    assert live.log_pdf(np.array([1.5])) == -np.inf
    for n, widen in ((0, 1.5), (5, 0.0), (5, np.inf)):
        with pytest.raises(ExportError, match="at least 1"):
            post.live_points(n, widen=widen)


def test_a_dynesty_run_starts_where_this_ends(post):
    """Evidence and posterior of the user's model, from live points that are no draws of the user's prior."""
    import dynesty

    calls = []

    precision = np.linalg.inv(COV)
    constant = 3.0 - np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(COV)[1]

    def log_density(x):
        calls.append(1)
        return float(constant - 0.5 * (x - MEAN) @ precision @ (x - MEAN))

    live = post.live_points(150, rng=0)
    start = live.for_dynesty(log_density)
    assert len(calls) == 150
    sampler = dynesty.NestedSampler(
        live.log_likelihood(log_density),
        live.prior_transform,
        2,
        nlive=150,
        live_points=start,
        rstate=np.random.default_rng(1),
        sample="unif",
        bound="single",
    )
    sampler.run_nested(dlogz=0.1, print_progress=False)
    result = sampler.results
    assert abs(result.logz[-1] - 3.0) < 4 * result.logzerr[-1]
    assert abs(result.logz[-1] - 2.0) > 4 * result.logzerr[-1]  # negative control
    weights = result.importance_weights()
    effective = 1 / (weights**2).sum()
    mean = weights @ result.samples
    np.testing.assert_array_less(np.abs(mean - MEAN), 4 * np.sqrt(np.diagonal(COV) / effective) + 0.02)


def test_a_density_of_zero_is_a_likelihood_of_zero(post):
    live = post.live_points(3, rng=0)
    assert live.log_likelihood(lambda x: -np.inf)(live.points[0]) == -np.inf


# Optional packages


@pytest.mark.parametrize(
    ("package", "call", "extra"),
    [("arviz_base", "to_arviz", r"vsbq\[arviz\]"), ("getdist", "to_getdist", r"vsbq\[getdist\]")],
)
def test_a_missing_package_is_named(monkeypatch, package, call, extra):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=extra):
        getattr(by_hand(), call)(10)


def test_nothing_optional_is_imported_before_it_is_needed():
    code = (
        "import sys, vsbq.io.files.exports, vsbq.analysis.group_comparison;"
        "print(*sorted({'arviz_base', 'arviz_plots', 'xarray', 'getdist', 'pandas', 'emcee'} & set(sys.modules)))"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(vsbq.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
