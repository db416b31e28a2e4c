"""A progress bar by stage, in a terminal or a notebook, and the library's logger. Quiet unless asked."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger("vsbq")
logger.addHandler(logging.NullHandler())


class Progress:
    """Stages of a fit: a bar if `show`, always log records, and the seconds that each stage took."""

    def __init__(self, stages: int, show: bool | None) -> None:
        self.seconds: dict[str, float] = {}
        self._bar = None
        if show or (show is None and sys.stderr.isatty()):
            from tqdm.auto import tqdm

            self._bar = tqdm(total=stages, desc="vsbq", leave=False, bar_format="{desc:<44}{bar:24}| {elapsed}")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and name it on the bar."""
        self.say(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        logger.info("%s: %.2f s", name, self.seconds[name])
        if self._bar is not None:
            self._bar.update(1)

    def say(self, text: str) -> None:
        """What is being done right now."""
        logger.debug(text)
        if self._bar is not None:
            self._bar.set_description_str(text)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()


class CountedProgress:
    """Many pieces of work: a bar that counts them if `show`, and a log record for each."""

    def __init__(self, total: int, show: bool | None, unit: str = "fit") -> None:
        self._bar = None
        if show or (show is None and sys.stderr.isatty()):
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total, desc="vsbq", leave=False, unit=unit)

    def count(self, text: str, number: int = 1) -> None:
        """One of them, or more, have ended."""
        logger.info(text)
        if self._bar is not None:
            self._bar.update(number)

    def say(self, text: str) -> None:
        """What is being done right now."""
        logger.debug(text)
        if self._bar is not None:
            self._bar.set_description_str(text)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
