"""What every `LogDensityModel` has to keep, whatever it is made of: one function a promise.

Each takes a model and random numbers, and fails by an assertion. `CHECKS` is all of them.
"""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import reference
from vsbq.numerics.mixture import Mixture
from vsbq.steps.model import LocatedPoints, LogDensityModel


def places(model, rng, n=40):
    """Points among the evaluations and beyond them, in the model's coordinates."""
    return 1.5 * rng.standard_normal((n, model.space.bounds.dimension))


def some_mixture(model, rng):
    """Three components with correlations."""
    return Mixture(*reference.random_mixture(rng, 3, model.space.bounds.dimension))


def drawn(mixture, n, rng):
    """Independent draws."""
    component = rng.choice(len(mixture.weights), n, p=mixture.weights / mixture.weights.sum())
    z = rng.standard_normal((n, mixture.means.shape[1]))
    return mixture.means[component] + np.einsum("nij,nj->ni", mixture.trils[component], z)


def agrees(draws, value, resolution):
    """Within four standard errors; nine more would be noticed, and these are less than the resolution."""
    off = 9 * np.std(draws, ddof=1) / np.sqrt(len(draws))
    assert off < resolution
    assert reference.agree(draws, value)
    assert not reference.agree(draws, value + off)


def has_all_parts(model, rng):
    u = places(model, rng)
    assert isinstance(model, LogDensityModel)
    assert isinstance(model.at(u), LocatedPoints)
    assert np.isfinite(model.offset)
    assert 0 <= model.tested <= 1
    assert np.isfinite(model.rise)
    assert np.isfinite(model.trends(places(model, rng))).all()


def answers_do_not_depend_on_what_is_asked_with_them(model, rng):
    u = places(model, rng)
    for ask in (model.mean, model.variance):
        assert_allclose([ask(u[i : i + 1])[0] for i in range(len(u))], ask(u), rtol=1e-7, atol=1e-8)
        assert_allclose(ask(u[::-1]), ask(u)[::-1], rtol=1e-7, atol=1e-8)


def variance_is_the_diagonal_of_the_covariance(model, rng):
    u = places(model, rng)
    tiny = 1e-7 * model.prior_variance
    assert_allclose(np.diagonal(model.covariance(u, u)), model.variance(u), atol=tiny)
    assert (model.variance(u) >= 0).all()
    assert np.ptp(model.variance(u)) > 0.01 * model.prior_variance  # else the comparison says little


def located_points_tell_the_same(model, rng):
    a, b = places(model, rng), places(model, rng, 25)
    rows = np.array([3, 0, 17, 17])
    tiny = 1e-7 * model.prior_variance
    assert_allclose(model.at(a).variance(), model.variance(a), atol=tiny)
    assert_allclose(model.at(a).covariance(model.at(b)), model.covariance(a, b), atol=tiny)
    assert_allclose(model.at(a).take(rows).variance(), model.variance(a[rows]), atol=tiny)
    assert_allclose(model.at(b).covariance(model.at(a).take(rows)), model.covariance(b, a[rows]), atol=tiny)


def covariance_is_symmetric_and_positive(model, rng):
    a, b = places(model, rng), places(model, rng, 25)
    tiny = 1e-7 * model.prior_variance
    assert_allclose(model.covariance(a, b), model.covariance(b, a).T, atol=tiny)
    whole = model.covariance(a, a)
    assert np.linalg.eigvalsh(0.5 * (whole + whole.T)).min() > -10 * tiny


def far_away_nothing_is_known(model, rng):
    u = 1e3 * np.sign(places(model, rng))
    assert (model.variance(u) >= (1 - 1e-6) * model.prior_variance).all()


def expectation_is_that_of_the_mean(model, rng):
    mixture = some_mixture(model, rng)
    seen = model.mean(drawn(mixture, 20_000, rng))
    agrees(seen, model.expectation(mixture)[0], resolution=0.1 * seen.std())


def gradient_is_that_of_the_expectation(model, rng):
    mixture = some_mixture(model, rng)
    arrays = [mixture.weights, mixture.means, mixture.trils]
    lower = np.tril(np.ones(mixture.trils.shape[1:]))

    def value(parts):
        return model.expectation(Mixture(np.log(parts[0]), parts[1], parts[2]))[0]

    for part, slope in enumerate(model.expectation(mixture)[1]):
        direction = rng.standard_normal(arrays[part].shape) * (lower if part == 2 else 1.0)
        step = [1e-5 * direction if i == part else 0.0 for i in range(3)]
        up, down = (value([a + sign * s for a, s in zip(arrays, step, strict=True)]) for sign in (1, -1))
        assert_allclose((slope * direction).sum(), (up - down) / 2e-5, rtol=1e-5, atol=1e-6)
    assert_allclose(model.expectation(mixture)[1].trils * (1 - lower), 0.0)


