"""Threads access local memory: spilled registers or arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuprof.diagnose.bounds import OTHER_WAITS, Saving, at_work, capped, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.facts.traffic import GLOBAL_SECTORS, LOCAL_SECTORS
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.rule import AT_MEMORY, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import LOW, percent
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence, Finding

SPILL = percent("local-share", 1.0)

_LEVELS = ("l2", "dram")

_GLOBAL = tuple(map(GLOBAL_SECTORS.format, ("ld", "st")))

_LOCAL_INSTRUCTIONS = ("sass__inst_executed_local_loads", "sass__inst_executed_local_stores")

_GLOBAL_INSTRUCTIONS = ("sass__inst_executed_global_loads", "sass__inst_executed_global_stores")

_ALL_REGISTERS = 255

_MOST_WARPS = 32
"""The most warps of a block, on every architecture."""


def _spill(facts: KernelFacts) -> Iterator[Finding]:
    local = _local_share(facts)
    if local is None or not SPILL.is_reached(local.share):
        return
    registers = facts.kernel.registers_per_thread
    ceiling = _register_ceiling(facts)
    threads = facts.threads_per_block if ceiling < _ALL_REGISTERS else None
    reason = "all-registers"
    advice: tuple[str, ...] = ("shorter-ranges",)
    if registers is None or registers < ceiling:
        reason = "local-arrays"
        action = "keep-arrays"
        advice = ("raise-cap", *advice)
    elif threads is not None:
        action = "smaller-blocks"
        advice = (action, *advice)
    else:
        # No instruction can address more registers, so there is no cap to raise.
        action = "lower-pressure"
    yield finding(
        facts,
        Cases(headline=(local.counted,), why=(reason, "through-l1"), action=(action,), advice=advice),
        amounts=(
            amounts_of(share=local.share) + amounts_of("", registers=registers, most_registers=ceiling, threads=threads)
        ),
        subject="local",
        # Without busy units or stalls, a share of accesses does not show a cost.
        confidence="guess" if facts.busiest_need is None and not facts.stalls else "measured",
        saving=_without_local(facts, local),
        evidence=(
            *local.evidence,
            SPILL.evidence(100 * local.share, f"share-of-{local.counted}"),
            *facts.metric("launch__registers_per_thread", "registers-per-thread", "register"),
        ),
        place=facts.place_of("memory_l2_theoretical_sectors_local") or facts.place_of_opcode("LDL", "STL"),
    )


def _without_local(facts: KernelFacts, local: _Local) -> Saving:
    """Bound the gain without local memory, which may be all of the traffic of L2 and DRAM.

    Of each level at most its own bytes go. Its instructions go too, and with them the work of the
    load/store unit and L1. The kernel may wait for a level whose counters were not collected. If
    bytes are not known, the share of the accesses that are local estimates the gain. That assumes
    the same hit rates as for other data.
    """
    past_l1 = facts.local_bytes_past_l1
    shares: dict[str, float] = {}
    for level in _LEVELS:
        moved = facts.bytes_of(level)
        if moved and past_l1 is not None:
            shares[level] = min(1.0, past_l1 / moved)
    executed = facts.number("smsp__inst_executed.sum")
    counted = facts.total(_LOCAL_INSTRUCTIONS, of_all=True)
    issued = 0.0
    if executed and counted is not None:
        issued = max(0.0, 1.0 - counted / executed)
    weight = explained(facts, facts.memory_busy, MEMORY_STALLS)

    def without(unknown: float, accesses: float) -> Saving:
        keeps = {"l1": 0.0, "lsu": 0.0, ISSUE: issued}
        goes = dict.fromkeys(_LEVELS, unknown) | shares
        for level, share in goes.items():
            keeps[level] = 1.0 - share
        return capped(facts, speedup_bound(facts, keeps), max(accesses, *goes.values()), weight)

    estimate = without(local.share, local.share).fraction
    if local.whole:
        saving = without(1.0, local.share).if_held(estimate, "same-hit-rates")
    else:
        saving = without(1.0, 1.0).if_held(estimate, "same-local-share")
    if saving.fraction < LOW:
        return saving
    return _by_waits(facts, saving, {"l1": local.share, **shares, ISSUE: 1.0 - issued})


def _by_waits(facts: KernelFacts, saving: Saving, work: Mapping[str, float]) -> Saving:
    """Bound the gain without local memory by the samples of its accesses and of waits for them.

    `work` is its share of each unit's work, with which it can delay others. Unless that is known
    for all levels, the saving stays as it is. All other warps of a block may wait at a barrier for
    one that waits.
    """
    from gpuprof.diagnose.local_waits import local_waits

    if facts.memory_busy is None or not work.keys() >= set(_LEVELS):
        return saving
    waits = local_waits(facts)
    if waits is None:
        return saving
    unknown = facts.memory_utilisation or 0.0
    busy = max(share * facts.needs.get(unit, unknown) for unit, share in work.items())
    others = min(facts.stall_at_most("barrier", "membar"), waits * ((facts.warps_per_block or _MOST_WARPS) - 1))
    return saving.if_held(facts.working_share * at_work(facts, busy, waits + others, work["l1"]), OTHER_WAITS)


class _Local(NamedTuple):
    """The local share of loads and stores, and the evidence.

    `counted` names the accesses: sectors or instructions. `whole`: both loads and stores were
    counted.
    """

    share: float
    counted: str
    evidence: tuple[Evidence, ...]
    whole: bool


def _local_share(facts: KernelFacts) -> _Local | None:
    """Return the local share of load and store sectors, else of instructions.

    Loads or stores count only if both their local and their global accesses are known.
    """
    for counted, local_metrics, global_metrics in (
        ("sector", LOCAL_SECTORS, _GLOBAL),
        ("instruction", _LOCAL_INSTRUCTIONS, _GLOBAL_INSTRUCTIONS),
    ):
        local = every = 0.0
        evidence: list[Evidence] = []
        for kind, of_local, of_global in zip(("loads", "stores"), local_metrics, global_metrics, strict=True):
            both = facts.total((of_local, of_global), of_all=True)
            if both is not None:
                local += facts.number(of_local) or 0.0
                every += both
                evidence += facts.metric(of_local, f"local-{kind}", counted)
        if every > 0:
            return _Local(local / every, f"{counted}s", tuple(evidence), whole=len(evidence) == len(local_metrics))
    return None


def _register_ceiling(facts: KernelFacts) -> float:
    """Return the most registers of a thread at this block size, by the ISA or the register file."""
    registers = facts.arch.limits.get("registers_per_sm")
    if not facts.threads_per_block or registers is None:
        return _ALL_REGISTERS
    share = registers.value / facts.threads_per_block // 8 * 8
    return min(_ALL_REGISTERS, share) if share >= 16 else _ALL_REGISTERS


RULE = Rule(
    "local-memory-spill",
    kind="defect",
    thresholds=(SPILL,),
    check=_spill,
    metrics=LOCAL_SECTORS + _GLOBAL,
    place=AT_MEMORY,
)
