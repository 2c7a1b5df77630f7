"""Rules on what a kernel takes: local memory, occupancy, the size of its blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gpuprof.diagnose.thresholds import EMPTY_LANES, Threshold
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.body import is_of_library
from gpuprof.review.contract import CodeOccupancy
from gpuprof.review.facts import CodeFacts
from gpuprof.review.resources import is_upper_bound, local_memory_of
from gpuprof.review.rules.rule import CodeRule, code_evidence, finding_at
from gpuprof.review.sequences import LONGEST_REDUCTION_ENTRY
from gpuprof.sass.binary.local_memory import LocalMemory, stack_slot
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import width_bytes
from gpuprof.units import WARP_THREADS, counted, format_percent
from gpuprof.words.findings import threshold_text
from gpuprof.words.wording import template

FEW_WARPS = Threshold(
    "warps per scheduler",
    4.0,
    "warp",
    reason="most arithmetic has a latency of 4 cycles since compute capability 7.0, so that 16 warps on the 4 "
    "schedulers of an SM hide it (CUDA C++ Programming Guide, Multiprocessor Level); with fewer, threads need "
    "independent instructions even for that",
)
_KEEPS_BUSY = ("LDGSTS", "UBLKCP", "UTMALDG")
"""Opcodes of asynchronous copies: with them, and with tensor instructions, work is in flight without more warps."""
_ALL_REGISTERS = 255
_LOCAL, _OCCUPANCY, _BLOCK = "local-memory-spill", "low-occupancy", "block-size"
_LOCAL_COST = "Every access goes through L1; what L1 cannot keep goes to L2 and DRAM."


def _local_memory(case: CodeFacts) -> Iterator[Finding]:
    local = local_memory_of(case.known)
    if local.spills:
        yield _spilled(case, local)
    library = _of_library(case)
    arrays = [access for access in local.arrays if not any(access.address in span for span in library)]
    indexed = [access for access in arrays if stack_slot(access) is None]
    if indexed:
        yield _indexed(case, arrays, indexed)


def _of_library(case: CodeFacts) -> list[range]:
    """Return the code of sines, cosines and tangents for large arguments, which keeps an array of its own."""
    inner = case.known.kernel.kernel.inner
    spans = [
        range(function.offset, function.offset + function.size_bytes) for function in inner if is_of_library(function)
    ]
    for operation in case.operations:
        if operation.kind == "trigonometry-fp32":
            start = case.index(operation.at.address)
            own = case.code[start : start + operation.slow + LONGEST_REDUCTION_ENTRY]
            spans.append(range(own[0].address, own[-1].address + 1))
    return spans


def _spilled(case: CodeFacts, local: LocalMemory) -> Finding:
    cause, action, advice = _cause(case, local.spills)
    return finding_at(
        case,
        _LOCAL,
        local.spills,
        headline=f"Local memory: spills, {_amounts(case, local.spills)}",
        why=f"{cause} {_LOCAL_COST}",
        action=action,
        advice=advice,
        evidence=(
            *_local_evidence("STL", "stored", local.spills),
            *_local_evidence("LDL", "loaded back", local.spills),
            *_registers_evidence(case),
        ),
        is_guess=local.guessed,
    )


def _cause(case: CodeFacts, spills: Sequence[Instruction]) -> tuple[str, str, str]:
    """Return why registers are spilled, what to change, and how."""
    inner = case.known.kernel.kernel.inner
    registers = case.resources.registers
    if all(any(0 <= item.address - of.offset < of.size_bytes for of in inner) for item in spills):
        return (
            "They are in functions that are called: such a function saves registers that its caller still needs, and "
            "what it has no registers for.",
            "Inline the functions that are called (__forceinline__), or turn recursion into a loop",
            "A call keeps values of the caller in the registers that the calling convention preserves, which the "
            "function stores to the stack before it uses them. Inlined functions need no such stores. Functions that "
            "are called by pointer, virtual or recursive, or compiled apart (-rdc=true without -dlto) are not inlined.",
        )
    advice = (
        "Split the kernel or shorten live ranges; fewer registers hold less at once. A register cap comes from "
        "__launch_bounds__, .maxnreg or -maxrregcount; no kernel has more than 255 registers a thread."
    )
    if registers is not None and registers >= _ALL_REGISTERS:
        return (
            f"All {registers} registers available to a thread are in use, so the compiler spills.",
            "Lower register pressure: smaller tiles, shorter live ranges or a split kernel",
            advice,
        )
    return (
        "Values beyond a register cap live in local memory.",
        "Raise the register cap (__launch_bounds__, -maxrregcount), or lower register pressure",
        advice,
    )


def _indexed(case: CodeFacts, arrays: Sequence[Instruction], indexed: Sequence[Instruction]) -> Finding:
    return finding_at(
        case,
        _LOCAL,
        indexed,
        headline=f"Local memory: an array is indexed at run time, by {_amounts(case, indexed)}",
        why=f"Registers have no index, so an array that is indexed at run time lives in local memory. {_LOCAL_COST}",
        action="Keep local arrays in registers: unroll their loops so that every index is a constant",
        advice="Unroll loops over local arrays (#pragma unroll with a constant trip count) so that every index is a "
        "constant; choose between few elements by comparisons; put a table that all threads share into shared memory.",
        evidence=(
            *_local_evidence("STL", "stored to local arrays", arrays),
            *_local_evidence("LDL", "loaded from local arrays", arrays),
        ),
    )


def _amounts(case: CodeFacts, accesses: Sequence[Instruction]) -> str:
    """Write "4 loads and 2 stores, 3 of them in loops"."""
    kinds = {"load": "LDL", "store": "STL"}
    numbers = {noun: sum(access.name == name for access in accesses) for noun, name in kinds.items()}
    text = " and ".join(counted(number, noun) for noun, number in numbers.items() if number)
    in_loops = sum(access.address in case.innermost for access in accesses)
    if not in_loops:
        return text
    return f"{text}, {in_loops if in_loops < len(accesses) else 'all'} of them in loops"


def _local_evidence(opcode: str, what: str, accesses: Sequence[Instruction]) -> Iterator[Evidence]:
    moved = sum(width_bytes(access) for access in accesses if access.name == opcode)
    if moved:
        yield Evidence(
            opcode, float(moved), "B", threshold=None, meaning=f"bytes per thread {what}, each instruction counted once"
        )


def _registers_evidence(case: CodeFacts) -> Iterator[Evidence]:
    if case.resources.registers is not None:
        yield code_evidence(case.resources.registers, "register", "registers per thread")


def _occupancy(case: CodeFacts) -> Iterator[Finding]:
    occupancy = case.occupancy
    if occupancy is None or not occupancy.limiters or not _is_short_of_warps(case, occupancy):
        return
    steps = list(dict.fromkeys(step.sentence for step in occupancy.steps))
    fails = not occupancy.blocks_per_sm
    yield finding_at(
        case,
        _OCCUPANCY,
        (),
        headline=_headline(case, occupancy),
        why="Such a launch fails: too many resources requested for launch."
        if fails
        else f"{_capitalised(occupancy.sentence)}. A scheduler with fewer warps has less to switch to. That costs "
        "nothing where the warps have enough work in flight, and the code alone does not tell whether they do.",
        action=f"Raise occupancy: {steps[0] if steps else _change('action', occupancy.limiters[0])}",
        advice=f"{' '.join(_change('advice', name) for name in occupancy.limiters)} "
        f"{''.join(f'{_capitalised(step)}. ' for step in dict.fromkeys(steps))}More work in flight per thread "
        "(unrolling, asynchronous copies) hides the same latency without more warps.",
        evidence=(
            *_warps_evidence(case, occupancy),
            code_evidence(100 * occupancy.fraction, "%", "theoretical occupancy"),
            *_registers_evidence(case),
            *_shared_evidence(case),
            *_threads_evidence(case),
        ),
        is_guess=not fails,
    )


def _change(section: str, limiter: str) -> str:
    return template(_OCCUPANCY, section, limiter.replace(" ", "-"))


def _is_short_of_warps(case: CodeFacts, occupancy: CodeOccupancy) -> bool:
    """Tell whether no block fits, or the schedulers have few warps and nothing in the code keeps work in flight."""
    if not occupancy.blocks_per_sm:
        return True
    warps = _warps_per_scheduler(case, occupancy)
    return warps is not None and warps < FEW_WARPS.value and not (case.known.has_any(_KEEPS_BUSY) or case.matrix)


def _warps_per_scheduler(case: CodeFacts, occupancy: CodeOccupancy) -> float | None:
    arch = case.known.arch
    return occupancy.warps_per_sm / arch.limit("sub_partitions") if arch is not None else None


def _warps_evidence(case: CodeFacts, occupancy: CodeOccupancy) -> Iterator[Evidence]:
    warps = _warps_per_scheduler(case, occupancy)
    if warps is not None:
        yield code_evidence(warps, "warp", FEW_WARPS.name, threshold=FEW_WARPS.value)


def _headline(case: CodeFacts, occupancy: CodeOccupancy) -> str:
    limiters = " and ".join(occupancy.limiters)
    if not occupancy.blocks_per_sm:
        return f"Occupancy: no block fits on an SM, by its {limiters}"
    most = "at most " if is_upper_bound(case.known, case.resources) else ""
    return f"Occupancy: {most}{format_percent(occupancy.fraction)} theoretical, limited by {limiters}"


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _shared_evidence(case: CodeFacts) -> Iterator[Evidence]:
    shared = (case.resources.static_shared_bytes or 0) + (case.resources.dynamic_shared_bytes or 0)
    if shared:
        yield code_evidence(shared, "B", "shared memory per block")


def _threads_evidence(case: CodeFacts) -> Iterator[Evidence]:
    threads = _threads(case)
    if threads is not None:
        yield code_evidence(threads, "thread", "threads per block")


def _threads(case: CodeFacts) -> int | None:
    block = case.known.kernel.shape.block or case.resources.required_block
    return math.prod(block) if block is not None else None


def _block_size(case: CodeFacts) -> Iterator[Finding]:
    threads, most = _threads(case), case.resources.max_threads
    if not threads:
        return
    if most is not None and threads > most:
        yield _too_large(case, threads, most)
    warps = math.ceil(threads / WARP_THREADS)
    empty = 1.0 - threads / (warps * WARP_THREADS)
    if 100 * empty < EMPTY_LANES.value:
        return
    change = "full-warps" if threads < WARP_THREADS else "multiple-of-32"
    yield finding_at(
        case,
        _BLOCK,
        (),
        headline=f"Block size: blocks of {counted(threads, 'thread')} fill {threads / warps:.3g} of 32 lanes per warp",
        why="A block takes whole warps, and an instruction takes an issue slot for a few lanes as for 32.",
        action=template(_BLOCK, "action", change),
        advice=template(_BLOCK, "advice", change),
        evidence=(
            *_threads_evidence(case),
            code_evidence(100 * empty, "%", threshold_text(EMPTY_LANES, _BLOCK).name, threshold=EMPTY_LANES.value),
        ),
    )


def _too_large(case: CodeFacts, threads: int, most: int) -> Finding:
    return finding_at(
        case,
        _BLOCK,
        (),
        headline=f"Block size: {counted(threads, 'thread')}, and the kernel is compiled for {most:,} at most",
        why="Such a launch fails: __launch_bounds__ or .maxntid sets how many threads a block may have.",
        action=f"Launch blocks of {most:,} threads at most, or raise the launch bounds",
        advice="The launch bounds also cap the registers of a thread: with larger ones the compiler may have to spill.",
        evidence=(
            *_threads_evidence(case),
            code_evidence(most, "thread", "threads per block at most"),
        ),
    )


RULES: tuple[CodeRule, ...] = (
    CodeRule(
        id=_LOCAL,
        title="Register spills or local arrays in memory",
        looks_at="LDL and STL. ptxas since CUDA 12.9 marks those of spills; in older code the slots of spills lie at "
        "fixed distances from the stack pointer, and arrays are reached through computed addresses. Where older code "
        "has both, LDL.LU shows where the spills begin, which is a guess.",
        silent="Arrays that are only passed to a function, such as the arguments of printf; those of sines and cosines "
        "for large arguments; debug builds, which reach local memory by generic addresses.",
        check=_local_memory,
    ),
    CodeRule(
        id=_OCCUPANCY,
        title="Theoretical occupancy is limited",
        looks_at="Theoretical occupancy by registers, shared memory, the block and the architecture's limits, and the "
        "least change that raises it. By itself it is not a defect: few warps with much work in flight can be as good. "
        "So it is a guess, unless no block fits.",
        silent="The block is not known, or a scheduler has four warps or more; asynchronous copies (LDGSTS, TMA) or "
        "tensor instructions, which keep work in flight. Each kernel names its occupancy and the next step anyway.",
        thresholds=(FEW_WARPS,),
        check=_occupancy,
    ),
    CodeRule(
        id=_BLOCK,
        title="Blocks leave lanes empty",
        looks_at="Threads per block against whole warps, and against the most that the kernel is compiled for.",
        silent="The block is not known, or under 3 % of the lanes are empty.",
        thresholds=(EMPTY_LANES,),
        check=_block_size,
    ),
)
