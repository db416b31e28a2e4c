"""Marks for tests that need a stored truth."""

from __future__ import annotations

from pathlib import Path

import pytest

TRUTHS = Path(__file__).parents[1] / "vsbq_bench" / "truths"


def needs_truth(name: str) -> pytest.MarkDecorator:
    """Skip a test while a truth, which takes long to make, is not stored."""
    stored = (TRUTHS / f"{name}.npz").is_file()
    return pytest.mark.skipif(not stored, reason=f"no truth of {name} is stored; benchmarks/make_truth.py makes it")


def with_truth(name: str) -> object:
    """A parameter of a test that needs the truth of this name."""
    return pytest.param(name, marks=needs_truth(name))
