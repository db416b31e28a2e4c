"""Each doubt of the verdict gets points of its own, with a reason in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import vsbq
from improve_cases import fitted, noisy, one_side
from vsbq.analysis.suggest import Suggesting, suggestions
from vsbq.analysis.suggesting.doubt import KINDS, Doubts
from vsbq.analysis.suggesting.places import Weak
from vsbq.analysis.suggesting.reasons import Suggestions
from vsbq.data.transform import infer_space
from vsbq.errors import EvaluationsError
from vsbq.history import Elbo
from vsbq.numerics.mixture import Mixture
from vsbq.posterior.diagnosis import THRESHOLDS, Diagnosis, Finding
from vsbq.posterior.diagnosis.edges import edges
from vsbq.posterior.diagnosis.measures import View
from vsbq.steps.support import learn_support
from vsbq.steps.surrogate.model import Surrogate

SMALL = Suggesting(candidates=150, places=70)
MODES = np.array([[-4.0, 0.0], [4.0, 0.0]])


@pytest.fixture(scope="module")
def cut():
    return one_side()


def two_modes(x):
    return np.logaddexp(*(-0.5 * ((np.atleast_2d(x) - mode) ** 2).sum(axis=1) for mode in MODES))


@pytest.fixture(scope="module")
def bimodal():
    """Evaluations around two modes, none between them."""
    rng = np.random.default_rng(0)
    x = np.concatenate([mode + rng.normal(size=(80, 2)).clip(-1.6, 1.6) for mode in MODES])
    return fitted(x, two_modes(x))


@pytest.fixture(scope="module")
def edged():
    """A normal that ends at a + b = 1, where evaluations are −inf."""
    x = np.random.default_rng(0).normal(size=(100, 2)) * 1.3
    return fitted(x, np.where(x.sum(axis=1) < 1.0, -0.5 * (x**2).sum(axis=1), -np.inf))


def test_points_and_reasons_belong_together(cut):
    found = cut.suggestions(12, rng=3)
    assert len(found) == len(found.points) == len(found.reasons) == 12
    assert all(isinstance(why, str) and why for why in found.reasons)
    assert_array_equal(found.points, cut.suggest(12, rng=3))
    lines = repr(found).splitlines()
    assert lines[0].split() == ["a", "b", "reason"]
    assert len(lines) == 13
    assert lines[1].endswith(found.reasons[0])


def test_a_long_table_is_cut():
    long = Suggestions(("a",), np.zeros((40, 1)), ("because",) * 40)
    assert repr(long).splitlines()[-1] == "... and 10 more"


def test_the_open_side_is_named_and_left(cut):
    found = suggestions(cut, 12, 3, settings=SMALL)
    beyond = [why for why in found.reasons if "'a' above" in why]
    assert len(beyond) > 6
    assert (found.points[:, 0] > cut.evaluations.points[:, 0].max() + 0.5).sum() > 6


def test_a_cut_side_gets_points_along_its_tail():
    """A ridge along the diagonal that was evaluated below the middle only, and is still high there."""
    x = np.random.default_rng(1).normal(size=(150, 2)) * [1.0, 0.3]
    x[:, 0] = -np.abs(x[:, 0])
    x[:, 1] += x[:, 0]
    post = fitted(x, -0.5 * (0.1 * x[:, 0] ** 2 + (x[:, 1] - x[:, 0]) ** 2 / 0.09))
    weak = Weak.of(post)
    limit = THRESHOLDS.limit("cut off")
    for edge in edges(View.of(post)):
        assert (limit.level(edge.cut) != "trusted") == any(tail.edge == edge for tail in weak.tails)
    made = weak._replace(tails=weak.tails or (_tail_above(post),))
    beyond = made.beyond(200, 4.0, np.random.default_rng(0))
    step = made.tails[0].step
    assert abs(np.degrees(np.arctan2(step[1] * post.space.scale[1], step[0] * post.space.scale[0])) % 180 - 45) < 15
    assert np.mean(beyond @ step) > np.quantile(made.tails[0].tip @ step, 0.9)


def _tail_above(post):
    from vsbq.analysis.suggesting.places import _tail

    view = View.of(post)
    return _tail(view, next(edge for edge in edges(view) if (edge.parameter, edge.side) == (0, 1)))


def test_valleys_between_modes_are_looked_at(bimodal):
    weak = Weak.of(bimodal)
    assert len(np.unique(weak.region)) == 2
    between = bimodal.space.inverse(weak.between(200, np.random.default_rng(0)))
    assert (np.abs(between[:, 0]) < 4).mean() > 0.95
    assert (np.abs(between[:, 0]) < 2).mean() > 0.3
    assert_allclose(weak.within_sd(weak.draws) * bimodal.space.scale, 1.0, rtol=0.3)  # not the distance of the modes
    found = bimodal.suggestions(20, rng=0)
    inside = np.abs(found.points[:, 0]) < 1.5
    assert inside.any()
    assert "nothing was evaluated between these two modes" in [
        why for why, here in zip(found.reasons, inside, strict=True) if here
    ]


def test_one_region_has_no_valley(cut):
    assert Weak.of(cut).between(5, np.random.default_rng(0)).shape == (0, 2)


def test_the_edge_of_the_support_is_asked_for(edged):
    found = suggestions(edged, 20, 0, settings=SMALL)
    u = edged.space.forward(found.points)
    assert edged.support.inside(u).all()
    there = [x for x, why in zip(found.points, found.reasons, strict=True) if "edge of the support" in why]
    assert len(there) > 5
    assert all(abs(x.sum() - 1.0) < 0.5 for x in there if np.linalg.norm(x) < 2)


def test_doubts_are_features_of_their_places(edged):
    weak = Weak.of(edged)
    doubts = Doubts.of(edged, edged.surrogate, weak, Suggesting())._replace(kinds=frozenset(KINDS))
    deep, edge = edged.surrogate.space.forward(np.array([[-1.0, -1.0], [0.5, 0.5]]))
    found = doubts.features(np.stack([deep, edge]))
    assert tuple(found) == KINDS
    inside, across = (found["support"] ** 2).sum(axis=0)
    assert across > 100 * inside
    part = doubts.at(np.stack([deep, edge]))
    every = np.concatenate(list(found.values()))
    plain = np.outer(part.factor, part.factor) * edged.surrogate.covariance(*[np.stack([deep, edge])] * 2)
    assert_allclose(part.covariance(part), plain + every.T @ every, atol=1e-8)
    assert_allclose(part.variance(), np.diagonal(part.covariance(part)), atol=1e-8)
    assert_allclose(
        doubts.mean(edge[None]),
        edged.surrogate.mean(edge[None]) + edged.support.log_probability(edged.surrogate.space.to_plain(edge[None])),
    )


def test_a_doubt_counts_where_the_verdict_has_it(cut):
    def kinds(*names):
        found = Diagnosis.of(Finding(name, "doubtful", 1.0, 0.5, "words.") for name in names)
        return Doubts.of(replace(cut, diagnosis=found), cut.surrogate, weak, Suggesting()).kinds

    weak = Weak.of(cut)
    assert kinds() == {"support"}
    assert kinds("held out") == {"support", "block"}
    assert kinds("beyond", "unsure") == {"support", "trend", "side"}
    features = Doubts.of(cut, cut.surrogate, weak, Suggesting())._replace(kinds=frozenset()).features(weak.draws)
    assert all(each.shape == (0, len(weak.draws)) for each in features.values())


def test_no_doubt_is_deeper_than_the_posterior(cut):
    doubts = Doubts.of(cut, cut.surrogate, Weak.of(cut), Suggesting())._replace(kinds=frozenset(KINDS))
    far = cut.surrogate.space.forward(np.array([[300.0, 300.0], [-200.0, 500.0]]))
    for features in doubts.features(far).values():
        assert (np.sqrt((features**2).sum(axis=0)) <= doubts.depth * (1 + 1e-9)).all()


def test_opposite_sides_tell_nothing_of_each_other(cut, monkeypatch):
    monkeypatch.setattr(type(cut.surrogate), "doubt_beyond", lambda self, u: np.full(len(u), 2.0))
    doubts = Doubts.of(cut, cut.surrogate, Weak.of(cut), Suggesting())._replace(kinds=frozenset(KINDS))
    u = doubts.centre + doubts.sd * np.array([[3.0, 0.0], [-3.0, 0.0], [5.0, 0.0]])
    sides = doubts.features(u)["side"]
    assert_allclose(sides.T @ sides, [[4.0, 0.0, 4.0], [0.0, 4.0, 0.0], [4.0, 0.0, 4.0]], atol=1e-9)


def test_pending_points_are_counted_as_known(cut):
    first = suggestions(cut, 6, 3, settings=SMALL).points
    after = suggestions(cut, 6, 3, first, SMALL).points
    both = suggestions(cut, 12, 3, settings=SMALL).points
    assert not set(map(tuple, first)) & set(map(tuple, after))
    spread = np.linalg.norm(first[:, None] - after, axis=2).min(axis=0)
    own = np.linalg.norm(both[:6, None] - both[6:], axis=2).min(axis=0)
    assert spread.min() > 0.3 * own.min()
    for bad, words in (([[1.0]], "one row of 2 numbers"), ([[np.nan, 0.0]], "not finite")):
        with pytest.raises(EvaluationsError, match=words):
            cut.suggestions(3, pending=bad)
    assert len(cut.suggestions(3, pending=np.empty((0, 2)))) == 3


def test_noise_is_a_reason():
    assert any("noise of 3 nats" in why for why in noisy().suggestions(20, rng=0).reasons)


@pytest.mark.parametrize("dimension", [1, 4, 12])
def test_up_to_twelve_parameters(dimension):
    """A learnt edge, two modes, and a surrogate that knows some of it: no fit is needed to ask."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60 * dimension, dimension))
    given = vsbq.Evaluations(x, -0.5 * (x**2).sum(axis=1))
    space = infer_space(given)
    u = space.forward(x)
    surrogate = _plain_surrogate(space, u, given.log_density)
    means = np.zeros((2, dimension))
    means[:, 0] = [-3.0, 3.0]
    mixture = Mixture(np.log([0.5, 0.5]), means, np.tile(0.3 * np.eye(dimension), (2, 1, 1)))
    inside = u[:, 0] < 1.0
    support = learn_support(u[inside], given.log_density[inside], u[~inside], rng)
    post = vsbq.Posterior(
        given.names, space, mixture, Elbo(0.0, 0.0, 0.0), 0.0, given, surrogate, None, support=support
    )
    found = suggestions(post, 15, 0)
    assert len(np.unique(found.points, axis=0)) == 15
    assert np.isfinite(found.points).all()


def _plain_surrogate(space, u, values):
    from vsbq.numerics import sgpr
    from vsbq.numerics.kernel import Hyperparameters

    d = u.shape[1]
    hyp = Hyperparameters(np.zeros(d), 0.0, 0.0, np.zeros(d), -np.log(space.scale))
    factors, _ = sgpr.fit_factors(hyp, u[:50], u, values, np.full(len(u), 0.01))
    return Surrogate(space, hyp, factors, 0.0)
