import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from vsbq_bench.cases.science import MODELS
from vsbq_bench.cases.subjects import KINDS, SCIENCE, SHAPES, Subject, register

every_model = pytest.mark.parametrize("name", MODELS)


def some_points(model, rng, n=40):
    """Points of the prior, and of the box where the log density is finite."""
    box = model.plausible_bounds
    inside = rng.uniform(box[:, 0], box[:, 1], (n, len(box)))
    points = np.concatenate([model.draw_prior(n, rng), inside])
    return points[np.isfinite(model.log_density(points))]


def test_the_registry_has_what_it_promises():
    assert set(SCIENCE) == set(MODELS)
    assert len(SCIENCE) >= 22
    assert 3 * sum(subject.hard for subject in SCIENCE.values()) >= len(SCIENCE)
    assert all(subject.science and subject.kind in KINDS for subject in SCIENCE.values())
    dimensions = {len(make().names) for make in MODELS.values()}
    assert min(dimensions) == 1
    assert max(dimensions) == 15


@pytest.mark.parametrize(("name", "kind", "words"), [("new", "odd", "odd"), ("wald", "edge", "taken")])
def test_the_registry_refuses_unknown_kinds_and_taken_names(name, kind, words):
    registry = {}
    with pytest.raises(ValueError, match=words):
        register(registry, [Subject(name, kind, False, False, lambda: None)])
    assert not registry
    assert "new" not in SHAPES


@every_model
def test_a_model_is_complete(name, rng):
    model = MODELS[name]()
    d = len(model.names)
    assert model.name == name
    assert model.bounds.shape == model.plausible_bounds.shape == (d, 2)
    low, high = model.plausible_bounds.T
    assert (low < high).all()
    assert ((model.bounds[:, 0] <= low) & (high <= model.bounds[:, 1])).all()
    inside = rng.uniform(low, high, (400, d))
    assert np.isfinite(model.log_density(inside)).mean() > 0.1


@every_model
def test_the_prior_is_a_normalised_density(name, rng):
    """A map from standard normal numbers that stretches volumes by the ratio of the densities."""
    model = MODELS[name]()
    z = rng.standard_normal((12, len(model.names)))
    step = 1e-5
    shifted = z[:, None, :] + step * np.concatenate([np.eye(z.shape[1]), -np.eye(z.shape[1])])
    values = model.parameters(shifted.reshape(-1, z.shape[1])).reshape(shifted.shape)
    slopes = (values[:, : z.shape[1]] - values[:, z.shape[1] :]) / (2 * step)
    log_volume = np.linalg.slogdet(slopes)[1]
    expected = stats.norm.logpdf(z).sum(axis=1) - log_volume
    assert_allclose(model.log_prior(model.parameters(z)), expected, rtol=0, atol=1e-4)


@every_model
def test_a_row_does_not_depend_on_those_beside_it(name, rng):
    model = MODELS[name]()
    points = some_points(model, rng)
    alone = np.concatenate([model.log_density(point[None]) for point in points])
    assert_allclose(model.log_density(points), alone, rtol=1e-9, atol=1e-9)
    assert model.log_density(points[:0]).shape == (0,)


@every_model
def test_density_is_prior_times_likelihood(name, rng):
    model = MODELS[name]()
    points = some_points(model, rng)
    assert_allclose(model.log_density(points), model.log_prior(points) + model.log_likelihood(points))


@every_model
def test_there_is_nothing_outside_the_bounds(name, rng):
    model = MODELS[name]()
    point = some_points(model, rng)[:1]
    for i, ends in enumerate(model.bounds):
        for end, away in zip(ends, (-1.0, 1.0), strict=True):
            if np.isfinite(end):
                beyond = point.copy()
                beyond[0, i] = end + 1e-6 * away * max(1.0, abs(end))
                assert_array_equal(model.log_density(beyond), -np.inf)


@every_model
def test_a_model_is_the_same_each_time_and_travels(name, rng):
    model = MODELS[name]()
    points = some_points(model, rng)
    again = pickle.loads(pickle.dumps(model.log_density))
    assert_array_equal(model.log_density(points), MODELS[name]().log_density(points))
    assert_array_equal(model.log_density(points), again(points))


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("wald", [3.0, 2.0, 0.9, 0.2], [3.0, 2.0, 0.9, 0.9]),
        ("capture_recapture", [90.0, 0.4, 4.0], [20.0, 0.4, 4.0]),
        ("ordinal_probit", [0.5, -1.0, 0.0, 0.1, 1.0], [0.5, -1.0, 0.1, 0.0, 1.0]),
        ("ar2", [1.3, -0.35, 1.0], [1.3, -0.29, 1.0]),
        ("ar2", [-1.3, -0.35, 1.0], [-1.3, -0.29, 1.0]),
    ],
)
def test_edges_that_are_no_bounds(name, inside, outside):
    values = MODELS[name]().log_density(np.array([inside, outside]))
    assert np.isfinite(values[0])
    assert values[1] == -np.inf


@pytest.mark.parametrize("name", ["two_exponentials", "gaussian_mixture"])
def test_labels_may_be_exchanged(name, rng):
    model = MODELS[name]()
    points = some_points(model, rng)
    order = [2, 3, 0, 1, 4] if name == "two_exponentials" else [1, 0, 3, 2, 4]
    exchanged = points[:, order]
    if name == "gaussian_mixture":
        exchanged[:, 4] = 1 - exchanged[:, 4]
    assert_allclose(model.log_density(exchanged), model.log_density(points))


def test_schools_are_one_posterior_in_two_views(rng):
    scaled, centred = MODELS["eight_schools"](), MODELS["centred_schools"]()
    z = rng.standard_normal((20, 10))
    x, y = scaled.parameters(z), centred.parameters(z)
    assert_allclose(centred.log_density(y), scaled.log_density(x) - 8 * np.log(x[:, 1]))


@pytest.mark.parametrize("name", ["change_point", "eight_schools"])
def test_evidences_by_integrals_are_averages_of_the_likelihood(name, rng):
    """Over draws of the prior, the plainest of estimates."""
    model = MODELS[name]()
    logs = model.guarded_likelihood(model.draw_prior(200_000, rng))
    top = logs.max()
    weights = np.exp(logs - top)
    error = weights.std() / weights.mean() / np.sqrt(len(weights))
    assert error < 0.05
    assert abs(np.log(weights.mean()) + top - model.log_evidence()) < 4.5 * error
