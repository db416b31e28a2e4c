from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vsbq.numerics.families import SharedDiagonal
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture
from vsbq_bench.methods import nnr as module
from vsbq_bench.methods.nnr import NnrSettings, expected_and_gradient, nnr
from vsbq_bench.problems import Problem
from vsbq_bench.task import Target, Task
from vsbq_bench.traces import Trace

jax = pytest.importorskip("jax")
pytest.importorskip("optax")

MEAN, SD = np.array([0.5, -1.0]), np.array([0.3, 2.0])
LOG_EVIDENCE = 7.0 + np.log(2 * np.pi) + np.log(SD).sum()
TINY = NnrSettings(
    width=16,
    layers=2,
    batch=32,
    learning_rate=1e-2,
    final_learning_rate=1e-4,
    weight_decays=(0.0, 0.1),
    max_epochs=40,
    ascent_steps=200,
    ascent_draws=4,
    elbo_draws=8000,
)


def log_density(x):
    return 7.0 - 0.5 * (((x - MEAN) / SD) ** 2).sum(axis=1)


def draw(n, rng):
    return MEAN + SD * rng.standard_normal((n, 2))


def task(noise=0.0, draws=4000):
    rng = np.random.default_rng(5)
    problem = Problem(
        name="normal",
        dimension=2,
        log_density=log_density,
        bounds=None,
        plausible_bounds=np.column_stack([MEAN - 3 * SD, MEAN + 3 * SD]),
        names=("a", "b"),
        log_evidence=LOG_EVIDENCE,
        log_evidence_sd=0.0,
        draw=draw,
    )
    points = MEAN + 2 * SD * rng.standard_normal((500, 2))
    values = log_density(points) + noise * rng.standard_normal(500)
    trace = Trace(points, values, np.full(500, noise) if noise else None, np.zeros(500, dtype=np.int64))
    return Task(problem=problem, trace=trace, noise_sd=noise, target=Target(problem, noise, rng), rng=rng, draws=draws)


def test_normal_and_its_evidence():
    given, precision = task(), jax.config.jax_enable_x64
    answer = nnr(given, TINY)
    assert given.target.evaluations == 0
    assert abs(answer.log_evidence - LOG_EVIDENCE) < 0.15
    assert_allclose((answer.draws.mean(axis=0) - MEAN) / SD, 0.0, atol=0.15)
    assert_allclose(answer.draws.std(axis=0), SD, rtol=0.15)
    assert answer.settings["width"] == 16
    assert answer.details["weight_decay"] in TINY.weight_decays
    assert len(answer.details["epochs"]) == 2
    assert jax.config.jax_enable_x64 == precision


def test_same_generator_same_answer():
    quick = replace(TINY, max_epochs=2, ascent_steps=5, weight_decays=(0.0,))
    first, again = nnr(task(noise=1.0), quick), nnr(task(noise=1.0), quick)
    assert_array_equal(first.draws, again.draws)
    assert first.log_evidence == again.log_evidence


def test_named_settings_differ_where_they_should():
    paper, small = NnrSettings(), NnrSettings.two_cores()
    assert (paper.width, paper.layers, paper.batch, paper.patience) == (1024, 4, 32, 20)
    assert paper.learning_rate == paper.final_learning_rate == 1e-3
    assert paper.weight_decays == (0.0, 0.01, 0.1)
    assert small.layers == 4
    assert small.width < 1024


def start_weights(settings=TINY):
    mean = Hyperparameters(np.zeros(2), 0.0, 3.0, np.array([1.0, 2.0]), np.log([0.5, 4.0]))
    return module._initial(mean, settings, np.random.default_rng(0))


def test_surrogate_is_a_quadratic_plus_a_network(rng):
    weights = start_weights()
    x = rng.standard_normal((7, 2)).astype(np.float32)
    h = x
    for layer in weights["layers"][:-1]:
        h = np.maximum(h @ layer["weight"] + layer["bias"], 0)
    network = (h @ weights["layers"][-1]["weight"] + weights["layers"][-1]["bias"])[:, 0]
    quadratic = 3.0 - 0.5 * (((x - [1.0, 2.0]) / [0.5, 4.0]) ** 2).sum(axis=1)
    assert_allclose(module.surrogate(weights, x), quadratic + network, rtol=1e-5)
    assert np.abs(network).max() > 0


def test_weight_decay_touches_the_weights_of_the_network_alone():
    """Where the loss has no slope, AdamW does nothing but decay."""
    weights = start_weights(TINY)
    flat = module._Rows(*(jax.numpy.asarray(c) for c in (np.zeros((4, 2)), np.zeros(4), np.full(4, np.inf))))
    state, epoch = module._epoch(weights, 0.1, 1, TINY)
    after = epoch(state, flat, np.arange(4)[None])[0]
    shrunk = 1 - 0.1 * TINY.learning_rate
    for old, new in zip(weights["layers"], after["layers"], strict=True):
        assert_allclose(new["weight"], shrunk * old["weight"], rtol=1e-5)
        assert_array_equal(new["bias"], old["bias"])
    for name, old in weights["mean"].items():
        assert_array_equal(after["mean"][name], old)


def test_training_stops_when_the_validation_loss_does_not_fall(rng):
    """Values that are pure noise: nothing learnt helps with those held out."""
    noise = [
        module._Rows(*(jax.numpy.asarray(c, dtype=np.float32) for c in columns))
        for columns in (
            (rng.standard_normal((64, 2)), 50 * rng.standard_normal(64), np.ones(64)),
            (rng.standard_normal((64, 2)), 50 * rng.standard_normal(64), np.ones(64)),
        )
    ]
    settings = replace(TINY, patience=3, max_epochs=300, final_learning_rate=1e-2)
    found = module._train(start_weights(), *noise, 0.0, settings, rng=rng)
    assert found.epochs < 300
    assert found.loss <= float(module._loss(start_weights(), noise[1]))


def test_gradient_of_the_expectation(rng):
    """Through weights, means and scales, against differences on the same draws."""

    def slopes(u):
        return np.sin(u).sum(axis=1), np.cos(u)

    reference = Mixture(np.log([0.3, 0.7]), rng.standard_normal((2, 2)), np.tile(np.diag([0.5, 0.8]), (2, 1, 1)))
    family, draws = SharedDiagonal(reference), rng.standard_normal((2, 6, 2))

    def value(free):
        return expected_and_gradient(family.mixture(free), slopes, draws)[0]

    free = family.start() + 0.1 * rng.standard_normal(len(family.start()))
    gradient = family.pull_back(free, expected_and_gradient(family.mixture(free), slopes, draws)[1])
    step = 1e-5 * np.eye(len(free))
    differences = [(value(free + e) - value(free - e)) / 2e-5 for e in step]
    assert_allclose(gradient, differences, atol=1e-8)
