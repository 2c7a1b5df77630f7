"""A kernel's complete machine code, with the counts, samples and findings of each instruction."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Struct

from gpuprof.annotated.counts import ALL_SECTORS, EXECUTED, SAMPLES
from gpuprof.annotated.excerpts import STALL_SAMPLES, sampled_reasons
from gpuprof.annotated.kernel_code import lines_of, total
from gpuprof.errors import InputError
from gpuprof.model.analyse import Recorded
from gpuprof.model.field_types import Fraction, Number, Whole, Word, about
from gpuprof.model.recorded import SASS_TEXT, SOURCE_LINES, CodeListing, Missing, ProfiledInstruction
from gpuprof.model.session import KernelProfile, Session, StallShare
from gpuprof.model.sources import kind_named
from gpuprof.model.stalls import NOT_STALLED
from gpuprof.sass.instruction import instruction_of

COLLECT = "gpuprof run --set full, or ncu --section SourceCounters"
"""Commands that collect counters of every instruction."""

_THREADS = "thread_inst_executed_true"
_SECTORS, _WAVEFRONTS = ALL_SECTORS, "memory_l1_wavefronts_shared"
_LOCAL = "memory_l2_theoretical_sectors_local"
_COUNTS = (
    SAMPLES, EXECUTED, _THREADS, _LOCAL,
    *(f"{name}{end}" for name in (_SECTORS, _WAVEFRONTS) for end in ("", "_ideal")),
    *(f"derived__{name}_excessive" for name in (_SECTORS, _WAVEFRONTS)),
)  # fmt: skip


class ListedInstruction(Struct, frozen=True, kw_only=True):
    """An instruction. A count is None if it was not collected, and zero if not seen here.

    Sectors and wavefronts are sums over all its executions, and only of instructions that access
    such memory.
    """

    pc: Annotated[Whole, about("address")]
    offset: Annotated[Whole, about("from the start of its function")]
    function: Annotated[Whole, about("index of its function in the listing")]
    sass: Annotated[str, about("the instruction, jumps as offsets; empty where its text is not known")]
    file: Annotated[str | None, about("source file")]
    line: Annotated[Whole | None, about("line number in it")]
    samples: Annotated[Number | None, about("samples of warps at it")]
    share: Annotated[Fraction | None, about("of all samples of the kernel")]
    stall: Annotated[StallShare | None, about("its main stall reason, and that one's share of its samples")]
    executed: Annotated[Number | None, about("times executed, by warps")]
    threads: Annotated[Number | None, about("average active threads, those of a false predicate left out")]
    sectors: Annotated[Number | None, about("L2 sectors that it asks for in global memory")]
    sectors_ideal: Annotated[Number | None, about("least sectors for the bytes that it asks for")]
    sectors_local: Annotated[Number | None, about("L2 sectors that it asks for in local memory")]
    wavefronts: Annotated[Number | None, about("wavefronts in shared memory")]
    wavefronts_ideal: Annotated[Number | None, about("least wavefronts, without bank conflicts")]
    findings: Annotated[tuple[Word, ...], about("ids of the findings that point at it")]


class ListedFunction(Struct, frozen=True, kw_only=True):
    """The kernel, or a function that it calls."""

    address: Annotated[Whole, about("where it begins")]
    symbol: Annotated[str, about("name of its symbol; empty where that is not known")]


class Listing(Struct, frozen=True, kw_only=True):
    """The machine code of a kernel: its own, then that of its callees, each by address."""

    kernel: Annotated[Whole, about("id of the kernel: the number of the launch that is shown")]
    label: Annotated[str, about("short name of the kernel")]
    demangled: Annotated[str, about("demangled name with parameters")]
    launches: Annotated[Whole, about("launches that the one that is shown speaks for")]
    samples: Annotated[Number | None, about("samples of warps")]
    executed: Annotated[Number | None, about("instructions executed, by warps")]
    functions: Annotated[tuple[ListedFunction, ...], about("the kernel and what it calls")]
    instructions: Annotated[tuple[ListedInstruction, ...], about("every instruction")]
    source_lines: Annotated[Mapping[str, Mapping[int, str]], about("the text of the lines, by file and number")]
    missing: Annotated[tuple[Missing, ...], about("what is not known, and why")]


def listing_of(session: Session, kernel: KernelProfile, recorded: Recorded | None) -> Listing:
    """Return the listing of a kernel, from the recording that the session was made from.

    Raise InputError if the recording has neither machine code nor counts of instructions,
    DamagedInput if it is broken.
    """
    if recorded is None:
        raise _no_code(session, kernel, kept=False)
    launch = recorded.launch
    states = tuple(
        name for name in launch.metrics.names() if name.startswith(STALL_SAMPLES) and "_not_issued" not in name
    )
    code = launch.details.listing((*_COUNTS, *states))
    if not code.instructions:
        raise _no_code(session, kernel, kept=True)
    texts = launch.details.source_files()
    whole = {name: total(code.instructions, name) for name in _COUNTS if launch.metrics.instances(name)}
    functions = _functions(code)
    found = [(finding.place.pc, finding.id) for finding in kernel.findings if finding.place is not None]
    instructions = tuple(
        _listed(instruction, number, start, whole, found)
        for number, (start, own) in enumerate(functions.items())
        for instruction in own
    )
    return Listing(
        kernel=kernel.id,
        label=kernel.label,
        demangled=kernel.demangled,
        launches=kernel.launches,
        samples=whole.get(SAMPLES),
        executed=whole.get(EXECUTED),
        functions=tuple(ListedFunction(address=at, symbol=code.functions.get(at, "")) for at in functions),
        instructions=instructions,
        source_lines=_source_lines(instructions, texts),
        missing=tuple(_missing(instructions, whole, texts, recorded)),
    )


def _no_code(session: Session, kernel: KernelProfile, *, kept: bool) -> InputError:
    source = session.sources[kernel.source]
    kind, name = kind_named(source.kind), f"#{kernel.id} {kernel.label}"
    if kind.is_trace:
        return InputError(f"a timeline has no machine code of {name}", f"profile the program with {COLLECT}")
    if kind.is_text:
        return InputError(f"{source.file}: what ncu prints has no machine code", "name the .ncu-rep")
    if not kept:
        return InputError(f"a session keeps no machine code of {name}", f"name what it was made from: {source.file}")
    return InputError(
        f"{source.file}: no machine code of {name}, and no counters of its instructions", f"collect them with {COLLECT}"
    )


def _functions(code: CodeListing) -> dict[int, list[ProfiledInstruction]]:
    """Return the kernel's instructions by its start address, then those of each callee."""
    first = code.instructions[0].pc
    starts = sorted(code.functions)
    if not starts or first < starts[0]:
        starts.insert(0, first)
    functions: dict[int, list[ProfiledInstruction]] = {}
    for instruction in code.instructions:
        start = starts[bisect_right(starts, instruction.pc) - 1]
        functions.setdefault(start, []).append(instruction)
    return dict(sorted(functions.items(), key=lambda item: (item[0] != code.start, item[0])))


