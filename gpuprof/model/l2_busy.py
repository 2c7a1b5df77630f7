"""How busy L2 is where only its own figure was recorded, which on divided caches counts the fabric between the halves.

`lts__throughput` is the largest of the parts of L2 that `gpu__compute_memory_throughput` counts too, and of
`lts__ltcfabric2ltc_cycles_active`, which that leaves out. So L2 is no busier than either figure.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.model.field_types import ThroughputUnit
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.session import Throughput


def with_l2_bounded(throughput: tuple[Throughput, ...]) -> tuple[Throughput, ...]:
    """Return the units with L2 no busier than memory as a whole, and as busy as that if no other level is.

    Only an L2 of which an upper bound is known changes.
    """
    units = {unit.unit: unit for unit in throughput}
    l2, memory = units.get("l2"), units.get("memory")
    if l2 is None or memory is None or l2.bound != "at-most":
        return throughput
    if _is_alone(units, memory) and memory.fraction <= l2.fraction + TWO_PASSES:
        bounded = Throughput("l2", memory.fraction)
    else:
        bounded = Throughput("l2", min(l2.fraction, memory.fraction), bound="at-most")
    return tuple(bounded if unit is l2 else unit for unit in throughput)


def _is_alone(units: Mapping[ThroughputUnit, Throughput], memory: Throughput) -> bool:
    """Return whether neither DRAM nor L1 is as busy as memory as a whole, as far as both are known."""
    dram, l1 = units.get("dram"), units.get("l1")
    if dram is None or l1 is None or not dram.is_exact or not l1.is_exact:
        return False
    return max(dram.fraction, l1.fraction) + TWO_PASSES < memory.fraction
