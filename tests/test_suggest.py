"""Suggested points and the update with their values: where they lie, what they tell, what they repair."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import vsbq
from vsbq.analysis.suggest import MOST_POINTS, Suggesting, suggest
from vsbq.analysis.suggesting.batch import Batch, _greedy
from vsbq.analysis.suggesting.doubt import Doubts, Gap, Relevance
from vsbq.analysis.suggesting.places import Weak
from vsbq.data.transform import WhitenedSpace, infer_space
from vsbq.errors import EvaluationsError, VsbqError, VsbqWarning
from vsbq.history import Elbo
from vsbq.numerics import sgpr
from vsbq.numerics.kernel import Hyperparameters
from vsbq.numerics.mixture import Mixture, log_pdf
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.mixture.starts import moved
from vsbq.steps.refine import Refinement
from vsbq.steps.support import Support, Told, learn_support
from vsbq.steps.surrogate.model import Surrogate
from vsbq.steps.surrogate.shaped_data import SparseGP

ROOT = np.array([[1.0, 0.0], [0.7, 0.5]])
RIGHT = 2.0  # sd of the first direction on its right side; on its left it is 1
FAST = Steps(
    noise=None,
    surrogate=SparseGP(turn=False, exact_points=100),
    mixture=VariationalMixture(max_components=6, adapt=((5_000, 10), (10_000, 10)), elbo_draws=20_000),
    refinement=Refinement(draws=10_000),
)
SMALL = Suggesting(candidates=200, places=100)
BOUNDS = [(None, None), (-7.0, 8.0)]

#: Fits to one side of a posterior are doubted or rejected, and rightly so: they are what suggestions are for.
pytestmark = pytest.mark.filterwarnings("ignore:The fit is:vsbq.errors.VsbqWarning")


def log_normal(x):
    """A correlated normal that is wider to the right, normalised but for what the far bounds cut off."""
    z = np.linalg.solve(ROOT, x.T).T
    z[:, 0] /= np.where(z[:, 0] > 0, RIGHT, 1.0)
    return -0.5 * (z**2).sum(axis=1) - np.log(2 * np.pi * 0.5 * (1 + RIGHT) / 2)


def left_side(rng, n=200):
    """Evaluations of which none is where the first parameter is above −0.5: they know nothing of the right side."""
    z = rng.normal(size=(n, 2)) * rng.uniform(0.2, 2.5, (n, 1))
    x = z @ ROOT.T
    x[:, 0] = -0.5 - np.abs(x[:, 0] + 0.5)
    return x


@pytest.fixture(scope="module")
def poor():
    x = left_side(np.random.default_rng(0))
    with pytest.warns(VsbqWarning, match="end before the posterior does: 'a' above"):
        return vsbq.fit(x, log_normal(x), bounds=BOUNDS, names=["a", "b"], settings=FAST, rng=1, progress=False)


@pytest.fixture(scope="module")
def asked(poor):
    return poor.suggest(60, rng=3)


@pytest.fixture(scope="module")
def updated(poor, asked):
    return poor.update(asked, log_normal(asked), settings=FAST, rng=1, progress=False)


def evidence_sd(post, new, noise_sd=0.03):
    """Sd of ∫ f p under the surrogate once some points are evaluated, by the plain formula of conditioning."""
    hyp, factors = post.surrogate.hyp, post.surrogate.factors
    places = post.surrogate.space.forward(post.sample(400, rng=9))
    u = post.surrogate.space.forward(new)
    prior = sgpr.predict_covariance(hyp, factors, places, places)
    cross = sgpr.predict_covariance(hyp, factors, places, u)
    between = sgpr.predict_covariance(hyp, factors, u, u) + noise_sd**2 * np.eye(len(u))
    return np.sqrt((prior - cross @ np.linalg.solve(between, cross.T)).mean())


def test_points_are_distinct_and_inside_the_bounds(poor, asked):
    assert asked.shape == (60, 2)
    assert len(np.unique(asked, axis=0)) == 60
    assert ((asked[:, 1] > -7.0) & (asked[:, 1] < 8.0)).all()
    assert not set(map(tuple, asked)) & set(map(tuple, poor.evaluations.points))


def test_the_same_rng_gives_the_same_points(poor):
    first, again, other = (suggest(poor, 10, rng, SMALL) for rng in (3, np.random.default_rng(3), 4))
    assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_they_lie_where_nobody_has_looked(poor, asked):
    assert (asked[:, 0] > 2).mean() > 0.3
    assert (poor.sample(60, rng=3)[:, 0] > 2).mean() < 0.1  # the posterior itself hardly goes there


def test_they_lower_the_uncertainty_of_the_evidence_more_than_chance(poor):
    few = evidence_sd(poor, poor.suggest(8, rng=0))
    chance = [evidence_sd(poor, poor.sample(8, rng=seed)) for seed in range(20)]
    assert few < np.median(chance)
    assert np.median(chance) < evidence_sd(poor, np.full((1, 2), 50.0).clip(max=[[50.0, 5.9]]))  # far away: no use


def scores(post):
    """Errors of the log evidence, and of mean and sd in units of the true sd."""
    mean = ROOT @ [np.sqrt(2 / np.pi) * (RIGHT - 1), 0.0]
    variance = (1 - 2 / np.pi) * (RIGHT - 1) ** 2 + RIGHT
    sd = np.sqrt(np.diagonal(ROOT @ np.diag([variance, 1.0]) @ ROOT.T))
    error = np.abs(np.concatenate([(post.mean() - mean) / sd, np.sqrt(np.diagonal(post.cov())) / sd - 1.0]))
    return abs(post.log_evidence), error.max()


def test_one_round_repairs_what_posterior_draws_do_not(poor, updated):
    before, after = scores(poor), scores(updated)
    drawn = poor.sample(60, rng=3)
    with pytest.warns(VsbqWarning, match="The fit is"):
        control = scores(poor.update(drawn, log_normal(drawn), settings=FAST, rng=1, progress=False))
    assert min(before) > 0.3
    assert after[0] < 0.05
    assert after[1] < 0.04
    assert control[1] > 3 * after[1]
    assert len(updated.evaluations) == 260
    assert updated.names == ("a", "b")
    assert updated.history.variational.starts[0][0] == "earlier posterior"


def test_update_is_a_fit_of_all_evaluations(poor, asked, updated):
    new = vsbq.Evaluations(asked, log_normal(asked), bounds=BOUNDS, names=["a", "b"])
    warm = vsbq.fit(poor.evaluations + new, start=poor, settings=FAST, rng=1, progress=False)
    cold = vsbq.fit(poor.evaluations + new, settings=FAST, rng=1, progress=False)
    assert warm.elbo == updated.elbo
    assert_array_equal(warm.sample(20, rng=0), updated.sample(20, rng=0))
    assert abs(warm.log_evidence - cold.log_evidence) < 0.01
    assert_allclose(warm.mean(), cold.mean(), atol=0.02)
    assert_allclose(warm.cov(), cold.cov(), atol=0.04)


def test_a_loaded_posterior_suggests_the_same_points(poor, tmp_path):
    again = vsbq.load(poor.save(tmp_path / "post.npz"))
    assert_allclose(suggest(again, 10, 3, SMALL), suggest(poor, 10, 3, SMALL), rtol=1e-6)


def test_a_compact_posterior_says_what_is_missing(poor, tmp_path):
    compact = vsbq.load(poor.save(tmp_path / "small.npz", compact=True))
    with pytest.raises(VsbqError, match=r"no surrogate.*compact=False"):
        compact.suggest(5)
    with pytest.raises(VsbqError, match="does not hold its evaluations"):
        compact.update([[0.0, 0.0]], [0.0])


@pytest.mark.parametrize("n", [0, -3, MOST_POINTS + 1])
def test_a_number_of_points_that_makes_no_sense_is_refused(poor, n):
    with pytest.raises(ValueError, match=f"from 1 to {MOST_POINTS}" if n > 0 else "at least 1"):
        poor.suggest(n)


def test_more_points_than_candidates(poor):
    few = Suggesting(candidates=3, candidates_per_point=0, places=70)
    assert len(np.unique(suggest(poor, 40, 0, few), axis=0)) == 40


@pytest.mark.parametrize(
    ("points", "log_density", "message"),
    [
        ([[0.0, 0.0, 0.0]], [0.0], r"2 numbers.*\(1, 3\)"),
        ([[0.0, 0.0]], None, "missing"),
        ([[0.0, 0.0], [1.0, 19.0]], [0.0, 1.0], r"row 1"),
        ([[0.0, 0.0], [1.0, 1.0]], [np.nan, 1.0], r"row 0"),
        ([[0.0, 0.0], [1.0, 1.0]], [0.0], "2 rows"),
    ],
)
def test_bad_new_evaluations_are_named_by_their_own_rows(poor, points, log_density, message):
    with pytest.raises(EvaluationsError, match=message):
        poor.update(points, log_density)


def test_noise_of_new_evaluations_has_to_be_told(poor):
    old = poor.evaluations
    noisy = vsbq.Evaluations(old.points, old.log_density, log_density_sd=0.5, bounds=BOUNDS, names=["a", "b"])
    other = replace(poor, evaluations=noisy)
    with pytest.raises(EvaluationsError, match="log_density_sd"):
        other.update([[0.0, 0.0]], [0.0])


def test_start_of_another_problem_is_refused(poor):
    old = poor.evaluations
    with pytest.raises(EvaluationsError, match="other parameters or bounds"):
        vsbq.fit(old.points, old.log_density, bounds=BOUNDS, names=["b", "a"], start=poor)
    with pytest.raises(EvaluationsError, match="other parameters or bounds"):
        vsbq.fit(old.points, old.log_density, names=["a", "b"], start=poor)


# The parts


def test_a_moved_mixture_is_the_same_density(rng):
    x = rng.normal(size=(200, 3)) * [1.0, 5.0, 0.1] + [0.0, 20.0, 0.5]
    here = infer_space(vsbq.Evaluations(x, -(x**2).sum(axis=1), bounds=[(None, None), (0, None), (-1, 2)]))
    half = vsbq.Evaluations(x[:80], -(x[:80] ** 2).sum(axis=1), bounds=[(None, None), (0, None), (-1, 2)])
    there = WhitenedSpace(infer_space(half), rng.normal(size=(3, 3)))
    mixture = Mixture(np.log([0.3, 0.7]), rng.normal(size=(2, 3)), np.tril(rng.normal(size=(2, 3, 3))) + 2 * np.eye(3))
    before = log_pdf(mixture, here.forward(x)) - here.log_jacobian(here.forward(x))
    after = log_pdf(moved(mixture, here, there), there.forward(x)) - there.log_jacobian(there.forward(x))
    assert_allclose(after, before, atol=1e-8)
    assert not np.allclose(log_pdf(mixture, there.forward(x)), before, atol=0.1)


def sparse_gp(rng, d=2):
    """A sparse GP of a few evaluations, in a space that is the user's own."""
    x = rng.normal(size=(40, d))
    hyp = Hyperparameters(np.zeros(d), 0.5, 0.0, np.zeros(d), np.zeros(d))
    factors, _ = sgpr.fit_factors(hyp, x[:25], x, -0.5 * (x**2).sum(axis=1), np.full(40, 0.01))
    space = infer_space(vsbq.Evaluations(x, -0.5 * (x**2).sum(axis=1)))
    return Surrogate(space, hyp, factors, 0.0)


