"""Whatever it is given, `fit` returns a posterior or an error of the package that names the cause; no warnings."""

from __future__ import annotations

import re
import sys
import warnings

import numpy as np
import pytest

import vsbq
from hostile import hostile_case
from seeds import SEED
from vsbq.errors import VsbqError, VsbqWarning
from vsbq.settings import Steps
from vsbq.steps.mixture.policy import VariationalMixture
from vsbq.steps.refine import Refinement

CHUNKS, CHUNK = 10, 10
MANY = 1000


#: All steps of the default with fewer draws: what can break is in the sizes, scales and shapes, not in how many.
QUICK = Steps(
    mixture=VariationalMixture(adapt=((1000, 10), (2000, 10)), then=(128, 10), elbo_draws=4000),
    refinement=Refinement(draws=4000, particles=800, moves=4),
)


def trouble(seed: int, settings: vsbq.Settings = QUICK) -> str:
    """What is wrong with the answer to a hostile case; empty if nothing is."""
    case = hostile_case(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", VsbqWarning)
        try:
            post = vsbq.fit(case.points, case.log_density, rng=seed, settings=settings, progress=False, **case.options)
            draws = post.sample(100, rng=0)
        except VsbqError as error:
            known = error.__cause__ is None and re.match(
                r"[A-Z'0-9-].*\. [A-Z].*\.$|[a-z_]+ .*\. [A-Z].*\.$", str(error), re.S
            )
            return "" if known else f"{case.words}: {error!r}"
        except Exception as error:
            return f"{case.words}: {error!r}"
    if not (np.isfinite(post.log_evidence) and post.log_evidence_sd >= 0):
        return f"{case.words}: evidence {post.log_evidence} ± {post.log_evidence_sd}"
    if not np.isfinite(draws).all() or post.bounds.outside(draws).any():
        return f"{case.words}: draws outside"
    return ""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_hostile_input(chunk):
    first = 10_000 * SEED + chunk * CHUNK
    assert [words for seed in range(first, first + CHUNK) if (words := trouble(seed))] == []


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(MANY // 50))
def test_much_hostile_input(chunk):
    first = 10_000 * (SEED + 1) + 50 * chunk
    assert [words for seed in range(first, first + 50) if (words := trouble(seed, vsbq.Settings()))] == []


def test_hostile_cases_are_not_all_refused():
    """A control: most of the cases get as far as a posterior."""
    fine = 0
    for seed in range(60):
        case = hostile_case(seed)
        try:
            vsbq.Evaluations(case.points, case.log_density, **case.options)
        except VsbqError:
            continue
        fine += 1
    assert fine >= 30


def test_a_bare_error_would_be_seen(monkeypatch):
    """A control: an error of NumPy inside the fit is trouble, also in the words of the last net."""

    def broken(*_, **__):
        raise np.linalg.LinAlgError("SVD did not converge")

    seed = next(seed for seed in range(100) if not trouble(seed) and _fits(seed))
    monkeypatch.setattr(sys.modules["vsbq.fit"], "trim_evaluations", broken)
    assert "SVD did not converge" in trouble(seed)


def _fits(seed: int) -> bool:
    case = hostile_case(seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            vsbq.fit(case.points, case.log_density, rng=0, settings=QUICK, progress=False, **case.options)
    except VsbqError:
        return False
    return True
