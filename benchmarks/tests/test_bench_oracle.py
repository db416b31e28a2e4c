"""The oracle: hyperparameters and levels from the noise-free values, everything else from the noisy ones."""

import json
from dataclasses import asdict
from functools import cache

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from test_bench_methods import task
from vsbq.data.evaluations import Evaluations
from vsbq.progress import Progress
from vsbq.settings import Settings, SurrogateStep
from vsbq.steps.surrogate.fit import fit_sparse_gp
from vsbq.steps.surrogate.shaped_data import SparseGP
from vsbq.steps.trim import Trim, trim_evaluations
from vsbq_bench.catalogue import METHODS
from vsbq_bench.methods import oracle as module
from vsbq_bench.methods.oracle import OracleGP
from vsbq_bench.metrics import gskl
from vsbq_bench.task import Answer

RNG = np.random.default_rng(5)
POINTS = RNG.normal(0, 1.6, (160, 2)) * [0.3, 4.0]
NOISE = RNG.standard_normal((2, len(POINTS)))
SURE = Trim(confidence=module.SURE)
PLAIN = SparseGP(residual_passes=0)  # so that its mean is linear in the values


def log_density(x):
    a, b = x[:, 0] / 0.3, x[:, 1] / 4.0
    return 7.0 - 0.5 * a**2 - 0.5 * (b - 0.3 * (a**2 - 1)) ** 2


EXACT = log_density(POINTS)


def trained(values, sd, points=POINTS):
    """The training set, in coordinates that the values have no part in."""
    box = [(-1.0, 1.0), (-10.0, 10.0)]
    given = Evaluations(points, values, log_density_sd=sd, plausible_bounds=box)
    return trim_evaluations(given, SURE)[0]


def fitted(values, sd, settings=PLAIN):
    step = OracleGP(points=POINTS, log_density=EXACT, settings=settings)
    return step.fit(trained(values, sd), np.random.default_rng(3), Progress(1, False))


def default(values, sd):
    return fit_sparse_gp(trained(values, sd), PLAIN, np.random.default_rng(3), Progress(1, False))


@cache
def without_noise():
    return learnt(default(EXACT, None))


def learnt(fit):
    """Coordinates, hyperparameters and shaping strength of a surrogate and of its sisters, for the user's values."""
    model, _, found = fit
    turns = [model.space.from_plain(np.eye(2)), *(sister.turn for sister in model.sisters)]
    hyps = [model.hyp, *(sister.hyp for sister in model.sisters)]
    # The height of a sister's mean is in its own coordinates.
    shifts = [model.space.log_jacobian(np.zeros((1, 2)))[0]] + [0.0] * len(model.sisters)
    tops = [model.offset - shift for shift in shifts]
    packed = [hyp._replace(mean_top=hyp.mean_top + top).pack() for hyp, top in zip(hyps, tops, strict=True)]
    return np.concatenate([*map(np.ravel, turns), *packed, [np.log(found.shaping_strength)]])


def test_it_is_a_surrogate_step():
    assert isinstance(OracleGP(points=POINTS, log_density=EXACT), SurrogateStep)


@pytest.mark.parametrize("sd", [1.0, 50.0])
def test_hyperparameters_are_those_of_the_noise_free_trace(sd):
    np.testing.assert_allclose(learnt(fitted(EXACT + sd * NOISE[0], sd)), without_noise(), rtol=1e-9, atol=1e-9)


def test_the_default_would_have_learnt_others():
    found = learnt(default(EXACT + 50 * NOISE[0], 50.0))
    assert np.abs(found - without_noise()).max() > 0.3


def test_the_mean_is_that_of_the_noisy_values_and_nothing_else_depends_on_them():
    """The mean is linear in the values if, and only if, nothing else is learnt or chosen by them."""
    sd = 2.0
    one, other = (EXACT + sd * noise for noise in NOISE)
    parts = {"exact": EXACT, "one": one, "other": other, "both": one + other - EXACT}
    models = {name: fitted(values, sd)[0] for name, values in parts.items()}
    means = {name: model.predict(POINTS).mean for name, model in models.items()}
    np.testing.assert_allclose(means["both"], means["one"] + means["other"] - means["exact"], atol=1e-6)
    assert np.abs(means["one"] - means["other"]).max() > 0.3
    assert np.sqrt(np.mean((means["one"] - EXACT)[EXACT > 3] ** 2)) > 0.1  # the noise is in what is predicted
    for model in models.values():
        for name in ("inducing", "chol_kernel", "chol_v"):
            found, wanted = (getattr(one.factors, name) for one in (model, models["exact"]))
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def test_it_is_conditioned_on_the_true_noise():
    near = POINTS[EXACT > 3]
    sds = [fitted(EXACT, sd)[0].predict(near).sd for sd in (0.01, 1.0, 10.0)]
    assert (sds[0] < 0.5 * sds[1]).all()
    assert (sds[1] < 0.5 * sds[2]).all()


