"""Atomics keep the unit busy that executes them."""

from __future__ import annotations

from gpuprof.diagnose.bounds import NO_ADDRESSES, OTHER_WAITS, Saving, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import SHARED_ATOMICS
from gpuprof.diagnose.facts.unit_names import LAUNCH
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import percent
from gpuprof.model.findings import Cases

ATOMICS = percent("atomic-units-busy", 30.0)

_L2_ATOMICS = (
    "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",
    "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
"""One hot address keeps one slice of L2 busy, which only the maximum over the slices shows."""

_QUEUES = ("lg_throttle", "mio_throttle", "drain")

_RESULTS = ("long_scoreboard", "short_scoreboard")


def _atomics(facts: KernelFacts) -> Findings:
    for unit, names, opcodes in (
        ("l2", _L2_ATOMICS, ("ATOMG", "RED.", "REDG", "ATOM.")),
        ("shared", (SHARED_ATOMICS,), ("ATOMS",)),
    ):
        busy = facts.number(*names) or 0.0
        if busy < ATOMICS.value:
            continue
        fraction = min(1.0, busy / 100)
        yield finding(
            facts,
            Cases(headline=(unit,), why=("one-address", "many-addresses")),
            amounts=amounts_of(busy=fraction),
            subject=unit,
            # DRAM that is busier delays the other accesses, whatever atomics do.
            confidence="guess" if facts.need("dram") > fraction else "measured",
            saving=_without_atomics(facts, fraction),
            evidence=(
                ATOMICS.evidence(busy, f"{unit}-busy", metric=facts.first_of(names)),
                *facts.stall_evidence(*_QUEUES, *_RESULTS),
            ),
            place=facts.code.place_of_opcode(*opcodes),
        )


def _without_atomics(facts: KernelFacts, busy: float) -> Saving:
    """Bound the gain without atomics: their part of L1 and L2, their issue slots and addresses, and
    all waits for them.

    A loop of compare-and-swap repeats its arithmetic under contention, so that goes as well. Counters
    in shared memory also take bytes from DRAM, so these are no bound. Warps wait for results only of
    atomics that return them. If waits were not collected, only the busy time of the unit is known to
    go.
    """
    opcodes = facts.opcodes
    gone = {"l2", "l1", "lsu", *NO_ADDRESSES}
    condition = OTHER_WAITS
    if not opcodes or any(".CAS" in opcode for opcode in opcodes):
        gone = facts.needs.keys() - {"dram", LAUNCH}
        condition = "same-retries-per-atomic"
    bound = speedup_bound(facts, dict.fromkeys(gone | {"dram"}, 0.0))
    bound = bound.or_less(speedup_bound(facts, dict.fromkeys(gone, 0.0)), "same-bytes-through-dram")
    if not facts.stalls:
        return bound.if_held(busy, "all-other-stalls-unchanged")
    returns = not opcodes or facts.executed("ATOM") > 0
    return bound.if_held(explained(facts, busy, _QUEUES + _RESULTS * returns), condition)


RULE = Rule(
    "atomic-contention",
    thresholds=(ATOMICS,),
    check=_atomics,
    metrics=(*_L2_ATOMICS, SHARED_ATOMICS),
    place=AT_MEMORY,
)