def variance_of_the_expectation_is_the_mean_covariance(model, rng):
    mixture = some_mixture(model, rng)
    means = [model.covariance(drawn(mixture, 100, rng), drawn(mixture, 100, rng)).mean() for _ in range(60)]
    value = model.expectation_variance(mixture)
    assert value > 0
    agrees(means, value, resolution=value)


def a_narrow_mixture_is_a_point(model, rng):
    for u in places(model, rng, 5):
        point = Mixture(np.zeros(1), u[None], 1e-5 * np.eye(len(u))[None])
        assert np.isclose(model.expectation(point)[0], model.mean(u[None])[0], rtol=1e-6, atol=1e-6)
        tiny = 1e-6 * model.prior_variance
        assert np.isclose(model.expectation_variance(point), model.variance(u[None])[0], rtol=1e-5, atol=tiny)


def predict_speaks_the_users_space(model, rng):
    """By the change of variables itself: the volume that a small cube of inference space takes of the user's."""
    h, d = 1e-5, model.space.bounds.dimension
    u = rng.uniform(-1.0, 1.0, (20, d))  # not at the bounds, where the user's coordinates are rounded
    x, found = model.space.inverse(u), model.predict(model.space.inverse(u))
    slopes = np.stack([model.space.inverse(u + e) - model.space.inverse(u - e) for e in h * np.eye(d)], axis=1) / (
        2 * h
    )
    volume = np.log(np.abs(np.linalg.det(slopes)))
    assert np.ptp(volume) > 0.1
    assert_allclose(found.mean, model.mean(u) - volume + model.offset, atol=1e-4)
    assert_allclose(found.sd, np.sqrt(model.variance(u)), rtol=1e-4, atol=1e-6)
    assert model.predict(x[0]).mean.shape == (1,)


def changes_are_one_row_a_block(model, rng):
    u = places(model, rng)
    changes = model.changes(u)
    assert changes.shape[1] == len(u)
    assert np.isfinite(changes).all()
    assert_allclose(model.changes(u[:3]), changes[:, :3], atol=1e-7)
    # What is left out near the evaluations does nothing far from them all.
    assert_allclose(model.changes(1e3 * np.sign(u)), 0.0, atol=1e-9)


def there_is_no_doubt_among_the_evaluations(model, rng):
    u = places(model, rng)
    doubt = model.doubt_beyond(u)
    assert doubt.shape == (len(u),)
    assert np.isfinite(doubt).all()
    assert (doubt >= 0).all()
    assert_allclose(model.doubt_beyond(u[:3]), doubt[:3], atol=1e-7)
    assert (model.doubt_beyond(0.01 * u) == 0).all()
    # It grows with the distance.
    assert (model.doubt_beyond(100 * u) >= doubt).all()


def trends_are_the_same_for_each_point(model, rng):
    u = places(model, rng)
    found = model.trends(u)
    assert found.shape[1] == len(u)
    assert_allclose(model.trends(u[:3]).T @ model.trends(u[:3]), found[:, :3].T @ found[:, :3], rtol=1e-6, atol=1e-7)


def means_average_to_the_mean(model, rng):
    u = places(model, rng)
    means = model.means(u)
    assert_allclose(means.mean(axis=0), model.mean(u), rtol=1e-9, atol=1e-9)
    # What they differ by is part of the variance.
    assert (model.variance(u) >= means.var(axis=0) - 1e-9).all()


def no_points_have_no_answers(model, rng):
    none = places(model, rng)[:0]
    for ask in (model.mean, model.variance, lambda u: model.predict(u).mean):
        assert ask(none).shape == (0,)
    assert model.changes(none).shape[1] == len(model.doubt_beyond(none)) == model.trends(none).shape[1] == 0


CHECKS = (
    has_all_parts,
    answers_do_not_depend_on_what_is_asked_with_them,
    variance_is_the_diagonal_of_the_covariance,
    located_points_tell_the_same,
    covariance_is_symmetric_and_positive,
    far_away_nothing_is_known,
    expectation_is_that_of_the_mean,
    gradient_is_that_of_the_expectation,
    variance_of_the_expectation_is_the_mean_covariance,
    a_narrow_mixture_is_a_point,
    predict_speaks_the_users_space,
    changes_are_one_row_a_block,
    there_is_no_doubt_among_the_evaluations,
    trends_are_the_same_for_each_point,
    means_average_to_the_mean,
    no_points_have_no_answers,
)
