"""A kernel of a review as a section: its findings, resources and occupancy, loops and memory accesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import astuple, replace

from gpuprof.model.recorded import dims_text
from gpuprof.model.session import Finding as CodeFinding
from gpuprof.review.contract import CodeAccess, ReviewedKernel
from gpuprof.text import cut_middle
from gpuprof.units import WARP_THREADS, counted, significant
from gpuprof.views.document import (
    Block,
    Cell,
    Column,
    Facts,
    Finding,
    Findings,
    Fold,
    Inline,
    Note,
    Table,
    Tone,
    filled,
)
from gpuprof.views.kernel import finding_block
from gpuprof.views.review_groups import (
    FoundIn,
    KernelGroup,
    Variant,
    costliest,
    same_accesses,
    same_memory,
    same_places,
)
from gpuprof.words.file_names import file_name
from gpuprof.words.review_values import (
    NOT_KNOWN,
    argument_text,
    bytes_text,
    code_certainty,
    code_place,
    code_text,
    cost_text,
    instruction_text,
    left_out,
    limit_text,
    loops_text,
    only_text,
    part_text,
    range_text,
    shared_text,
    spilled_text,
)
from gpuprof.words.sentences import joined_by, short_list

_NAME_LENGTH = 200
_WHOLE_LENGTH = 2_000
_SYMBOL_LENGTH = 300
_MOST_ARGUMENTS = 24
_MOST_NAMES = 4
_MOST_PLACES = 10
_MOST_PARTS = 8
_NONE = "–"
_REST = "--format json has all"
_LOOPS = (
    Column("loop", "name"),
    Column("depth", "number"),
    Column("trips", "number"),
    Column("instructions", "number"),
    Column("costly accesses", "number"),
)
_ACCESSES = (
    Column("line", "name"),
    Column("offset", rank=3),
    Column("instruction", rank=4),
    Column("access"),
    Column("width", "number", rank=1),
    Column("a request", "number"),
    Column("needs", "number"),
    Column("lane to lane", "number", rank=2),
    Column("loops", "number", rank=2),
)


def code_section(group: KernelGroup, most: int, *, is_open: bool) -> Fold:
    """Return everything about a kernel; each of its tables has at most so many rows."""
    title = f"#{group.kernel.id} {group.name}"
    return Fold(title, tuple(_blocks(group, most)), open=is_open, anchor=section_anchor(group))


def section_anchor(group: KernelGroup) -> str:
    """Return the anchor of a kernel's section."""
    return f"kernel-{group.kernel.id}"


def _blocks(group: KernelGroup, most: int) -> Iterator[Block]:
    kernel = group.kernel
    if kernel.name != kernel.label:
        name = cut_middle(kernel.name, _NAME_LENGTH)
        yield Note(Cell(name, whole=cut_middle(kernel.name, _WHOLE_LENGTH), code=True), "muted")
    if group.unreviewed:
        yield Note(f"not reviewed: {group.unreviewed}", "warning")
    elif not group.findings:
        yield Note("No finding.", "muted")
    if group.findings:
        yield Findings(tuple(map(code_finding, group.findings)))
    yield Facts(tuple(row for row in _facts(group) if row[1]))
    parts = same_memory(group.variants)
    for variants in parts[:_MOST_PARTS]:
        blocks = tuple(_memory(variants[0].kernel, most))
        if blocks:
            names = variant_names(variants) if len(parts) > 1 else ""
            title = joined_by(", ", "Loops and memory accesses", names)
            yield Fold(title, blocks, open=variants is parts[0])
    for note in dict.fromkeys(note for variant in group.variants for note in variant.kernel.notes):
        yield Note(note, "muted")


def code_finding(found: FoundIn) -> Finding:
    """Return a finding with its first places."""
    finding = found.finding
    first, *others = _places(finding) or [""]
    certainty = joined_by(", ", code_certainty(finding), loops_text(finding.loops), only_text(found.only))
    return replace(finding_block(finding, certainty, Cell(first, code=True)), places=tuple(others))


def _places(finding: CodeFinding) -> list[str]:
    """Return the places of a finding, equal ones once, and how many are left out."""
    groups = same_places(finding)
    texts = [instruction_text(places[0], len(places)) for places in groups[:_MOST_PLACES]]
    more = finding.more_places + sum(map(len, groups[_MOST_PLACES:]))
    return [*texts, f"and {counted(more, 'more place')}"] if more else texts


def variant_names(variants: Sequence[Variant]) -> str:
    """Return the names of variants: "sm_80, sm_90"."""
    return short_list([variant.name for variant in variants], _MOST_NAMES)


