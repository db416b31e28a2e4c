"""Neural network regression, the paper's other method that recycles a trace (Section 4.1 and Supplement C.4).

Trimming, inference space, noise shaping, family and ascent of the mixture are those of the paper's algorithm; only the
sparse Gaussian process gives way to a network, and Bayesian quadrature to draws.

XLA takes as many threads as there are cores. Whoever runs several fits at once starts Python with NPROC=1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from vsbq._typing import Float, ndarray
from vsbq.history import Elbo
from vsbq.numerics.families import Family
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture, MixtureGradient, entropy, entropy_and_gradient, sample, unbiased_draws
from vsbq.numerics.optimise import adam
from vsbq.settings import Steps
from vsbq.steps.mixture.soft_box import SoftBox
from vsbq.steps.mixture.starts import starts
from vsbq.steps.published import PublishedGP, PublishedMixture
from vsbq.steps.surrogate.learning import weak_prior
from vsbq.steps.surrogate.shaped_data import ShapedData, Shaping, SparseGP
from vsbq.steps.trim import TrainingSet, trim_evaluations
from vsbq_bench.methods.slice_surrogate import evaluations_of
from vsbq_bench.task import Answer, Stopwatch, Task

__all__ = ["Network", "NnrSettings", "nnr", "nnr_two_cores"]

Weights = Any  # nested lists and dicts of JAX arrays
Slopes = Callable[[Float[ndarray, "n d"]], tuple[Float[ndarray, " n"], Float[ndarray, "n d"]]]


@dataclass(frozen=True, kw_only=True)
class NnrSettings:
    """The network, its training and the ascent of the mixture. The default is the paper's: hours on two cores."""

    width: int = 1024
    layers: int = 4
    batch: int = 32
    learning_rate: float = 1e-3
    final_learning_rate: float = 1e-3  # reached at `max_epochs`, geometrically
    weight_decays: tuple[float, ...] = (0.0, 0.01, 0.1)
    validation_share: float = 0.2
    patience: int = 20  # epochs without a better validation loss
    max_epochs: int = 1000
    ascent_steps: int = 3000
    ascent_draws: int = 32  # for each component and step
    elbo_draws: int = 100_000

    @classmethod
    def two_cores(cls) -> NnrSettings:
        """About two minutes on one core at 18,000 evaluations: narrower, larger batches, a rate that falls.

        Chosen among four settings on one Rosenbrock trace, where it came about as close as the paper reports for the
        whole network: ΔLML 0.23, MMTV 0.058, GsKL 0.048 against medians of 0.20, 0.062 and 0.047.
        """
        return cls(width=256, batch=64, learning_rate=1e-3, final_learning_rate=1e-5, max_epochs=80, ascent_draws=16)


def nnr_two_cores(task: Task) -> Answer:
    """`nnr` with the settings for a small machine."""
    return nnr(task, NnrSettings.two_cores())


def nnr(task: Task, settings: NnrSettings | None = None) -> Answer:
    """Fit a network to the trace and a mixture to the network; its ELBO is the log evidence."""
    settings = settings or NnrSettings()
    watch, shape = Stopwatch(), PublishedMixture().shape
    with watch.stage("trim"):
        training, trimmed = trim_evaluations(evaluations_of(task), Steps.published().trim)
    with watch.stage("network"):
        network = fit_network(training, PublishedGP().shaping, settings, task.rng)
    with watch.stage("mixture"):
        climbed = [
            _ascend(start, shape.family(start), network.slopes, training, settings, rng=task.rng)
            for start in starts(training, shape, task.rng).values()
        ]
        mixture, elbo = max(climbed, key=lambda found: found[1].value)
    details = {
        "kept": trimmed.kept,
        "weight_decay": network.weight_decay,
        "validation_loss": network.validation_loss,
        "epochs": list(network.epochs),
        "elbo_monte_carlo_error": elbo.monte_carlo_error,
    }
    return Answer(
        draws=training.space.inverse(sample(mixture, task.draws, task.rng)),
        log_evidence=elbo.value + training.offset,
        seconds=watch.seconds,
        settings=asdict(settings),
        details=details,
    )


# The network


