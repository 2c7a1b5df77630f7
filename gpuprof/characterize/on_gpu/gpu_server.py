"""The process that holds the GPU: makes the calls that the measuring process asks for, one after the other.

Its arguments are MODULE:FUNCTION and NUMBER; the function opens the GPU of that number.
Requests come on the standard input, replies go to what was the standard output: pickles with their length before
them. It ends at once where the other side has gone, whatever it does then, and leaves Ctrl-C to the other side.
"""

from __future__ import annotations

import os
import pickle
import pkgutil
import queue
import signal
import struct
import threading
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any

from gpuprof.characterize.on_gpu.processors import bind_near
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.errors import GpuprofError

if TYPE_CHECKING:
    from gpuprof.characterize.record.gpu import Gpu

_LENGTH = struct.Struct("<Q")
ANSWER, REFUSAL = "answer", "refusal"


def main(arguments: Sequence[str]) -> None:
    """Open the GPU that the command line names, say what it is, and serve it."""
    # A terminal and `timeout` signal the whole group. The parent ends this process after it has written the results.
    for which in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(which, signal.SIG_IGN)
    requests, replies = _channels()
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests, asked), daemon=True).start()
    opener, number = arguments
    try:
        gpu: Gpu = pkgutil.resolve_name(opener)(int(number))
        bind_near(gpu.properties.cpus)
        write_frame(replies, (ANSWER, gpu.properties))
    except GpuprofError as error:
        write_frame(replies, refusal(error))
        return
    while True:
        write_frame(replies, _answer(gpu, *asked.get()))


def _channels() -> tuple[IO[bytes], IO[bytes]]:
    """Return requests and replies. What libraries print goes to the standard error, not among the replies."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return os.fdopen(os.dup(0), "rb"), replies


def _listen(requests: IO[bytes], asked: queue.SimpleQueue[Any]) -> None:
    """Take requests as they come. Their end ends this process: a kernel that hangs lets nothing else do so."""
    while (request := read_frame(requests)) is not None:
        asked.put(request)
    os._exit(0)


def _answer(gpu: Gpu, name: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, Any]:
    try:
        return ANSWER, getattr(gpu, name)(*arguments, **named)
    except GpuprofError as error:
        return refusal(error)
    except MemoryError:
        return refusal(DeviceError("the host has too little memory left"))
    except Exception as error:  # whatever it is, it is told, and costs no more than this call
        return refusal(DeviceError(f"{type(error).__name__}: {error}"))


def refusal(error: GpuprofError) -> tuple[str, Any]:
    """Return an error as a reply: its class, message, hint, and whether it is fatal."""
    return REFUSAL, (type(error), error.message, error.hint, getattr(error, "fatal", False))


def frame(content: object) -> bytes:
    """Return a value as it crosses: its length, and its pickle."""
    data = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def write_frame(file: IO[bytes], content: object) -> None:
    """Write a value with its length before it. Raises OSError where nobody reads."""
    file.write(frame(content))
    file.flush()


def read_frame(file: IO[bytes]) -> Any | None:
    """Return the next value; None at the end, also where it is in the middle of one, or where it cannot be held."""
    try:
        head = file.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack(head)
        data = file.read(size)
        return pickle.loads(data) if len(data) == size else None  # noqa: S301 - from our own other half
    except (OSError, ValueError, MemoryError, pickle.UnpicklingError):
        return None
