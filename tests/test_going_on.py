"""Updates that keep what the surrogate has learnt: when they do, and that they are what a fit with it would be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vsbq
from going_on_cases import COARSE, STEPS, many, wide
from improve_cases import FAST, log_normal
from vsbq.analysis.going_on import going_on, surprise
from vsbq.analysis.update import joined
from vsbq.progress import Progress
from vsbq.steps.noise import NoiseCheck
from vsbq.steps.surrogate.going_on import GoingOn
from vsbq.steps.surrogate.shaped_data import Shaping
from vsbq.steps.trim import Trim, trim_evaluations


@pytest.fixture(scope="module")
def fitted():
    return many()


@pytest.fixture(scope="module")
def new():
    return wide(np.random.default_rng(5), 20)


def test_what_was_predicted_is_no_surprise(fitted, new):
    together = joined(fitted, new, log_normal(new))
    assert surprise(fitted, together.take(np.arange(400, 420)), Shaping()) < 3
    assert isinstance(going_on(fitted, together, STEPS).surrogate, GoingOn)


def test_what_was_not_predicted_is_learnt_from(fitted, new):
    together = joined(fitted, new, log_normal(new) + np.linspace(-4, 4, 20))
    assert surprise(fitted, together.take(np.arange(400, 420)), Shaping()) > 3
    assert going_on(fitted, together, STEPS) is STEPS


def test_an_edge_and_few_evaluations_are_learnt_from(fitted, new):
    values = log_normal(new)
    values[3] = -np.inf
    assert going_on(fitted, joined(fitted, new, values), STEPS) is STEPS
    together = joined(fitted, new, log_normal(new))
    assert going_on(fitted, together, FAST) is FAST  # 420 are few for its levels
    published = vsbq.Settings.paper().steps()
    assert going_on(fitted, together, published) is published


def test_noise_is_no_surprise(fitted, new):
    noise = 5.0 * np.random.default_rng(1).standard_normal(20)
    told = joined(fitted, new, log_normal(new) + noise, np.full(20, 5.0))
    assert surprise(fitted, told.take(np.arange(400, 420)), Shaping()) < 3


def test_going_on_with_the_same_evaluations_changes_nothing(fitted):
    """Also in coordinates that another trim has moved and scaled."""
    history = fitted.history.surrogate
    step = GoingOn(COARSE, fitted.surrogate, history.shaping_strength, history.miss)
    draws = fitted.sample(300, rng=3)
    before = fitted.surrogate.predict(draws)
    for evaluations in (fitted.evaluations, fitted.evaluations + fitted.evaluations.take([0]), shifted(fitted)):
        training, _ = trim_evaluations(evaluations, Trim())
        surrogate, _, _ = step.fit(training, np.random.default_rng(2), Progress(1, False))
        np.testing.assert_allclose(surrogate.hyp.log_scales, fitted.surrogate.hyp.log_scales)
        assert len(surrogate.sisters) == len(fitted.surrogate.sisters) == 1
        np.testing.assert_allclose(surrogate.predict(draws).mean, before.mean, atol=0.05)


def shifted(post):
    """With evaluations on one side, which move centre and scale of the plain coordinates."""
    x = 3.0 * np.abs(wide(np.random.default_rng(7), 60))
    together = joined(post, x, log_normal(x))
    here, there = (trim_evaluations(each, Trim())[0].space for each in (post.evaluations, together))
    assert not np.allclose(here.centre, there.centre)
    assert not np.allclose(here.scale, there.scale)
    return together


def test_an_update_that_goes_on_is_as_good_as_a_fit(fitted, new):
    steps = replace(STEPS, noise=NoiseCheck())
    post = fitted.update(new, log_normal(new), settings=steps, rng=2, progress=False)
    np.testing.assert_allclose(post.surrogate.hyp.log_scales, fitted.surrogate.hyp.log_scales)
    assert abs(post.log_evidence) < 0.1
    assert len(post.evaluations) == 420
