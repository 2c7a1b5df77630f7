"""The rule on kernels without effect: they leave no result in memory."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.annotated.counts import EXECUTED, opcode_of
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import Threshold, context
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.groups import summed
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.sass_opcodes import matrix_opcode, may_write_memory

STORES_NOTHING = "stores-nothing"

WRITING = Threshold("writing", 1.0, "instruction")

_LOCAL = "STL"

_PASSED = (
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "l1tex__m_l1tex2xbar_write_sectors_mem_lg_op_st.sum",
    "lts__t_sectors_srcunit_tex_op_red.sum",
)
"""Writes of SMs to L2, which include part of the local stores. Other units also write to L2."""


_PRODUCTS = ("FFMA", "FMUL", "HFMA2", "HMUL2", "DFMA", "DMUL", "IDP")
"""Opcode prefixes of plain multiplications of floating-point values or packed integers."""


def _stores_nothing(facts: KernelFacts) -> Findings:
    opcodes = _executed(facts)
    if not opcodes or _has_written(facts, opcodes):
        return
    kind = kind_named(facts.kernel.kind)
    is_product = kind is not None and kind.multiplies
    if not is_product and (facts.kernel.duration_s is None or facts.is_short):
        return
    executed = sum(opcodes.values())
    multiplies = any(matrix_opcode(name) or name.startswith(_PRODUCTS) for name in opcodes)
    headline = ("main", "no-product") if is_product and not multiplies else MAIN
    source = WARP_OPCODES if facts.opcodes else EXECUTED
    yield finding(
        facts,
        Cases(headline=headline, why=("product" if is_product else "other",)),
        amounts=amounts_of("instruction", executed=executed),
        confidence="measured",
        severity="high" if is_product else "info",
        evidence=(
            *context("executed", executed, "instruction", metric=source),
            WRITING.evidence(0.0, metric=source),
            *facts.metric(facts.first_of(_PASSED), "written-to-l2", "sector"),
        ),
    )


def _executed(facts: KernelFacts) -> Mapping[str, float]:
    """Return the executions of each opcode with modifiers; empty unless all were counted."""
    counted = facts.opcodes
    if not counted and all(facts.code.sass):
        counted = summed((opcode_of(item.sass), item.counts.get(EXECUTED, 0.0)) for item in facts.code.instructions)
    return {name: count for name, count in counted.items() if count > 0}


def _has_written(facts: KernelFacts, opcodes: Mapping[str, float]) -> bool:
    """Return whether an instruction may have written (by a thread, if these were counted), or
    writes reached L2.

    If no executed instruction is known to write, writes at L2 come from unknown ones.
    """
    threads = facts.opcode_counts(THREAD_OPCODES)
    for name, count in opcodes.items():
        base = name.partition(".")[0]
        # Counts of threads do not cover the copy engine of an SM.
        is_idle = threads and not base.startswith("U") and not threads.get(base)
        if may_write_memory(name) and count >= WRITING.value and not is_idle:
            return True
    return not any(name.startswith(_LOCAL) for name in opcodes) and bool(facts.total(_PASSED))


RULE = Rule(
    STORES_NOTHING,
    thresholds=(WRITING,),
    check=_stores_nothing,
    metrics=(WARP_OPCODES, THREAD_OPCODES),
    place=AT_KERNEL,
    invalidates="time",
)
