"""What a user chooses, and what the steps make of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields

import pytest

from vsbq.settings import Settings, Steps
from vsbq.steps.published import PublishedGP, PublishedMixture

#: Each setting, another value of it, and where it goes.
PLACES = {
    "trim_sigma": (10.0, lambda steps: steps.trim.depth),
    "inducing_per_dimension": (7, lambda steps: steps.surrogate.inducing_per_dimension),
    "max_inducing": (70, lambda steps: steps.surrogate.max_inducing),
    "max_learning_points": (700, lambda steps: steps.surrogate.max_learning_points),
    "residual_passes": (0, lambda steps: steps.surrogate.residual_passes),
    "max_components": (3, lambda steps: steps.mixture.max_components),
    "draws": (777, lambda steps: steps.refinement.draws),
    "check_noise": (False, lambda steps: steps.noise is not None),
    "refine": (False, lambda steps: steps.refinement is not None),
    "as_published": (True, lambda steps: isinstance(steps.surrogate, PublishedGP)),
}


def test_the_default_is_the_default_of_every_step():
    assert Settings().steps() == Steps()


def test_every_setting_has_its_place():
    assert set(PLACES) == {setting.name for setting in fields(Settings)}


@pytest.mark.parametrize("name", PLACES)
def test_a_setting_reaches_its_step(name):
    value, place = PLACES[name]
    assert place(Settings().steps()) == getattr(Settings(), name) != value
    assert place(Settings(**{name: value}).steps()) == value


@pytest.mark.parametrize("name", sorted(set(PLACES) - {"as_published"}))
def test_a_setting_changes_its_own_step_only(name):
    changed = Settings(**{name: PLACES[name][0]}).steps()
    differ = [step.name for step in fields(Steps) if getattr(changed, step.name) != getattr(Steps(), step.name)]
    assert len(differ) == 1


def test_the_algorithm_as_published():
    steps = Settings.paper().steps()
    assert steps == Steps.published()
    assert isinstance(steps.mixture, PublishedMixture)
    assert (steps.noise, steps.refinement) == (None, None)
    assert steps.surrogate.inducing_per_dimension == 100
    assert steps.mixture.components == 50


def test_settings_are_given_by_name_and_stay():
    with pytest.raises(TypeError):
        Settings(True)
    with pytest.raises(FrozenInstanceError):
        Settings().draws = 3
