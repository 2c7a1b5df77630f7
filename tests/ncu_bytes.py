"""Builds small `.ncu-rep` files byte by byte, so that tests own their reports and know every offset."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from benchmarks.recordings import report_file
from benchmarks.recordings.report_file import dim3, report
from gpuprof.read.printed_launch import short_name
from gpuprof.read.wire import message, number

__all__ = ["A100", "block", "launch", "nvtx_state", "report", "session_details", "simple_report"]


def launch(
    name: str,
    metrics: Mapping[int, float | str],
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    results: bytes = b"",
    demangled: str | None = None,
) -> bytes:
    """A ProfileResult: metric values by the index of their name in the string table, and `results` as bytes.

    `name` is the mangled one, and without a `demangled` one all three.
    """
    names = (name, name, name) if demangled is None else (name, short_name(demangled), demangled)
    results += b"".join(message(13, number(1, index) + message(2, _value(value))) for index, value in metrics.items())
    return (
        number(1, 1) + number(2, 1) + number(3, 1) + number(4, 1)
        + b"".join(message(field, text.encode()) for field, text in zip((5, 6, 7), names, strict=True))
        + number(8, 3) + message(9, dim3((0, 0, 0))) + message(10, dim3(grid)) + message(11, dim3(block))
        + results + message(15, b"") + message(25, number(1, 1) + number(2, 1))
    )  # fmt: skip


def _value(value: float | str) -> bytes:
    """Text is field 1; a double, field 3, is its tag (field 3, eight bytes) and the bytes."""
    return message(1, value.encode()) if isinstance(value, str) else b"\x19" + struct.pack("<d", value)


def nvtx_state(ranges: Sequence[str]) -> bytes:
    """The NvtxState of a launch, in ranges that its thread has pushed in the default domain; nothing if none."""
    if not ranges:
        return b""
    domain = number(1, 0) + message(2, b"<default domain>")
    pushed = number(1, 0) + b"".join(message(3, message(1, name.encode())) for name in ranges)
    return message(21, message(1, domain) + message(2, number(1, 1) + message(2, pushed)))


def block(
    launches: Sequence[bytes],
    strings: Sequence[str] = (),
    session: bytes = b"",
    declared: int | None = None,
    process: int | None = None,
) -> bytes:
    """A block: header and payload. `declared` lies about the number of launches."""
    named = (process, "/opt/app") if process is not None else None
    return report_file.block(launches, strings, session, declared=declared, process=named)


def session_details(command: str | None = None, versions: Mapping[str, str] | None = None) -> bytes:
    return report_file.session_details(command, versions or {}, 1_700_000_000)


A100: dict[str, float | str] = {
    "device__attribute_display_name": "NVIDIA A100 80GB PCIe",
    "device__attribute_compute_capability_major": 8.0,
    "device__attribute_compute_capability_minor": 0.0,
    "device__attribute_multiprocessor_count": 108.0,
    "device__attribute_gpu_pci_device_id": float(0x20B5_10DE),
    "launch__device_id": 0.0,
}


def simple_report(launches: Sequence[tuple[str, Mapping[str, float | str]]], command: str | None = None) -> bytes:
    """A whole report: one block of session facts and one block with all launches."""
    names = list(dict.fromkeys(name for _, metrics in launches for name in metrics))
    results = [
        launch(kernel, {names.index(name): value for name, value in metrics.items()}) for kernel, metrics in launches
    ]
    details = session_details(command, {"Nsight Compute Target": "2024.1.1.0 (build 1)"})
    return report(block([], session=details), block(results, names, process=7))
