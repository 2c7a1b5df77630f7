"""A kernel of a review as a section: its findings, resources and occupancy, loops and memory accesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.model.recorded import dims_text
from gpuprof.model.session import Finding as CodeFinding
from gpuprof.model.session import Location
from gpuprof.review.alike import (
    FoundIn,
    KernelGroup,
    Variant,
    costliest,
    is_costly,
    request_cost,
    same_accesses,
    same_memory,
    same_places,
)
from gpuprof.review.contract import CodeAccess, CodeOccupancy, KernelArgument, ReviewedKernel, SpillCount
from gpuprof.text import cut_middle
from gpuprof.units import WARP_THREADS, counted, format_percent, significant
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
from gpuprof.views.kernel import evidence_shown, finding_anchor
from gpuprof.words.file_names import file_name
from gpuprof.words.review_values import (
    NOT_KNOWN,
    bytes_text,
    code_certainty,
    code_place,
    instruction_text,
    loops_text,
    shared_text,
)
from gpuprof.words.sentences import change_texts, joined_by, short_list

_NAME_LENGTH = 200
_WHOLE_LENGTH = 2_000
_SYMBOL_LENGTH = 300
_ARGUMENT_LENGTH = 60
_MOST_ARGUMENTS = 24
_MOST_NAMES = 4
_MOST_PLACES = 20
_MOST_PARTS = 8
_NONE = "–"
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
    kernel = group.kernel
    title = Cell(f"#{kernel.id} {label_in_file(group)}", whole=cut_middle(kernel.name, _WHOLE_LENGTH))
    return Fold(title, tuple(_blocks(group, most)), open=is_open, anchor=section_anchor(group))


def section_anchor(group: KernelGroup) -> str:
    """Return the anchor of a kernel's section."""
    return f"kernel-{group.kernel.id}"


def label_in_file(group: KernelGroup) -> str:
    """Return the short name of a kernel, with its file if there are several."""
    return joined_by(" in ", group.kernel.label, group.file)


def _blocks(group: KernelGroup, most: int) -> Iterator[Block]:
    kernel = group.kernel
    if kernel.name != kernel.label:
        name = cut_middle(kernel.name, _WHOLE_LENGTH)
        yield Note(Cell(cut_middle(name, _NAME_LENGTH), whole=name, code=True), "muted")
    if group.unreviewed:
        yield Note(f"not reviewed: {group.unreviewed}", "warning")
    elif not group.findings:
        yield Note("No finding.", "muted")
    if group.findings:
        yield Findings(tuple(code_finding(found, min(most, _MOST_PLACES)) for found in group.findings))
    yield Facts(tuple(_facts(group)))
    parts = same_memory(group.variants)
    for variants in parts[:_MOST_PARTS]:
        blocks = tuple(_memory(variants[0].kernel, most))
        if blocks:
            names = variant_names(variants) if len(parts) > 1 else ""
            title = joined_by(", ", "Loops and memory accesses", names)
            yield Fold(title, blocks, open=variants is parts[0])
    for note in dict.fromkeys(note for variant in group.variants for note in variant.kernel.notes):
        yield Note(note, "muted")


def code_finding(found: FoundIn, most: int = _MOST_NAMES) -> Finding:
    """Return a finding with at most so many of its places."""
    finding = found.finding
    changes = change_texts(finding.action, finding.advice)
    first, *others = _places(finding, most) or [""]
    return Finding(
        rule=finding.rule,
        severity=finding.severity,
        headline=finding.headline,
        gain="",
        remains="",
        certainty=joined_by(", ", code_certainty(finding), loops_text(finding.loops), only_text(found)),
        why=finding.why,
        action="".join(changes[:1]),
        advice="".join(changes[1:]),
        place=Cell(first, code=True),
        places=tuple(others),
        evidence=tuple(map(evidence_shown, finding.evidence)),
        anchor=finding_anchor(finding.id),
    )


def only_text(found: FoundIn) -> str:
    """Write which variants of a kernel have a finding; empty if all have."""
    return f"only {short_list(found.only, _MOST_NAMES)}" if found.only else ""


def _places(finding: CodeFinding, most: int) -> list[str]:
    """Return the places of a finding, equal ones once, and how many are left out."""
    groups = same_places(finding)
    texts = [instruction_text(places[0], len(places)) for places in groups[:most]]
    more = finding.more_places + sum(map(len, groups[most:]))
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
        if len(texts) > 1 and name in ("block", "grid"):
            # The names of the variants have it.
            continue
        parts = []
        for text, names in texts.items():
            of = f" ({short_list(names, _MOST_NAMES)})" if len(texts) > 1 else ""
            parts.append(f"{text or 'none'}{of}")
        if any(texts):
            yield name, short_list(parts, _MOST_PARTS)
    kernel = group.kernel
    if kernel.arguments:
        yield "arguments", short_list(list(map(_argument, kernel.arguments)), _MOST_ARGUMENTS)
    # A symbol that is cut is of no use.
    if kernel.mangled not in (kernel.name, kernel.label) and len(kernel.mangled) <= _SYMBOL_LENGTH:
        yield "symbol", Cell(kernel.mangled, code=True)
    yield "file", cut_middle(file_name(kernel.origin), _SYMBOL_LENGTH)


