"""Threads access few bytes at a time."""

from __future__ import annotations

from gpuprof.annotated.counts import EXECUTED
from gpuprof.diagnose.bounds import NO_ADDRESSES, Saving, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.units import REQUESTS
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import BUSY, NARROW, percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.groups import summed

NARROW_PRESSURE = percent("queue-pressure", 10.0)

_WIDTHS = {".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, ".64": 8, ".128": 16, ".256": 32}

_GLOBAL_ACCESS = ("LDG.", "STG.", "LDGSTS.", "LD.", "ST.")

_NARROW = 4
"""The bytes of a narrow access of a thread, at most."""

_WIDEST = 16
"""The most bytes that a thread accesses at once on most GPUs."""


def _narrow(facts: KernelFacts) -> Findings:
    widths = summed((width_of(opcode), count) for opcode, count in facts.opcodes.items())
    widths.pop(0, None)
    total = sum(widths.values())
    issued = max(facts.need("lsu"), (facts.number(REQUESTS) or 0.0) / 100)
    is_queue_full = NARROW_PRESSURE.is_reached(facts.stall("lg_throttle"))
    is_unit_busy = BUSY.is_reached(issued * facts.most_of_lsu_by_global)
    if not total or not (is_queue_full or is_unit_busy):
        return
    narrow = {width: count for width, count in widths.items() if width <= _NARROW}
    share = sum(narrow.values()) / total
    if not NARROW.is_reached(share):
        return
    spared = sum(count * (1 - width / _WIDEST) for width, count in narrow.items()) / total
    yield finding(
        facts,
        amounts=amounts_of(share=share) + amounts_of("B", size=max(narrow)),
        subject="global",
        confidence="inferred",
        saving=_widened(facts, spared),
        evidence=(
            NARROW.evidence(100 * share, metric=WARP_OPCODES),
            *facts.stall_evidence("lg_throttle", threshold=NARROW_PRESSURE.value),
            *facts.pipe_evidence("lsu", BUSY.value),
        ),
        place=facts.code.place(
            lambda instruction: instruction.counts.get(EXECUTED, 0.0),
            [place for place, opcode in enumerate(facts.code.opcode_names) if 0 < width_of(opcode) <= _NARROW],
        ),
        # Wider accesses of a matrix product without tiles read the same bytes as often.
        is_fact=facts.mostly_rereads and facts.multiplies,
    )


def width_of(opcode: str) -> int:
    """Return the bytes per thread that a global load or store moves; 0 for other instructions."""
    name = f"{opcode}."
    if not name.startswith(_GLOBAL_ACCESS):
        return 0
    return next((size for mark, size in _WIDTHS.items() if mark in name), 4)


def _widened(facts: KernelFacts, gone: float) -> Saving:
    """Bound the gain of wide accesses, which replace the share `gone` of the global accesses.

    L1 still moves the bytes that they need and serves shared memory. The address arithmetic goes
    too, but its share of the integer pipes and the issue slots is unknown. If it stays, only the
    accesses are saved.
    """
    of_l1 = facts.most_of_l1_by_global
    keeps = {
        "l1": max(1.0 - gone * of_l1, facts.l1_keeps_bytes),
        "lsu": 1.0 - gone * facts.most_of_lsu_by_global,
    }
    bound = speedup_bound(facts, keeps | NO_ADDRESSES)
    l1 = facts.l1_speed
    busy = of_l1 * l1 if l1 is not None else None
    most = gone * explained(facts, busy)
    accesses = speedup_bound(facts, keeps | {ISSUE: 0.0}).no_more_than(most)
    return bound.or_less(accesses, "same-address-arithmetic")


RULE = Rule(
    "narrow-access",
    thresholds=(NARROW, NARROW_PRESSURE, BUSY),
    check=_narrow,
    metrics=(WARP_OPCODES, REQUESTS),
    place=AT_MEMORY,
)
