"""The seed that turns all random streams of the tests: `VSBQ_TEST_SEED`, 0 if it is not set."""

from __future__ import annotations

import os

SEED = int(os.environ.get("VSBQ_TEST_SEED", "0"))