def _quantities(kernel: ReviewedKernel) -> Iterator[tuple[str, str]]:
    """Yield each quantity of a kernel; empty if there is none of it."""
    taken = kernel.resources
    yield "block", dims_text(kernel.block) if kernel.block is not None else NOT_KNOWN
    yield "grid", dims_text(kernel.grid) if kernel.grid is not None else ""
    yield "registers", f"{taken.registers} per thread" if taken.registers is not None else NOT_KNOWN
    yield "shared", shared_text(taken.static_shared_bytes, taken.dynamic_shared_bytes)
    yield "stack", f"{bytes_text(taken.stack_bytes)} per thread" if taken.stack_bytes else bytes_text(taken.stack_bytes)
    yield "spills", _spills(taken.spills)
    yield "barriers", str(taken.barriers) if taken.barriers is not None else NOT_KNOWN
    if taken.instructions is None:
        yield "code", f"{bytes_text(taken.code_bytes)}, not read" if taken.code_bytes is not None else NOT_KNOWN
    else:
        yield "code", f"{counted(taken.instructions, 'instruction')}, {bytes_text(taken.code_bytes)}"
    bounds = f"{counted(taken.max_threads, 'thread')} per block" if taken.max_threads is not None else ""
    required = f"block {dims_text(taken.required_block)} required" if taken.required_block is not None else ""
    yield "bounds", required or bounds
    yield "occupancy", occupancy_text(kernel.occupancy)
    if kernel.occupancy is not None:
        yield "resident", kernel.occupancy.sentence
        yield "next step", "; ".join(dict.fromkeys(step.sentence for step in kernel.occupancy.steps))


def occupancy_text(occupancy: CodeOccupancy | None) -> str:
    """Write occupancy and its limiters: "38 % by registers"."""
    if occupancy is None:
        return NOT_KNOWN
    most = "at most " if occupancy.needs_dynamic else ""
    return joined_by(" by ", f"{most}{format_percent(occupancy.fraction)}", " and ".join(occupancy.limiters))


def _spills(spills: SpillCount | None) -> str:
    if spills is None:
        return NOT_KNOWN
    if not spills.loads and not spills.stores:
        return "none"
    loads = f"{counted(spills.loads, 'load')} of {bytes_text(spills.load_bytes)} per thread"
    stores = f"{counted(spills.stores, 'store')} of {bytes_text(spills.store_bytes)}"
    return f"{loads}, {stores}; {spills.in_loops} in loops"


def _argument(argument: KernelArgument) -> str:
    name = joined_by(" ", str(argument.ordinal), cut_middle(argument.name or "", _ARGUMENT_LENGTH))
    return f"{name} = {argument.value}" if argument.value is not None else f"{name} ({bytes_text(argument.size_bytes)})"


def _memory(kernel: ReviewedKernel, most: int) -> Iterator[Block]:
    costly: Counter[int | None] = Counter()
    for access in kernel.accesses:
        costly[access.loop] += is_costly(access)
    loops = []
    for loop in kernel.loops[:most]:
        place = code_place(Location(file=loop.file, line=loop.line, pc=loop.start, sass=None))
        trips = str(loop.trips) if loop.trips is not None else "not constant"
        loops.append((place, str(loop.depth), trips, str(loop.instructions), str(costly[loop.id] or _NONE)))
    if loops:
        yield Table("Loops", _LOOPS, tuple(loops), more=_left_out(len(kernel.loops) - len(loops), "more loop"))
    if kernel.accesses:
        yield from _accesses(kernel, most)


def _left_out(count: int, noun: str) -> str:
    return f"… and {counted(count, noun)}: --format json has all" if count else ""


def _accesses(kernel: ReviewedKernel, most: int) -> Iterator[Block]:
    """Yield the table, and why costs are not known, each reason once."""
    groups = same_accesses(kernel.accesses)
    shown = costliest(groups, most)
    reasons: dict[str, str] = {}
    for access, *_ in shown:
        if access.unknown:
            reasons.setdefault(access.unknown, f"({len(reasons) + 1})")
    full = max([float(WARP_THREADS), *(request_cost(access) or 0.0 for access, *_ in shown)])
    depths: dict[int | None, int] = {loop.id: loop.depth for loop in kernel.loops}
    yield filled(
        Table(
            "Memory accesses",
            _ACCESSES,
            tuple(_access_row(accesses, depths, reasons, full) for accesses in shown),
            more=_left_out(len(groups) - len(shown), "more row"),
        )
    )
    if reasons:
        yield Facts(tuple((number, reason) for reason, number in reasons.items()), "Costs that are not known")


def _access_row(
    accesses: Sequence[CodeAccess], depths: Mapping[int | None, int], reasons: Mapping[str, str], full: float
) -> tuple[Inline, ...]:
    access = accesses[0]
    cost = request_cost(access)
    needed = access.needed_per_request
    times = f" ×{len(accesses)}" if len(accesses) > 1 else ""
    opcodes = short_list(list(dict.fromkeys(each.opcode for each in accesses)), _MOST_NAMES)
    stride = access.lane_stride_bytes if access.space != "local" else None
    place = code_place(Location(file=access.file, line=access.line, pc=access.offset, sass=None))
    tone: Tone = "warning" if is_costly(access) else ""
    return (
        Cell(place, tone, order=access.offset),
        Cell(f"0x{access.offset:x}" if access.file is not None else "", code=True),
        Cell(opcodes, code=True),
        f"{access.space} {access.kind}{times}",
        bytes_text(access.width_bytes),
        Cell(
            joined_by(" ", _cost_text(access, cost), reasons.get(access.unknown, "")),
            tone,
            bar=cost / full if cost is not None else None,
            mark=needed / full if needed is not None else None,
        ),
        significant(needed, strip=True) if needed is not None else _NONE,
        bytes_text(stride) if stride is not None else _NONE,
        str(depths.get(access.loop, 0)),
    )


def _cost_text(access: CodeAccess, cost: float | None) -> str:
    if cost is None:
        return NOT_KNOWN
    unit = "wavefront" if access.space == "shared" else "sector"
    return f"{significant(cost, strip=True)} {unit}{'s' if cost != 1 else ''}"
