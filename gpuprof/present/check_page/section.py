"""A kernel on the page: what it takes on each architecture, side by side, occupancy, findings, loops and accesses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gpuprof.model.recorded import dims_text
from gpuprof.present.check_blocks import Block, BlockVariant, file_name
from gpuprof.present.check_page.findings import CodeCard, code_cards
from gpuprof.present.check_page.memory import MemoryPart, memory_parts
from gpuprof.present.check_page.room import Room
from gpuprof.present.check_page.texts import sentence, variants_text
from gpuprof.present.check_text import (
    NOT_KNOWN,
    bytes_text,
    code_text,
    is_number,
    launch_text,
    occupancy_text,
    shared_size_text,
    spilled_text,
    takes_text,
    unreviewed_text,
)
from gpuprof.present.page.parts import Bar, KernelLabel, LabelledText, bar, label
from gpuprof.review.contract import KernelArgument, KernelResources, ReviewedKernel
from gpuprof.text import cut_middle, printable
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import capital

_SIDE_BY_SIDE, _MOST_VARIANTS, _MOST_ARGUMENTS = 4, 40, 24
_SUMMARY_LENGTH, _ARGUMENT_LENGTH, _SYMBOL_LENGTH = 160, 60, 300


class VariantColumn(Struct, frozen=True, kw_only=True):
    """What a kernel takes for one architecture and launch configuration; each column has the same quantities."""

    name: str
    values: tuple[str, ...]
    occupancy: Bar
    limiter: str
    resident: str
    steps: tuple[str, ...]


class CodeSection(Struct, frozen=True, kw_only=True):
    """Everything about one kernel."""

    id: int
    label: KernelLabel
    about: str
    summary: str
    findings_text: str
    is_open: bool
    quantities: tuple[str, ...]
    columns: tuple[VariantColumn, ...]
    left_out: str
    is_wide: bool
    arguments: str
    cards: tuple[CodeCard, ...]
    memory: tuple[MemoryPart, ...]
    loops_beside: bool
    notes: tuple[str, ...]
    names: tuple[LabelledText, ...]


def code_section(block: Block, room: Room, advised: dict[str, str]) -> CodeSection:
    """Return the section of a kernel. `advised` has the card of each advice that stands in the sections before."""
    kernel = block.kernel
    shown = block.variants[:_MOST_VARIANTS]
    notes = dict.fromkeys(note for variant in block.variants for note in variant.kernel.notes)
    rows = [dict(_values(variant)) for variant in shown]
    memory = memory_parts(block, room)
    quantities = tuple(name for name in rows[0] if any(row[name] for row in rows))
    return CodeSection(
        id=kernel.id,
        label=KernelLabel(label(kernel.label).text, None),
        about=", ".join(filter(None, (_launches(block), cut_middle(printable(block.file), _ARGUMENT_LENGTH)))),
        summary=cut_middle(printable(_summary(kernel)), _SUMMARY_LENGTH),
        findings_text=_findings_text(block),
        is_open=room.is_open,
        quantities=quantities,
        columns=tuple(
            _column(variant, [row[name] or "none" for name in quantities])
            for variant, row in zip(shown, rows, strict=True)
        ),
        left_out=_left_out(len(block.variants) - len(shown)),
        is_wide=len(shown) > _SIDE_BY_SIDE,
        arguments=_arguments(kernel.arguments),
        cards=tuple(code_cards(block, room, advised)),
        memory=memory,
        loops_beside=len(memory) == 1 and len(shown) <= 2 and bool(memory[0].loops),
        notes=tuple(map(sentence, notes)),
        names=tuple(_names(kernel, room)),
    )


def _findings_text(block: Block) -> str:
    if not block.findings:
        return "not reviewed" if block.unreviewed else "no finding"
    return count_text(len(block.findings), "finding")


def _left_out(number: int) -> str:
    return f"And {count_text(number, 'more launch configuration')}: --format json has all." if number > 0 else ""


def _launches(block: Block) -> str:
    """Write for which architecture and launch configuration a kernel is told."""
    if len(block.variants) > 1:
        return variants_text(block.variants)
    kernel = block.kernel
    launches = count_text(block.launches, "launch", "es") if block.launches else ""
    return ", ".join(part for part in (printable(kernel.target), launch_text(kernel), launches) if part)


def _summary(kernel: ReviewedKernel) -> str:
    parts = (
        takes_text(kernel.resources),
        f"occupancy {occupancy_text(kernel, step=False)}",
        unreviewed_text(kernel.unreviewed or ""),
    )
    return "; ".join(filter(None, parts))


def _values(variant: BlockVariant) -> Iterator[tuple[str, str]]:
    """Yield each quantity with its value, empty where there is none of it."""
    kernel, resources = variant.kernel, variant.kernel.resources
    yield "Registers per thread", str(resources.registers) if resources.registers is not None else NOT_KNOWN
    yield "Shared memory per block", shared_size_text(resources)
    yield "Stack per thread", bytes_text(resources.stack_bytes) if resources.stack_bytes is not None else NOT_KNOWN
    yield "Spills", _spills(resources)
    yield "Barriers", str(resources.barriers) if resources.barriers is not None else NOT_KNOWN
    yield "Code", code_text(resources, ", {}") or NOT_KNOWN
    yield "Launch bounds", _bounds(resources)
    yield "Block", dims_text(kernel.block) if kernel.block is not None else NOT_KNOWN
    yield "Grid", dims_text(kernel.grid) if kernel.grid is not None else ""
    yield "Launches", str(variant.launches) if variant.launches else ""


def _spills(resources: KernelResources) -> str:
    spills = resources.spills
    if spills is None:
        return NOT_KNOWN
    return spilled_text(spills) if spills.loads or spills.stores else "0"


def _bounds(resources: KernelResources) -> str:
    if resources.required_block is not None:
        return f"block {dims_text(resources.required_block)} required"
    return f"{count_text(resources.max_threads, 'thread')} per block" if resources.max_threads is not None else ""


def _column(variant: BlockVariant, values: Sequence[str]) -> VariantColumn:
    kernel, occupancy = variant.kernel, variant.kernel.occupancy
    known = occupancy is not None and is_number(occupancy.fraction)
    fraction = occupancy.fraction if occupancy is not None and known else None
    return VariantColumn(
        name=variants_text([variant]),
        values=tuple(values),
        occupancy=bar(fraction, None if known else capital(occupancy_text(kernel))),
        limiter=f"by {' and '.join(occupancy.limiters)}" if occupancy is not None and occupancy.limiters else "",
        resident=sentence(occupancy.sentence) if occupancy is not None else "",
        steps=tuple(sentence(capital(step.sentence)) for step in occupancy.steps) if occupancy is not None else (),
    )


def _arguments(arguments: Sequence[KernelArgument]) -> str:
    shown = [_argument(argument) for argument in arguments[:_MOST_ARGUMENTS]]
    more = len(arguments) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more > 0 else [])])


def _argument(argument: KernelArgument) -> str:
    name = cut_middle(printable(argument.name), _ARGUMENT_LENGTH) if argument.name else ""
    text = f"{argument.ordinal} {name}".rstrip()
    if argument.value is not None:
        return f"{text} = {argument.value}"
    parts = (f"{cut_middle(printable(part.name), _ARGUMENT_LENGTH)} = {part.value}" for part in argument.parts)
    return ", ".join([f"{text} ({bytes_text(argument.size_bytes)})", *parts])


def _names(kernel: ReviewedKernel, room: Room) -> Iterator[LabelledText]:
    """Yield the whole name, its symbol and its file; a symbol that would have to be cut is of no use."""
    if kernel.name != kernel.label:
        yield LabelledText("Name", cut_middle(printable(kernel.name[: 4 * room.name]), room.name))
    if kernel.mangled not in (kernel.name, kernel.label) and len(kernel.mangled) <= _SYMBOL_LENGTH:
        yield LabelledText("Symbol", printable(kernel.mangled))
    yield LabelledText("From", cut_middle(printable(file_name(kernel.origin)), _SYMBOL_LENGTH))