def _facts(group: KernelGroup) -> Iterator[tuple[str, Inline]]:
    """Yield the quantities of a kernel; one that differs between variants with the names of those that have it."""
    launches = f"in {counted(group.launches, 'launch', 'es')}" if group.launches else ""
    yield "for", joined_by(" ", variant_names(group.variants), launches)
    by_name: dict[str, dict[str, list[str]]] = {}
    for variant in group.variants:
        for name, text in _quantities(variant.kernel):
            by_name.setdefault(name, {}).setdefault(text, []).append(variant.name)
    for name, texts in by_name.items():
        if len(texts) == 1:
            yield name, next(iter(texts))
        elif name not in ("block", "grid"):
            # The names of the variants have these.
            parts = [f"{text or 'none'} ({short_list(names, _MOST_NAMES)})" for text, names in texts.items()]
            yield name, "; ".join(parts)
    kernel = group.kernel
    if kernel.arguments:
        arguments = []
        for item in kernel.arguments:
            arguments.append(argument_text(item.ordinal, item.name, item.size_bytes, item.value))
            arguments += [part_text(part.name, part.value) for part in item.parts]
        yield "arguments", short_list(arguments, _MOST_ARGUMENTS)
    # A symbol that is cut is of no use.
    if kernel.mangled not in (kernel.name, kernel.label) and len(kernel.mangled) <= _SYMBOL_LENGTH:
        yield "symbol", Cell(kernel.mangled, code=True)
    yield "file", file_name(kernel.origin)


def _quantities(kernel: ReviewedKernel) -> Iterator[tuple[str, str]]:
    """Yield each quantity of a kernel; empty if there is none of it."""
    taken = kernel.resources
    yield "block", dims_text(kernel.block) if kernel.block is not None else NOT_KNOWN
    yield "grid", dims_text(kernel.grid) if kernel.grid is not None else ""
    yield "registers", range_text([taken.registers])
    yield "shared", shared_text(taken.static_shared_bytes, taken.dynamic_shared_bytes)
    yield "stack", bytes_text(taken.stack_bytes)
    yield "spills", spilled_text(*astuple(taken.spills)) if taken.spills is not None else NOT_KNOWN
    yield "barriers", range_text([taken.barriers])
    yield "code", code_text(taken.instructions, taken.code_bytes)
    bounds = f"{counted(taken.max_threads, 'thread')} per block" if taken.max_threads is not None else ""
    required = f"block {dims_text(taken.required_block)} required" if taken.required_block is not None else ""
    yield "bounds", required or bounds
    occupancy = kernel.occupancy
    yield "occupancy", occupancy.sentence if occupancy is not None else NOT_KNOWN
    yield "next step", limit_text((), (step.sentence for step in occupancy.steps)) if occupancy is not None else ""


def _memory(kernel: ReviewedKernel, most: int) -> Iterator[Block]:
    costly: Counter[int | None] = Counter()
    for access in kernel.accesses:
        costly[access.loop] += access.is_costly
    loops = []
    for loop in kernel.loops[:most]:
        place = code_place(loop.file, loop.line, loop.start)
        trips = str(loop.trips) if loop.trips is not None else "not constant"
        loops.append((place, str(loop.depth), trips, str(loop.instructions), str(costly[loop.id] or _NONE)))
    if loops:
        yield Table("Loops", _LOOPS, tuple(loops), more=left_out(len(kernel.loops) - len(loops), "loop", _REST))
    if kernel.accesses:
        yield from _accesses(kernel, most)


def _accesses(kernel: ReviewedKernel, most: int) -> Iterator[Block]:
    """Yield the table, and why costs are not known, each reason once."""
    groups = same_accesses(kernel.accesses)
    shown = costliest(groups, most)
    reasons: dict[str, str] = {}
    for access, *_ in shown:
        if access.unknown:
            reasons.setdefault(access.unknown, f"({len(reasons) + 1})")
    depths: dict[int | None, int] = {loop.id: loop.depth for loop in kernel.loops}
    yield filled(
        Table(
            "Memory accesses",
            _ACCESSES,
            tuple(_access_row(accesses, depths, reasons) for accesses in shown),
            more=left_out(len(groups) - len(shown), "row", _REST),
        )
    )
    if reasons:
        yield Facts(tuple(zip(reasons.values(), reasons, strict=True)), "Costs that are not known")


def _access_row(
    accesses: Sequence[CodeAccess], depths: Mapping[int | None, int], reasons: Mapping[str, str]
) -> tuple[Inline, ...]:
    access = accesses[0]
    cost = access.cost
    unit = "wavefront" if access.space == "shared" else "sector"
    needed = access.needed_per_request
    times = f" ×{len(accesses)}" if len(accesses) > 1 else ""
    opcodes = ", ".join(dict.fromkeys(each.opcode for each in accesses))
    stride = access.lane_stride_bytes if access.space != "local" else None
    tone: Tone = "warning" if access.is_costly else ""
    return (
        Cell(code_place(access.file, access.line, access.offset), tone, order=access.offset),
        Cell(f"0x{access.offset:x}" if access.file is not None else "", code=True),
        Cell(opcodes, code=True),
        f"{access.space} {access.kind}{times}",
        bytes_text(access.width_bytes),
        Cell(
            joined_by(" ", cost_text(cost, unit), reasons.get(access.unknown, "")),
            tone,
            bar=cost / WARP_THREADS if cost is not None else None,
            mark=needed / WARP_THREADS if needed is not None else None,
        ),
        significant(needed, strip=True) if needed is not None else _NONE,
        bytes_text(stride) if stride is not None else _NONE,
        str(depths.get(access.loop, 0)),
    )
