import numpy as np
import pytest
from numpy.testing import assert_allclose

from vsbq_bench.methods import slice_surrogate as slice_surrogate_module
from vsbq_bench.methods.slice_surrogate import rhat, slice_sample, slice_surrogate
from vsbq_bench.problems import two_moons
from vsbq_bench.task import Target, Task
from vsbq_bench.traces import cma_trace

MEAN = np.array([1.0, -2.0])
COV = np.array([[1.0, 0.8], [0.8, 2.0]])


def normal(x):
    shift = x - MEAN
    return -0.5 * np.einsum("ni,ij,nj->n", shift, np.linalg.inv(COV), shift)


def halves(x):
    """Two narrow normals at ±5, the right one with three quarters of the mass."""
    return np.logaddexp(np.log(0.25) - 8 * (x[:, 0] + 5) ** 2, np.log(0.75) - 8 * (x[:, 0] - 5) ** 2)


def leaps(width, dimension):
    return width * np.random.default_rng(0).standard_normal((200, dimension))


def by_chain(draws, f):
    """Mean and its standard error from chains that know nothing of each other."""
    means = f(draws).mean(axis=0)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))


@pytest.mark.parametrize("width", [0.3, 3.0, 30.0])
def test_moments_of_a_normal_whatever_the_width(rng, width):
    chains = slice_sample(normal, rng.standard_normal((80, 2)) + MEAN, leaps(width, 2), 30, rng)
    assert chains.draws.shape == (30, 80, 2)
    for f, truth in (
        (lambda x: x, MEAN),
        (lambda x: (x - MEAN) ** 2, np.diag(COV)),
        (lambda x: np.prod(x - MEAN, axis=2), COV[0, 1]),
    ):
        estimate, error = by_chain(chains.draws, f)
        assert np.all(np.abs(estimate - truth) < 4.5 * error)
        assert np.all(error < 0.2)


def test_wrong_moments_are_seen(rng):
    chains = slice_sample(normal, rng.standard_normal((80, 2)) + MEAN, leaps(3.0, 2), 30, rng)
    estimate, error = by_chain(chains.draws, lambda x: (x - MEAN) ** 2)
    assert np.all(np.abs(estimate - 1.5 * np.diag(COV)) > 4.5 * error)


def test_wide_steps_cross_between_modes(rng):
    chains = slice_sample(halves, np.full((80, 1), -5.0), leaps(24.0, 1), 60, rng)
    share, error = by_chain(chains.draws[..., 0], lambda x: (x > 0).astype(float))
    assert abs(share - 0.75) < 4.5 * error
    assert error < 0.05


def test_calls_are_counted(rng):
    asked = []

    def counting(x):
        asked.append(len(x))
        return normal(x)

    assert slice_sample(counting, np.zeros((5, 2)), leaps(1.0, 2), 20, rng).calls == sum(asked)


def test_edge_of_the_support_is_not_crossed(rng):
    def box(x):
        return np.where(np.abs(x[:, 0]) < 1, 0.0, -np.inf)

    chains = slice_sample(box, np.zeros((20, 1)), leaps(0.5, 1), 50, rng)
    assert np.all(np.abs(chains.draws) < 1)
    assert np.abs(chains.draws).max() > 0.95


def test_rhat_tells_chains_that_agree_from_those_that_do_not(rng):
    same = rng.standard_normal((200, 10, 2))
    apart = same + np.arange(10)[:, None]
    assert_allclose(rhat(same), 1.0, atol=0.03)
    assert np.all(rhat(apart) > 2)


def test_two_moons_from_their_trace(monkeypatch):
    pytest.importorskip("cma")
    monkeypatch.setattr(slice_surrogate_module, "FEWEST_SWEEPS", 40)
    problem = two_moons()
    trace = cma_trace(problem, np.random.default_rng(1), evaluations=300)
    target = Target(problem, 0.0, np.random.default_rng(0))
    rng = np.random.default_rng(2)
    answer = slice_surrogate(Task(problem=problem, trace=trace, noise_sd=0.0, target=target, rng=rng, draws=1000))
    assert answer.draws.shape == (1000, 2)
    assert answer.log_evidence is None
    assert target.evaluations == 0
    assert answer.details["outside_box"] < 0.05
    true_radius = np.hypot(*problem.draw(20_000, rng).T)
    # 40 chains that are each worth a few draws: 100 in all is a cautious count
    assert abs(np.hypot(*answer.draws.T).mean() - true_radius.mean()) < 4 * true_radius.std() / 10
    assert 0 < np.mean(answer.draws[:, 0] < 0) < 1
