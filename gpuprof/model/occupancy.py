"""Theoretical occupancy from launch and architecture, with what limits it.

The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h): registers are allocated per warp and counted
per SM sub-partition, shared memory per block in units, and the driver reserves some shared memory for each block.

The driver chooses for each launch how much of an SM's L1 is shared memory, and chooses no more than the other limits
can use: the blocks that its choice holds say nothing of the kernel. So "shared memory" limits where the largest
carve-out holds no more blocks than the rest allows, and "carve-out" where only the smaller choice stands in the way.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from msgspec import Struct

from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.recorded import Dim3, MetricTable, printed_rounding

MOST_REGISTERS = 255
"""Of a thread: no instruction can address more."""
LIMITERS = ("registers", "shared memory", "carve-out", "block size", "blocks")
_REPORTED_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "block size": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}


class LaunchResources(Struct, frozen=True):
    """What one block of a launch needs. Shared memory in bytes, `reserved_shared_bytes` of them the driver's own."""

    threads_per_block: int
    registers_per_thread: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int | None = None
    reserved_shared_bytes: int = 0


class TheoreticalOccupancy(NamedTuple):
    """Resident warps ÷ the SM's limit, resident blocks, and the limits that bind."""

    fraction: float
    blocks_per_sm: int
    limiters: tuple[str, ...]


def launch_resources(
    metrics: MetricTable, block: Dim3 | None, arch: ArchSpec, unknown_shared: int | None = None
) -> LaunchResources | None:
    """Read a launch's needs from its `launch__` metrics; None if one of them was not recorded.

    `unknown_shared` stands for the shared memory of a block where that was not.
    """
    threads = metrics.number("launch__block_size") or (math.prod(block) if block is not None else None)
    registers = metrics.number("launch__registers_per_thread")
    reserved, shared = _reserved_shared(metrics, arch), shared_of_block(metrics, arch)
    if shared is None:
        shared = unknown_shared
    if not threads or registers is None or shared is None:
        return None
    return LaunchResources(
        threads_per_block=round(threads),
        registers_per_thread=round(registers),
        shared_bytes_per_block=shared + reserved,
        shared_bytes_per_sm=_configured_shared(metrics, arch),
        reserved_shared_bytes=reserved,
    )


def shared_of_block(metrics: MetricTable, arch: ArchSpec) -> int | None:
    """Return the static + dynamic shared memory of a block; None where the report tells neither them nor the whole.

    The whole has in it what the driver keeps of each block; what is allocated is also rounded up to units.
    """
    static = _bytes(metrics, "launch__shared_mem_per_block_static", arch)
    dynamic = _bytes(metrics, "launch__shared_mem_per_block_dynamic", arch)
    if static is not None and dynamic is not None:
        return static + dynamic
    for name in ("launch__shared_mem_per_block", "launch__shared_mem_per_block_allocated"):
        whole = _bytes(metrics, name, arch)
        if whole is not None:
            return max(0, whole - _reserved_shared(metrics, arch))
    return None


def _bytes(metrics: MetricTable, name: str, arch: ArchSpec) -> int | None:
    """Return a size of shared memory; where it was printed rounded, the whole allocation units that it can be.

    32 KiB are printed as 32.77 Kbyte. Two bytes more would take another unit, which few sizes that programs choose do.
    """
    number = metrics.number(name)
    if number is None:
        return None
    unit = arch.limit("shared_allocation_unit") if "shared_allocation_unit" in arch.limits else 1
    whole = round(number / unit) * unit
    kept = number * printed_rounding(number, metrics.digits(name))
    return whole if abs(whole - number) <= kept else round(number)


def allocated_shared(metrics: MetricTable, arch: ArchSpec) -> int | None:
    """Return the bytes of shared memory that a block takes of its SM, with what the driver reserves, in whole units."""
    recorded = _bytes(metrics, "launch__shared_mem_per_block_allocated", arch)
    shared = shared_of_block(metrics, arch)
    if recorded is not None or shared is None or "shared_allocation_unit" not in arch.limits:
        return recorded
    return _round_up(shared + _reserved_shared(metrics, arch), arch.limit("shared_allocation_unit"))


def blocks_at_once(metrics: MetricTable, block: Dim3 | None, arch: ArchSpec) -> int | None:
    """Return the blocks that an SM holds: the lowest of the report's own limits, else as computed."""
    limits = [metrics.number(metric) for metric in _REPORTED_LIMITS.values()]
    known = [limit for limit in limits if limit is not None]
    if len(known) == len(limits):
        return round(min(known))
    resources = launch_resources(metrics, block, arch)
    computed = theoretical_occupancy(resources, arch) if resources is not None else None
    return computed.blocks_per_sm if computed is not None else None


