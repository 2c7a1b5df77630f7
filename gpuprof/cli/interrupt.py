"""Ctrl-C: the program ends at once, wherever it is, and takes half-written files with it.

Python's own way, an exception, is lost where none can be passed on, such as in a callback while a module is imported:
the program then goes on.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from gpuprof.errors import Interrupted

_clean_ups: list[Callable[[], None]] = []


def end_at_once() -> None:
    """From now on end the program on Ctrl-C, unless its caller wants that ignored, as nohup does."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextlib.contextmanager
def cleaned_up_by(action: Callable[[], None]) -> Iterator[None]:
    """Run `action` if Ctrl-C ends the program inside the block."""
    _clean_ups.append(action)
    try:
        yield
    finally:
        _clean_ups.remove(action)


def _end(*_: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for action in _clean_ups:
        with contextlib.suppress(OSError):
            action()
    with contextlib.suppress(OSError):
        os.write(2, b"error: interrupted\n")
    os._exit(Interrupted.exit_code)
