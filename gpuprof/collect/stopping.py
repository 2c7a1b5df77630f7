"""Termination signals while profiling: the profiled program ends first, and what was recorded is kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpuprof.errors import GpuprofError, Interrupted


class NotedSignals(NamedTuple):
    """The signals received so far, and the handlers that were installed before."""

    came: list[int]
    handlers: Mapping[int, Any]

    def any(self) -> bool:
        """Return whether a signal was received."""
        return bool(self.came)

    def hand_on(self) -> None:
        """Pass the received signals to the handlers that were installed before."""
        for sent in dict.fromkeys(self.came):
            handler = self.handlers[sent]
            if callable(handler):
                # The signal itself would come a second time to a loop of asyncio, which hears of each by its wakeup.
                handler(sent, None)
            else:
                signal.raise_signal(sent)

    def in_error(self, error: GpuprofError | None) -> GpuprofError | None:
        """Return the error to raise, with the exit code of the first signal if there was one."""
        if not self.came:
            return error
        if not isinstance(error, Interrupted):
            error = Interrupted("interrupted")
        error.exit_code = 128 + self.came[0]
        return error


@contextlib.contextmanager
def noted_signals() -> Iterator[NotedSignals]:
    """Record SIGTERM, SIGHUP and SIGQUIT instead of ending. Signals that are ignored stay ignored.

    An Interrupted raised in the block gets the exit code of the first signal.
    """
    noted = NotedSignals([], handlers := {})
    if threading.current_thread() is threading.main_thread():
        for which in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(which) not in (signal.SIG_IGN, None):
                handlers[which] = signal.signal(which, lambda sent, _: noted.came.append(sent))
    try:
        yield noted
    except Interrupted as error:
        noted.in_error(error)
        raise
    finally:
        for which, handler in handlers.items():
            signal.signal(which, handler)
