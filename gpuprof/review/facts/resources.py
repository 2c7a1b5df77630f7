"""The resources of a kernel, and its theoretical occupancy."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import CodeOccupancy, KernelResources, SpillCount
from gpuprof.review.facts.occupancy_steps import LIMITERS, occupancy_steps
from gpuprof.review.facts.solutions import block_of
from gpuprof.sass.binary.local_memory import LocalMemory
from gpuprof.sass.requests import width_bytes
from gpuprof.words.review import occupancy_sentence

_SHARED_OPCODES = frozenset({"LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "SYNCS"})
_ADDRESS_SPACE_QUERY = "QSPC"
"""An atomic at a generic address has, after this query, code for each memory space, used or not."""


def resources_of(code: KernelCode, innermost: Mapping[int, int]) -> KernelResources:
    """Return the resources of a kernel. Without its instructions, some are unknown."""
    kernel = code.kernel.kernel
    unread = code.unread is not None
    return KernelResources(
        registers=kernel.registers,
        static_shared_bytes=kernel.static_shared_bytes,
        dynamic_shared_bytes=code.kernel.shape.dynamic_shared_bytes,
        stack_bytes=kernel.stack_bytes,
        spills=None if unread else _spills(code.local_memory, innermost),
        barriers=kernel.barriers,
        code_bytes=len(kernel.code) if code.kernel.has_code else None,
        instructions=None if unread else len(code.code),
        max_threads=kernel.max_threads,
        required_block=kernel.required_block,
    )


def _spills(local: LocalMemory, innermost: Mapping[int, int]) -> SpillCount | None:
    """Count the instructions of spills; None if they are a guess."""
    if local.guessed:
        return None
    loads = [access for access in local.spills if access.name == "LDL"]
    stores = [access for access in local.spills if access.name == "STL"]
    return SpillCount(
        loads=len(loads),
        stores=len(stores),
        load_bytes=sum(map(width_bytes, loads)),
        store_bytes=sum(map(width_bytes, stores)),
        in_loops=sum(access.address in innermost for access in local.spills),
    )


def occupancy_of(code: KernelCode, resources: KernelResources) -> CodeOccupancy | None:
    """Return its theoretical occupancy; None if the block, the limits or its resources are unknown."""
    block = block_of(code)
    arch = code.arch
    registers = resources.registers
    static = resources.static_shared_bytes
    if block is None or arch is None or registers is None or static is None or math.prod(block) < 1:
        return None
    reserved = arch.limit("shared_reserved_per_block") if "shared_reserved_per_block" in arch.limits else 0
    launch = LaunchResources(
        threads_per_block=math.prod(block),
        registers_per_thread=registers,
        shared_bytes_per_block=static + (resources.dynamic_shared_bytes or 0) + reserved,
        reserved_shared_bytes=reserved,
    )
    occupancy = theoretical_occupancy(launch, arch)
    if occupancy is None:
        return None
    limiters = tuple(name for name in LIMITERS if name in occupancy.limiters)
    warps = occupancy.blocks_per_sm * math.ceil(launch.threads_per_block / arch.limit("threads_per_warp"))
    may_be_less = is_upper_bound(code, resources)
    is_all_dynamic = code.unread is None and not static and not code.has_any([_ADDRESS_SPACE_QUERY])
    return CodeOccupancy(
        fraction=occupancy.fraction,
        blocks_per_sm=occupancy.blocks_per_sm,
        warps_per_sm=warps,
        limiters=limiters,
        steps=occupancy_steps(launch, arch, occupancy, most_threads=resources.max_threads),
        sentence=occupancy_sentence(
            occupancy.fraction,
            occupancy.blocks_per_sm,
            warps,
            limiters,
            may_be_less=may_be_less,
            needs_dynamic=may_be_less and is_all_dynamic,
        ),
        needs_dynamic=may_be_less and is_all_dynamic,
    )


def is_upper_bound(code: KernelCode, resources: KernelResources) -> bool:
    """Return whether the launch may use dynamic shared memory of unknown size, so that occupancy may be lower."""
    may_use_shared = code.unread is not None or code.has_any(_SHARED_OPCODES)
    return resources.dynamic_shared_bytes is None and may_use_shared
