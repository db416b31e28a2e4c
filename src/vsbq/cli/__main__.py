"""`python -m vsbq.cli` is the same as `vsbq`."""

from __future__ import annotations

import sys

from vsbq.cli import main

if __name__ == "__main__":
    sys.exit(main())
