"""What a fit among many has around it: a list for its warnings. Fits in several threads share it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from vsbq.errors import VsbqWarning

__all__ = ["guarded"]


class _Guard:
    """The filters of warnings belong to the whole process: set by the first fit that runs, and put back by the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.heard: dict[int, list[str]] = {}  # of the fits that run, by thread
        self.before = ExitStack()

    @contextmanager
    def entered(self) -> Iterator[list[str]]:
        own: list[str] = []
        thread = threading.get_ident()
        with self.lock:
            if not self.heard:
                self._set()
            self.heard[thread] = own
        try:
            yield own
        finally:
            with self.lock:
                del self.heard[thread]
                if not self.heard:
                    self.before.close()

    def _set(self) -> None:
        self.before.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always", VsbqWarning)
        others = warnings.showwarning

        def hear(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            own = self.heard.get(threading.get_ident())
            if own is None or not issubclass(category, VsbqWarning):
                others(message, category, *place, **more)
            elif str(message) not in own:
                own.append(str(message))

        warnings.showwarning = hear


_guard = _Guard()


@contextmanager
def guarded() -> Iterator[list[str]]:
    """Inside, the package's warnings go to the list."""
    with _guard.entered() as heard:
        yield heard
