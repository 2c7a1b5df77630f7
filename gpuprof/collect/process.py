"""Runs a command so that it can be stopped: its output watched, its whole family ended, whatever it started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TAIL_BYTES = 64 * 1024
_GRACE_S = {signal.SIGINT: 20.0, signal.SIGTERM: 5.0, signal.SIGKILL: 5.0}
"""How long a command may take to end by itself after a signal: ncu writes its report in that time."""
_TICK_S = 0.1
_SUBREAPER = 36
"""prctl's PR_SET_CHILD_SUBREAPER: what a program detaches stays our child, and can be ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its exit code, the last part of stderr, wall time, and who ended it.

    `code` is negative for a signal. `stopped_by` is None, "timeout" or "interrupt".
    """

    code: int
    tail: str
    seconds: float
    stopped_by: str | None = None


def run(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    stdout: IO[bytes] | int | None = None,
    timeout_s: float | None = None,
    quiet: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a command to its end, at most `timeout_s`; stderr goes on to ours unless `quiet`, and its tail is kept.

    SIGINT, SIGTERM, SIGHUP and SIGQUIT to us end the command and all its descendants: first by SIGINT, which lets ncu
    write what it has, then by force. Raises OSError if the command cannot be started.
    """
    started = time.monotonic()
    before = set(_children(os.getpid()))
    with _subreaper(), _stoppable() as stopped:
        child = subprocess.Popen(
            argv,
            env=dict(environ) if environ is not None else None,
            stdout=stdout,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        tail = _Tail(child.stderr, quiet=quiet)
        reason = None
        try:
            while (code := child.poll()) is None:
                if stopped() > 0:
                    reason = "interrupt"
                elif timeout_s is not None and time.monotonic() - started > timeout_s:
                    reason = "timeout"
                if reason is not None:
                    code = _end(child, stopped)
                    break
                tick()
                time.sleep(_TICK_S)
            if reason is None and stopped() > 0:
                reason = "interrupt"
        finally:
            child.kill()
            child.wait()
            _end_family(before)
        return Ended(code=code, tail=tail.text(), seconds=time.monotonic() - started, stopped_by=reason)


class _Tail:
    """Reads a stream in a thread of its own, passes it on and keeps its last part."""

    def __init__(self, stream: IO[bytes] | None, *, quiet: bool) -> None:
        self._kept = b""
        self._stream, self._quiet = stream, quiet
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._stream is not None
        while data := os.read(self._stream.fileno(), 65536):
            self._kept = (self._kept + data)[-_TAIL_BYTES:]
            if not self._quiet:
                with contextlib.suppress(OSError, ValueError):
                    sys.stderr.buffer.write(data)
                    sys.stderr.buffer.flush()

    def text(self) -> str:
        self._thread.join(timeout=1.0)
        if self._stream is not None and not self._thread.is_alive():
            self._stream.close()
        return self._kept.decode(errors="replace")


def _end(child: subprocess.Popen[bytes], stopped: Callable[[], int]) -> int:
    """End a command by the gentlest signal that works, and return its exit code; another Ctrl-C skips to the next."""
    for sent, grace_s in _GRACE_S.items():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, sent)
        so_far, until = stopped(), time.monotonic() + grace_s
        while stopped() == so_far and time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(timeout=_TICK_S)
    return child.wait()


def _end_family(before: set[int]) -> None:
    """End all descendants but the children that were there before, until none is left.

    One look is not enough: what a dying process leaves moves up to us while we look.
    """
    deadline = time.monotonic() + _GRACE_S[signal.SIGKILL]
    while (family := list(_descendants(os.getpid(), before))) and time.monotonic() < deadline:
        for pid in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(_TICK_S / 10)


def _descendants(root: int, without: set[int]) -> Iterator[int]:
    """Yield the processes that came from a process, deepest first, but for children that it had before."""
    for pid in _children(root):
        if pid not in without:
            yield from _descendants(pid, without)
            yield pid


def _children(pid: int) -> list[int]:
    """Return the children of a process, by Linux' /proc; elsewhere none are known."""
    children: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += map(int, tasks.read_text().split())
    return children


@contextlib.contextmanager
def _subreaper() -> Iterator[None]:
    """Let orphans of the command become our children while it runs; where that cannot be had, go on without."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
    if prctl is not None:
        prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        if prctl is not None:
            prctl(_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def _stoppable() -> Iterator[Callable[[], int]]:
    """Give a function that tells how often a signal to stop has come; the handlers before are put back.

    What the caller has us ignore, as nohup does with SIGHUP, stays ignored.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received.__len__
        return
    handlers = {
        which: signal.signal(which, lambda sent, _: received.append(sent))
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        if signal.getsignal(which) is not signal.SIG_IGN
    }
    try:
        yield received.__len__
    finally:
        for which, handler in handlers.items():
            signal.signal(which, handler)
