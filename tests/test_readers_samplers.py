"""Chains of emcee and runs of dynesty: what they keep is a posterior there and a likelihood here."""

from __future__ import annotations

import dynesty
import emcee
import numpy as np
import pytest

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError


def log_likelihood(x) -> float:
    return float(-0.5 * np.sum((np.asarray(x) - 0.5) ** 2 / np.array([0.5, 1.0]) ** 2))


def log_prior(x) -> float:
    """Uniform in the box from -4 to 4."""
    return -2 * np.log(8.0) if np.all(np.abs(x) <= 4) else -np.inf


def log_posterior(x):
    prior = log_prior(x)
    return (log_likelihood(x) + prior, prior) if np.isfinite(prior) else (-np.inf, prior)


def chain(backend=None, steps=40, **options):
    sampler = emcee.EnsembleSampler(10, 2, log_posterior, backend=backend, blobs_dtype=[("prior", float)], **options)
    sampler.random_state = np.random.RandomState(0).get_state()
    start = np.random.default_rng(0).normal(size=(10, 2))
    start[0] = 70.0  # a walker that starts, and stays, where the prior is zero
    with np.errstate(invalid="ignore"):
        sampler.run_mcmc(start, steps)
    return sampler


def test_emcee_sampler():
    sampler = chain()
    ev = Evaluations.from_emcee(sampler, bounds=[(-99, 99)] * 2)
    np.testing.assert_allclose(ev.log_density, [log_posterior(x)[0] for x in ev.points])
    states = sampler.get_chain(flat=True)
    assert len(ev) == len(np.unique(states, axis=0)) < len(states)
    repeats = f"Left out {len(states) - len(ev)} repeats where a walker stayed because its move was rejected."
    assert ev.notes[0] == repeats
    assert ev.bounds.pair(0) == (-99.0, 99.0)
    assert ev.names == ("x1", "x2")


def test_emcee_keeps_the_prior_apart_and_zero_densities():
    sampler = chain(steps=25)
    by_blob = Evaluations.from_emcee(sampler, log_prior="prior")
    by_function = Evaluations.from_emcee(sampler, log_prior=log_prior)
    np.testing.assert_array_equal(by_blob.log_prior, by_function.log_prior)
    usable = np.isfinite(by_blob.log_prior)
    np.testing.assert_allclose(
        by_blob.log_likelihood[usable], [log_likelihood(x) for x in by_blob.points[usable]], atol=1e-12
    )
    np.testing.assert_array_equal(by_blob.points[~usable], [[70.0, 70.0]])
    assert np.isneginf(by_blob.log_density[~usable]).all()
    assert np.isnan(by_blob.log_likelihood[~usable]).all()
    with pytest.raises(EvaluationsError, match="no blob 'nothing'"):
        Evaluations.from_emcee(sampler, log_prior="nothing")


def test_emcee_hdf_backend(tmp_path):
    pytest.importorskip("h5py")
    path = tmp_path / "chain.h5"
    sampler = chain(emcee.backends.HDFBackend(path))
    wanted = Evaluations.from_emcee(sampler)
    for source in (path, str(path), emcee.backends.HDFBackend(path, read_only=True), sampler.backend):
        ev = Evaluations.from_emcee(source, names=["a", "b"])
        np.testing.assert_array_equal(ev.points, wanted.points)
        np.testing.assert_array_equal(ev.log_density, wanted.log_density)
        assert ev.names == ("a", "b")
    path.write_bytes(path.read_bytes()[:3000])
    for source in (path, tmp_path / "none.h5"):
        with pytest.raises(EvaluationsError, match=r"no chain|no file"):
            Evaluations.from_emcee(source)


def test_emcee_parameter_names():
    sampler = emcee.EnsembleSampler(10, 2, lambda p: log_posterior([p["a"], p["b"]])[0], parameter_names=["a", "b"])
    sampler.random_state = np.random.RandomState(0).get_state()
    sampler.run_mcmc(np.random.default_rng(0).normal(size=(10, 2)), 30)
    assert Evaluations.from_emcee(sampler).names == ("a", "b")


def test_emcee_refusals():
    with pytest.raises(EvaluationsError, match="Run the sampler first"):
        Evaluations.from_emcee(emcee.EnsembleSampler(10, 2, log_posterior))
    with pytest.raises(EvaluationsError, match="no chain in a dict"):
        Evaluations.from_emcee({})
    with pytest.raises(EvaluationsError, match=r"only accepted moves.*vsbq\.Recorder"):
        Evaluations.from_emcee(chain(), log_density_sd=0.5)


@pytest.fixture(scope="module")
def nested():
    def target(x):
        return log_likelihood(x) if x[0] < 3 else -np.inf

    sampler = dynesty.NestedSampler(target, lambda u: 8 * u - 4, 2, nlive=60, rstate=np.random.default_rng(1))
    sampler.run_nested(print_progress=False, maxiter=250)
    return sampler


def test_dynesty_needs_the_prior(nested):
    for source in (nested, nested.results):
        with pytest.raises(EvaluationsError, match=r"log likelihoods, which are not a posterior.*log_prior="):
            Evaluations.from_dynesty(source)


@pytest.mark.parametrize("kind", ["function", "number", "array"])
def test_dynesty(nested, kind):
    results = nested.results
    prior = {"function": log_prior, "number": -2 * np.log(8), "array": np.full(len(results.logl), -2 * np.log(8))}[kind]
    ev = Evaluations.from_dynesty(results, log_prior=prior, bounds=[(-4, 4)] * 2, names=["a", "b"])
    wanted = [log_likelihood(x) if x[0] < 3 else -np.inf for x in ev.points]
    np.testing.assert_allclose(ev.log_likelihood, wanted)
    np.testing.assert_allclose(ev.log_density, np.array(wanted) - 2 * np.log(8))
    assert np.isneginf(ev.log_density).any()  # dynesty stores -1e300
    assert len(ev) >= 250
    assert ev.names == ("a", "b")


def test_dynesty_refusals(nested):
    with pytest.raises(EvaluationsError, match="log_prior has 3 values"):
        Evaluations.from_dynesty(nested, log_prior=np.zeros(3))
    with pytest.raises(EvaluationsError, match="no samples in a list"):
        Evaluations.from_dynesty([1.0], log_prior=0.0)
