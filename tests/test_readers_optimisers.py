"""Evaluations out of the optimisers themselves: real runs of the real libraries, compared with the target."""

from __future__ import annotations

import json
import pickle
import warnings

import cma
import numpy as np
import pytest
from scipy.optimize import minimize

from vsbq.data.evaluations import Evaluations
from vsbq.errors import EvaluationsError
from vsbq.io.readers import CMATrace, NevergradTrace

SCALES = np.array([1.0, 2.0, 0.5])


def log_density(x) -> float:
    x = np.asarray(x, dtype=float)
    return float(-0.5 * np.sum((x - 0.3) ** 2 / SCALES[: x.size] ** 2) - 7.0)


def negative(x) -> float:
    return -log_density(x)


def check(ev: Evaluations, count: int | None = None) -> None:
    """The values belong to the points, with the right sign; a wrong order or sign fails."""
    np.testing.assert_allclose(ev.log_density, [log_density(x) for x in ev.points], rtol=1e-9)
    assert count is None or len(ev) == count


# SciPy


def test_scipy_keeps_no_trace():
    result = minimize(negative, [1.0, 1.0])
    for attempt in (
        lambda: Evaluations(result),
        lambda: Evaluations(result, np.zeros(3)),
        lambda: Evaluations.from_skopt(result),
        lambda: Evaluations.from_pybads(result),
        lambda: Evaluations.from_optuna(result),
        lambda: Evaluations.from_dynesty(result),
    ):
        with pytest.raises(EvaluationsError, match=r"SciPy keeps no trace.*vsbq.Recorder"):
            attempt()


# pycma


def strategy(**options):
    return cma.CMAEvolutionStrategy([1.0, 1.0], 0.5, {"verbose": -9, "seed": 3, "maxfevals": 300, **options})


def test_cma_optimize():
    es = strategy(bounds=[[-4, None], 5])
    trace = CMATrace(es)
    es.optimize(negative)
    ev = Evaluations.from_cma(trace)
    check(ev, es.countevals)
    assert [ev.bounds.pair(i) for i in range(2)] == [(-4.0, 5.0), (-np.inf, 5.0)]


def test_cma_ask_and_tell_and_names():
    es, points = strategy(), []
    trace = CMATrace(es)
    trace.watch(es)  # twice is once
    while not es.stop():
        points += (asked := es.ask())
        es.tell(asked, [negative(x) for x in asked])
    ev = Evaluations.from_cma(trace, names=["a", "b"], bounds={"b": (None, 99.0)})
    np.testing.assert_array_equal(ev.points, points)
    check(ev)
    assert ev.names == ("a", "b")
    assert ev.bounds.kind == ("open", "upper")


def test_cma_fmin2_with_restarts():
    trace, calls = CMATrace(), []

    def counted(x):
        calls.append(np.array(x))
        return negative(x)

    options = {"verbose": -9, "seed": 3, "maxiter": 30, "eval_final_mean": False}
    cma.fmin2(counted, [1.0, 1.0], 0.5, options, restarts=1, init_callback=trace.watch)
    ev = Evaluations.from_cma(trace)
    check(ev, len(calls))
    np.testing.assert_array_equal(np.unique(ev.points, axis=0), np.unique(calls, axis=0))


def test_cma_failures_and_fixed_variables():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        es = cma.CMAEvolutionStrategy([1.0, 9.0, 1.0], 0.5, {"verbose": -9, "seed": 3, "fixed_variables": {1: 9.0}})
    trace = CMATrace(es)
    for _ in range(20):
        asked = es.ask()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            es.tell(asked, [np.nan if x[0] > 1.2 else negative([x[0], x[2]]) for x in asked])
    ev = Evaluations.from_cma(trace, nonfinite="floor")
    assert ev.names == ("x1", "x3")
    assert "Left out 'x2' (9): fixed." in ev.notes
    failed = np.isneginf(ev.log_density)  # pycma itself replaces NaN by the median
    np.testing.assert_array_equal(failed, ev.points[:, 0] > 1.2)
    assert failed.any()
    check(ev.take(~failed))