def _listed(
    instruction: ProfiledInstruction,
    function: int,
    start: int,
    whole: Mapping[str, float],
    found: Sequence[tuple[int | None, str]],
) -> ListedInstruction:
    """Return an instruction of a function.

    `whole` has the sums of the counts that were collected.
    """
    counts = instruction.counts
    # A collected count is zero if it was seen at other instructions only.
    collected = {name: counts.get(name, 0.0) for name in (SAMPLES, EXECUTED, _THREADS) if name in whole}
    samples = collected.get(SAMPLES)
    executed = collected.get(EXECUTED)
    threads = collected.get(_THREADS)
    return ListedInstruction(
        pc=instruction.pc,
        offset=instruction.pc - start,
        function=function,
        sass=_from_start(instruction, start),
        file=instruction.file,
        line=instruction.line,
        samples=samples,
        share=samples / whole[SAMPLES] if samples is not None and whole[SAMPLES] else None,
        stall=_main_stall(counts),
        executed=executed,
        threads=threads / executed if threads is not None and executed else None,
        sectors=counts.get(_SECTORS),
        sectors_ideal=_ideal(counts, _SECTORS),
        sectors_local=counts.get(_LOCAL),
        wavefronts=counts.get(_WAVEFRONTS),
        wavefronts_ideal=_ideal(counts, _WAVEFRONTS),
        findings=tuple(name for pc, name in found if pc == instruction.pc),
    )


def _from_start(instruction: ProfiledInstruction, start: int) -> str:
    """Write an instruction with its jump target as an offset, if the target is an address."""
    parsed = instruction_of(instruction.sass, instruction.pc)
    if parsed is None or parsed.target is None or parsed.target < start:
        return instruction.sass
    return str(parsed.moved(-start))


def _main_stall(counts: Mapping[str, float]) -> StallShare | None:
    states = sampled_reasons(counts)
    reasons = {reason: samples for reason, samples in states.items() if samples > 0 and reason not in NOT_STALLED}
    if not reasons:
        return None
    reason = min(reasons, key=lambda name: (-reasons[name], name))
    return StallShare(reason, reasons[reason] / sum(states.values()))


def _ideal(counts: Mapping[str, float], name: str) -> float | None:
    """Return the least possible value of a count: as recorded, or the count without the excess."""
    whole = counts.get(name)
    excess = counts.get(f"derived__{name}_excessive")
    ideal = counts.get(f"{name}_ideal")
    if ideal is None and whole is not None and excess is not None:
        return whole - excess
    return ideal


def _source_lines(code: Sequence[ListedInstruction], texts: Mapping[str, str]) -> dict[str, dict[int, str]]:
    lines: dict[str, dict[int, str]] = {}
    for file, number in dict.fromkeys((each.file, each.line) for each in code):
        if file is None or number is None or not texts.get(file):
            continue
        of_file = lines_of(texts[file])
        if 1 <= number <= len(of_file):
            lines.setdefault(file, {})[number] = of_file[number - 1]
    return lines


def _missing(
    code: Sequence[ListedInstruction], whole: Container[str], texts: Mapping[str, str], recorded: Recorded
) -> Iterator[Missing]:
    """Yield the data that no instruction has, and how to collect it."""
    gaps = {gap.what: gap for gap in recorded.launch.details.code_gaps()}
    if SASS_TEXT in gaps and not any(each.sass for each in code):
        yield gaps[SASS_TEXT]
    if SAMPLES not in whole:
        yield Missing("samples and stall reasons", "not collected", f"collect with {COLLECT}")
    if EXECUTED not in whole:
        yield Missing("executed instructions", "not collected", f"collect with {COLLECT}")
    if all(each.line is None for each in code):
        unknown = Missing(SOURCE_LINES, "the program was compiled without them", "compile with -lineinfo")
        yield gaps.get(SOURCE_LINES, unknown)
    elif not any(texts.get(each.file) for each in code if each.file is not None):
        yield Missing("source text", "the report has names and numbers only", "profile with ncu --import-source yes")
