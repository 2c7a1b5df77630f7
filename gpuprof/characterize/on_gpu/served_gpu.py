"""A GPU in a process of its own: a kernel that hangs or traps, or a driver that crashes, ends that process alone."""

from __future__ import annotations

import contextlib
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from gpuprof.characterize.on_gpu.gpu_server import REFUSAL, frame, read_frame
from gpuprof.characterize.record.gpu import (
    PATIENCE_S,
    DeviceError,
    Function,
    Hung,
    LaunchConfiguration,
    Memory,
    MemoryKind,
    Others,
    Properties,
    Stopped,
    Telemetry,
    Timed,
    Way,
)
from gpuprof.characterize.record.samples import plain
from gpuprof.errors import EnvironmentProblem, GpuprofError
from gpuprof.working_folder import python_command

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OPENER = "gpuprof.characterize.on_gpu.device:open_gpu"
_OPENING_S = 120.0
"""A driver that must start first takes half a minute with eight GPUs."""
_USUAL_S = 30.0
_BYTES_PER_S, _ON_GPU_BYTES_PER_S = 100e6, 4e9
"""No call that moves memory is slower than this, besides what it takes anyhow: to or from the host, and on the GPU."""
_GRACE_S = 5.0
"""The other side gives up a launch by itself; it is ended where it does not."""
_STOP_S = 2.0
"""A user who stops waits no longer for the launch that is running."""
_LOOK_S = 0.05
_LONGEST_LOOK_S = 1.0
"""What is longer was no wait: this process had been stopped, as by Ctrl-Z, and perhaps the other with it."""
_HELD_BYTES = 32 * 1024
"""So much fits into a pipe even if nobody reads."""
_DYING_S = 10.0
_MOST_COMPLAINT = 200


class _Child(NamedTuple):
    """The process, its replies as they come (None: no more will), and what it says on its standard error."""

    process: subprocess.Popen[bytes]
    replies: queue.SimpleQueue[Any]
    complaints: IO[bytes]


