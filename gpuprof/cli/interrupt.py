"""Ctrl-C: the program ends at once, wherever it is, and takes half-written files with it.

Python's own way, an exception, is lost where none can be passed on, such as in a callback while a module is imported:
the program then goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from gpuprof.errors import Interrupted

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