def doubts_of(surrogate, points, growth):
    """A model with a gap around some points, and no other doubt."""
    gap = Gap(points, np.array([1.0, 0.5]), 0.2, growth)
    return Doubts(surrogate, gap, None, np.zeros(2), np.ones(2), 10.0)


def test_blocks_condition_as_one_big_regression_would(rng):
    surrogate = sparse_gp(rng)
    candidates, places = 1.5 * rng.normal(size=(70, 2)), 1.5 * rng.normal(size=(30, 2))
    doubts = doubts_of(surrogate, rng.normal(size=(5, 2)), 0.7)
    doubt = doubts.gap
    batch = Batch(doubts, (candidates, places), Relevance(-4.0, 1.0, 1e-3, 0.01), 0.2)
    batch.take(np.array([5, 9]))
    for count in (1, 4, 3):
        batch.choose(count)
    picked = candidates[batch.chosen]
    covariance = surrogate.covariance
    inside, to_places, to_candidates = (
        np.outer(doubt(picked), doubt(b)) * covariance(picked, b) for b in (picked, places, candidates)
    )
    inverse = np.linalg.inv(inside + 0.2**2 * np.eye(10))
    assert len(set(batch.chosen)) == 10
    assert batch.chosen[:2] == [5, 9]
    for points, cross, left in ((places, to_places, batch.variance_there), (candidates, to_candidates, batch.variance)):
        before = doubt(points) ** 2 * surrogate.variance(points)
        assert_allclose(left, before - np.einsum("ap,ab,bp->p", cross, inverse, cross), atol=1e-9)


