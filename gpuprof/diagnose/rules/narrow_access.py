"""Threads access few bytes at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.diagnose.bounds import Saving, explained, speedup_bound
from gpuprof.diagnose.facts.code import EXECUTED
from gpuprof.diagnose.facts.counters import summed
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ADDRESS_PIPES, ISSUE
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.rule import AT_MEMORY, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.session import Finding

NARROW = percent("narrow-share", 50.0)

NARROW_PRESSURE = percent("queue-pressure", 10.0)

_WIDTHS = {".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, ".64": 8, ".128": 16, ".256": 32}

_GLOBAL_ACCESS = ("LDG.", "STG.", "LDGSTS.", "LD.", "ST.")


def global_widths(opcodes: Mapping[str, float]) -> dict[int, float]:
    """Return warp instructions of global loads and stores by bytes per thread, from opcodes."""
    widths = summed((width_of(opcode), count) for opcode, count in opcodes.items())
    widths.pop(0, None)
    return widths


def width_of(opcode: str) -> int:
    """Return the bytes per thread that a global load or store moves; 0 for other instructions."""
    name = f"{opcode}."
    if not name.startswith(_GLOBAL_ACCESS):
        return 0
    return next((size for mark, size in _WIDTHS.items() if mark in name), 4)


def _narrow(facts: KernelFacts) -> Iterator[Finding]:
    widths = global_widths(facts.opcodes())
    total = sum(widths.values())
    if not total:
        return
    for size in (2, 4):
        narrow = {width: count for width, count in widths.items() if width <= size}
        share = sum(narrow.values()) / total
        if NARROW.is_reached(share):
            break
    else:
        return
    if size == 4 and not NARROW_PRESSURE.is_reached(facts.stall("lg_throttle")):
        return
    saving = None
    if facts.stalls or facts.pipe("lsu") is not None:
        # Accesses of 16 bytes per thread replace most of the narrow ones.
        spared = sum(count * (1 - width / 16) for width, count in narrow.items()) / total
        saving = _widened(facts, spared)
    yield finding(
        facts,
        amounts=amounts_of(share=share) + amounts_of("B", size=size),
        subject="global",
        confidence="inferred",
        saving=saving,
        evidence=(
            NARROW.evidence(100 * share, f"at-most-{size}-bytes", metric=WARP_OPCODES),
            *facts.stall_evidence("lg_throttle", threshold=NARROW_PRESSURE.value),
            *facts.pipe_evidence("lsu"),
        ),
        place=facts.place(
            lambda instruction: instruction.counts.get(EXECUTED, 0.0),
            [place for place, opcode in enumerate(facts.opcode_names) if 0 < width_of(opcode) <= size],
        ),
    )


def _widened(facts: KernelFacts, gone: float) -> Saving:
    """Bound the gain of wide accesses, which replace the share `gone` of the accesses.

    Their address arithmetic goes too, but its share of the integer pipes and the issue slots is
    unknown. If it stays, only the accesses are saved.
    """
    keeps = {"l1": 1.0 - gone, "lsu": 1.0 - gone}
    bound = speedup_bound(facts, keeps | dict.fromkeys((*ADDRESS_PIPES, ISSUE), 0.0))
    accesses = speedup_bound(facts, keeps | {ISSUE: 0.0}).fraction
    most = gone * explained(facts, facts.l1_speed, MEMORY_STALLS)
    return bound.if_held(min(accesses, most), "same-address-arithmetic")


RULE = Rule(
    "narrow-access",
    kind="defect",
    thresholds=(NARROW, NARROW_PRESSURE),
    check=_narrow,
    metrics=(WARP_OPCODES,),
    place=AT_MEMORY,
)
