"""One BLAS thread while a fit runs. With several, sums are rounded otherwise, and most products of a fit are too small
to gain: the threads wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

__all__ = ["one_blas_thread"]


class _Shared:
    """The threads of BLAS belong to the whole process: set by the first fit that runs, and put back by the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = 0
        self.before = ExitStack()

    def enter(self) -> None:
        with self.lock:
            if self.running == 0:
                import threadpoolctl  # after NumPy and SciPy: it looks for what is loaded

                _take_control()
                self.before.enter_context(threadpoolctl.threadpool_limits(limits=1, user_api="blas"))
            self.running += 1

    def leave(self) -> None:
        with self.lock:
            self.running -= 1
            if self.running == 0:
                _take_control()
                self.before.close()


def _take_control() -> None:
    """Let this thread set how many threads OpenBLAS has: recent threadpoolctl listens to the first one that did, and
    the fit that ends last may be in another one."""
    import threadpoolctl

    clear = getattr(getattr(threadpoolctl, "OpenBLASController", None), "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


_shared = _Shared()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, BLAS has one thread; what it had before is put back at the end. Fits in several threads share this."""
    _shared.enter()
    try:
        yield
    finally:
        _shared.leave()
