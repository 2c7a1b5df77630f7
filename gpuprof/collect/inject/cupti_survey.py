"""Records what the GPUs do through NVIDIA's cupti-python, in the program's own Python, and leaves it as a trace.

CUPTI calls back with records when a buffer is full, and at the end of the program for the rest. The trace has the form
of those of PyTorch's profiler; kernels have their symbols as names. A process that used no GPU leaves nothing, and a
forked child nothing of its parent's. What goes wrong in here never reaches the program.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BUFFER_BYTES = 8 * 1024 * 1024
_FLUSH_FORCED = 1
_MOST_RECORDS = 2_000_000
"""A record takes some 400 bytes here; what comes later is dropped, and that is noted."""
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 9: "HtoH", 10: "PtoP"}
_MEMORIES = {1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device", 7: "Managed"}
"""CUpti_ActivityMemoryKind, in the words of PyTorch's traces."""


class _Recording:
    """What has been recorded in this process."""

    def __init__(self, cupti: Any, folder: str) -> None:
        self.cupti, self.folder, self.process = cupti, folder, os.getpid()
        self.events: list[dict[str, object]] = []
        self.starts: list[int] = []
        self.devices: list[dict[str, object]] = []
        self.dropped = 0
        kinds = cupti.ActivityKind
        self.readers: dict[int, Callable[[Any], None]] = {
            int(kinds.CONCURRENT_KERNEL): self._add_kernel,
            int(kinds.MEMCPY): self._add_copy,
            int(kinds.MEMSET): self._add_set,
            int(kinds.DEVICE): self._add_device,
        }

    def start(self) -> None:
        """Ask CUPTI for the records."""
        self.cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self._take)
        for kind in self.readers:
            self.cupti.activity_enable(kind)

    def _take(self, records: Iterable[Any]) -> None:
        try:
            for record in records:
                reader = self.readers.get(int(record.kind))
                if reader is None:
                    continue
                if len(self.events) < _MOST_RECORDS:
                    reader(record)
                else:
                    self.dropped += 1
        except Exception as error:
            _tell(error)

    def _add_kernel(self, record: Any) -> None:
        shape = {
            "grid": [record.grid_x, record.grid_y, record.grid_z],
            "block": [record.block_x, record.block_y, record.block_z],
            "registers per thread": record.registers_per_thread,
            "shared memory": record.static_shared_memory + record.dynamic_shared_memory,
            "graph node id": record.graph_node_id,
        }
        self._add("kernel", record.name, record, shape)

    def _add_copy(self, record: Any) -> None:
        ends = [_MEMORIES.get(int(end), "Unknown") for end in (record.src_kind, record.dst_kind)]
        name = f"Memcpy {_COPIES.get(record.copy_kind, 'unknown')} ({ends[0]} -> {ends[1]})"
        self._add("gpu_memcpy", name, record, {"bytes": record.bytes})

    def _add_set(self, record: Any) -> None:
        self._add("gpu_memset", "Memset", record, {"bytes": record.bytes})

    def _add(self, category: str, name: str, record: Any, more: dict[str, object]) -> None:
        where = {"device": record.device_id, "stream": record.stream_id, "correlation": record.correlation_id}
        self.starts.append(record.start)
        self.events.append(
            {"ph": "X", "cat": category, "name": name, "pid": record.device_id, "tid": record.stream_id,
             "dur": (record.end - record.start) / 1e3, "args": {**where, **more}}
        )  # fmt: skip

    def _add_device(self, record: Any) -> None:
        self.devices.append(
            {"id": record.id, "name": record.name, "numSms": record.num_multiprocessors,
             "computeMajor": record.compute_capability_major, "computeMinor": record.compute_capability_minor,
             "totalGlobalMem": record.global_memory_size}
        )  # fmt: skip

    def end(self) -> None:
        """Take what is left and write the trace, first under another name."""
        if os.getpid() != self.process:
            return
        try:
            self.cupti.activity_flush_all(_FLUSH_FORCED)
            if self.events:
                self._write()
        except Exception as error:
            _tell(error)

    def _write(self) -> None:
        import gzip
        import json

        place = f"{self.folder}/cupti-{self.process}"
        first = min(self.starts)  # microseconds from here are exact to the nanosecond
        for event, start in zip(self.events, self.starts):  # noqa: B905 - Python 3.8 has no strict
            event["ts"] = (start - first) / 1e3
        trace = {
            "schemaVersion": 1, "recordedBy": "cupti-python", "deviceProperties": self.devices,
            "gpuprof": {"from_start": True},
        }  # fmt: skip
        with gzip.open(f"{place}.part", "wt", compresslevel=1) as file:
            json.dump({**trace, "traceEvents": self.events}, file)
        os.replace(f"{place}.part", f"{place}.pt.trace.json.gz")  # noqa: PTH105
        if self.dropped:
            with open(f"{place}.note", "w") as note:  # noqa: PTH123
                note.write(
                    f"the survey holds the first {_MOST_RECORDS} launches; {self.dropped} later ones are left out\n"
                )


def install(folder: str) -> None:
    """Start to record into a folder, where this Python has cupti-python and the machine has a driver."""
    try:
        from cupti import cupti  # type: ignore[import-not-found]

        recording = _Recording(cupti, folder)
        recording.start()
    except Exception as error:
        _tell(error)
        return
    atexit.register(recording.end)


def _tell(error: Exception) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"gpuprof: the survey with cupti-python failed: {type(error).__name__}: {error}\n")
