"""What a fit says while it works: a bar in a terminal or a notebook, lines where output is piped; and the logger."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from vsbq.markup import element

logger = logging.getLogger("vsbq")
logger.addHandler(logging.NullHandler())

#: Seconds between two changes of a bar in a notebook, and between two lines that count fits.
LEAST_CHANGE = 0.2
LEAST_BETWEEN = 10.0


@runtime_checkable
class _Display(Protocol):
    """Where progress is shown."""

    def say(self, text: str, done: int) -> None:
        """What is being done now, and how many of the parts are done."""

    def close(self, done: int) -> None:
        """The work has ended, or has failed, with so many parts done."""


class Progress:
    """Stages of a fit: shown as told, always log records, and the seconds that each stage took.

    `show` is None for a bar in a terminal or a notebook and a line for each stage elsewhere, on stderr; True for a bar
    anywhere; False for nothing.
    """

    def __init__(self, stages: int, show: bool | None) -> None:
        self.seconds: dict[str, float] = {}
        self._done = 0
        self._display = _display(stages, show, _Lines(stages))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage and name it."""
        if isinstance(self._display, _Lines):
            self._display.begin(name, self._done)
        self.say(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
        logger.info("%s: %.2f s", name, self.seconds[name])
        self._done += 1
        self.say(name)

    def say(self, text: str) -> None:
        """What is being done right now."""
        logger.debug(text)
        if self._display is not None:
            self._display.say(text, self._done)

    def close(self) -> None:
        """The end, whether the fit is there or has failed."""
        if self._display is not None:
            self._display.close(self._done)
            self._display = None


class CountedProgress:
    """Many pieces of work: they are counted as told, and there is a log record for each."""

    def __init__(self, total: int, show: bool | None, unit: str = "fit") -> None:
        self._done = 0
        self._display = _display(total, show, _Counts(total, unit))

    def count(self, text: str, number: int = 1) -> None:
        """One of them, or more, have ended."""
        logger.info(text)
        self._done += number
        if self._display is not None:
            self._display.say(text, self._done)

    def say(self, text: str) -> None:
        """What is being done right now."""
        logger.debug(text)
        if self._display is not None:
            self._display.say(text, self._done)

    def close(self) -> None:
        """The end."""
        if self._display is not None:
            self._display.close(self._done)
            self._display = None


def _display(parts: int, show: bool | None, piped: _Display) -> _Display | None:
    """Where to show progress."""
    if show is False:
        return None
    if _in_notebook():
        return _NotebookBar(parts)
    if show or _is_terminal(sys.stderr):
        return _TerminalBar(parts)
    return None if sys.stderr is None else piped


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook; IPython in a terminal is none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _TerminalBar:
    """A bar of tqdm on stderr that leaves nothing behind."""

    def __init__(self, parts: int) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=parts, desc="vsbq", leave=False, bar_format="{desc:<44}{bar:24}| {elapsed}")

    def say(self, text: str, done: int) -> None:
        self._bar.update(done - self._bar.n)
        self._bar.set_description_str(text)

    def close(self, done: int) -> None:
        self._bar.close()


class _Words:
    """Something that a notebook shows as HTML, and a console without HTML as text."""

    def __init__(self, text: str, *html: str) -> None:
        self._text = text
        self._html = element("div", *(html or (text,)), style="font-size: 90%")

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return str(self._html)


class _NotebookBar:
    """A bar of HTML that a notebook shows without widgets; when the work has ended, a line says how long it took."""

    def __init__(self, parts: int) -> None:
        self._parts, self._start, self._last = parts, time.perf_counter(), 0.0
        self._handle = import_module("IPython.display").display(self._page("start", 0), display_id=True)

    def say(self, text: str, done: int) -> None:
        now = time.perf_counter()
        if self._handle is not None and now - self._last >= LEAST_CHANGE:
            self._last = now
            self._handle.update(self._page(text, done))

    def close(self, done: int) -> None:
        how = "done" if done >= self._parts else f"ended with {done} of {self._parts} done"
        if self._handle is not None:
            self._handle.update(_Words(f"vsbq: {how}, {self._seconds()}"))

    def _page(self, text: str, done: int) -> _Words:
        bar = element("progress", value=str(done), max=str(self._parts), style="width: 16em; vertical-align: middle")
        words = f"{text}, {self._seconds()}"
        return _Words(f"vsbq: {words}", bar, f" {words}")

    def _seconds(self) -> str:
        return f"{time.perf_counter() - self._start:.1f} s"


class _Lines:
    """A line on stderr when a stage begins, and one at the end."""

    def __init__(self, parts: int) -> None:
        self._parts, self._start = parts, time.perf_counter()

    def begin(self, name: str, done: int) -> None:
        """A stage begins."""
        _write(f"vsbq: {name} ({done + 1} of {self._parts}), after {self._seconds()}")

    def say(self, text: str, done: int) -> None:
        """Nothing: what happens within a stage is for bars."""

    def close(self, done: int) -> None:
        if done:
            _write(f"vsbq: {'done' if done >= self._parts else 'ended early'}, {self._seconds()}")

    def _seconds(self) -> str:
        return f"{time.perf_counter() - self._start:.1f} s"


class _Counts:
    """A line on stderr now and then that says how many are done; nothing if all are done soon."""

    def __init__(self, parts: int, unit: str) -> None:
        self._parts, self._unit, self._start = parts, unit, time.perf_counter()
        self._last = self._start

    def say(self, text: str, done: int) -> None:
        now = time.perf_counter()
        if now - self._last >= LEAST_BETWEEN or (done == self._parts and self._last > self._start):
            self._last = now
            _write(f"vsbq: {done} of {self._parts} {self._unit}s done, after {now - self._start:.1f} s")

    def close(self, done: int) -> None:
        """Nothing: the last of them was counted."""


def _write(line: str) -> None:
    """A line on stderr; a stream that is closed or broken does not end a fit."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        logger.debug("stderr could not be written to")
