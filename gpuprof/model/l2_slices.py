"""How many slices of L2 a GPU has, the sectors that they give the SMs in a cycle, and what of a kernel's is written.

`lts__t_sectors` without `srcunit_tex` would count in the port between the halves of a divided L2 (8.0, 9.0).
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.recorded import MetricTable

L2_SECTORS = "lts__t_sectors_srcunit_tex"
L2_PEAK = f"{L2_SECTORS}.avg.peak_sustained"
"""Of one slice."""
ATTRIBUTE = "device__attribute_l2s_count"
"""What the chip has, of which a product can have fewer. On H100 SXM (ncu 2025.3, driver 580) it is 96, and 80 slices of
640 KiB count, which give the SMs all of their sectors. On A100, GH200 and RTX 2060 Max-Q it is what counts."""
_CYCLES = "lts__cycles_elapsed"
_SUM_PEAK = f"{L2_SECTORS}.sum.peak_sustained"

COUNTED_PEAKS: tuple[Mapping[str, int], ...] = (
    {_SUM_PEAK: 1},
    {L2_PEAK: 1, f"{_CYCLES}.sum": 1, f"{_CYCLES}.avg": -1},
    {L2_PEAK: 1, f"{_CYCLES}.sum.per_second": 1, f"{_CYCLES}.avg.per_second": -1},
)
"""Products of metrics, each with its power, that are the sectors per cycle of all slices that count. A .sum over its
.avg is the number of slices; ncu records both where a run asks for one."""
ATTRIBUTED_PEAK: Mapping[str, int] = {L2_PEAK: 1, ATTRIBUTE: 1}
"""The same of all slices of the chip."""


def counted_slices(metrics: MetricTable) -> int | None:
    """Return how many slices count; None where the report does not tell."""
    number = metrics.number
    for total, each in (
        (_SUM_PEAK, L2_PEAK),
        (f"{_CYCLES}.sum", f"{_CYCLES}.avg"),
        (f"{_CYCLES}.sum.per_second", f"{_CYCLES}.avg.per_second"),
    ):
        above, below = number(total), number(each)
        if above and below and above >= below:
            return round(above / below)
    return None


def write_rate(arch: ArchSpec) -> float | None:
    """Return the bytes that a slice takes in a cycle over those that it gives; None where they are not known."""
    reads, writes = arch.bandwidth.get("l2_slice"), arch.bandwidth.get("l2_slice_write")
    return writes.value / reads.value if reads is not None and writes is not None else None


def written_share(metrics: MetricTable) -> float | None:
    """Return what of a launch's bytes between SMs and L2 is written; None where not both directions were counted.

    Atomics count as written: a slice does one sector of them in a cycle, as of writes.
    """
    sectors, read = metrics.number(f"{L2_SECTORS}.sum"), metrics.number(f"{L2_SECTORS}_op_read.sum")
    if sectors and read is not None:
        return 1 - read / sectors
    received, sent = (metrics.number(f"l1tex__m_{port}_bytes.sum") for port in ("xbar2l1tex_read", "l1tex2xbar_write"))
    return sent / (received + sent) if sent and received is not None else None