class ServedGpu:
    """The protocol `Gpu` on another process. `stop` tells whether the user wants the run to end."""

    def __init__(self, index: int = 0, stop: Callable[[], bool] = lambda: False, opener: str | None = None) -> None:
        """Start the process and open the GPU. Raises EnvironmentProblem where there is none, and Stopped."""
        self._index, self._stop, self._opener = index, stop, opener or OPENER
        self._child: _Child | None = None
        self._sender: threading.Thread | None = None
        self.properties = self._open()

    def close(self) -> None:
        """End the process."""
        self._end(patience_s=_STOP_S)

    def restart(self) -> None:
        """End the process and start another one. Raises DeviceError where the GPU cannot be opened again."""
        self._end()
        try:
            self._open()
        except EnvironmentProblem as error:
            raise DeviceError(error.message, fatal=True) from error

    def now(self) -> float:
        """Return seconds of a clock that never goes back."""
        return time.perf_counter()

    def wait(self, seconds: float) -> None:
        """Sleep. Raises Stopped."""
        ends = self.now() + seconds
        while (left := ends - self.now()) > 0:
            if self._stop():
                raise Stopped
            time.sleep(min(left, _LOOK_S))

    def telemetry(self) -> Telemetry:
        """Return its clocks, power, temperature and throttle reasons now."""
        return self._ask("telemetry")  # type: ignore[no-any-return]

    def others(self) -> Others:
        """Return who else uses it."""
        return self._ask("others")  # type: ignore[no-any-return]

    def free_bytes(self) -> int:
        """Return how much memory is left."""
        return self._ask("free_bytes")  # type: ignore[no-any-return]

    def allocate(self, size: int) -> Memory:
        """Return fresh memory. Raises OutOfMemory."""
        return self._ask("allocate", size, filled=size)  # type: ignore[no-any-return]

    def release(self, memory: Memory) -> None:
        """Give memory back."""
        self._ask("release", memory, filled=memory.bytes)

    def zero(self, memory: Memory) -> None:
        """Fill with zeros."""
        self._ask("zero", memory, filled=memory.bytes)

    def repeat(self, memory: Memory, pattern: bytes) -> None:
        """Fill with copies of a pattern."""
        self._ask("repeat", memory, pattern, filled=memory.bytes)

    def scatter(self, memory: Memory, stride: int, values: NDArray[np.uint64]) -> None:
        """Write 64-bit words `stride` bytes apart."""
        self._ask("scatter", memory, stride, values, moved=64 * len(values))

    def read(self, memory: Memory, size: int) -> bytes:
        """Return the first bytes of memory."""
        return self._ask("read", memory, size, moved=size)  # type: ignore[no-any-return]

    def load(self, cubin: bytes, sha256: str, entry: str) -> Function:
        """Load a kernel of a cubin that must have this SHA-256."""
        return self._ask("load", cubin, sha256, entry)  # type: ignore[no-any-return]

    def blocks_at_once(self, function: Function, block: int, shared_bytes: int) -> int:
        """Return how many blocks can be resident on one SM, by CUDA's occupancy calculator."""
        return self._ask("blocks_at_once", function, block, shared_bytes)  # type: ignore[no-any-return]

    def time(
        self,
        function: Function,
        shape: LaunchConfiguration,
        arguments: Sequence[np.generic],
        clocks: Memory | None,
        *,
        watched: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> Timed:
        """Launch once and wait. Raises Hung."""
        return self._ask(  # type: ignore[no-any-return]
            "time", function, shape, list(arguments), clocks,
            named={"watched": watched, "patience_s": patience_s}, patience_s=patience_s + _GRACE_S,
            called=function.entry,
        )  # fmt: skip

    def launches(
        self, function: Function, shape: LaunchConfiguration, arguments: Sequence[np.generic], count: int, way: Way
    ) -> float:
        """Return the seconds of `count` launches."""
        return self._ask(  # type: ignore[no-any-return]
            "launches", function, shape, list(arguments), count, way, called=function.entry
        )

    def copies(self, source: MemoryKind, target: MemoryKind, size: int, count: int) -> float:
        """Return the seconds of `count` copies of `size` bytes."""
        return self._ask("copies", source, target, size, count, moved=size * (count + 2))  # type: ignore[no-any-return]

    def end_copies(self) -> None:
        """Give back the memory of the copies."""
        self._ask("end_copies")

    def _open(self) -> Properties:
        with contextlib.ExitStack() as unless_started:
            try:
                complaints = unless_started.enter_context(tempfile.TemporaryFile())
                process = subprocess.Popen(
                    python_command("gpuprof.characterize.on_gpu.gpu_server", self._opener, str(self._index)),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=complaints,
                )
            except OSError as error:
                raise EnvironmentProblem(
                    f"cannot start a process for the GPU: {error.strerror or error}",
                    "free some memory, then continue with --resume",
                ) from error
            unless_started.pop_all()
        replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=_listen, args=(process.stdout, replies), daemon=True).start()
        self._child = _Child(process, replies, complaints)
        try:
            properties = self._reply("opening the GPU", _OPENING_S)
        except DeviceError as error:
            self._end()
            raise EnvironmentProblem(
                f"the GPU cannot be opened: {error.message}", "gpuprof doctor shows details"
            ) from error
        except (GpuprofError, KeyboardInterrupt):
            self._end()
            raise
        assert isinstance(properties, Properties)
        return properties

    def _ask(
        self,
        name: str,
        *arguments: Any,
        named: dict[str, Any] | None = None,
        moved: float = 0.0,
        filled: float = 0.0,
        patience_s: float = _USUAL_S,
        called: str | None = None,
    ) -> Any:
        """Let the other process make a call. Raises what the call raises, DeviceError where the process has died."""
        if self._child is None:
            raise DeviceError("the process that holds the GPU has ended", fatal=True)
        try:
            self._send(frame((name, arguments, named or {})))
            return self._reply(
                called or f"the call {name}", patience_s + moved / _BYTES_PER_S + filled / _ON_GPU_BYTES_PER_S
            )
        except KeyboardInterrupt:  # its answer, which comes later, would be taken for that of the next call
            self._end()
            raise

    def _send(self, data: bytes) -> None:
        """Send a request; a large one while its answer is waited for, so that a process that does not read is given up.

        Raises what the end of the process is.
        """
        assert self._child is not None
        stdin = self._child.process.stdin
        assert stdin is not None
        if len(data) > _HELD_BYTES:
            self._sender = threading.Thread(target=_write, args=(stdin, data), daemon=True)
            self._sender.start()
            return
        try:
            stdin.write(data)
            stdin.flush()
        except OSError as error:
            raise self._death() from error

    def _reply(self, name: str, patience_s: float) -> Any:
        """Return what comes back. A process that says nothing in time, or that the user stops, is ended."""
        child, last, waited_s, stopped_at = self._child, time.monotonic(), 0.0, None
        assert child is not None
        while True:
            try:
                reply = child.replies.get(timeout=_LOOK_S)
                break
            except queue.Empty:
                now = time.monotonic()
                waited_s, last = waited_s + min(now - last, _LONGEST_LOOK_S), now
                if stopped_at is None and self._stop():
                    stopped_at = now
                if stopped_at is not None and now - stopped_at > _STOP_S:
                    self._end()
                    raise Stopped from None
                if waited_s > patience_s:
                    self._end()
                    raise Hung(f"{name} did not end within {waited_s:.0f} s") from None
        if reply is None:
            raise self._death()
        what, content = reply
        if what != REFUSAL:
            return content
        kind, message, hint, fatal = content
        error: GpuprofError = kind(message) if issubclass(kind, DeviceError) else kind(message, hint)
        if isinstance(error, DeviceError):
            error.fatal = fatal
        raise error

    def _death(self) -> DeviceError:
        """Return how the process has ended by itself. Raises Stopped where it is the user who ends everything."""
        child = self._child
        assert child is not None
        try:
            code = child.process.wait(_DYING_S)
        except subprocess.TimeoutExpired:
            code = None
        said = _last_line(child.complaints)
        self._end()
        if self._stop():
            raise Stopped
        return DeviceError(f"the process that holds the GPU {_ended(code)}{': ' if said else ''}{said}", fatal=True)

    def _end(self, patience_s: float = 0.0) -> None:
        """End the process: it ends by itself when nothing more can come, else it is killed."""
        child, self._child = self._child, None
        if child is None:
            return
        process, sender, self._sender = child.process, self._sender, None
        if sender is not None and sender.is_alive():  # until it has ended, nothing can be closed
            process.kill()
            sender.join(_DYING_S)
            if sender.is_alive():
                return
        if process.stdin is not None:
            _close(process.stdin)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            try:
                process.wait(_DYING_S)
            except subprocess.TimeoutExpired:  # the driver holds it; it has nothing more to say to anyone
                return
        if process.stdout is not None:
            _close(process.stdout)
        child.complaints.close()


def _write(requests: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError, ValueError):  # that nobody reads shows where the answer is waited for
        requests.write(data)
        requests.flush()


def _listen(replies: IO[bytes], heard: queue.SimpleQueue[Any]) -> None:
    while (reply := read_frame(replies)) is not None:
        heard.put(reply)
    heard.put(None)


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # what was not sent goes nowhere
        pipe.close()


def _ended(code: int | None) -> str:
    if code is None:
        return "does not answer"
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    killed = ", perhaps for lack of memory" if name == "SIGKILL" else ""
    return f"was ended by {name}{killed}"


def _last_line(complaints: IO[bytes]) -> str:
    """Return the last line of what a process has said, printable and not too long."""
    complaints.seek(0)
    lines = [line.strip() for line in complaints.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return plain(lines[-1])[:_MOST_COMPLAINT] if lines else ""
