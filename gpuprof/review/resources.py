"""What a kernel takes, and the theoretical occupancy that follows from it, with the next step."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import CodeOccupancy, KernelResources, LimiterName, SpillCount
from gpuprof.review.occupancy_steps import occupancy_steps
from gpuprof.sass.binary.local_memory import LOCAL_OPCODES, LocalMemory, local_memory
from gpuprof.sass.requests import width_bytes
from gpuprof.units import counted, format_percent

_SHARED_OPCODES = frozenset({"LDS", "STS", "LDSM", "STSM", "ATOMS", "LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "SYNCS"})
_ASKS_SPACE = "QSPC"
"""Asks which memory a generic address is in: an atomic through one has instructions for each, used or not."""
_BARRIER = re.compile(r"0x[0-9a-f]{1,8}|\d{1,8}")
_LIMITERS: tuple[LimiterName, ...] = ("registers", "shared memory", "block size", "blocks")


def resources_of(code: KernelCode, innermost: Mapping[int, int]) -> KernelResources:
    """Return what it takes. Where its instructions could not be read, what they would tell is not known."""
    kernel, unread = code.kernel.kernel, code.unread is not None
    return KernelResources(
        registers=kernel.registers,
        static_shared_bytes=kernel.static_shared_bytes,
        dynamic_shared_bytes=code.kernel.shape.dynamic_shared_bytes,
        stack_bytes=kernel.stack_bytes,
        spills=None if unread else _spills(local_memory_of(code), innermost),
        barriers=None if unread and kernel.barriers is None else _barriers(kernel.barriers, code),
        code_bytes=len(kernel.code) if code.kernel.has_code else None,
        instructions=None if unread else len(code.code),
        max_threads=kernel.max_threads,
        required_block=kernel.required_block,
    )


def local_memory_of(code: KernelCode) -> LocalMemory:
    """Return the instructions that access local memory: spills and arrays."""
    if not code.has_any(LOCAL_OPCODES):
        return LocalMemory()
    return local_memory(code.kernel.kernel, code.code)


def _spills(local: LocalMemory, innermost: Mapping[int, int]) -> SpillCount | None:
    """Count the instructions of spills; None where signs tell them, which is a guess."""
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


def _barriers(told: int | None, code: KernelCode) -> int | None:
    """Return how many barriers it uses: as its cubin says, else by their numbers; None where a register has one."""
    if told is not None:
        return told
    numbers = set()
    for instruction in code.named("BAR"):
        if not instruction.idle:
            number = next((part for part in instruction.operands if not part.startswith(("P", "!P", "UP"))), "0x0")
            if not _BARRIER.fullmatch(number):
                return None
            numbers.add(int(number, 16 if number.startswith("0x") else 10))
    return max(numbers) + 1 if numbers else 0


def occupancy_of(code: KernelCode, resources: KernelResources) -> CodeOccupancy | None:
    """Return its theoretical occupancy; None where block, limits or what it takes are not known."""
    block, registers, static = code.kernel.shape.block, resources.registers, resources.static_shared_bytes
    block = block or resources.required_block
    arch = code.arch
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
    limiters = tuple(name for name in _LIMITERS if name in occupancy.limiters)
    warps = occupancy.blocks_per_sm * math.ceil(launch.threads_per_block / arch.limit("threads_per_warp"))
    condition = _condition(code, resources)
    return CodeOccupancy(
        fraction=occupancy.fraction,
        blocks_per_sm=occupancy.blocks_per_sm,
        warps_per_sm=warps,
        limiters=limiters,
        steps=occupancy_steps(launch, arch, occupancy, most_threads=resources.max_threads),
        sentence=_sentence(occupancy.fraction, occupancy.blocks_per_sm, warps, limiters) + condition,
        needs_dynamic=_needs_dynamic(code, resources),
    )


def _sentence(fraction: float, blocks: int, warps: int, limiters: Sequence[LimiterName]) -> str:
    if not blocks:
        return f"no block of this size fits on an SM, by its {_listed(limiters)}"
    held = f"{counted(blocks, 'block')} ({counted(warps, 'warp')}) per SM, {format_percent(fraction)} of its warp slots"
    return f"{held}, limited by {_listed(limiters)}" if limiters else held


def _listed(names: Sequence[str]) -> str:
    *first, last = names or ("size",)
    return f"{', '.join(first)} and {last}" if first else last


def is_upper_bound(code: KernelCode, resources: KernelResources) -> bool:
    """Tell whether the launch may ask for dynamic shared memory that is not known, so that occupancy may be lower."""
    unread = code.unread is not None
    return resources.dynamic_shared_bytes is None and (unread or code.has_any(_SHARED_OPCODES))


def _condition(code: KernelCode, resources: KernelResources) -> str:
    """Say what the occupancy is worth where the dynamic shared memory of the launch is not known."""
    if not is_upper_bound(code, resources):
        return ""
    if _needs_dynamic(code, resources):
        return ", at most: it uses dynamic shared memory of a size that is not known (--dynamic-shared BYTES)"
    return ", at most: the launch may add dynamic shared memory (--dynamic-shared BYTES)"


def _needs_dynamic(code: KernelCode, resources: KernelResources) -> bool:
    """Return whether the kernel uses shared memory that only the launch can give it, of a size that is not known."""
    may_be_less = is_upper_bound(code, resources) and code.unread is None
    return may_be_less and not resources.static_shared_bytes and not code.has_any([_ASKS_SPACE])
