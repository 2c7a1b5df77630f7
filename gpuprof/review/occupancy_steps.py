"""The least changes that let more warps of a kernel be resident."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.occupancy import LaunchResources, TheoreticalOccupancy, theoretical_occupancy
from gpuprof.review.contract import LimiterName, OccupancyStep
from gpuprof.units import counted, format_percent, spaced

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_EPSILON = 1e-9


def occupancy_steps(
    launch: LaunchResources, arch: ArchSpec, now: TheoreticalOccupancy, *, most_threads: int | None
) -> tuple[OccupancyStep, ...]:
    """Return for each limit that binds the least change of it that raises occupancy, where it does so alone.

    Where registers and shared memory bind together, neither does: then both change, and both steps say so.
    """
    steps = []
    for limiter in now.limiters:
        changed = _first_better(_changes(limiter, launch, arch, most_threads), arch, now)
        if changed is not None:
            steps.append(_step(limiter, *changed, now=now))
    if not steps and set(now.limiters) == {"registers", "shared memory"}:
        return _of_both(launch, arch, now)
    return tuple(steps)


def _changes(
    limiter: str, launch: LaunchResources, arch: ArchSpec, most_threads: int | None
) -> Iterator[LaunchResources]:
    """Yield launches in which this one need is smaller and smaller, or the block larger and larger."""
    warp = arch.limit("threads_per_warp")
    if limiter == "registers":
        for registers in range(min(launch.registers_per_thread - 1, arch.limit("registers_per_thread")), 0, -1):
            yield replace(launch, registers_per_thread=registers)
    elif limiter == "shared memory":
        for blocks in range(1, arch.limit("blocks_per_sm") + 1):
            shared = _shared_for(blocks, arch)
            if launch.reserved_shared_bytes < shared < launch.shared_bytes_per_block:
                yield replace(launch, shared_bytes_per_block=shared)
    elif limiter == "block size":
        whole = min(launch.threads_per_block - 1, arch.limit("threads_per_block")) // warp * warp
        for threads in range(whole, 0, -warp):
            yield replace(launch, threads_per_block=threads)
    elif limiter == "blocks":
        most = min(most_threads or math.inf, arch.limit("threads_per_block"))
        for threads in range(launch.threads_per_block // warp * warp + warp, int(most) + 1, warp):
            yield replace(launch, threads_per_block=threads)


def _shared_for(blocks: int, arch: ArchSpec) -> int:
    """Return the most shared memory of a block, with what the driver keeps, of which so many fit on an SM."""
    unit = arch.limit("shared_allocation_unit")
    return arch.limit("shared_per_sm") // blocks // unit * unit


def _first_better(
    launches: Iterable[LaunchResources], arch: ArchSpec, now: TheoreticalOccupancy
) -> tuple[LaunchResources, TheoreticalOccupancy] | None:
    for launch in launches:
        then = theoretical_occupancy(launch, arch)
        if then is not None and then.fraction > now.fraction + _EPSILON:
            return launch, then
    return None


def _of_both(launch: LaunchResources, arch: ArchSpec, now: TheoreticalOccupancy) -> tuple[OccupancyStep, ...]:
    less_shared = replace(launch, shared_bytes_per_block=_shared_for(now.blocks_per_sm + 1, arch))
    if less_shared.shared_bytes_per_block <= launch.reserved_shared_bytes:
        return ()
    changed = _first_better(_changes("registers", less_shared, arch, None), arch, now)
    if changed is None:
        return ()
    return tuple(_step(limiter, *changed, now=now, together=True) for limiter in now.limiters)


def _step(
    limiter: str,
    launch: LaunchResources,
    then: TheoreticalOccupancy,
    *,
    now: TheoreticalOccupancy,
    together: bool = False,
) -> OccupancyStep:
    shared = launch.shared_bytes_per_block - launch.reserved_shared_bytes
    at = {
        "registers": f"{counted(launch.registers_per_thread, 'register')} per thread",
        "shared memory": f"{spaced(shared)} B of shared memory per block",
    }
    place = " and ".join(at.values()) if together else at.get(limiter, f"{launch.threads_per_block} threads per block")
    to = {"registers": launch.registers_per_thread, "shared memory": shared}.get(limiter, launch.threads_per_block)
    return OccupancyStep(
        resource=_named(limiter),
        to=to,
        blocks_per_sm=then.blocks_per_sm,
        fraction=then.fraction,
        sentence=f"at {place} {_gain(limiter, then, now)} ({format_percent(then.fraction)} occupancy)",
    )


def _gain(limiter: str, then: TheoreticalOccupancy, now: TheoreticalOccupancy) -> str:
    more = then.blocks_per_sm - now.blocks_per_sm
    if limiter in ("registers", "shared memory") and now.blocks_per_sm:
        number = _NUMBERS[more] if more < len(_NUMBERS) else str(more)
        return f"{number} more block{'s fit' if more != 1 else ' fits'}"
    return f"{counted(then.blocks_per_sm, 'block')} fit{'s' if then.blocks_per_sm == 1 else ''}"


def _named(limiter: str) -> LimiterName:
    names: dict[str, LimiterName] = {
        "registers": "registers",
        "shared memory": "shared memory",
        "block size": "block size",
        "blocks": "blocks",
    }
    return names[limiter]
