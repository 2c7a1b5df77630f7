"""Runs a command so that it can be stopped: its output watched, its whole family ended, whatever it started.

It works in any thread and leaves other children of this process alone: those of a notebook, a server or tests.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
import queue
import resource
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
_PIECE_BYTES = 64 * 1024
_PIECES_WAITING = 64
_GRACE_S = {signal.SIGINT: 20.0, signal.SIGTERM: 5.0, signal.SIGKILL: 5.0}
"""How long a command may take to end by itself after a signal: ncu writes its report in that time."""
_TICK_S = 0.1
_SET_SUBREAPER, _GET_SUBREAPER = 36, 37
"""prctl's PR_SET_CHILD_SUBREAPER: what a program detaches stays our child, and can be ended."""
_LOCKS = 10
"""RLIMIT_LOCKS, which limits nothing since Linux 2.5: its soft limit tells the processes of a run from others.

A process hands it on to what it starts, whatever that does to its environment, session and parent, and has it until it
is waited for.
"""
_MARK = "GPUPROF_RUN"
"""The variable that tells them, too: what a command starts in its first moments comes before the limit is set.

Only what drops the variable and leaves session and parent behind in those moments is not known.
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: its exit code, the last part of stderr, wall time, and who ended it.

    `code` is negative for a signal. `stopped_by` is None, "timeout" or "interrupt".
    """

    code: int
    tail: str
    seconds: float
    stopped_by: str | None = None


def never() -> bool:
    """Tell that nobody asks to stop."""
    return False


def run(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    stdout: IO[bytes] | int | None = None,
    timeout_s: float | None = None,
    quiet: bool = False,
    write: Callable[[str], object] | None = None,
    keep: Callable[[bytes], object] | None = None,
    tick: Callable[[], None] = lambda: None,
    stop: Callable[[], bool] = never,
) -> Ended:
    """Run a command to its end, at most `timeout_s`; stderr goes on to ours unless `quiet`, and its tail is kept.

    `write`, if there is one, gets what the command writes to stdout and stderr instead, as text, in the calling thread;
    `keep`, what it writes to stdout, as it comes, in a thread of its own, so that the command never waits for us.
    `stop` and, in the main thread, SIGINT, SIGTERM, SIGHUP and SIGQUIT to us end the command and all its descendants:
    first by SIGINT, which lets ncu write what it has, then by force. Raises OSError if the command cannot be started.
    """
    started, mark = time.monotonic(), 1 << 60 | int.from_bytes(os.urandom(7), "big")
    with _SUBREAPER.on(), _stoppable(stop) as stopped:
        child = subprocess.Popen(
            argv,
            env={**(os.environ if environ is None else environ), _MARK: f"{mark:x}"},
            stdout=stdout if write is None and keep is None else subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        family, output = _Family(child.pid, mark), _Output(child, write, keep, quiet=quiet)
        reason = None
        try:
            while (code := child.poll()) is None:
                if stopped() > 0:
                    reason = "interrupt"
                elif timeout_s is not None and time.monotonic() - started > timeout_s:
                    reason = "timeout"
                if reason is not None:
                    code = _end(child, stopped, output.write_some)
                    break
                family.reap()
                output.write_some()
                tick()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=_TICK_S)
            if reason is None and stopped() > 0:
                reason = "interrupt"
        finally:
            child.kill()
            child.wait()
            family.end()
            output.close()
        output.write_rest()
        return Ended(code=code, tail=output.tail, seconds=time.monotonic() - started, stopped_by=reason)


class _Output:
    """What a command writes: each stream is read by a thread of its own, and passed on in the thread that runs us."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        write: Callable[[str], object] | None,
        keep: Callable[[bytes], object] | None,
        *,
        quiet: bool,
    ) -> None:
        assert child.stderr is not None
        self._tail = b""
        self._write = write
        self._waiting: queue.Queue[tuple[codecs.IncrementalDecoder, bytes]] = queue.Queue(_PIECES_WAITING)
        self._last: list[tuple[codecs.IncrementalDecoder, bytes]] = []
        pass_on = (
            [self._keep] if quiet and write is None else [self._keep, self._queued() if write else _stderr_writer()]
        )
        readers: dict[IO[bytes], Sequence[Callable[[bytes], object]]] = {child.stderr: pass_on}
        if child.stdout is not None:
            readers[child.stdout] = [keep or self._queued()]
        self._threads = {
            stream: threading.Thread(target=_read, args=(stream, takers), daemon=True)
            for stream, takers in readers.items()
        }
        for thread in self._threads.values():
            thread.start()

    @property
    def tail(self) -> str:
        """Return the last part of stderr."""
        return self._tail.decode(errors="replace")

    def _keep(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_TAIL_BYTES:]

    def _queued(self) -> Callable[[bytes], None]:
        """Return what takes the bytes of one stream, which may end within a character."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        return lambda data: self._waiting.put((decoder, data))

    def write_some(self) -> None:
        """Write what has come, for a moment: a program may print faster than its output is taken."""
        until = time.monotonic() + _TICK_S
        while self._write_next() and time.monotonic() < until:
            pass

    def write_rest(self) -> None:
        """Write all that has come."""
        while self._write_next():
            pass

    def _write_next(self) -> bool:
        if self._write is None or (piece := self._next()) is None:
            return False
        decoder, data = piece
        self._write(decoder.decode(data, final=not data))
        return True

    def _next(self) -> tuple[codecs.IncrementalDecoder, bytes] | None:
        if self._last:
            return self._last.pop(0)
        with contextlib.suppress(queue.Empty):
            return self._waiting.get_nowait()
        return None

    def close(self) -> None:
        """Read to the end, a second at most: a process that could not be ended may hold a stream open."""
        until = time.monotonic() + 1.0
        while any(thread.is_alive() for thread in self._threads.values()) and time.monotonic() < until:
            with contextlib.suppress(queue.Empty):
                self._last.append(self._waiting.get(timeout=_TICK_S / 20))
        for stream, thread in self._threads.items():
            if not thread.is_alive():
                stream.close()