class Network(NamedTuple):
    """A trained network: its value and gradient at points of inference space, and how it came about."""

    slopes: Slopes
    weight_decay: float
    validation_loss: float
    epochs: tuple[int, ...]  # for each weight decay


def fit_network(training: TrainingSet, shaping: Shaping, settings: NnrSettings, rng: Generator) -> Network:
    """Train once for each weight decay and keep the network with the lowest validation loss."""
    try:
        import jax
        import jax.numpy as jnp
    except ImportError as error:
        raise ImportError("neural network regression needs JAX and optax: pip install ./benchmarks") from error
    data = ShapedData.curved(training, training.values, shaping)
    mean = weak_prior(data, training.level, SparseGP(shaping=shaping), rng).start.hyp
    start = _initial(mean, settings, rng)
    rows = rng.permutation(len(training))
    cut = max(1, round(settings.validation_share * len(rows)))
    columns = [column.astype(np.float32) for column in data.regression(0.0)[:3]]
    held_out, learning = (_Rows(*(jnp.asarray(c[part]) for c in columns)) for part in (rows[:cut], rows[cut:]))
    trained = [_train(start, learning, held_out, decay, settings, rng=rng) for decay in settings.weight_decays]
    best = int(np.nanargmin([found.loss for found in trained]))
    value_and_grad = jax.jit(jax.vmap(jax.value_and_grad(surrogate, argnums=1), in_axes=(None, 0)))

    def slopes(u: Float[ndarray, "n d"]) -> tuple[Float[ndarray, " n"], Float[ndarray, "n d"]]:
        value, gradient = value_and_grad(trained[best].weights, u.astype(np.float32))
        return np.asarray(value, dtype=np.float64), np.asarray(gradient, dtype=np.float64)

    epochs = tuple(found.epochs for found in trained)
    return Network(slopes, settings.weight_decays[best], trained[best].loss, epochs)


class _Rows(NamedTuple):
    """Points, values and noise variances as JAX arrays."""

    points: Any
    values: Any
    variances: Any


def _initial(mean: Hyperparameters, settings: NnrSettings, rng: Generator) -> Weights:
    """PyTorch's start of a linear layer, uniform within 1 / √(inputs); the mean function as the sparse GP starts it."""
    sizes = [len(mean.mean_location), *[settings.width] * settings.layers, 1]
    layers = []
    for inputs, outputs in pairwise(sizes):
        limit = inputs**-0.5
        weight, bias = rng.uniform(-limit, limit, (inputs, outputs)), rng.uniform(-limit, limit, outputs)
        layers.append({"weight": weight.astype(np.float32), "bias": bias.astype(np.float32)})
    quadratic = {
        "top": np.float32(mean.mean_top),
        "location": mean.mean_location.astype(np.float32),
        "log_width": mean.mean_log_widths.astype(np.float32),
    }
    return {"layers": layers, "mean": quadratic}


def surrogate(weights: Weights, x: Any) -> Any:
    """g(x): a negative quadratic plus the network, for points along the last axis."""
    mean, (*hidden, last) = weights["mean"], weights["layers"]
    z = (x - mean["location"]) * np.e ** (-mean["log_width"])
    h = x
    for layer in hidden:
        h = (h @ layer["weight"] + layer["bias"]).clip(min=0)
    return mean["top"] - 0.5 * (z * z).sum(axis=-1) + (h @ last["weight"] + last["bias"])[..., 0]


def _loss(weights: Weights, rows: _Rows) -> Any:
    """Mean squared error in units of the total noise."""
    return ((surrogate(weights, rows.points) - rows.values) ** 2 / rows.variances).mean()


class _Trained(NamedTuple):
    weights: Weights
    loss: float
    epochs: int


