"""Integer instructions limit the kernel."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.facts.work import INTEGER_PIPES
from gpuprof.diagnose.pipe_limits import PIPE_OPCODES, busy_sm, is_integer_work, pipe_limit
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of
from gpuprof.diagnose.thresholds import FMA_WORK, PIPE_BUSY, SM_PIPE, THROTTLED, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.product_names import is_product_by_name

BIT_WORK = percent("bit-instructions", 50.0)

_INTEGER = (
    "IADD", "IMAD", "IMUL", "LOP", "SHF", "SHL", "SHR", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "VIMNMX",
    "PLOP", "POPC", "FLO", "BREV", "SGXT", "BMSK", "IABS", "ISCADD", "I2IP", "UIADD", "UIMAD", "ULOP", "USHF",
    "UISETP", "UPRMT", "ULEA", "USEL", "UMOV", "UPLOP", "R2UR",
)  # fmt: skip
"""Opcode prefixes of integer and logic instructions."""

_BITS = ("LOP", "SHF", "SHL", "SHR", "PRMT", "I2IP", "SGXT", "BMSK", "BREV", "POPC", "FLO", "IMNMX", "VIMNMX")
"""Opcode prefixes of integer instructions that change bits or clamp values, rare in indices."""


def _integer(facts: KernelFacts) -> Findings:
    if is_integer_work(facts):
        pipe = "fmaheavy" if facts.pipe("fmaheavy") is not None else "fma"
        yield from _integer_pipe(facts, pipe, "multiply-adds", "inferred")
    yield from _integer_pipe(facts, "alu", "main", "measured")
    work = facts.most_work
    if work is None and not is_product_by_name(facts.kernel.demangled):
        yield from busy_sm(facts, "any-instructions", "any-instructions")
    elif work is not None and not FMA_WORK.is_reached(work):
        yield from busy_sm(facts, "no-floating-point", "main")


def _integer_pipe(facts: KernelFacts, pipe: str, headline: str, confidence: Confidence) -> Findings:
    use = facts.pipe(pipe)
    if use is None or not facts.is_pipe_limit(use):
        return
    integers = facts.executed(*_INTEGER)
    bits = facts.executed(*_BITS) / integers if integers else 0.0
    why, change = "overhead", "main"
    if 100 * bits > BIT_WORK.value:
        why = change = "bits"
    yield pipe_limit(
        facts,
        pipe,
        _without_integers(facts),
        headline=headline,
        why=(why,),
        change=change,
        amounts=amounts_of(bits=bits),
        confidence=confidence,
    )


def _without_integers(facts: KernelFacts) -> Saving:
    """Bound the gain without integer instructions: memory and other arithmetic stay.

    A division by a variable also converts and takes a reciprocal on the XU, and wider accesses are
    fewer. The lesser saving leaves all of those unchanged.
    """
    relieved = dict.fromkeys(INTEGER_PIPES, 0.0)
    relieved["fma"] = _floating_part(facts)
    relieved[ISSUE] = 1.0 - facts.share_of_opcodes(*_INTEGER, "MOV") if facts.opcodes() else 0.0
    bound = speedup_bound(facts, {**relieved, ISSUE: 0.0, "xu": 0.0, "lsu": 0.0, "l1": 0.0})
    return bound.if_held(speedup_bound(facts, relieved).fraction, "same-loads-and-conversions")


def _floating_part(facts: KernelFacts) -> float:
    """Return the floating-point part of the FMA pipe's time, by opcodes or else by its FLOP."""
    floating = facts.executed(*PIPE_OPCODES["fma"])
    integer = facts.executed(*PIPE_OPCODES["fmaheavy"])
    if floating + integer:
        return floating / (floating + integer)
    work, busy = facts.fraction_of_peak("fp32"), facts.pipe("fma")
    if work is None or not busy:
        return 0.0
    return min(1.0, work / busy)


RULE = Rule(
    "integer-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, BIT_WORK, SM_PIPE, THROTTLED),
    check=_integer,
    place=AT_MATH,
)
