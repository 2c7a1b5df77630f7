"""The rule on local memory: registers that are spilled, and arrays that are indexed at run time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Amount, CaseName, Cases
from gpuprof.model.occupancy import MOST_REGISTERS
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, access_counts, code_finding
from gpuprof.sass.binary.local_memory import stack_slot
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import width_bytes

_ID = "local-memory-spill"
_KINDS = {"LDL": "load", "STL": "store"}


def _local_memory(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for spills, and one for arrays that are indexed at run time."""
    spills = facts.local_memory.spills
    registers = facts.resources.registers
    if spills:
        counts, amounts = _counts(facts, spills)
        reason, advice = _reason(facts)
        yield code_finding(
            facts,
            _ID,
            spills,
            Cases(headline=("spilled", *counts), why=(reason, "through-l1"), action=advice[:1], advice=advice),
            amounts=amounts + amounts_of("", registers=registers),
            evidence=(*_bytes("spilled", spills), *context("registers", registers, "register")),
            is_guess=facts.local_memory.guessed,
        )
    arrays = facts.own_arrays
    indexed = [access for access in arrays if stack_slot(access) is None]
    if indexed:
        counts, amounts = _counts(facts, indexed)
        yield code_finding(
            facts,
            _ID,
            indexed,
            Cases(
                headline=("indexed-array", *counts),
                why=("indexed-array", "through-l1"),
                action=("constant-index",),
                advice=("constant-index",),
            ),
            amounts=amounts,
            evidence=_bytes("array", arrays),
        )


def _reason(facts: CodeFacts) -> tuple[CaseName, tuple[CaseName, ...]]:
    """Return the cases for why registers are spilled, and for the changes."""
    called = [range(of.offset, of.offset + of.size_bytes) for of in facts.kernel.kernel.inner]
    if all(any(item.address in code for code in called) for item in facts.local_memory.spills):
        return "called-functions", ("called-functions",)
    registers = facts.resources.registers
    if registers is not None and registers >= MOST_REGISTERS:
        return "no-more-registers", ("lower-pressure",)
    return "below-cap", ("raise-cap", "lower-pressure")


def _counts(facts: CodeFacts, accesses: Sequence[Instruction]) -> tuple[tuple[CaseName, ...], tuple[Amount, ...]]:
    """Return the cases for the numbers of loads and stores, in all and in loops, and these numbers."""
    counts, amounts = access_counts(_KINDS[access.name] for access in accesses)
    in_loops = sum(access.address in facts.innermost for access in accesses)
    if not in_loops:
        return (counts,), amounts
    case = "in-loops" if in_loops < len(accesses) else "all-in-loops"
    return (counts, case), amounts + amounts_of("", in_loops=in_loops)


def _bytes(role: str, accesses: Sequence[Instruction]) -> Iterator[Evidence]:
    for opcode, kind in (("STL", "stored"), ("LDL", "loaded")):
        moved = sum(width_bytes(access) for access in accesses if access.name == opcode)
        yield from context(f"{role}-bytes-{kind}", moved or None, "B", metric=opcode)


RULE = CodeRule(id=_ID, check=_local_memory)
