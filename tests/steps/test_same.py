"""The earlier mixture in an update: it stays where it suits the new surrogate, and only there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from going_on_cases import STEPS, many
from vsbq.progress import Progress
from vsbq.steps.mixture.same import SameMixture
from vsbq.steps.mixture.starts import moved
from vsbq.steps.trim import Trim, trim_evaluations


@pytest.fixture(scope="module")
def fitted():
    return many()


def test_a_mixture_stays_where_its_weights_are_even(fitted):
    region, settings = fitted.refined.region, replace(STEPS.mixture, enough=0.5)
    training, _ = trim_evaluations(fitted.evaluations, Trim())
    given = (training, np.random.default_rng(2), Progress(1, False))
    mixture = _there(fitted)
    kept, elbo, told = SameMixture(settings).fit(region, *given, mixture)
    assert kept is mixture
    assert elbo.value + fitted.surrogate.offset == pytest.approx(fitted.elbo, abs=0.02)
    assert told.starts[0][0] == "earlier posterior"
    narrow = mixture._replace(trils=0.3 * mixture.trils)
    assert SameMixture(settings).fit(region, *given, narrow)[0] is not narrow


def _there(post):
    """The mixture in the surrogate's coordinates."""
    found = moved(post.mixture, post.space, post.surrogate.space)
    assert found is not None
    return found
