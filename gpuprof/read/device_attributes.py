"""The GPU and the shape of a launch, out of the metrics that every report of ncu has of them."""

from __future__ import annotations

from collections.abc import Callable

from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import Dim3, MetricTable, integer, whole

ATTRIBUTE = "device__attribute_"


def dimensions(metrics: MetricTable, which: str) -> Dim3 | None:
    """Return the size of the grid or the block as metrics have it."""
    x, y, z = (integer(metrics, f"launch__{which}_dim_{axis}") for axis in "xyz")
    return (x, y, z) if x and y and z else None


def compute_capability(number: Callable[[str], float | None]) -> str | None:
    """Return the compute capability of a GPU, such as "9.0"; None where that was not recorded."""
    major, minor = (number(f"{ATTRIBUTE}compute_capability_{part}") for part in ("major", "minor"))
    return f"{major:.0f}.{minor:.0f}" if major and minor is not None else None


def device_of(number: Callable[[str], float | None], name: str | None, capability: str = "") -> RecordedDevice:
    """Describe a GPU by its attributes; `number` returns that of a metric. A page of details has only the count of SMs.

    `capability` is the compute capability that was printed beside the metrics.
    """

    def attribute(which: str, scale: float = 1.0) -> float | None:
        value = number(f"{ATTRIBUTE}{which}")
        return value * scale if value else None

    pci = attribute("gpu_pci_device_id")
    return RecordedDevice(
        name=name,
        compute_capability=capability or compute_capability(number),
        pci_id=f"{int(pci) & 0xFFFF:04x}:{int(pci) >> 16:04x}" if pci else None,
        sm_count=whole(attribute("multiprocessor_count") or number("launch__sm_count") or None),
        max_sm_clock_hz=attribute("clock_rate", 1e3),
        max_memory_clock_hz=attribute("memory_clock_rate", 1e3),
        memory_bus_bits=whole(attribute("global_memory_bus_width")),
        memory_bytes=whole(attribute("total_memory")),
        l2_bytes=whole(attribute("l2_cache_size")),
    )
