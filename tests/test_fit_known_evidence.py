"""Small fits of targets whose evidence is known: the stated error holds, and no evidence comes from nowhere."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest

import vsbq
from known_evidence import known_case
from seeds import SEED
from vsbq.errors import EvaluationsError, VsbqWarning

FEW, MANY = 24, 240


class Outcome(NamedTuple):
    """How far a fit was off, what it stated, and what it would have stated of its uncertainty inside alone."""

    words: str
    error: float
    sd: float
    inside_sd: float
    above_support: float  # by how much the evidence exceeds that of a box as high as the best evaluation

    @property
    def wrong(self) -> bool:
        """A stated error that does not hold, with some allowance; an infinite one states nothing."""
        return np.isfinite(self.sd) and abs(self.error) > 6 * self.sd + 0.3


def outcome(seed: int) -> Outcome | None:
    """None if the evaluations are refused, as those with too few finite values."""
    case = known_case(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VsbqWarning)
        try:
            post = vsbq.fit(case.points, case.log_density, rng=seed, progress=False, **case.options)
        except EvaluationsError:
            return None
    inside = np.inf if post.refined is None else np.hypot(*post.refined.evidence[1:3])
    finite = np.isfinite(case.exact)
    volume = np.log(np.ptp(case.points[finite], axis=0)).sum()
    above = post.log_evidence - case.exact.max() - volume
    return Outcome(case.words, post.log_evidence - case.log_evidence, post.log_evidence_sd, inside, above)


def outcomes(first: int, count: int) -> list[Outcome]:
    found = [outcome(seed) for seed in range(first, first + count)]
    return [one for one in found if one is not None]


@pytest.mark.parametrize("chunk", range(4))
def test_stated_errors_hold(chunk):
    found = outcomes(100_000 * SEED + chunk * FEW // 4, FEW // 4)
    assert len(found) >= 3
    assert [one for one in found if one.wrong] == []
    assert [one for one in found if one.above_support > 6 * one.sd + 0.3] == []


@pytest.mark.slow
def test_many_stated_errors_hold():
    found = outcomes(100_000 * SEED + 5000, MANY)
    assert len(found) >= 200
    assert [one for one in found if one.wrong] == []
    assert [one for one in found if one.above_support > 6 * one.sd + 0.3] == []
    # A control: what the surrogate says of itself, inside its trusted region alone, would not hold.
    assert sum(one._replace(sd=one.inside_sd).wrong for one in found) >= 3
    # The errors are not so large that they hold for nothing: most fits state less than half a nat.
    assert np.median([one.sd for one in found]) < 0.5