def test_a_watched_strategy_can_be_pickled():
    es = strategy()
    trace = CMATrace(es)
    again = pickle.loads(pickle.dumps(es))
    asked = again.ask()
    again.tell(asked, [negative(x) for x in asked])
    assert len(again.tell.args[0]) == len(asked)
    assert len(trace) == 0


def test_what_pycma_leaves_behind_is_not_enough(tmp_path):
    es = strategy()
    logger = cma.CMADataLogger(f"{tmp_path}/outcmaes/").register(es)
    es.optimize(negative, callback=logger.add)
    assert (tmp_path / "outcmaes").is_dir()
    with pytest.raises(EvaluationsError, match=r"only the best point of each generation.*CMATrace"):
        Evaluations.from_cma(tmp_path / "outcmaes")
    for source in (es, es.result):
        with pytest.raises(EvaluationsError, match=r"keeps no evaluations.*CMATrace"):
            Evaluations.from_cma(source)
    with pytest.raises(EvaluationsError, match="no evaluations yet"):
        Evaluations.from_cma(CMATrace())
    with pytest.raises(EvaluationsError, match="integers"):
        Evaluations.from_cma(CMATrace(strategy(integer_variables=[1])))


# PyBADS


def bads_run(target, **options):
    from pybads import BADS

    options = {"display": "off", "max_fun_evals": 60, "random_seed": 5} | options
    bads = BADS(target, [1.0, 1.0], [-9, -9], [9, 9], [-3, -3], [3, 3], options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = bads.optimize()
    return bads, result


def test_pybads():
    bads, result = bads_run(negative)
    ev = Evaluations.from_pybads(bads)
    check(ev)
    assert len(ev) >= 40
    assert ev.log_density_sd is None
    assert [ev.bounds.pair(i) for i in range(2)] == [(-9.0, 9.0)] * 2
    assert [ev.plausible_bounds.pair(i) for i in range(2)] == [(-3.0, 3.0)] * 2
    with pytest.raises(EvaluationsError, match="in the BADS object"):
        Evaluations.from_pybads(result)


def test_pybads_with_noise():
    rng = np.random.default_rng(0)
    seen: dict[tuple, list[tuple[float, float]]] = {}

    def noisy(x):
        sd = 0.1 + 0.2 * abs(float(x[0])) / 9
        value = negative(x) + sd * rng.standard_normal()
        seen.setdefault(tuple(x), []).append((value, sd))
        return value, sd

    bads, _ = bads_run(noisy, specify_target_noise=True, uncertainty_handling=True, noise_final_samples=0)
    ev = Evaluations.from_pybads(bads)
    for x, value, sd in zip(ev.points, ev.log_density, ev.log_density_sd, strict=True):
        values, sds = np.transpose(seen[tuple(x)])
        weights = sds**-2.0
        assert sd == pytest.approx(weights.sum() ** -0.5)
        assert -value == pytest.approx((weights * values).sum() / weights.sum())


def test_pybads_with_noise_of_unknown_size():
    rng = np.random.default_rng(0)
    bads, _ = bads_run(lambda x: negative(x) + 0.1 * rng.standard_normal(), uncertainty_handling=True)
    with pytest.raises(EvaluationsError, match=r"did not tell how noisy.*log_density_sd"):
        Evaluations.from_pybads(bads)
    assert (Evaluations.from_pybads(bads, log_density_sd=0.1).log_density_sd == 0.1).all()


def test_pybads_with_a_fixed_variable():
    from pybads import BADS

    lower, upper = np.array([-9.0, 2.0, -9.0]), np.array([9.0, 2.0, 9.0])
    start, plausible = np.array([1.0, 2.0, 1.0]), (np.array([-3.0, 2.0, -3.0]), np.array([3.0, 2.0, 3.0]))
    options = {"display": "off", "max_fun_evals": 50, "random_seed": 5}
    bads = BADS(lambda x: negative(x[[0, 2]]), start, lower, upper, *plausible, options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bads.optimize()
    ev = Evaluations.from_pybads(bads)
    check(ev)
    assert ev.names == ("x1", "x3")
    assert ev.bounds.pair(1) == (-9.0, 9.0)
    assert ev.notes[0] == "Left out 'x2' (2): fixed."


# PyVBMC


@pytest.fixture(scope="module")
def vbmc_class():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pyvbmc").VBMC


def vbmc_run(vbmc_class, target, prior=None, *, optimise=False, **options):
    """A real VBMC object that has called its target through its own logger; the slow test lets it decide where."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plausible = (np.full((1, 2), -3.0), np.full((1, 2), 3.0))
        options = {"display": "off", "max_fun_evals": 30, "max_iter": 5} | options
        box = (np.full((1, 2), -9.0), np.full((1, 2), 9.0))
        vbmc = vbmc_class(target, np.ones((1, 2)), *box, *plausible, options=options, log_prior=prior)
        if optimise:
            vbmc.optimize()
        else:
            for u in np.random.default_rng(1).normal(size=(40, 2)):
                vbmc.function_logger(u)
    return vbmc


@pytest.mark.slow
def test_pyvbmc_optimises(vbmc_class):
    ev = Evaluations.from_pyvbmc(vbmc_run(vbmc_class, lambda x: log_density(np.ravel(x)), optimise=True))
    check(ev)
    assert len(ev) >= 20


def test_pyvbmc_keeps_the_prior_apart(vbmc_class):
    def log_prior(x):
        return -0.5 * float(np.sum(np.asarray(x) ** 2)) - np.log(2 * np.pi)

    vbmc = vbmc_run(vbmc_class, lambda x: log_density(np.ravel(x)), log_prior)
    ev = Evaluations.from_pyvbmc(vbmc)
    assert len(ev) == vbmc.function_logger.Xn + 1 >= 20
    np.testing.assert_allclose(ev.log_prior, [log_prior(x) for x in ev.points], rtol=1e-9)
    np.testing.assert_allclose(ev.log_likelihood, [log_density(x) for x in ev.points], rtol=1e-9)
    assert ev.bounds.pair(0) == (-9.0, 9.0)
    assert ev.plausible_bounds.pair(1) == (-3.0, 3.0)


def test_pyvbmc_with_noise(vbmc_class):
    target = lambda x: (log_density(np.ravel(x)), 0.25)  # noqa: E731
    ev = Evaluations.from_pyvbmc(vbmc_run(vbmc_class, target, specify_target_noise=True))
    check(ev)
    assert ev.log_prior is None
    assert ev.log_density_sd.max() == 0.25
    with pytest.raises(EvaluationsError, match="in the VBMC object"):
        Evaluations.from_pyvbmc(ev)


# Nevergrad


@pytest.fixture(scope="module")
def ng():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("nevergrad")


def quietly(optimizer, target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.minimize(target)


def parametrisation(ng):
    return ng.p.Instrumentation(
        ng.p.Array(shape=(2,)).set_bounds(-5, 6), y=ng.p.Log(lower=0.1, upper=10.0), fixed="constant"
    )


def test_nevergrad_in_three_ways(ng, tmp_path):
    optimizer = ng.optimizers.OnePlusOne(parametrisation(ng), budget=150)
    optimizer.parametrization.random_state = np.random.RandomState(4)
    log = ng.callbacks.ParametersLogger(tmp_path / "log.json")
    optimizer.register_callback("tell", log)
    calls = []

    def target(x, y, fixed):
        calls.append([*x, y])
        return negative([*x, y])

    quietly(optimizer, target)
    trace = NevergradTrace()
    for entry in optimizer.archive.values():
        trace(optimizer, entry.parameter, entry.mean)
    for source in (optimizer, trace, log, tmp_path / "log.json", str(tmp_path / "log.json"), log.load()):
        ev = Evaluations.from_nevergrad(source)
        check(ev)
        assert ev.names == ("x1[0]", "x1[1]", "y")
        assert {tuple(x) for x in ev.points} == {tuple(x) for x in calls}
        bounds = [(-5.0, 6.0), (-5.0, 6.0), (0.1, 10.0)] if source in (optimizer, trace) else [(-np.inf, np.inf)] * 3
        np.testing.assert_allclose([ev.bounds.pair(i) for i in range(3)], bounds)


def test_nevergrad_forgets_but_a_collector_does_not(ng):
    for collector in (None, NevergradTrace()):
        optimizer = ng.optimizers.OnePlusOne(2, budget=1500)
        optimizer.parametrization.random_state = np.random.RandomState(4)
        if collector is not None:
            optimizer.register_callback("tell", collector)
        quietly(optimizer, negative)
        if collector is None:
            with pytest.raises(EvaluationsError, match=r"told 1500 evaluations but keeps only.*NevergradTrace"):
                Evaluations.from_nevergrad(optimizer)
        else:
            ev = Evaluations.from_nevergrad(optimizer)
            check(ev, 1500)
            assert ev.names == ("x1", "x2")


def test_nevergrad_refuses_what_is_not_continuous(ng, tmp_path):
    for odd, kind in (
        (ng.p.Choice([1.0, 2.0]), "a choice"),
        (ng.p.Scalar(lower=0, upper=9).set_integer_casting(), "an"),
    ):
        optimizer = ng.optimizers.RandomSearch(ng.p.Instrumentation(a=ng.p.Scalar(), odd=odd), budget=40)
        log = ng.callbacks.ParametersLogger(tmp_path / f"{kind}.json")
        optimizer.register_callback("tell", log)
        quietly(optimizer, lambda a, odd: a**2 + odd)
        for source in (optimizer, log):
            with pytest.raises(EvaluationsError, match=f"'odd' is {kind}"):
                Evaluations.from_nevergrad(source)


def test_logs_of_nevergrad_that_are_damaged(ng, tmp_path):
    optimizer = ng.optimizers.RandomSearch(2, budget=60)
    path = tmp_path / "log.json"
    optimizer.register_callback("tell", ng.callbacks.ParametersLogger(path))
    quietly(optimizer, negative)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines)[:-20])
    ev = Evaluations.from_nevergrad(path)
    assert len(ev) == 59
    assert ev.notes == ("Left out the last line of 'log.json', which is cut short.",)
    damages = {
        "Line 4 .* is no JSON": [*lines[:3], lines[3][:50], *lines[4:]],
        "Line 2 .* no JSON object": [lines[0], "[1, 2]", *lines[2:]],
        "Entry 1 has other parameters": [lines[0], json.dumps({"#loss": 1.0, "b": 2.0}), *lines[2:]],
        "Entry 1 .*no '#loss'": [lines[0], "{}", *lines[2:]],
        "not a number": [json.dumps(json.loads(line) | {"0": ["a", "b"]}) for line in lines],
        "Entry 1 has 3 numbers": [lines[0], json.dumps(json.loads(lines[1]) | {"0": [1.0, 2.0, 3.0]}), *lines[2:]],
        "log of Nevergrad is empty": [],
        "several": [json.dumps(json.loads(line) | {"#losses#0": 1.0}) for line in lines],
    }
    for words, damaged in damages.items():
        path.write_text("\n".join(damaged))
        with pytest.raises(EvaluationsError, match=words):
            Evaluations.from_nevergrad(path)
    path.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(EvaluationsError, match="UTF-8"):
        Evaluations.from_nevergrad(path)
    with pytest.raises(EvaluationsError, match="no file"):
        Evaluations.from_nevergrad(tmp_path / "nothing.json")
    with pytest.raises(EvaluationsError, match="NevergradTrace"):
        Evaluations.from_nevergrad(3.0)


# bayes_opt


def bayes_opt_run(**more):
    bayes_opt = pytest.importorskip("bayes_opt")
    bounds = {"b": (-4.0, 4.0), "a": (-3.0, 5.0)}
    optimizer = bayes_opt.BayesianOptimization(
        lambda a, b: log_density([a, b]), bounds, random_state=1, verbose=0, **more
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.maximize(init_points=28, n_iter=2)
    return optimizer


def test_bayes_opt(tmp_path):
    optimizer = bayes_opt_run()
    ev = Evaluations.from_bayes_opt(optimizer)
    assert set(ev.names) == {"a", "b"}
    order = [ev.names.index("a"), ev.names.index("b")]
    np.testing.assert_allclose(ev.log_density, [log_density(x) for x in ev.points[:, order]])
    assert len(ev) == 30
    assert ev.bounds.pair(order[0]) == (-3.0, 5.0)
    path = tmp_path / "log.json"
    path.write_text(
        "\n".join(
            json.dumps({"target": float(r["target"]), "params": {k: float(v) for k, v in r["params"].items()}})
            for r in optimizer.res
        )
    )
    logged = Evaluations.from_bayes_opt(path, bounds={"a": (-3, 5)})
    np.testing.assert_array_equal(logged.log_density, ev.log_density)
    path.write_text('{"target": 3}')
    with pytest.raises(EvaluationsError, match="Entry 0 is not of bayes_opt"):
        Evaluations.from_bayes_opt(path)
    with pytest.raises(EvaluationsError, match="BayesianOptimization object"):
        Evaluations.from_bayes_opt([1, 2])


# scikit-optimize


def test_skopt():
    skopt = pytest.importorskip("skopt")
    from skopt.space import Categorical, Integer, Real

    def run(target, space, calls):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return skopt.forest_minimize(target, space, n_calls=calls, n_initial_points=calls - 1, random_state=0)

    space = [Real(-4.0, 4.0, name="a"), Real(0.01, 9.0, prior="log-uniform")]
    optimizer = skopt.Optimizer(space, base_estimator="RF", random_state=0, n_initial_points=99)
    for _ in range(30):
        x = optimizer.ask()
        optimizer.tell(x, negative(x))
    for source in (run(negative, space, 30), optimizer, optimizer.get_result()):
        ev = Evaluations.from_skopt(source, names=["a", "b"])
        check(ev, 30)
        np.testing.assert_allclose([ev.bounds.pair(i) for i in range(2)], [(-4.0, 4.0), (0.01, 9.0)])
    for odd in (Integer(0, 5, name="odd"), Categorical(["p", "q"], name="odd")):
        result = run(lambda x: x[0] ** 2, [Real(-1, 1), odd], 3)
        with pytest.raises(EvaluationsError, match="'odd' is an integer or a category"):
            Evaluations.from_skopt(result)
    with pytest.raises(EvaluationsError, match="no trace of scikit-optimize"):
        Evaluations.from_skopt({"x": 1})


# Optuna


@pytest.fixture(scope="module")
def optuna():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def objective(trial):
    return negative([trial.suggest_float("a", -4.0, 5.0), trial.suggest_float("b", 0.01, 9.0, log=True)])


def study_of(optuna, objective=objective, trials=40, **options):
    options = {"sampler": optuna.samplers.RandomSampler(seed=2)} | options
    study = optuna.create_study(**options)
    study.optimize(objective, n_trials=trials, catch=(ZeroDivisionError,))
    return study


def test_optuna_study(optuna):
    ev = Evaluations.from_optuna(study_of(optuna))
    check(ev, 40)
    assert ev.names == ("a", "b")
    assert [ev.bounds.pair(i) for i in range(2)] == [(-4.0, 5.0), (0.01, 9.0)]
    assert ev.notes == ()
    narrow = Evaluations.from_optuna(study_of(optuna), bounds={"a": (-9, 9)}, plausible_bounds=[(-1, 1), (1, 2)])
    assert [narrow.bounds.pair(i) for i in range(2)] == [(-9.0, 9.0), (0.01, 9.0)]


def test_optuna_maximises_and_leaves_out_what_failed(optuna):
    def sometimes(trial):
        value = -objective(trial)
        if trial.number % 10 == 3:
            raise optuna.TrialPruned
        return value / (trial.number % 10 != 4)

    ev = Evaluations.from_optuna(study_of(optuna, sometimes, direction="maximize"))
    check(ev, 32)
    assert ev.notes == ("Left out 8 trials not completed (failed, pruned, waiting or running).",)


@pytest.mark.parametrize("kind", ["database", "journal"])
def test_optuna_storages(optuna, tmp_path, kind):
    path = tmp_path / "study.db"
    if kind == "journal":
        storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    else:
        storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    study = study_of(optuna, trials=20, storage=storage, study_name="mine")
    sources = [storage, str(path), path] + ([f"sqlite:///{path}"] if kind == "database" else [])
    for source in sources:
        check(Evaluations.from_optuna(source), 20)
    check(Evaluations.from_optuna(path, "mine"), 20)
    with pytest.raises(EvaluationsError, match=r"no study 'yours'.*'mine'"):
        Evaluations.from_optuna(path, "yours")
    optuna.create_study(storage=storage, study_name="other")
    with pytest.raises(EvaluationsError, match=r"Pass study_name=.*'mine' and 'other'"):
        Evaluations.from_optuna(path)
    check(Evaluations.from_optuna(study), 20)


def test_a_storage_that_is_not_there_is_not_created(optuna, tmp_path):
    for source in (f"sqlite:///{tmp_path}/none.db", tmp_path / "none.db"):
        with pytest.raises(EvaluationsError, match="no file"):
            Evaluations.from_optuna(source)
    assert not list(tmp_path.iterdir())
    (tmp_path / "text.db").write_text("not a journal\n")
    for source in (tmp_path / "text.db", "nonsense://x"):
        with pytest.raises(EvaluationsError, match=r"No study can be read|It holds no study"):
            Evaluations.from_optuna(source)


def test_optuna_refusals(optuna):
    def conditional(trial):
        a = trial.suggest_float("a", -1, 1)
        return a if a < 0 else trial.suggest_float("b", 0, 1)

    cases = {
        "'b' is not in every trial: the search space is conditional": (conditional, {}),
        "'k' is an integer": (lambda t: t.suggest_float("a", 0, 1) + t.suggest_int("k", 0, 3), {}),
        "'c' is categorical": (lambda t: t.suggest_categorical("c", [1.0, 2.0]), {}),
        "has 2 objectives": (lambda t: (t.suggest_float("a", 0, 1), 0.0), {"directions": ["minimize", "maximize"]}),
        "no parameters": (lambda t: 1.0, {}),
        "none of them complete": (lambda t: 1 / 0, {}),
    }
    for words, (target, options) in cases.items():
        with pytest.raises(EvaluationsError, match=words):
            Evaluations.from_optuna(study_of(optuna, target, 20, **options))


def test_optuna_fixed_and_moving_ranges_and_noise(optuna):
    def target(trial):
        trial.set_user_attr("sd", 0.1 + 0.01 * trial.number)
        wide = 5.0 if trial.number < 20 else 9.0
        trial.suggest_float("c", 2.0, 2.0)
        trial.suggest_int("k", 3, 3)
        return negative([trial.suggest_float("a", -wide, wide), trial.suggest_float("b", -3, 3, step=0.125)])

    study = study_of(optuna, target)
    ev = Evaluations.from_optuna(study, log_density_sd="sd")
    check(ev, 40)
    assert ev.names == ("a", "b")
    np.testing.assert_allclose(ev.log_density_sd, 0.1 + 0.01 * np.arange(40))
    assert ev.bounds.pair(0) == (-9.0, 9.0)
    assert ev.notes[:2] == (
        "The range of 'a' changed between trials; the widest one bounds it.",
        "Left out 'c' (2) and 'k' (3): fixed.",
    )
    with pytest.raises(EvaluationsError, match=r"40 trials .* no user attribute 'noise'"):
        Evaluations.from_optuna(study, log_density_sd="noise")


def test_readers_keep_a_prior_apart(optuna):
    ev = Evaluations.from_optuna(study_of(optuna), log_prior=lambda x: -0.5 * x[0] ** 2)
    np.testing.assert_allclose(ev.log_prior, -0.5 * ev.points[:, 0] ** 2)
    check(ev)
    with pytest.raises(EvaluationsError, match="log_prior has 3 values for 40"):
        Evaluations.from_optuna(study_of(optuna), log_prior=np.zeros(3))
    with pytest.raises(EvaluationsError, match="must be one number"):
        Evaluations.from_optuna(study_of(optuna), log_prior=lambda x: x)
