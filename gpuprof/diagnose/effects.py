"""The rule on kernels that leave nothing behind: no result of theirs is in memory when they end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.diagnose.arithmetic import opcode_counts, opcodes_of
from gpuprof.diagnose.case import EXECUTED, Case, opcode_of, summed
from gpuprof.diagnose.launch import is_short
from gpuprof.diagnose.rule import AT_KERNEL, Rule, RuleVerdict, Threshold
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.sass_opcodes import matrix_opcode, may_write_memory
from gpuprof.model.session import Evidence
from gpuprof.units import format_si

STORES_NOTHING = "stores-nothing"
WRITING = Threshold(
    "instructions that can write to global memory", 1.0, "instruction", reason="one of them is enough for a result"
)
_LOCAL = "STL"
_PASSED = (
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "l1tex__m_l1tex2xbar_write_sectors_mem_lg_op_st.sum",
    "lts__t_sectors_srcunit_tex_op_red.sum",
)
"""What SMs wrote to L2; of local stores some is written, too. Other units write there by themselves."""
_PRODUCTS = ("FFMA", "FMUL", "HFMA2", "HMUL2", "DFMA", "DMUL", "IDP")
"""What multiplies matrices without tensor cores. Integer multiply-adds also make addresses."""


def _stores_nothing(case: Case) -> Iterator[RuleVerdict]:
    opcodes = _executed(case)
    if not opcodes or _has_written(case, opcodes):
        return
    kind = kind_named(case.kernel.kind)
    is_product = kind is not None and kind.multiplies
    if not is_product and (case.kernel.duration_s is None or is_short(case)):
        return
    multiplies = any(matrix_opcode(name) or name.partition(".")[0] in _PRODUCTS for name in opcodes)
    count = format_si(sum(opcodes.values()), "")
    also = " or multiplies" if is_product and not multiplies else ""
    source = WARP_OPCODES if case.opcodes() else EXECUTED
    passed = next((name for name in _PASSED if case.number(name) is not None), "")
    yield RuleVerdict(
        headline=f"Stores nothing: none of its {count} instructions writes to global memory{also}",
        why="No result leaves the SMs: the kernel ends before it computes, what it computes is thrown away, or a "
        "condition for storing never holds. Its time, and all else that is told of it, is that of code without effect."
        if is_product
        else "No result leaves the SMs. That is meant in a warm-up, a prefetch, a check that finds no fault, a "
        "search without a hit or a measurement of instructions; else it computes nothing, and its time says nothing.",
        action="Check what it computes before its speed: launch errors, template arguments, early returns, epilogue",
        advice="Compare its output with a reference. Look for an error of the launch (cudaGetLastError, "
        "compute-sanitizer), template arguments or tile sizes that leave it no work, a condition under which all "
        "threads return early, a problem without rows, and an epilogue that was removed or never runs; then profile "
        "again.",
        confidence="measured",
        saving=None,
        severity="high" if is_product else "info",
        evidence=(
            Evidence(source, sum(opcodes.values()), "instruction", threshold=None, meaning="executed by warps"),
            Evidence(source, 0.0, "instruction", threshold=WRITING.value, meaning=WRITING.name),
            *case.metric(passed, "sectors that SMs wrote to L2", "sector"),
        ),
    )


def _executed(case: Case) -> Mapping[str, float]:
    """Return how often each opcode was executed, with its modifiers, where all of them were counted; else nothing."""
    counted = opcodes_of(case)
    if not counted and case.has_sass and all(instruction.sass for instruction in case.code):
        counted = summed((opcode_of(item.sass), item.counts.get(EXECUTED, 0.0)) for item in case.code)
    return {name: count for name, count in counted.items() if count > 0}


def _has_written(case: Case, opcodes: Mapping[str, float]) -> bool:
    """Tell whether an instruction may have written, by a thread if these were counted, or L2 was written to.

    Where nothing was executed that is known to write, what came at L2 is of instructions that are not known to.
    """
    threads = opcode_counts(case, THREAD_OPCODES)
    for name, count in opcodes.items():
        base = name.partition(".")[0]
        # Of what an SM's copy engine does, threads do not tell.
        is_idle = bool(threads) and not base.startswith("U") and threads.get(base, 0.0) == 0
        if may_write_memory(name) and count >= WRITING.value and not is_idle:
            return True
    return _LOCAL not in {name.partition(".")[0] for name in opcodes} and bool(case.total(_PASSED))


RULES = (
    Rule(
        STORES_NOTHING,
        "The kernel stores nothing",
        about="defect",
        looks_at="The opcodes that were executed, and whether one of them can write to global memory: stores, "
        "reductions, atomics, and bulk copies to it. Where threads were counted by opcode, whether any thread did. A "
        "kernel whose name says that it multiplies matrices cannot do without.",
        thresholds=(WRITING,),
        gain="None: its time is not that of the work. All other findings of a matrix kernel go with it. For another "
        "kernel it is a fact (`info`): a warm-up, a prefetch, a search without a hit store nothing either.",
        silent="An instruction wrote, or sectors came from SMs to L2 without local stores; the report has no opcodes; "
        "or a kernel that is not known to multiply matrices is as short as its launch.",
        check=_stores_nothing,
        metrics=(WARP_OPCODES, THREAD_OPCODES),
        place=AT_KERNEL,
        voids="time",
    ),
)