def _reserved_shared(metrics: MetricTable, arch: ArchSpec) -> int:
    """Return what the driver reserves in each block: as recorded, else as the architecture's spec has it."""
    recorded = _bytes(metrics, "launch__shared_mem_per_block_driver", arch)
    if recorded is not None:
        return recorded
    return arch.limit("shared_reserved_per_block") if "shared_reserved_per_block" in arch.limits else 0


def _configured_shared(metrics: MetricTable, arch: ArchSpec) -> int | None:
    """Return the carve-out that the driver chose for this launch, where it was recorded."""
    return _bytes(metrics, "launch__shared_mem_config_size", arch) or None


def theoretical_occupancy(launch: LaunchResources, arch: ArchSpec) -> TheoreticalOccupancy | None:
    """Return the occupancy of an SM full of such blocks; None if the arch spec lacks the limits."""
    if not {"warps_per_sm", "blocks_per_sm", "shared_per_sm"} <= arch.limits.keys():
        return None
    warps_per_block = math.ceil(launch.threads_per_block / arch.limit("threads_per_warp"))
    if warps_per_block < 1:
        return None
    limits = {
        "registers": _by_registers(launch, arch, warps_per_block),
        "block size": arch.limit("warps_per_sm") // warps_per_block,
        "blocks": arch.limit("blocks_per_sm"),
    }
    largest = arch.limit("shared_per_sm")
    chosen = launch.shared_bytes_per_sm or largest
    if launch.shared_bytes_per_block > launch.reserved_shared_bytes:
        limits["shared memory"] = _by_shared_memory(launch, arch, max(chosen, largest))
    blocks = min(limits.values())
    if launch.shared_bytes_per_block > 0 and (held := _by_shared_memory(launch, arch, chosen)) < blocks:
        limits["carve-out"] = blocks = held
    fraction = blocks * warps_per_block / arch.limit("warps_per_sm")
    binding = tuple(name for name in LIMITERS if limits.get(name) == blocks) if fraction < 1 else ()
    return TheoreticalOccupancy(fraction, blocks, binding)


def reached_occupancy(
    metrics: MetricTable, block: Dim3 | None, arch: ArchSpec, achieved: float
) -> TheoreticalOccupancy | None:
    """Return the occupancy that a launch without its shared memory allows, if so many warps ran.

    The theoretical one is no higher than that, and no lower than what was achieved: that is nearer to it than to what
    one block less would allow.
    """
    resources = launch_resources(metrics, block, arch, unknown_shared=0)
    most = theoretical_occupancy(resources, arch) if resources is not None else None
    return (
        most
        if most is not None and achieved * most.blocks_per_sm > (most.blocks_per_sm - 0.5) * most.fraction
        else None
    )


def reported_limiters(metrics: MetricTable, arch: ArchSpec) -> tuple[str, ...]:
    """Return which of the report's own block limits are the lowest; empty if it does not give them all.

    The report counts shared memory by the carve-out that was chosen, which is no larger than the other limits need. By
    the largest, its limit is known where the device's shared memory is; else it counts where it is lower than the rest.
    """
    limits = {name: metrics.number(metric) for name, metric in _REPORTED_LIMITS.items()}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    if len(known) < len(limits):
        return ()
    chosen = known.pop("shared memory")
    if shared_of_block(metrics, arch) != 0:
        largest = _by_largest_carveout(metrics)
        if largest is not None or chosen < min(known.values()):
            known["shared memory"] = largest if largest is not None else chosen
    if chosen < min(known.values()):
        known["carve-out"] = chosen
    return tuple(name for name in LIMITERS if known.get(name) == min(known.values()))


def _by_largest_carveout(metrics: MetricTable) -> int | None:
    """Return the blocks that all shared memory of an SM holds, as far as a report of an unknown architecture tells."""
    whole = metrics.number("device__attribute_max_shared_memory_per_multiprocessor")
    per_block = metrics.number("launch__shared_mem_per_block_allocated")
    return int(whole // per_block) if whole and per_block else None


def _by_registers(launch: LaunchResources, arch: ArchSpec, warps_per_block: int) -> int:
    """Blocks that the register file holds: whole warps per sub-partition, whole blocks per SM."""
    if launch.registers_per_thread == 0:
        return arch.limit("blocks_per_sm")
    unit, partitions = arch.limit("register_allocation_unit"), arch.limit("sub_partitions")
    per_warp = _round_up(launch.registers_per_thread * arch.limit("threads_per_warp"), unit)
    warps = arch.limit("registers_per_sm") // partitions // max(1, per_warp) * partitions
    return warps // warps_per_block


def _by_shared_memory(launch: LaunchResources, arch: ArchSpec, capacity: int) -> int:
    """Blocks that so much shared memory holds."""
    return capacity // max(1, _round_up(launch.shared_bytes_per_block, arch.limit("shared_allocation_unit")))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
