"""The log of a fit: what the library says of its steps, kept until there is a file to write it to."""

from __future__ import annotations

import logging
from types import TracebackType

from vsbq.cli.wording import one_line
from vsbq.progress import logger

__all__ = ["FitLog"]


class FitLog(logging.Handler):
    """Listens to the library's logger while it is open; the logger is left as it was."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._lines: list[str] = []
        self._level = logger.level
        self.setFormatter(logging.Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one line."""
        self._lines.append(one_line(self.format(record)))

    def say(self, message: str) -> None:
        """A line of our own, for nobody else to hear."""
        self.handle(logging.makeLogRecord({"msg": "%s", "args": (message,), "levelno": logging.INFO}))

    @property
    def text(self) -> str:
        """All lines so far."""
        return "".join(f"{line}\n" for line in self._lines)

    def __enter__(self) -> FitLog:
        self._level = logger.level
        if logger.getEffectiveLevel() > logging.INFO:
            logger.setLevel(logging.INFO)
        logger.addHandler(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logger.removeHandler(self)
        logger.setLevel(self._level)