def _train(
    start: Weights, learning: _Rows, held_out: _Rows, decay: float, settings: NnrSettings, *, rng: Generator
) -> _Trained:
    """AdamW until the validation loss has not fallen for a while; the best weights on the way."""
    import jax

    count = len(learning.points)
    batch = min(settings.batch, count)
    state, epoch = _epoch(start, decay, count // batch, settings)
    validate = jax.jit(_loss)
    best = _Trained(start, float(validate(start, held_out)), 0)
    number = 0
    while number < min(settings.max_epochs, best.epochs + settings.patience):
        number += 1
        state = epoch(state, learning, rng.permutation(count)[: count // batch * batch].reshape(-1, batch))
        loss = float(validate(state[0], held_out))
        if loss < best.loss:
            best = _Trained(state[0], loss, number)
    return best._replace(epochs=number)


def _epoch(start: Weights, decay: float, batches: int, settings: NnrSettings) -> tuple[Any, Any]:
    """The first state of AdamW, and a function that takes it once through all batches."""
    try:
        import jax
        import optax
    except ImportError as error:
        raise ImportError("neural network regression needs JAX and optax: pip install ./benchmarks") from error
    fall = settings.final_learning_rate / settings.learning_rate
    rate = optax.exponential_decay(settings.learning_rate, max(1, settings.max_epochs * batches), fall)
    decayed = jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key == "weight", start)
    rule = optax.adamw(rate, weight_decay=decay, mask=decayed)

    def step(state: Any, rows: _Rows) -> tuple[Any, None]:
        weights, moments = state
        change, moments = rule.update(jax.grad(_loss)(weights, rows), moments, weights)
        return (optax.apply_updates(weights, change), moments), None

    @jax.jit
    def epoch(state: Any, learning: _Rows, order: Any) -> Any:
        return jax.lax.scan(step, state, _Rows(*(column[order] for column in learning)))[0]

    return (start, rule.init(start)), epoch


# The mixture


def _ascend(
    start: Mixture, family: Family, slopes: Slopes, training: TrainingSet, settings: NnrSettings, *, rng: Generator
) -> tuple[Mixture, Elbo]:
    """Adam with fresh draws at every step, and the ELBO from many more."""
    box = SoftBox.around(training.points)
    k, d = start.means.shape

    def objective(free: Float[ndarray, " p"]) -> tuple[float, Float[ndarray, " p"]]:
        mixture = family.mixture(free)
        half = rng.standard_normal((k, max(1, settings.ascent_draws // 2), d))
        draws = np.concatenate([half, -half], axis=1)
        expected, g = expected_and_gradient(mixture, slopes, draws)
        uncertainty, h = entropy_and_gradient(mixture, draws)
        penalty, p = box.penalty_and_gradient(mixture)
        total = MixtureGradient(g.weights + h.weights, g.means + h.means - p.means, g.trils + h.trils - p.trils)
        return expected + uncertainty - penalty, family.pull_back(free, total)

    found = adam(objective, family.start(), steps=settings.ascent_steps, rate=0.05, final_rate=0.001)
    mixture = family.mixture(found.argument)
    return mixture, _elbo(mixture, slopes, settings.elbo_draws, rng)


def expected_and_gradient(
    mixture: Mixture, slopes: Slopes, draws: Float[ndarray, "k s d"]
) -> tuple[float, MixtureGradient]:
    """E_q[g] from reparameterised draws of every component, and the gradient of that estimate."""
    k, s, d = draws.shape
    points = mixture.means[:, None] + np.matmul(draws, np.swapaxes(mixture.trils, 1, 2))
    flat_values, flat_slopes = slopes(points.reshape(-1, d))
    by_component = flat_values.reshape(k, s).mean(axis=1)
    slope = flat_slopes.reshape(k, s, d) * (mixture.weights[:, None, None] / s)
    to_trils = np.tril(np.matmul(np.swapaxes(slope, 1, 2), draws))
    return float(mixture.weights @ by_component), MixtureGradient(by_component, slope.sum(axis=1), to_trils)


def _elbo(mixture: Mixture, slopes: Slopes, draws: int, rng: Generator) -> Elbo:
    """The ELBO from eight independent sets of draws, which give its Monte Carlo error."""
    k, d = mixture.means.shape
    sets = [unbiased_draws(k, max(32, draws // (8 * k)), d, rng) for _ in range(8)]
    values = [entropy(mixture, z) + expected_and_gradient(mixture, slopes, z)[0] for z in sets]
    return Elbo(float(np.mean(values)), 0.0, float(np.std(values, ddof=1) / np.sqrt(len(values))))