def test_which_evaluations_are_high_is_told_by_the_noise_free_values():
    noisy = EXACT + 5.0 * NOISE[0]
    model, training, _ = fitted(noisy, 5.0)
    back = training.space.inverse(training.points)
    inside = training.offset - training.space.log_jacobian(training.points)
    np.testing.assert_allclose(training.level + inside, log_density(back), atol=1e-5)
    np.testing.assert_allclose(np.sort(training.values + inside), np.sort(noisy), atol=1e-5)
    assert (training.noise_sd == 5.0).all()
    assert model.space is training.space


def asked_of_the_default(monkeypatch, training, exact, points):
    """What the oracle learns from, and what it is conditioned on."""
    asked = []

    def stop(*given):
        asked.append(given[0])
        return (None, None, None) if len(asked) == 1 else given

    monkeypatch.setattr(module, "fit_sparse_gp", stop)
    monkeypatch.setattr(module, "conditioned", stop)
    with pytest.raises(TypeCheckError):  # what stands in for a fit is none
        OracleGP(points=points, log_density=exact).fit(training, np.random.default_rng(0), Progress(1, False))
    return asked


def test_it_trims_by_the_noise_free_values(monkeypatch):
    far = np.array([[0.0, 400.0], [0.0, -500.0]])
    points = np.concatenate([POINTS, far])
    given = trained(np.append(EXACT, [0.0, 0.0]), 1.0, points)  # noise that makes the hopeless look well
    assert len(given) == len(points)
    learns_from, conditioned_on = asked_of_the_default(monkeypatch, given, log_density(points), points)
    for training in (learns_from, conditioned_on):
        assert len(training) == len(POINTS)
        np.testing.assert_allclose(np.sort(given.space.inverse(training.low)[:, 1]), [-500.0, 400.0])
    assert (learns_from.noise_sd == 0).all()
    assert (conditioned_on.noise_sd == 1).all()


def test_after_a_cliff_it_is_asked_again_about_fewer_evaluations(monkeypatch):
    given = trained(EXACT + NOISE[0], 1.0)
    fewer = given.without(np.arange(len(given)) < 10, np.zeros(0, dtype=bool))
    learns_from, conditioned_on = asked_of_the_default(monkeypatch, fewer, EXACT, POINTS)
    for training in (learns_from, conditioned_on):
        np.testing.assert_array_equal(training.points, given.points[10:])
    back = given.space.inverse(learns_from.points)
    inside = learns_from.space.log_jacobian(learns_from.points)
    np.testing.assert_allclose(learns_from.values + learns_from.offset - inside, log_density(back), atol=1e-5)
    np.testing.assert_array_equal(conditioned_on.values, fewer.values)


def test_a_density_of_zero_is_no_level(monkeypatch):
    points = np.concatenate([POINTS, [[3.0, 0.0]]])
    exact = np.append(EXACT, -np.inf)
    given = trained(exact, 1.0, points)
    for training in asked_of_the_default(monkeypatch, given, exact, points):
        assert np.isfinite(training.level).all()
        assert len(training.zeros) == 1


# The method


def recycled(monkeypatch):
    """The settings with which fits are asked for, instead of the fits."""
    asked = []

    def recycle(task, settings):
        asked.append(settings)
        return Answer(draws=np.zeros((2, 2)), log_evidence=None, settings=asdict(settings))

    monkeypatch.setattr(module, "recycle", recycle)
    return asked


def test_without_noise_it_is_the_default(monkeypatch):
    asked = recycled(monkeypatch)
    METHODS["oracle"](task(bounded=True))
    assert asked == [Settings()]


def test_all_other_steps_are_the_default_s(monkeypatch):
    asked = recycled(monkeypatch)
    given = task(bounded=True, noise_sd=2.0)
    answer = METHODS["oracle"](given)
    (steps,) = asked
    usual = Settings().steps()
    assert (steps.mixture, steps.refinement, steps.surrogate.settings) == (
        usual.mixture,
        usual.refinement,
        usual.surrogate,
    )
    assert steps.noise is None  # which is known
    assert steps.trim.depth == usual.trim.depth
    np.testing.assert_array_equal(steps.surrogate.log_density, given.problem.log_density(given.trace.points))
    assert answer.settings["surrogate"] == asdict(usual.surrogate)
    json.dumps(answer.settings, default=lambda value: value.__name__)


def test_a_noisy_trace_gives_a_posterior_and_calls_no_model():
    given = task(bounded=True, noise_sd=2.0)
    answer = METHODS["oracle"](given)
    assert given.target.evaluations == 0
    assert gskl(answer.draws, given.problem.draw(2000, np.random.default_rng(2))) < 0.1
    assert abs(answer.log_evidence - given.problem.log_evidence) < 1.0
