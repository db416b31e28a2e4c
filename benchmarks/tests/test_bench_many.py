"""The benchmark of many fits: its page says what its last line says, and it runs."""

from __future__ import annotations

import importlib.util
import json
import sys
from argparse import Namespace
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "many.py"


@pytest.fixture(scope="module")
def many():
    spec = importlib.util.spec_from_file_location("bench_many", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    yield module
    monkeypatch.undo()


def test_the_page_has_the_last_line(many):
    block = many.BLOCK.search(many.PAGE.read_text(encoding="utf-8"))
    assert block is not None
    assert many.rendered(many.last_line()) in block.group(0)


def test_another_line_would_make_another_page(many):
    line = many.last_line()
    line["processes"] = line["processes"] | {"seconds": 2 * line["processes"]["seconds"]}
    assert many.rendered(line) not in many.PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_it_measures(many):
    pytest.importorskip("joblib")
    line = many.measured(Namespace(fits=2, workers=2, dimension=1, evaluations=60, no_dask=True))
    assert line["processes"]["seconds"] > 0
    assert "2 fits of 60 evaluations" in many.rendered(json.loads(json.dumps(line)))
