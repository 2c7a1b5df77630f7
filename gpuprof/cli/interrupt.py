"""Ctrl-C: the program ends at once, wherever it is, and takes half-written files with it.

Python's own way, an exception, is lost where none can be passed on, such as in a callback while a module is imported:
the program then goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuprof.errors import Interrupted

_MOMENT_S = 8.0
"""What was started is given so long to end; processes that review code take 3 s at most each."""

_clean_ups: list[Callable[[], None]] = []


def end_at_once() -> None:
    """From now on end the program on Ctrl-C, unless its caller wants that ignored, as nohup does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextlib.contextmanager
def cleaned_up_by(action: Callable[[], None]) -> Iterator[None]:
    """Run `action` if Ctrl-C, the end of the terminal or `kill` ends the program inside the block."""
    _clean_ups.append(action)
    try:
        with _told_of_the_end():
            yield
    finally:
        _clean_ups.remove(action)


class _Stopped(BaseException):
    """A signal that ends the program. It is no Exception, so that nothing takes it for an error."""

    def __init__(self, which: int) -> None:
        super().__init__(which)
        self.which = which


@contextlib.contextmanager
def unwinding() -> Iterator[None]:
    """Let Ctrl-C, the end of the terminal and `kill` leave the block as an exception does.

    Programs that it started are then ended, and their folders removed. The second time, or where that takes longer than
    a moment, the program ends at once. Raises Interrupted for Ctrl-C; the others end the program behind the block.
    """
    process, before = os.getpid(), _signals_that_end()
    again: list[threading.Timer] = []

    def stop(which: int, _: object) -> None:
        if os.getpid() != process:
            os._exit(128 + which)
        _restore(before)
        again.append(threading.Timer(_MOMENT_S, os.kill, (process, which)))
        again[0].daemon = True
        again[0].start()
        raise _Stopped(which)

    for which in before:
        signal.signal(which, stop)
    try:
        yield
    except _Stopped as stopped:
        if stopped.which == signal.SIGINT:
            raise Interrupted("interrupted") from None
        os.kill(process, stopped.which)
        raise
    finally:
        for timer in again:
            timer.cancel()
        _restore(before)


def _signals_that_end() -> dict[int, Any]:
    """Return the signals that end this process, with what deals with each; none that its caller wants ignored."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    every = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    handlers = {which: signal.getsignal(which) for which in every}
    return {
        which: handler
        for which, handler in handlers.items()
        if handler is signal.SIG_DFL or (which == signal.SIGINT and callable(handler))
    }


def _restore(handlers: Mapping[int, Any]) -> None:
    for which, handler in handlers.items():
        signal.signal(which, handler)


@contextlib.contextmanager
def _told_of_the_end() -> Iterator[None]:
    """Clean up before a signal ends this process that would end it in any case; a child of it only ends."""
    process = os.getpid()

    def end(which: int, _: object) -> None:
        signal.signal(which, signal.SIG_DFL)
        if os.getpid() == process:
            _clean_up()
        os.kill(os.getpid(), which)

    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    every = [getattr(signal, name) for name in names if hasattr(signal, name)]
    ending = [which for which in every if signal.getsignal(which) is signal.SIG_DFL]
    for which in ending:
        signal.signal(which, end)
    try:
        yield
    finally:
        for which in ending:
            signal.signal(which, signal.SIG_DFL)


def _clean_up() -> None:
    for action in _clean_ups:
        with contextlib.suppress(OSError):
            action()


def _end(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _clean_up()
    with contextlib.suppress(OSError):
        os.write(2, b"error: interrupted\n")
    os._exit(Interrupted.exit_code)