def test_doubt_grows_away_from_the_evaluations():
    gap = Gap(np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([1.0, 0.5]), 0.25, 2.0)
    near, between, beyond = gap(np.array([[0.0, 0.2], [2.0, 0.0], [4.0, 2.0]]))
    assert_allclose([near, between, beyond], [1.0, 1 + 2 * np.sqrt(4 - 0.25), 1 + 2 * np.sqrt(16 - 0.25)])


def test_a_gap_is_between_evaluations_that_count(poor):
    """Not near those that were dropped as hopeless, nor those of zero density."""
    old = poor.evaluations
    points, values = [[40.0, 7.0], [-40.0, -6.0]], [-np.inf, -1e6]
    more = replace(
        old, points=np.concatenate([old.points, points]), log_density=np.concatenate([old.log_density, values])
    )
    weak = Weak.of(poor)
    one, other = (Gap.of(each, poor.surrogate, weak, Suggesting()) for each in (poor, replace(poor, evaluations=more)))
    assert_array_equal(one.points, other.points)
    assert Gap.of(replace(poor, evaluations=None), poor.surrogate, weak, Suggesting()) is None


def test_suggestions_are_where_the_density_is_not_zero(poor):
    def in_support(x):
        return x[:, 0] < 1.0

    assert not in_support(suggest(poor, 40, 3, SMALL)).all()  # without a word on the support
    d = poor.dimension
    told = Support(np.zeros(d), np.eye(d), told=Told(in_support, poor.space))
    assert in_support(suggest(replace(poor, support=told), 40, 3, SMALL)).all()
    u = poor.space.forward(np.random.default_rng(0).normal(size=(400, 2)) * 2)
    inside = in_support(poor.space.inverse(u))
    learnt = learn_support(u[inside], np.zeros(inside.sum()), u[~inside], np.random.default_rng(0))
    points = suggest(replace(poor, support=learnt), 40, 3, SMALL)
    assert learnt.inside(poor.space.forward(points)).all()
    assert (points[:, 0] < 1.3).all()


