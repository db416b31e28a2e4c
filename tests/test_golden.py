"""The fits of `golden.py` give what they gave before.

With the versions, the processor and the threads that the file was written with, to 1e-8; elsewhere sums are rounded
otherwise, and optimisers then take other paths: the evidence agrees within a tenth of a nat, means within a tenth of a
standard deviation.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import golden

KEPT = json.loads(golden.FILE.read_text())
SAME_MACHINE = KEPT["machine"] == golden.machine()


@pytest.mark.parametrize("name", golden.FITS)
def test_a_fit_is_what_it_was(name):
    before, now = KEPT["fits"][name], golden.fitted(name)
    if SAME_MACHINE:
        for key in before:
            np.testing.assert_allclose(now[key], before[key], rtol=1e-8, atol=1e-8, err_msg=key)
    else:
        assert now["evidence"][0] == pytest.approx(before["evidence"][0], abs=0.1)
        assert np.abs(np.subtract(now["mean"], before["mean"])).max() < 0.1 * max(before["sd"])


def test_a_dozen_are_kept():
    assert list(KEPT["fits"]) == list(golden.FITS)
    assert len(KEPT["fits"]) >= 12
