"""Shapes are checked in the experiments too while the tests run: a wrong one does not get through."""

import jaxtyping
import numpy as np
import pytest

from vsbq_bench.metrics import mmtv


def test_a_wrong_shape_is_refused():
    with pytest.raises(jaxtyping.TypeCheckError):
        mmtv(np.zeros(3), np.zeros((3, 2)))
