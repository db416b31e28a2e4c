"""A recorder and its file, for all tests of recorders."""

from __future__ import annotations

import pytest

from recording import BOX, NAMES
from vsbq.io.record import Recorder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fits.db"


@pytest.fixture
def rec(path):
    with Recorder(path, names=NAMES, bounds=BOX, tag="v1") as recorder:
        yield recorder
