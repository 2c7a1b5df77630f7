"""Runs NVIDIA's native report parser on a file in a forked child first.

A damaged report can make it crash the whole process (measured with ncu-report 2026.3.1: 21 of 3000 randomly altered
reports, nearly all where it disassembles the embedded binary). A child that dies is an error message; a parent that
dies is a lost session. Where the system cannot fork, the check is skipped.

The reader spends some 65 ms on tables of its own when it is first asked for a metric. `prime` makes it do so on a
minimal report of ours, while the child tries the user's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from gpuprof.code.tools.named_bytes import NamedBytes

FILE = "report.ncu-rep"
"""What a report is called that the reader is given as bytes, where it needs a name."""
_TIMEOUT_S = 60.0


# One launch named "k" with one metric.
_MINIMAL_REPORT = (
    b'NVR\0\x02\0\0\0\x08\x07 \0\0\0\x08\0\x10\x01"\x18\n\x16gpu__time_duration.sum(@'
    b"<\0\0\0\x08\x01\x10\x01\x18\x01 \x01*\x01k2\x01k:\x01k@\x03J\x06\x08\x01\x10\x01\x18\x01"
    b"R\x06\x08\x01\x10\x01\x18\x01Z\x06\x08\x01\x10\x01\x18\x01j\r\x08\0\x12\t\x19\0\0\0\0\0\0\xf0?z\0"
)


class Trial(NamedTuple):
    """A child that is trying something; `outcome` waits for it. No child where the system cannot fork."""

    child: int | None

    def outcome(self) -> str | None:
        """Return None if the child came through, else what happened to it. Call it once."""
        return _outcome(self.child) if self.child is not None else None


def start(action: Callable[[], object]) -> Trial:
    """Run `action` in a forked child, and return at once."""
    if not hasattr(os, "fork"):
        return Trial(None)
    with warnings.catch_warnings():
        # Python warns of fork() in a process with threads; the child calls only the native reader and _exit.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _in_child(action)
    return Trial(child)


def _in_child(action: Callable[[], object]) -> None:
    status = 1
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        action()
        status = 0
    finally:
        os._exit(status)


def _outcome(child: int) -> str | None:
    deadline = time.monotonic() + _TIMEOUT_S
    delay_s = 0.0005
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return f"does not finish within {_TIMEOUT_S:.0f} s"
        time.sleep(delay_s)
        delay_s = min(delay_s * 2, 0.01)
    if os.WIFSIGNALED(status):
        return f"crashes ({signal.Signals(os.WTERMSIG(status)).name})"
    return None if os.WEXITSTATUS(status) == 0 else "fails"


@cache
def prime(ncu_report: Any) -> None:
    """Make the native reader load its tables, once a process."""
    file = NamedBytes(_MINIMAL_REPORT, FILE)
    ncu_report.load_report(file.path).range_by_idx(0).action_by_idx(0).metric_by_name("gpu__time_duration.sum")


class _Quiet:
    """Stderr of the process, silenced while any thread wants it so, and the copy that it is put back from."""

    def __init__(self) -> None:
        self._lock, self._users, self._kept = threading.Lock(), 0, -1

    @contextlib.contextmanager
    def silenced(self) -> Iterator[None]:
        """Silence it inside the block; when the last such block has ended, put it back."""
        with self._lock:
            if self._users == 0:
                self._kept, silent = _copy_of_stderr(), os.open(os.devnull, os.O_WRONLY)
                os.dup2(silent, 2)
                os.close(silent)
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    os.dup2(self._kept, 2)
                    os.close(self._kept)


def _copy_of_stderr() -> int:
    if sys.stderr is not None:
        sys.stderr.flush()
    return os.dup(2)


_STDERR = _Quiet()


def quiet() -> contextlib.AbstractContextManager[None]:
    """Keep the native reader's own log lines off stderr: what they mean is said by an error of ours."""
    return _STDERR.silenced()
