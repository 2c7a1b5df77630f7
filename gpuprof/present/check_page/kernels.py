"""The table of kernels: what each takes, a row for every architecture and launch configuration that differ in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from gpuprof.present.check_blocks import Block, BlockVariant
from gpuprof.present.check_page.texts import card_id, place, variants_text
from gpuprof.present.check_text import NOT_KNOWN, bytes_text, is_number, shared_text
from gpuprof.present.page.findings import rule_name
from gpuprof.present.page.parts import Bar, KernelLabel, bar, label
from gpuprof.review.contract import KernelResources, ReviewedKernel
from gpuprof.text import printable
from gpuprof.words.profile_values import count_text


class TakenAmount(Struct, frozen=True, kw_only=True):
    """A value as text, with what it is sorted by; empty where it is not known."""

    text: str
    order: str
    more: str = ""


class ReviewedRow(Struct, frozen=True, kw_only=True):
    """What a kernel takes for one architecture, or for several that take the same."""

    id: int
    section: int | None
    label: KernelLabel
    file: str
    variants: str
    registers: TakenAmount
    shared: TakenAmount
    local: TakenAmount
    occupancy: Bar
    occupancy_order: str
    limiter: str
    instructions: TakenAmount
    loops: TakenAmount
    findings: int
    no_findings: str
    first: str
    first_href: str


def code_rows(blocks: Sequence[Block], with_section: Collection[int]) -> Iterator[ReviewedRow]:
    """Yield the rows of the kernels."""
    for block in blocks:
        groups: dict[tuple[object, ...], list[BlockVariant]] = {}
        for variant in block.variants:
            groups.setdefault(_taken(variant.kernel), []).append(variant)
        for group in groups.values():
            yield _row(block, group, with_section)


def _taken(kernel: ReviewedKernel) -> tuple[object, ...]:
    """Return what a row has of a kernel: those that are alike in it are one row."""
    occupancy = kernel.occupancy
    resources = kernel.resources
    return (
        resources.registers,
        resources.static_shared_bytes,
        resources.dynamic_shared_bytes,
        resources.stack_bytes,
        resources.spills,
        resources.instructions,
        kernel.unreviewed,
        (occupancy.fraction, occupancy.limiters) if occupancy is not None else None,
        len(kernel.loops),
        tuple((finding.rule, finding.headline) for finding in kernel.findings),
    )


def _row(block: Block, group: Sequence[BlockVariant], with_section: Collection[int]) -> ReviewedRow:
    kernel, names = group[0].kernel, {variant.name for variant in group}
    resources, occupancy = kernel.resources, kernel.occupancy
    mine = [number for number, told in enumerate(block.findings) if not told.only or names & set(told.only)]
    fraction = occupancy.fraction if occupancy is not None and is_number(occupancy.fraction) else None
    has_section = block.kernel.id in with_section
    return ReviewedRow(
        id=kernel.id,
        section=block.kernel.id if has_section else None,
        label=label(kernel.label),
        file=place(block.file),
        variants=variants_text(group),
        registers=_amount(resources.registers),
        shared=_shared(resources),
        local=_local(resources),
        occupancy=bar(fraction, None if fraction is not None else NOT_KNOWN),
        occupancy_order=f"{fraction:.6g}" if fraction is not None else "",
        limiter=", ".join(occupancy.limiters) if occupancy is not None and fraction is not None else "",
        instructions=_amount(resources.instructions),
        loops=_amount(len(kernel.loops) if kernel.unreviewed is None else None),
        findings=len(mine),
        no_findings="none" if kernel.unreviewed is None else "not reviewed",
        first=printable(rule_name(block.findings[mine[0]].finding.rule)) if mine else "",
        first_href=f"#{card_id(block, mine[0])}" if mine and has_section else "",
    )


def _amount(number: int | None) -> TakenAmount:
    if number is None:
        return TakenAmount(text=NOT_KNOWN, order="")
    return TakenAmount(text=str(number), order=str(number))


def _shared(resources: KernelResources) -> TakenAmount:
    """Write the shared memory of a block; what of it is dynamic stands below."""
    static, dynamic = resources.static_shared_bytes, resources.dynamic_shared_bytes
    if static is None:
        return _amount(None)
    whole = static + (dynamic or 0)
    more = f"{bytes_text(dynamic)} dynamic" if dynamic else ""
    return TakenAmount(text=bytes_text(whole) if shared_text(resources) else "0 B", order=str(whole), more=more)


def _local(resources: KernelResources) -> TakenAmount:
    """Write the local memory of a thread; its spills stand below."""
    spills = resources.spills
    number = spills.loads + spills.stores if spills is not None else 0
    more = count_text(number, "spill") if number else ""
    stack = resources.stack_bytes
    return TakenAmount(
        text=bytes_text(stack) if stack is not None else NOT_KNOWN,
        order=str(stack) if stack is not None else "",
        more=f"{more}, {spills.in_loops} in loops" if spills is not None and more and spills.in_loops else more,
    )
