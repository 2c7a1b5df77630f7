"""Rows of launches on one CUDA stream, timed: one by one, queued, in a graph. Part of the border to CuPy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gpuprof.characterize.record.gpu import Hung, Way

QUEUE = 256
"""Launches that fit into the driver's queue while its head is held back, with room to spare (it takes about 1000)."""
_HELD_S = 5.0
"""Nothing takes so long to be enqueued; should it, the stream goes on."""
_PATIENCE_S = 60.0
"""A row of launches or copies that takes longer hangs."""
_NOT_READY = 600
"""cudaErrorNotReady."""
_SPIN_S, _NAP_S = 2e-3, 100e-6
"""Most launches end within milliseconds: until then the event is asked for without a pause."""


class LaunchRows:
    """Times rows of launches on a stream."""

    def __init__(self, runtime: Any, stream: int) -> None:
        self._runtime, self._stream = runtime, stream
        self._start, self._end = runtime.eventCreate(), runtime.eventCreate()

    def time(self, launch: Callable[[], None], count: int, way: Way) -> float:
        """Return the seconds of `count` launches, after one that is not timed.

        What the driver does once for a kernel, when it is first launched, belongs to no row.
        """
        launch()
        self._runtime.eventRecord(self._end, self._stream)
        wait_for(self._runtime, self._end, _PATIENCE_S)
        return {"synchronous": self._one_by_one, "queued": self._queued, "graph": self._in_graph}[way](launch, count)

    def _one_by_one(self, launch: Callable[[], None], count: int) -> float:
        began = time.perf_counter()
        for _ in range(count):
            launch()
            self._runtime.streamSynchronize(self._stream)
        return time.perf_counter() - began

    def _queued(self, launch: Callable[[], None], count: int) -> float:
        with held_back(self._runtime, self._stream):
            self._runtime.eventRecord(self._start, self._stream)
            for _ in range(count):
                launch()
            self._runtime.eventRecord(self._end, self._stream)
        return elapsed_s(self._runtime, self._start, self._end)

    def _in_graph(self, launch: Callable[[], None], count: int) -> float:
        """Capture the launches, run the graph once unseen, then time it."""
        runtime = self._runtime
        runtime.streamBeginCapture(self._stream, runtime.streamCaptureModeThreadLocal)
        try:
            for _ in range(count):
                launch()
        finally:
            graph = runtime.streamEndCapture(self._stream)
        ready = runtime.graphInstantiate(graph)
        try:
            runtime.graphLaunch(ready, self._stream)
            runtime.eventRecord(self._start, self._stream)
            runtime.graphLaunch(ready, self._stream)
            runtime.eventRecord(self._end, self._stream)
            return elapsed_s(self._runtime, self._start, self._end)
        finally:
            runtime.graphExecDestroy(ready)
            runtime.graphDestroy(graph)


def elapsed_s(runtime: Any, start: Any, end: Any, patience_s: float = _PATIENCE_S) -> float:
    """Wait for an event, and return the seconds from another one to it. Raises Hung."""
    wait_for(runtime, end, patience_s)
    return float(runtime.eventElapsedTime(start, end)) / 1e3


def wait_for(runtime: Any, event: Any, patience_s: float) -> None:
    """Wait for an event by asking for it: a call that waits in CUDA could not be given up. Raises Hung."""
    began = time.perf_counter()
    while not _reached(runtime, event):
        passed = time.perf_counter() - began
        if passed > patience_s:
            # Asked once more: this process may have been stopped meanwhile.
            if _reached(runtime, event):
                return
            raise Hung(f"it did not end within {passed:.0f} s")
        if passed > _SPIN_S:
            time.sleep(_NAP_S)


def _reached(runtime: Any, event: Any) -> bool:
    """Tell whether an event was reached. CuPy returns CUDA's code; where it is an error, waiting raises it."""
    try:
        code = runtime.eventQuery(event)
    except RuntimeError as error:
        if "NotReady" in str(error):
            return False
        raise
    if code == _NOT_READY:
        return False
    if code:
        runtime.eventSynchronize(event)
    return True


@contextmanager
def held_back(runtime: Any, stream: int) -> Iterator[None]:
    """Hold a stream back until all that the block enqueues is in it, so that the GPU does not wait for the host."""
    ready = threading.Event()
    runtime.launchHostFunc(stream, lambda _: ready.wait(_HELD_S), 0)
    try:
        yield
    finally:
        ready.set()
