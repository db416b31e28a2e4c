"""`rng` and `seed` mean the same wherever there is chance, and only one of them is given."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import vsbq
from vsbq.errors import ArgumentError
from vsbq.randomness import in_words, one_of


def test_what_they_say_together():
    generator = np.random.default_rng(0)
    assert one_of(None, None) is None
    assert one_of(3, None) == one_of(None, 3) == 3
    assert one_of(generator, None) is generator


def test_what_random_numbers_came_from():
    assert [in_words(given) for given in (7, 0)] == ["7", "0"]
    assert in_words(None) == "no seed was given"
    assert "Generator" in in_words(np.random.default_rng(0))


@pytest.mark.parametrize(
    ("rng", "seed", "words"),
    [
        (1, 1, "mean the same, but both are given"),
        (np.random.default_rng(0), 0, "mean the same"),
        (-1, None, "at least 0, not -1"),
        (None, -2, "at least 0, not -2"),
        (None, True, "True is no seed"),
    ],
)
def test_what_is_refused(rng, seed, words):
    with pytest.raises(ArgumentError, match=words) as caught:
        one_of(rng, seed)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, vsbq.VsbqError)


def with_rng(owner):
    """Public functions and methods that take `rng`."""
    found = {name: member for name, member in vars(owner).items() if inspect.isfunction(member) and name[0] != "_"}
    parameters = {name: inspect.signature(member).parameters for name, member in found.items()}
    return {name: each for name, each in parameters.items() if "rng" in each}


def test_every_method_knows_both():
    """Also one that is written tomorrow."""
    methods = with_rng(vsbq.Posterior)
    assert {"sample", "diagnose", "plot", "suggest", "update", "check", "with_prior", "to_arviz"} <= set(methods)
    assert [name for name, each in methods.items() if "seed" not in each] == []
    for function in (vsbq.fit, vsbq.fit_many, vsbq.compare, vsbq.compare_groups):
        assert {"rng", "seed"} <= set(inspect.signature(function).parameters)


def test_seed_is_rng():
    models = {"one": (-1.0, 0.3), "two": (-2.0, 0.3)}
    one, two, other = vsbq.compare(models, seed=5), vsbq.compare(models, rng=5), vsbq.compare(models, seed=6)
    np.testing.assert_array_equal(one.probability_low, two.probability_low)
    assert (one.probability_low != other.probability_low).any()
    with pytest.raises(ArgumentError, match="mean the same"):
        vsbq.compare(models, rng=5, seed=5)
    with pytest.raises(ArgumentError, match="mean the same"):
        vsbq.fit(np.zeros((5, 1)), np.zeros(5), rng=1, seed=1)
