"""Theoretical occupancy from launch and architecture, with what limits it.

The rules are those of NVIDIA's occupancy calculator (cuda_occupancy.h): registers are allocated per warp and counted
per SM sub-partition, shared memory per block in units, and the driver reserves some shared memory for each block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.recorded import Dim3, MetricTable

LIMITERS = ("registers", "shared memory", "block size", "blocks")
_REPORTED_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "block size": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}


@dataclass(frozen=True, slots=True)
class LaunchResources:
    """What one block of a launch needs. Shared memory in bytes, with what the driver reserves."""

    threads_per_block: int
    registers_per_thread: int
    shared_bytes_per_block: int
    shared_bytes_per_sm: int | None = None


class TheoreticalOccupancy(NamedTuple):
    """Resident warps ÷ the SM's limit, resident blocks, and the limits that bind."""

    fraction: float
    blocks_per_sm: int
    limiters: tuple[str, ...]


def launch_resources(metrics: MetricTable, block: Dim3 | None, arch: ArchSpec) -> LaunchResources | None:
    """Read a launch's needs from its `launch__` metrics; None if block size or registers were not recorded."""
    threads = metrics.number("launch__block_size") or (math.prod(block) if block is not None else None)
    registers = metrics.number("launch__registers_per_thread")
    if not threads or registers is None:
        return None
    return LaunchResources(
        threads_per_block=round(threads),
        registers_per_thread=round(registers),
        shared_bytes_per_block=_shared_bytes(metrics, arch),
        shared_bytes_per_sm=_configured_shared(metrics),
    )


def _shared_bytes(metrics: MetricTable, arch: ArchSpec) -> int:
    """Return static + dynamic shared memory of a block, and what the driver reserves (read, else from the spec)."""
    static = metrics.number("launch__shared_mem_per_block_static") or 0.0
    dynamic = metrics.number("launch__shared_mem_per_block_dynamic") or 0.0
    reserved = metrics.number("launch__shared_mem_per_block_driver")
    if reserved is None:
        reserved = arch.limits["shared_reserved_per_block"].value if "shared_reserved_per_block" in arch.limits else 0.0
    return round(static + dynamic + reserved)


def _configured_shared(metrics: MetricTable) -> int | None:
    """Return the carve-out that the driver chose for this launch, where it was recorded."""
    configured = metrics.number("launch__shared_mem_config_size")
    return round(configured) if configured else None


def theoretical_occupancy(launch: LaunchResources, arch: ArchSpec) -> TheoreticalOccupancy | None:
    """Return the occupancy of an SM full of such blocks; None if the arch spec lacks the limits."""
    if not {"warps_per_sm", "blocks_per_sm", "shared_per_sm"} <= arch.limits.keys():
        return None
    warps_per_block = math.ceil(launch.threads_per_block / arch.limit("threads_per_warp"))
    if warps_per_block < 1:
        return None
    limits = {
        "registers": _by_registers(launch, arch, warps_per_block),
        "shared memory": _by_shared_memory(launch, arch),
        "block size": arch.limit("warps_per_sm") // warps_per_block,
        "blocks": arch.limit("blocks_per_sm"),
    }
    blocks = min(limits.values())
    fraction = blocks * warps_per_block / arch.limit("warps_per_sm")
    binding = tuple(name for name in LIMITERS if limits[name] == blocks) if fraction < 1 else ()
    return TheoreticalOccupancy(fraction, blocks, binding)


def reported_limiters(metrics: MetricTable) -> tuple[str, ...]:
    """Return which of the report's own block limits are the lowest; empty if it does not give them all."""
    limits = {name: metrics.number(metric) for name, metric in _REPORTED_LIMITS.items()}
    known = [limit for limit in limits.values() if limit is not None]
    if len(known) < len(limits):
        return ()
    return tuple(name for name in LIMITERS if limits[name] == min(known))


def _by_registers(launch: LaunchResources, arch: ArchSpec, warps_per_block: int) -> int:
    """Blocks that the register file holds: whole warps per sub-partition, whole blocks per SM."""
    if launch.registers_per_thread == 0:
        return arch.limit("blocks_per_sm")
    unit, partitions = arch.limit("register_allocation_unit"), arch.limit("sub_partitions")
    per_warp = _round_up(launch.registers_per_thread * arch.limit("threads_per_warp"), unit)
    warps = arch.limit("registers_per_sm") // partitions // max(1, per_warp) * partitions
    return warps // warps_per_block


def _by_shared_memory(launch: LaunchResources, arch: ArchSpec) -> int:
    """Blocks that shared memory holds: of the chosen carve-out where recorded, else of the largest."""
    if launch.shared_bytes_per_block == 0:
        return arch.limit("blocks_per_sm")
    per_block = _round_up(launch.shared_bytes_per_block, arch.limit("shared_allocation_unit"))
    capacity = launch.shared_bytes_per_sm or arch.limit("shared_per_sm")
    return capacity // max(1, per_block)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
