"""Source and SASS of a report's launches, read by NVIDIA's reader in a child process: a crash there ends the child.

The first instruction asked of a program makes the reader disassemble all of it (0.2 to 0.4 s for the reports at hand),
so the child stays and answers for all launches. Requests and replies are lines of JSON. Where the system cannot fork,
the reader is asked in this process.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuprof.code.tools.spelling import spelled
from gpuprof.errors import DamagedInput

_TIMEOUT_S = 60.0
_ANY_COUNT = "inst_executed"
_MOST_CHILDREN = 4
"""After so many deaths the whole file's code counts as damaged."""


_NO_SASS = ("N/A", "???")
"""What NVIDIA's reader says for an instruction whose code it does not have, or cannot read."""


class InstructionPlace(NamedTuple):
    """The text of an instruction, empty where the report has no code of it, and its source position.

    It is spelled as by `spelled`, whoever read it.
    """

    sass: str
    file: str | None
    line: int | None


class CodeReader:
    """Answers for the code of a report's launches, by number. Raises DamagedInput where reading would crash."""

    __slots__ = ("__weakref__", "_actions", "_child", "_deaths", "_owner", "_path")

    def __init__(self, path: Path, actions: Sequence[Any]) -> None:
        self._path = path
        self._actions = actions
        self._child: _Child | None = None
        self._deaths = 0
        self._owner = os.getpid()

    def prepare(self) -> None:
        """Let the child disassemble while this process goes on: the first question is then answered sooner."""
        if hasattr(os, "fork") and self._child is None and self._actions:
            self._child = _Child(self._actions)
            self._child.send(["prepare", 0, []])

    def sources(self, number: int) -> Mapping[str, str]:
        """Return embedded source text by file name; empty text where only the name was recorded."""
        sources: dict[str, str] = self._ask("sources", number, ())
        return sources

    def places(self, number: int, pcs: Sequence[int]) -> dict[int, InstructionPlace]:
        """Return text and source position of these instructions."""
        places = self._ask("places", number, pcs)
        return {pc: InstructionPlace(*entry) for pc, entry in zip(pcs, places, strict=True)}

    def _ask(self, what: str, number: int, pcs: Sequence[int]) -> Any:
        if not hasattr(os, "fork"):
            return _answer(self._actions[number], what, pcs)
        self._own()
        if self._deaths >= _MOST_CHILDREN:
            raise self._damaged("crashed too often")
        if self._child is None:
            self._child = _Child(self._actions)
        try:
            return self._child.ask([what, number, list(pcs)])
        except _Dead as death:
            self._child = None
            self._deaths += 1
            raise self._damaged(str(death)) from None

    def _own(self) -> None:
        """In a fork of the process that began it, leave the child to that."""
        if self._owner != os.getpid():
            if self._child is not None:
                self._child.leave()
            self._child, self._owner = None, os.getpid()

    def _damaged(self, fate: str) -> DamagedInput:
        return DamagedInput(
            f"{self._path}: the embedded program is damaged: NVIDIA's report reader {fate} on it",
            "everything but source and SASS can still be shown",
        )


class _Dead(Exception):
    """What happened to a child."""


class _Child:
    """A forked process that answers requests until it is closed."""

    __slots__ = ("__weakref__", "_pid", "_reap", "_replies", "_requests", "_rest", "_unread")

    def __init__(self, actions: Sequence[Any]) -> None:
        requests_in, self._requests = os.pipe()
        self._replies, replies_out = os.pipe()
        self._rest = b""
        self._unread = 0
        import warnings

        with warnings.catch_warnings():
            # Python warns of fork() in a process with threads; the child calls only the native reader and _exit.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._requests)
            os.close(self._replies)
            _serve(actions, requests_in, replies_out)
        os.close(requests_in)
        os.close(replies_out)
        self._reap = weakref.finalize(self, _end, self._pid, (self._requests, self._replies))

    def leave(self) -> None:
        """Forget it without ending it: it is that of another process."""
        self._reap.detach()

    def send(self, request: object) -> None:
        """Send a request whose reply nobody waits for; if the child is gone, the next question finds out."""
        with contextlib.suppress(BrokenPipeError):
            _write_all(self._requests, json.dumps(request).encode() + b"\n")
        self._unread += 1

    def ask(self, request: object) -> Any:
        """Send a request and wait for the reply. Raises _Dead if there is none."""
        self.send(request)
        line: bytes | None = b""
        while self._unread and line is not None:
            line, self._unread = self._line(), self._unread - 1
        if line is None:
            raise _Dead(self._fate())
        reply = json.loads(line)
        if "error" in reply:
            raise _Dead(f"fails ({reply['error']})")
        return reply["value"]

    def _line(self) -> bytes | None:
        """Return the next line; None at the end of the child or of its time."""
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            ready, _, _ = select.select([self._replies], [], [], _TIMEOUT_S)
            piece = os.read(self._replies, 1 << 16) if ready else b""
            if not piece:
                return None
            pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _fate(self) -> str:
        """Say how the child ended; one that still runs is ended."""
        self._reap.detach()
        with contextlib.suppress(OSError):
            done, status = os.waitpid(self._pid, os.WNOHANG)
            if not done:
                ready, _, _ = select.select([self._replies], [], [], 0)
                os.kill(self._pid, signal.SIGKILL)
                _, status = os.waitpid(self._pid, 0)
                if not ready:
                    status = -1
            _close((self._requests, self._replies))
            if status == -1:
                return f"does not finish within {_TIMEOUT_S:.0f} s"
            if os.WIFSIGNALED(status):
                return f"crashes ({signal.Signals(os.WTERMSIG(status)).name})"
        return "fails"


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _close(handles: Sequence[int]) -> None:
    for handle in handles:
        with contextlib.suppress(OSError):
            os.close(handle)


def _end(pid: int, handles: Sequence[int]) -> None:
    """End a child that is no longer needed."""
    _close(handles)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _serve(actions: Sequence[Any], requests: int, replies: int) -> None:
    """Answer until the parent closes its end; never return."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        with os.fdopen(requests, "rb") as lines:
            for line in lines:
                what, number, pcs = json.loads(line)
                try:
                    reply: dict[str, Any] = {"value": _answer(actions[number], what, pcs)}
                except Exception as error:
                    reply = {"error": f"{type(error).__name__}"}
                _write_all(replies, json.dumps(reply).encode() + b"\n")
    finally:
        os._exit(0)


def _answer(action: Any, what: str, pcs: Sequence[int]) -> Any:
    if what == "prepare":
        return _disassembled(action)
    if what == "sources":
        return {str(name): str(text) for name, text in action.source_files().items()}
    return [_place(action, pc) for pc in pcs]


def _disassembled(action: Any) -> None:
    """Ask for one instruction of the first launch, where it has any."""
    metric = action.metric_by_name(_ANY_COUNT)
    if metric is not None and metric.num_instances() and metric.has_correlation_ids():
        action.sass_by_pc(metric.correlation_ids().as_uint64(0))


def _place(action: Any, pc: int) -> InstructionPlace:
    info = action.source_info(pc)
    sass = str(action.sass_by_pc(pc) or "").strip()
    return InstructionPlace(
        spelled(sass) if sass not in _NO_SASS else "",
        info.file_name() if info is not None else None,
        int(info.line()) if info is not None else None,
    )
