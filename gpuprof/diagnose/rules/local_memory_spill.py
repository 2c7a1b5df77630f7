"""Threads access local memory: spilled registers or arrays."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.annotated.counts import SAMPLES, stall_metric
from gpuprof.diagnose.bounds import NO_ADDRESSES, OTHER_WAITS, Saving, at_work, speedup_bound
from gpuprof.diagnose.facts.counters import INSTRUCTIONS
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import GLOBAL_SECTORS, LOCAL_SECTORS
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, certainty, finding
from gpuprof.diagnose.thresholds import LOW, percent
from gpuprof.model.findings import Cases
from gpuprof.model.occupancy import MOST_REGISTERS

SPILL = percent("local-share", 1.0)

RARE = percent("local-instructions", 0.1)

_SECTORS = dict(zip(LOCAL_SECTORS, map(GLOBAL_SECTORS.format, ("ld", "st")), strict=True))

_INSTRUCTIONS = {
    "sass__inst_executed_local_loads": "sass__inst_executed_global_loads",
    "sass__inst_executed_local_stores": "sass__inst_executed_global_stores",
}
"""Counts of loads and stores of local memory, with those of global memory."""

_STACK_OF_CALL = 64
"""The most local accesses per call that are its arguments and saved registers."""


def _spill(facts: KernelFacts) -> Findings:
    counted, metrics, share = "sectors", _SECTORS, _share(facts, _SECTORS)
    of_instructions = _share(facts, _INSTRUCTIONS) or 0.0
    if share is None:
        counted, metrics, share = "instructions", _INSTRUCTIONS, of_instructions
    local, executed = facts.total(_INSTRUCTIONS, of_all=True), facts.number(INSTRUCTIONS)
    of_all = 0.0
    if executed and local is not None:
        of_all = min(1.0, local / executed)
        if not RARE.is_reached(of_all):
            return
    if not SPILL.is_reached(share):
        return
    yield finding(
        facts,
        _cases(facts, counted),
        amounts=amounts_of(share=share)
        + amounts_of(
            "",
            registers=facts.kernel.registers_per_thread,
            most_registers=_most_registers(facts),
            threads=facts.threads_per_block,
        ),
        subject="local",
        confidence=certainty(facts, "measured"),
        saving=_without_local(facts, share, max(share, of_instructions), of_all),
        evidence=(
            *facts.metrics_as(dict(zip(metrics, ("local-loads", "local-stores"), strict=True)), counted[:-1]),
            SPILL.evidence(100 * share, f"share-of-{counted}"),
        ),
        place=facts.code.place_of("memory_l2_theoretical_sectors_local") or facts.code.place_of_opcode("LDL", "STL"),
    )


def _share(facts: KernelFacts, metrics: dict[str, str]) -> float | None:
    """Return the local share of loads and stores; of one kind alone if the other was not counted."""
    local = every = 0.0
    for of_local, of_global in metrics.items():
        both = facts.total((of_local, of_global), of_all=True)
        if both is not None:
            local += facts.number(of_local) or 0.0
            every += both
    return local / every if every else None


def _most_registers(facts: KernelFacts) -> float:
    """Return the most registers of a thread at this block size, by the ISA or the register file."""
    registers = facts.arch.limits.get("registers_per_sm")
    if not facts.threads_per_block or registers is None:
        return MOST_REGISTERS
    return min(MOST_REGISTERS, registers.value / facts.threads_per_block // 8 * 8)


def _takes_all_registers(facts: KernelFacts) -> bool:
    return (facts.kernel.registers_per_thread or 0) >= _most_registers(facts)


def _cases(facts: KernelFacts, counted: str) -> Cases:
    headline, reason, action = "spills", "all-registers", "smaller-blocks"
    advice = ["smaller-blocks", "shorter-ranges"]
    if 0 < facts.executed("LDL", "STL") <= _STACK_OF_CALL * facts.executed("CALL.ABS"):
        # Divisions and roots call by a relative address, and without a stack.
        headline = reason = action = "stack"
        advice = ["stack"]
    elif not _takes_all_registers(facts):
        reason, action = "local-arrays", "keep-arrays"
        advice = ["raise-cap", "shorter-ranges"]
    elif _most_registers(facts) == MOST_REGISTERS:
        # Then there is no cap to raise.
        action = "lower-pressure"
        advice = ["shorter-ranges"]
    return Cases(headline=(counted, headline), why=(reason, "through-l1"), action=(action,), advice=tuple(advice))


def _without_local(facts: KernelFacts, share: float, accesses: float, of_all: float) -> Saving:
    """Bound the gain without local memory, which may be all of the traffic of L2 and DRAM.

    Of each level at most its own bytes go; if they were not counted, its share of the accesses. Its
    instructions go too, and with them the work of the load/store unit and L1. Warps wait for its
    accesses as code and samples show, else for its share of the accesses: queues fill by sectors,
    and latency is that of instructions. Unless all registers are taken, an array is unrolled or a
    function inlined: that also takes away branches, index arithmetic and their issue slots.
    """
    known = {level: facts.local_share_of(level) for level in ("l2", "dram")}
    parts = {level: share if part is None else part for level, part in known.items()} | {ISSUE: of_all}
    keeps = {unit: 1.0 - part for unit, part in parts.items()} | {"l1": 0.0, "lsu": 0.0}
    bound = speedup_bound(facts, keeps)
    if not _takes_all_registers(facts):
        bound = speedup_bound(facts, keeps | NO_ADDRESSES).or_less(bound, "same-other-instructions")
    if None in known.values():
        bound = replace(bound, assumes=(*bound.assumes, "same-time-per-access"))
    if bound.fraction < LOW:
        return bound
    condition, waits = OTHER_WAITS, _sampled_waits(facts)
    if waits is None:
        condition = "same-time-per-access"
        waits = accesses * facts.waits_behind(*MEMORY_STALLS)
    parts["l1"], unknown = share, facts.memory_utilisation or 0.0
    busy = max(part * facts.needs.get(unit, unknown) for unit, part in parts.items())
    return bound.if_held(facts.working_share * at_work(facts, busy, waits, share), condition)


def _sampled_waits(facts: KernelFacts) -> float | None:
    """Return the share of samples of warps at an access of local memory, or waiting for its result.

    All other warps of a block may wait at a barrier for one that waits. None if the code or the
    samples are not known, or other instructions may access local memory.
    """
    # It takes time to follow the code.
    from gpuprof.sass.patterns.local_accesses import local_accesses

    total = sum(facts.code.counted(SAMPLES).values())
    if not total:
        return None
    waiting = local_accesses(facts.code.sass, tuple(item.pc for item in facts.code.instructions))
    if waiting is None:
        return None
    waits = 0.0
    for place, is_access in waiting.items():
        counts = facts.code.instructions[place].counts
        # A reason with next to no samples is not read by instruction: then count all samples.
        reason = SAMPLES if is_access else stall_metric("long_scoreboard", "sampled")
        waits += counts.get(reason, counts.get(SAMPLES, 0.0)) / total
    behind = waits * ((facts.warps_per_block or 1) - 1)
    return waits + min(facts.stall_at_most("barrier", "membar"), behind)


RULE = Rule(
    "local-memory-spill",
    thresholds=(SPILL, RARE),
    check=_spill,
    metrics=(*_SECTORS, *_SECTORS.values(), INSTRUCTIONS),
    place=AT_MEMORY,
)
