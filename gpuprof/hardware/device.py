"""A GPU as a report or a driver describes it, which the library of specs is asked about."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field


class RecordedDevice(Struct, frozen=True):
    """A GPU as the report describes it. Clocks in Hz, memory in bytes."""

    name: str | None = None
    compute_capability: str | None = None
    pci_id: str | None = None
    sm_count: int | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    memory_bus_bits: int | None = None
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    attributes: Mapping[str, float | str] = field(default_factory=dict)