def test_the_first_choice_is_the_best_of_all(rng):
    surrogate = sparse_gp(rng)
    candidates, places = 1.5 * rng.normal(size=(50, 2)), 1.5 * rng.normal(size=(30, 2))
    relevance = Relevance(-4.0, 1.0, 1e-3, 0.01)
    doubts = doubts_of(surrogate, np.concatenate([candidates, places]), 1.0)
    batch = Batch(doubts, (candidates, places), relevance, 0.2)
    slope = relevance.slope(batch.mean_there, batch.variance_there)
    slow = []
    for one in candidates:
        cross = sgpr.predict_covariance(surrogate.hyp, surrogate.factors, one[None], places)[0]
        slow.append((slope * cross**2).sum() / (surrogate.variance(one[None])[0] + 0.2**2))
    batch.choose(1)
    assert batch.chosen == [int(np.argmax(slow))]


def test_greedy_does_not_take_twins(rng):
    root = rng.normal(size=(3, 6))
    root = np.concatenate([root[:1], root[:1], root[1:]])  # rows 0 and 1 tell the same
    picked = _greedy(root @ root.T, root @ rng.normal(size=(6, 20)), np.ones(20), 1e-6, 3)
    assert len(set(picked.tolist()) & {0, 1}) == 1


def test_places_matter_by_how_high_they_might_be():
    relevance = Relevance(-5.0, 2.0, 1e-3, 0.01)
    slope = relevance.slope(np.array([0.0, -8.0, -8.0, -60.0]), np.array([0.04, 0.04, 4.0, 4.0]))
    weight = slope * (np.array([0.04, 0.04, 4.0, 4.0]) + 0.01)
    assert_allclose(weight, [1.0, np.exp(-2.6), 1.0, 1e-3])


@pytest.mark.parametrize("dimension", [1, 5, 15])
def test_any_number_of_parameters(dimension, rng):
    """A posterior as the fit would leave it, without the time that a fit takes."""
    x = rng.normal(size=(300, dimension)) * rng.uniform(0.3, 2.0, (300, 1))
    given = vsbq.Evaluations(x, -0.5 * (x**2).sum(axis=1), log_density_sd=0.3)
    space = infer_space(given)
    u = space.forward(x)
    hyp = Hyperparameters(np.zeros(dimension), 0.0, 0.0, np.zeros(dimension), -np.log(space.scale))
    factors, _ = sgpr.fit_factors(hyp, u[:100], u, given.log_density, np.full(300, 0.09))
    mixture = Mixture(np.zeros(1), np.zeros((1, dimension)), np.diag(1 / space.scale)[None])
    surrogate = Surrogate(space, hyp, factors, 0.0)
    elbo = Elbo(0.0, 0.0, 0.0)
    post = vsbq.Posterior(given.names, space, mixture, elbo, 0.0, given, surrogate, None)
    points = suggest(post, 20, 0, SMALL)
    assert points.shape == (20, dimension)
    assert len(np.unique(points, axis=0)) == 20
    assert np.isfinite(points).all()
