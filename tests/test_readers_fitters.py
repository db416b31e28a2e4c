"""lmfit, pyPESTO, Cobaya, iminuit and PINTS: real runs of the real libraries, compared with the target."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.readers import LmfitTrace
from vsbq.io.record import Recorder

HOURS = np.linspace(0, 4, 20)
GROWTH = 1.0 + 0.5 * HOURS + 0.4 * np.random.default_rng(1).standard_normal(20)
SIGMA = np.linspace(0.3, 0.5, 20)
BOX = [(-2.0, 4.0), (-1.5, 2.5)]
PRIOR = -float(np.log(24))


def log_likelihood(x, sigma=SIGMA) -> float:
    """Term by term, as a twin of what the readers make of residuals."""
    terms = [
        -0.5 * ((y - x[0] - x[1] * t) / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)
        for t, y, s in zip(HOURS, GROWTH, np.broadcast_to(sigma, 20), strict=True)
    ]
    return float(np.sum(terms))


def negative(x) -> float:
    return -log_likelihood(x) - PRIOR


def check(ev: Evaluations, names=("offset", "slope"), bounds=BOX) -> None:
    """The values belong to the points, with the right sign and all constants; likelihood and prior add up."""
    np.testing.assert_allclose(ev.log_density, [-negative(x) for x in ev.points], rtol=1e-6)
    assert ev.names == tuple(names)
    assert [ev.bounds.pair(i) for i in range(2)] == bounds


# lmfit


def parameters(offset=0.0, slope=0.0):
    lmfit = pytest.importorskip("lmfit")
    params = lmfit.Parameters()
    params.add("scale", 2.0, vary=False)
    params.add("offset", offset, min=-2, max=4)
    params.add("slope", slope, min=-1.5, max=2.5)
    params.add("twice", expr="2 * slope")
    return lmfit, params


def residual(params, weight=1.0):
    return (GROWTH - params["offset"] - params["slope"] * HOURS) * weight


@pytest.mark.parametrize("method", ["leastsq", "least_squares", "nelder"])
def test_lmfit_residuals(method):
    calls = []
    trace = LmfitTrace(sigma=SIGMA)

    def counted(params):
        calls.append([params["offset"].value, params["slope"].value])
        return residual(params)

    for start in ((0.0, 0.0), (3.0, 1.0), (-1.0, 2.0)):
        lmfit, params = parameters(*start)
        lmfit.minimize(counted, params, method=method, iter_cb=trace)
    ev = Evaluations.from_lmfit(trace, log_prior=PRIOR)
    check(ev)
    np.testing.assert_array_equal(ev.points, calls)
    np.testing.assert_allclose(ev.log_prior, PRIOR)


def test_lmfit_weighted_residuals_and_priors():
    lmfit, params = parameters(3.0, 1.0)
    model = lmfit.Model(lambda t, offset, slope: offset + slope * t, independent_vars=["t"])
    trace = LmfitTrace(SIGMA, weighted=True)
    for _ in range(3):
        model.fit(GROWTH, params, t=HOURS, weights=1 / SIGMA, iter_cb=trace)
    check(Evaluations.from_lmfit(trace, lambda x: PRIOR))
    check(Evaluations.from_lmfit(trace, np.full(len(trace), PRIOR)))
    one = Evaluations.from_lmfit(trace, log_prior=-3.0, bounds={"offset": (-9, 9)})
    np.testing.assert_allclose(one.log_likelihood, [log_likelihood(x) for x in one.points], rtol=1e-9)
    assert one.bounds.pair(0) == (-9.0, 9.0)


def test_lmfit_objective_of_one_number():
    lmfit, params = parameters()
    trace = LmfitTrace()
    lmfit.minimize(lambda p: negative([p["offset"].value, p["slope"].value]), params, method="nelder", iter_cb=trace)
    check(Evaluations.from_lmfit(trace))


def test_lmfit_complex_residuals():
    trace = LmfitTrace(sigma=0.5)
    _, params = parameters()
    r = np.array([1 + 2j, 3 - 1j])
    trace(params, 1, r)
    assert trace.values[0] == pytest.approx(-0.5 * 15 / 0.25 - 4 * np.log(0.5 * np.sqrt(2 * np.pi)))


def test_lmfit_what_is_refused():
    lmfit, params = parameters()
    with pytest.raises(EvaluationsError, match=r"returns 20 residuals.*LmfitTrace\(sigma=...\)"):
        lmfit.minimize(residual, params, iter_cb=LmfitTrace())
    with pytest.raises(EvaluationsError, match=r"sigma has 3 values for 20 residuals"):
        lmfit.minimize(residual, params, iter_cb=LmfitTrace([1.0, 2.0, 3.0]))
    with pytest.raises(EvaluationsError, match=r"returns one number.*leave out sigma="):
        lmfit.minimize(lambda p: 1.0 + p["offset"] ** 2, params, method="nelder", iter_cb=LmfitTrace(sigma=1.0))
    for sigma in (0.0, [1.0, np.nan], "wide", []):
        with pytest.raises(EvaluationsError, match="sigma"):
            LmfitTrace(sigma)
    trace = LmfitTrace(sigma=SIGMA)
    with pytest.raises(EvaluationsError, match=r"no evaluations yet"):
        Evaluations.from_lmfit(trace, log_prior=0.0)
    result = lmfit.minimize(residual, params, iter_cb=trace)
    with pytest.raises(EvaluationsError, match=r"no posterior. Pass log_prior="):
        Evaluations.from_lmfit(trace)
    with pytest.raises(EvaluationsError, match=r"keeps no evaluations in its MinimizerResult.*iter_cb=trace"):
        Evaluations.from_lmfit(result)
    params["slope"].vary = False
    with pytest.raises(EvaluationsError, match=r"a fit of 'offset' and 'slope', but now 'offset'"):
        lmfit.minimize(residual, params, iter_cb=trace)


# pyPESTO


def starts(*, record=True, file=None, gradient=False, scales=("lin", "lin", "lin")):
    pypesto = pytest.importorskip("pypesto")
    optimize = pytest.importorskip("pypesto.optimize")
    fun = (lambda x: negative(x[1:])) if not gradient else (lambda x: (negative(x[1:]), np.zeros(3)))
    problem = pypesto.Problem(
        pypesto.Objective(fun=fun),
        lb=[0, -2, -1.5],
        ub=[1, 4, 2.5],
        x_names=["fixed", "offset", "slope"],
        x_fixed_indices=[0],
        x_fixed_vals=[0.5],
        x_scales=scales,
    )
    return optimize.minimize(
        problem,
        optimizer=optimize.ScipyOptimizer(method="Nelder-Mead", options={"maxiter": 30}),
        startpoint_method=pypesto.startpoint.UniformStartpoints(check_fval=False),
        n_starts=2,
        history_options=pypesto.HistoryOptions(trace_record=record, storage_file=file),
        progress_bar=False,
    )


@pytest.fixture
def _pypesto_may_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.usefixtures("_pypesto_may_warn")
def test_pypesto_results_histories_and_files(tmp_path):
    result = starts(scales=("lin", "lin", "log10"))
    ev = Evaluations.from_pypesto(result)
    check(ev)
    histories = [each.history for each in result.optimize_result.list]
    assert len(ev) == sum(len(history) for history in histories)
    assert ev.notes[0] == "'slope' is as pyPESTO varies them: log10."
    again = Evaluations.from_pypesto(histories, names=["offset", "slope"], bounds=BOX)
    np.testing.assert_array_equal(again.points, ev.points)
    stored = starts(file=str(tmp_path / "histories.hdf5"))
    ev = Evaluations.from_pypesto(stored)
    check(ev)
    alone = Evaluations.from_pypesto(tmp_path / "histories.hdf5", names=["offset", "slope"], bounds=BOX)
    check(alone)
    assert sorted(alone.log_density) == sorted(ev.log_density)
    with pytest.raises(EvaluationsError, match=r"histories of pyPESTO. Use Evaluations.from_pypesto"):
        Evaluations.from_file(tmp_path / "histories.hdf5")


@pytest.mark.usefixtures("_pypesto_may_warn")
def test_pypesto_likelihoods_and_gradients():
    result = starts()
    with pytest.raises(EvaluationsError, match=r"no posterior. Pass log_prior="):
        Evaluations.from_pypesto(result, likelihood=True)
    ev = Evaluations.from_pypesto(result, likelihood=True, log_prior=-1.0)
    np.testing.assert_allclose(ev.log_density, [-negative(x) - 1.0 for x in ev.points], rtol=1e-9)
    history = result.optimize_result.list[0].history
    history._trace["fval"][3] = np.nan  # as after a call for the gradient alone
    ev = Evaluations.from_pypesto(history)
    assert len(ev) == len(history) - 1
    assert ev.notes == ("Left out 1 call without a value: a gradient alone, or a failure.",)


@pytest.mark.usefixtures("_pypesto_may_warn")
def test_pypesto_what_is_refused(tmp_path):
    with pytest.raises(EvaluationsError, match=r"kept no trace in this CountHistory.*trace_record=True"):
        Evaluations.from_pypesto(starts(record=False))
    for source in (3.0, []):
        with pytest.raises(EvaluationsError, match=r"no histories of pyPESTO in a"):
            Evaluations.from_pypesto(source)
    with pytest.raises(EvaluationsError, match=r"There is no file"):
        Evaluations.from_pypesto(tmp_path / "gone.hdf5")
    (tmp_path / "odd.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n and no more")
    with pytest.raises(EvaluationsError, match=r"holds no histories that can be read \(OSError"):
        Evaluations.from_pypesto(tmp_path / "odd.hdf5")


# Cobaya


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    """A sampler of Cobaya and the prefix of its files, at temperature 1 and at another."""
    cobaya = pytest.importorskip("cobaya")
    folder = tmp_path_factory.mktemp("chains")

    def like(offset, slope):
        return log_likelihood([offset, slope]), {"end": offset + 4 * slope}

    def run(name, temperature):
        info = {
            "likelihood": {"line": {"external": like, "output_params": ["end"]}},
            "params": {
                "offset": {"prior": {"min": -2, "max": 4}, "ref": 1.0, "proposal": 0.3},
                "slope": {"prior": {"min": -1.5, "max": 2.5}, "ref": 0.5, "proposal": 0.1},
                "end": None,
            },
            "sampler": {"mcmc": {"max_samples": 60, "seed": 1, "temperature": temperature, "learn_proposal": False}},
            "output": str(folder / name),
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return cobaya.run(info, no_mpi=True, debug=False)[1]

    return folder, {"cold": run("cold", 1), "warm": run("warm", 2)}


def test_cobaya_samplers_and_collections(sampled):
    sampler = sampled[1]["cold"]
    ev = Evaluations.from_cobaya(sampler)
    check(ev)
    np.testing.assert_allclose(ev.log_prior, PRIOR)
    collection = sampler.products()["sample"]
    assert len(ev) == len(collection) == 60
    for source in (collection, [collection, collection]):
        again = Evaluations.from_cobaya(source, bounds=BOX)
        check(again)
        assert len(again) == 60
    assert "Left out 60 repeats of a state." in again.notes


def test_cobaya_files(sampled):
    folder, samplers = sampled
    for source in (folder / "cold", str(folder / "cold.1.txt")):
        ev = Evaluations.from_cobaya(source, params=["offset", "slope"], bounds=BOX)
        check(ev)
        np.testing.assert_allclose(ev.points, Evaluations.from_cobaya(samplers["cold"]).points, rtol=1e-7)
    with pytest.raises(EvaluationsError, match=r"which of 'offset', 'slope' and 'end' are sampled.*params=\[...\]"):
        Evaluations.from_cobaya(folder / "cold")
    with pytest.raises(EvaluationsError, match=r"no column 'drift'"):
        Evaluations.from_cobaya(folder / "cold", params=["drift"])
    with pytest.raises(EvaluationsError, match=r"'minuslogprior' and 'chi2' may or may not be parameters"):
        Evaluations.from_file(folder / "cold.1.txt")


def test_cobaya_temperatures(sampled):
    folder, samplers = sampled
    for source, params in ((samplers["warm"], None), (folder / "warm", ["offset", "slope"])):
        ev = Evaluations.from_cobaya(source, params, bounds=BOX)
        check(ev)
        assert "The chain was sampled at temperature 2; the values are those at temperature 1." in ev.notes


def test_cobaya_what_is_refused(sampled, tmp_path):
    with pytest.raises(EvaluationsError, match=r"no chain of Cobaya in a dict"):
        Evaluations.from_cobaya({"sample": 1})
    with pytest.raises(EvaluationsError, match=r"none like 'gone.1.txt' beside it"):
        Evaluations.from_cobaya(tmp_path / "gone")
    with pytest.raises(EvaluationsError, match=r"noisy values"):
        Evaluations.from_cobaya(sampled[1]["cold"], log_density_sd=1.0)
    (tmp_path / "odd.1.txt").write_text("# weight a b\n1 2 3\n1 2 4\n")
    with pytest.raises(EvaluationsError, match=r"odd.1.txt'.*no column 'minuslogpost', 'minuslogprior' and 'chi2'"):
        Evaluations.from_cobaya(tmp_path / "odd", params=["a"])
    lines = (sampled[0] / "cold.1.txt").read_text().splitlines()
    changed = [
        lines[0],
        *(line.replace(line.split()[1], "99.5", 1) if i % 7 == 0 else line for i, line in enumerate(lines[1:])),
    ]
    (tmp_path / "sum.1.txt").write_text("\n".join(changed))
    with pytest.raises(EvaluationsError, match=r"'minuslogpost' is not the sum of"):
        Evaluations.from_cobaya(tmp_path / "sum", params=["offset", "slope"])


# iminuit and PINTS, by the recorder


def test_iminuit_by_the_recorder(tmp_path):
    iminuit = pytest.importorskip("iminuit")
    calls = []

    def cost(offset, slope):
        calls.append((offset, slope))
        return negative([offset, slope])

    rec = Recorder(tmp_path / "fits.db", names=["offset", "slope"], bounds=BOX)
    minuit = iminuit.Minuit(rec.minimise(cost), 0.0, 0.0, name=["offset", "slope"])
    minuit.errordef, minuit.limits = iminuit.Minuit.LIKELIHOOD, BOX
    assert minuit.migrad().valid
    minuit.minos()
    ev = Evaluations.from_recorder(tmp_path / "fits.db")
    check(ev)
    np.testing.assert_array_equal(ev.points, calls)


def test_pints_by_the_recorder(tmp_path):
    pints = pytest.importorskip("pints")

    class Recorded(pints.LogPDF):
        def __init__(self, recorder):
            self._call = recorder.maximise(lambda x: -negative(x))

        def n_parameters(self):
            return 2

        def __call__(self, x):
            return self._call(x)

    rec = Recorder(tmp_path / "fits.db", names=["offset", "slope"], bounds=BOX)
    control = pints.OptimisationController(Recorded(rec), [0.0, 0.0], [1, 1], method=pints.NelderMead)
    control.set_log_to_screen(False)
    control.set_max_iterations(60)
    control.run()
    ev = Evaluations.from_recorder(tmp_path / "fits.db")
    check(ev)
    assert len(ev) == control.evaluations()