def _read(stream: IO[bytes], takers: Sequence[Callable[[bytes], object]]) -> None:
    """Hand on what a stream has, and at its end no bytes; a program whose stderr nobody reads would hang."""
    data = b"."
    while data:
        data = os.read(stream.fileno(), _PIECE_BYTES)
        for take in takers:
            # sys.stderr may be anything that the caller put there, or None.
            with contextlib.suppress(Exception):
                take(data)


def _stderr_writer() -> Callable[[bytes], None]:
    """Return what writes to our stderr; that of a notebook takes text alone."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(data: bytes) -> None:
        stream = getattr(sys.stderr, "buffer", None)
        if stream is not None:
            stream.write(data)
        else:
            sys.stderr.write(decoder.decode(data, final=not data))
        sys.stderr.flush()

    return write


def _end(child: subprocess.Popen[bytes], stopped: Callable[[], int], meanwhile: Callable[[], None]) -> int:
    """End a command by the gentlest signal that works, and return its exit code; another Ctrl-C skips to the next."""
    for sent, grace_s in _GRACE_S.items():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, sent)
        asked, until = stopped(), time.monotonic() + grace_s
        while stopped() == asked and time.monotonic() < until:
            meanwhile()
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(timeout=_TICK_S)
    return child.wait()


class _Family:
    """The processes of a run, wherever they have moved: what they leave behind becomes a child of ours.

    A child of ours is of the run if it is in its session or has its mark, as a limit or a variable.
    """

    def __init__(self, child: int, mark: int) -> None:
        self._child, self._mark, self._variable = child, mark, f"{_MARK}={mark:x}".encode()
        # Then what it has started before it had the limit to hand on.
        for pid in (child, *_descendants(child)):
            self._limit(pid)

    def _limit(self, pid: int) -> None:
        prlimit = getattr(resource, "prlimit", None)
        if prlimit is not None:
            with contextlib.suppress(OSError, ValueError):
                prlimit(pid, _LOCKS, (self._mark, prlimit(pid, _LOCKS)[1]))

    def reap(self) -> None:
        """Let what was left behind and has ended be gone."""
        for pid in self._left_behind():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def end(self) -> None:
        """End all of them until none is left.

        One look is not enough: what a dying process leaves moves up to us while we look.
        """
        deadline = time.monotonic() + _GRACE_S[signal.SIGKILL]
        while (left := list(self._left_behind())) and time.monotonic() < deadline:
            for pid in [pid for root in left for pid in (*_descendants(root), root)]:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(_TICK_S / 10)

    def _left_behind(self) -> Iterator[int]:
        for pid in _children(os.getpid()):
            if pid != self._child and self._is_of_run(pid):
                yield pid

    def _is_of_run(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            if os.getsid(pid) == self._child or resource.prlimit(pid, _LOCKS)[0] == self._mark:
                return True
        with contextlib.suppress(OSError):
            return self._variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return False


def _descendants(root: int) -> Iterator[int]:
    """Yield the processes that came from a process, deepest first."""
    for pid in _children(root):
        yield from _descendants(pid)
        yield pid


def _children(pid: int) -> list[int]:
    """Return the children of a process, by Linux' /proc; elsewhere none are known."""
    children: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += map(int, tasks.read_text().split())
    return children


class _Subreaper:
    """Lets orphans of a command become our children while one runs; where that cannot be had, goes on without."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Be as at first: a fork of this process is no subreaper, and runs nothing yet."""
        self._lock, self._runs, self._before = threading.Lock(), 0, ctypes.c_int(0)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Be one inside the block; when the last such block has ended, be what we were before the first."""
        prctl = getattr(ctypes.CDLL(None), "prctl", None) if sys.platform == "linux" else None
        if prctl is None:
            yield
            return
        with self._lock:
            self._runs += 1
            if self._runs == 1:
                prctl(_GET_SUBREAPER, ctypes.byref(self._before), 0, 0, 0)
                prctl(_SET_SUBREAPER, 1, 0, 0, 0)
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                if self._runs == 0:
                    prctl(_SET_SUBREAPER, self._before.value, 0, 0, 0)


_SUBREAPER = _Subreaper()
os.register_at_fork(after_in_child=_SUBREAPER.forget)


@contextlib.contextmanager
def _stoppable(stop: Callable[[], bool]) -> Iterator[Callable[[], int]]:
    """Give a function that tells how often stopping was asked for, by a signal or `stop`.

    The handlers before are put back; one of the caller's own then hears of the signal, but for SIGINT, which is meant
    for the command. What the caller has us ignore, as nohup does with SIGHUP, stays ignored. But a command must not
    ignore SIGINT, by which it is ended, as it would where we do: so a shell starts what runs in its background.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: int(bool(stop()))
        return
    handlers = {
        which: before
        for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        if (before := signal.getsignal(which)) not in (signal.SIG_IGN, None)
    }
    for which in handlers:
        signal.signal(which, lambda sent, _: received.append(sent))
    deaf = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    if deaf:
        signal.signal(signal.SIGINT, lambda _sent, _: None)
    try:
        yield lambda: len(received) + bool(stop())
    finally:
        for which, handler in handlers.items():
            signal.signal(which, handler)
        if deaf:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    for sent in dict.fromkeys(received):
        handler = handlers[signal.Signals(sent)]
        if callable(handler) and sent != signal.SIGINT:
            handler(sent, None)
