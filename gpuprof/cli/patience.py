"""A limit on what expressions and files from others may take: some are made to take longer than anyone waits."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator

from gpuprof.errors import GpuprofError

LIMIT_S = 5.0
"""What is not made to take long takes milliseconds."""


@contextlib.contextmanager
def within(limit_s: float, error: GpuprofError) -> Iterator[None]:
    """Raise an error where the block takes longer, in the main thread; another one cannot be told of it."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
