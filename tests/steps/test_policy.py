"""How many components the mixture starts with."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from vsbq.steps.mixture import VariationalMixture


@pytest.mark.parametrize(("d", "wanted"), [(1, 15), (2, 20), (4, 30), (20, 30)])
def test_components_grow_with_the_dimension_up_to_a_limit(d, wanted):
    assert VariationalMixture().components(d) == wanted


def test_a_lower_limit_is_kept():
    assert VariationalMixture(max_components=3).components(2) == 3


def test_a_policy_is_not_changed_behind_a_fit():
    with pytest.raises(FrozenInstanceError):
        VariationalMixture().max_components = 3
