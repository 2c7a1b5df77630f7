"""Runs a command as a user would, and says what it and all that it started took: time, processors, memory."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MB, GB = 1e6, 1e9
_POLL_S = 0.05
_POLL_SHARE = 20
"""What is watched is let be for so many times as long as it took to watch it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may take before it is ended, and counts as not done."""

    seconds: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Run:
    """What a process and all those that it started took. `failure` says why there was no result.

    Memory is what was seen of it; what the system says in the end has that of the process that measures in it.
    """

    seconds: float
    processor_seconds: float
    largest_bytes: int | None
    tree_bytes: int | None
    failure: str | None = None


def measured(command: Sequence[str], limits: Limits, cache: Path) -> Run:
    """Run a command with this cache and without its output; it and all that it started end at the limits."""
    # As a user has it: Python may keep its compiled files.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"XDG_CACHE_HOME": str(cache), "GPUPROF_CACHE": str(cache)}
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    watch = _Watch(process.pid, limits)
    watch.start()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    watch.done.set()
    watch.join()
    failure = watch.failure or (f"ended with {process.returncode}" if process.returncode else None)
    return Run(
        seconds=seconds,
        processor_seconds=usage.ru_utime + usage.ru_stime,
        largest_bytes=watch.largest_bytes,
        tree_bytes=watch.tree_bytes,
        failure=failure,
    )


class _Watch(threading.Thread):
    """Notes the most memory that a process and those that it started have together, and ends them at the limits."""

    def __init__(self, pid: int, limits: Limits) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self.tree_bytes: int | None = None
        self.largest_bytes: int | None = None
        self.failure: str | None = None
        self._pid, self._limits, self._began = pid, limits, time.monotonic()

    def run(self) -> None:
        pause = _POLL_S
        while not self.done.wait(pause):
            began = time.monotonic()
            now, largest = tree_bytes(self._pid)
            pause = max(_POLL_S, _POLL_SHARE * (time.monotonic() - began))
            if now is not None:
                self.tree_bytes = max(now, self.tree_bytes or 0)
            if largest is not None:
                self.largest_bytes = max(largest, self.largest_bytes or 0)
            if (now or 0) > self._limits.bytes:
                self._end(f"ended at {self._limits.bytes / GB:g} GB")
            elif time.monotonic() - self._began > self._limits.seconds:
                self._end(f"ended at {self._limits.seconds:g} s")

    def _end(self, why: str) -> None:
        self.failure = self.failure or why
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)


def tree_bytes(pid: int) -> tuple[int | None, int | None]:
    """Return the memory of a process and those that it started, what they share once, and the most one of them had.

    None where Linux does not say.
    """
    together, largest, waiting = None, None, [pid]
    while waiting:
        folder = Path("/proc") / str(waiting.pop())
        with suppress(OSError, ValueError):
            for children in folder.glob("task/*/children"):
                waiting += map(int, children.read_text(encoding="ascii").split())
            together = (together or 0) + (_kilobytes(folder / "smaps_rollup", "Pss:") or 0) * 1024
            most = _kilobytes(folder / "status", "VmHWM:")
            largest = max(largest or 0, most * 1024) if most is not None else largest
    return together, largest


def _kilobytes(file: Path, name: str) -> int | None:
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith(name)), None)


def one_after_the_other(runs: Sequence[Run]) -> Run:
    """Return what several runs took, of which each began when the one before had ended."""
    largest, together = (
        [run.largest_bytes for run in runs if run.largest_bytes is not None],
        [run.tree_bytes for run in runs if run.tree_bytes is not None],
    )
    return Run(
        seconds=sum(run.seconds for run in runs),
        processor_seconds=sum(run.processor_seconds for run in runs),
        largest_bytes=max(largest, default=None),
        tree_bytes=max(together, default=None),
        failure=next((run.failure for run in runs if run.failure is not None), None),
    )


def described(run: Run) -> str:
    """Say in a line what a run took."""
    largest, together = (
        f"{some / MB:.0f} MB" if some is not None else "not known" for some in (run.largest_bytes, run.tree_bytes)
    )
    text = f"{run.seconds:.2f} s, processors {run.processor_seconds:.2f} s, "
    text += f"largest process {largest}, all {together}"
    return text if run.failure is None else f"{run.failure}: {text}"


def ratio(mine: Sequence[Run], theirs: Sequence[Run], of: str = "seconds") -> float | None:
    """Return the median over the pairs of mine ÷ theirs; None where a run failed or there are no pairs."""
    if not mine or len(mine) != len(theirs) or any(run.failure for run in (*mine, *theirs)):
        return None
    pairs = zip(_values(mine, of), _values(theirs, of), strict=True)
    return statistics.median(own / other for own, other in pairs)


def _values(runs: Sequence[Run], of: str) -> list[float]:
    return [float(getattr(run, of)) for run in runs]
