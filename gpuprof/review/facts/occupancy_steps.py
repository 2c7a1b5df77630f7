"""The least changes that let more warps of a kernel be resident."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from msgspec.structs import replace

from gpuprof.diagnose.rule import amounts_of
from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.findings import Amount, CaseName
from gpuprof.model.occupancy import LaunchResources, TheoreticalOccupancy, theoretical_occupancy
from gpuprof.review.contract import LimiterName, OccupancyStep
from gpuprof.words.review import step_sentence

LIMITERS: tuple[LimiterName, ...] = get_args(LimiterName)
_AMOUNTS: Mapping[LimiterName, tuple[str, str]] = {
    "registers": ("registers", "register"),
    "shared memory": ("shared", "B"),
    "block size": ("threads", "thread"),
    "blocks": ("threads", "thread"),
}
"""The name in the wording file, and the unit, of each resource."""
_TOGETHER = {"registers", "shared memory"}
_EPSILON = 1e-9


def occupancy_steps(
    launch: LaunchResources, arch: ArchSpec, now: TheoreticalOccupancy, *, most_threads: int | None
) -> tuple[OccupancyStep, ...]:
    """Return for each binding limit the least change that raises occupancy.

    If registers and shared memory bind together, no change of one alone does. Then there is a step for each, and both
    are needed.
    """
    steps: list[OccupancyStep] = []
    for limiter in now.limiters:
        steps += _steps([limiter], _changes(limiter, launch, arch, most_threads), arch, now)
    if not steps and set(now.limiters) == _TOGETHER:
        less_shared = replace(launch, shared_bytes_per_block=_shared_for(now.blocks_per_sm + 1, arch))
        if less_shared.shared_bytes_per_block > launch.reserved_shared_bytes:
            steps += _steps(now.limiters, _changes("registers", less_shared, arch, None), arch, now)
    return tuple(steps)


def _changes(
    limiter: str, launch: LaunchResources, arch: ArchSpec, most_threads: int | None
) -> Iterator[LaunchResources]:
    """Yield launches with less and less of one resource, or with larger and larger blocks."""
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
    """Return the most shared memory of a block, with the driver's part, with which this many blocks fit on an SM."""
    unit = arch.limit("shared_allocation_unit")
    return arch.limit("shared_per_sm") // blocks // unit * unit


def _steps(
    limiters: Sequence[str], launches: Iterable[LaunchResources], arch: ArchSpec, now: TheoreticalOccupancy
) -> Iterator[OccupancyStep]:
    """Yield a step for each of these limits, to the first launch that raises occupancy.

    They share one sentence, because they have to change together.
    """
    for launch in launches:
        then = theoretical_occupancy(launch, arch)
        if then is None or then.fraction <= now.fraction + _EPSILON:
            continue
        values: Mapping[LimiterName, int] = {
            "registers": launch.registers_per_thread,
            "shared memory": launch.shared_bytes_per_block - launch.reserved_shared_bytes,
            "block size": launch.threads_per_block,
            "blocks": launch.threads_per_block,
        }
        changes = {resource: value for resource, value in values.items() if resource in limiters}
        case, amounts = step_wording(changes, then.blocks_per_sm, then.fraction)
        for resource, value in changes.items():
            yield OccupancyStep(
                resource=resource,
                to=value,
                blocks_per_sm=then.blocks_per_sm,
                fraction=then.fraction,
                sentence=step_sentence(case, amounts),
            )
        return


def together(steps: Sequence[OccupancyStep]) -> Sequence[OccupancyStep]:
    """Return the first step with those that it needs: registers and shared memory, if they limit together."""
    return steps if {step.resource for step in steps} == _TOGETHER else steps[:1]


def step_wording(
    changes: Mapping[LimiterName, int], blocks: int, fraction: float
) -> tuple[CaseName, tuple[Amount, ...]]:
    """Return the sentence of a step, as a case of the actions of `low-occupancy`, and its numbers."""
    amounts = amounts_of("block", blocks_then=blocks) + amounts_of(occupancy_then=fraction)
    for resource, value in changes.items():
        name, unit = _AMOUNTS[resource]
        amounts += amounts_of(unit, **{name: value})
    return f"step-{'-and-'.join(_AMOUNTS[resource][0] for resource in changes)}", amounts
