"""Loops and memory accesses of a kernel on the page: nesting and trips; what a request costs and what it needs."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from gpuprof.model.session import Location
from gpuprof.present.check_alike import AlikeAccesses, alike_accesses, memory_key, most_worth
from gpuprof.present.check_blocks import Block, BlockVariant
from gpuprof.present.check_page.room import Room
from gpuprof.present.check_page.texts import place, sass, sentence, variants_text
from gpuprof.present.check_text import (
    NOT_KNOWN,
    access_cost,
    access_place,
    bytes_text,
    cost_text,
    is_costly,
    is_number,
    needed_text,
    place_text,
)
from gpuprof.present.page.parts import percent_number
from gpuprof.review.contract import CodeAccess, CodeLoop, ReviewedKernel
from gpuprof.units import WARP_THREADS
from gpuprof.words.profile_values import count_text

_DEEPEST = 8
"""Loops that are drawn inside one another; those further in stand beside the last."""


class LoopItem(Struct, frozen=True, kw_only=True):
    """A loop with those inside it. `costly` is how many accesses of its own cost more than they need."""

    place: str
    trips: str
    instructions: str
    costly: str
    inner: list[LoopItem] = field(default_factory=list)


class AccessRow(Struct, frozen=True, kw_only=True):
    """Accesses that are alike. `note` is the number of the reason why a cost is not known, 0 where it is known."""

    place: str
    offset: str
    opcode: str
    times: str
    memory: str
    width: str
    cost: str
    percent: str | None
    mark: str | None
    needed: str
    stride: str
    loops: str
    note: int
    is_costly: bool


class MemoryPart(Struct, frozen=True, kw_only=True):
    """Loops and accesses of variants that have the same ones; `title` names these, empty where all have them."""

    id: int
    title: str
    loops: tuple[LoopItem, ...]
    loops_left_out: str
    rows: tuple[AccessRow, ...]
    rows_left_out: str
    has_lines: bool
    reasons: tuple[str, ...]


def memory_parts(block: Block, room: Room) -> tuple[MemoryPart, ...]:
    """Return loops and accesses of a kernel, once for the variants where they are the same."""
    groups: dict[tuple[object, ...], list[BlockVariant]] = {}
    for variant in block.variants:
        groups.setdefault(memory_key(variant.kernel), []).append(variant)
    shown = list(groups.values())[: room.parts]
    return tuple(_part(group, room, has_title=len(groups) > 1) for group in shown)


def _part(group: Sequence[BlockVariant], room: Room, *, has_title: bool) -> MemoryPart:
    kernel = group[0].kernel
    every = alike_accesses(kernel.accesses, by_opcode=True)
    shown = most_worth(every, room.accesses)
    loops = kernel.loops[: room.loops]
    costs = [cost for row in shown if (cost := access_cost(row.access)) is not None]
    full = max([float(WARP_THREADS), *costs])
    reasons = list(dict.fromkeys(row.access.unknown for row in shown if row.access.unknown))
    return MemoryPart(
        id=kernel.id,
        title=variants_text(group) if has_title else "",
        loops=_nested(loops, kernel),
        loops_left_out=_left_out(len(kernel.loops) - len(loops), "more loop"),
        rows=tuple(_rows(shown, kernel, reasons, full)),
        rows_left_out=_left_out(len(every) - len(shown), "more row"),
        has_lines=any(row.access.file is not None for row in shown),
        reasons=tuple(map(sentence, reasons)),
    )


def _left_out(number: int, noun: str) -> str:
    return f"And {count_text(number, noun)}: --format json has all." if number > 0 else ""


def _nested(loops: Sequence[CodeLoop], kernel: ReviewedKernel) -> tuple[LoopItem, ...]:
    costly: dict[int, int] = {}
    for access in kernel.accesses:
        if access.loop is not None and is_costly(access):
            costly[access.loop] = costly.get(access.loop, 0) + 1
    outermost: list[LoopItem] = []
    items: dict[int, tuple[LoopItem, int]] = {}
    for loop in loops:
        item = _loop(loop, costly.get(loop.id, 0))
        around, depth = items.get(loop.parent, (None, 0)) if loop.parent is not None else (None, 0)
        (around.inner if around is not None else outermost).append(item)
        # What is deeper than that stands in the list of the loop around it.
        items[loop.id] = (around, depth) if around is not None and depth + 1 >= _DEEPEST else (item, depth + 1)
    return tuple(outermost)


def _loop(loop: CodeLoop, costly: int) -> LoopItem:
    where = Location(file=loop.file, line=loop.line, pc=loop.start, sass=None)
    return LoopItem(
        place=place(place_text(where)),
        trips=count_text(loop.trips, "trip") if loop.trips is not None else "trips not constant",
        instructions=count_text(loop.instructions, "instruction"),
        costly=count_text(costly, "access", "es") if costly else "",
    )


def _rows(
    rows: Sequence[AlikeAccesses], kernel: ReviewedKernel, reasons: Sequence[str], full: float
) -> list[AccessRow]:
    depths = {loop.id: loop.depth for loop in kernel.loops}
    numbers = {text: number for number, text in enumerate(reasons, 1)}
    return [_row(row, depths, numbers, full) for row in rows]


def _row(row: AlikeAccesses, depths: dict[int, int], numbers: dict[str, int], full: float) -> AccessRow:
    access, number = row.access, row.number
    cost, needed = access_cost(access), access.needed_per_request
    has_mark = needed is not None and is_number(needed)
    return AccessRow(
        place=place(access_place(access)) if access.file is not None else "",
        offset=f"0x{access.offset:x}",
        opcode=sass(access.opcode),
        times=f"×{number}" if number > 1 else "",
        memory=f"{access.space} {access.kind}",
        width=bytes_text(access.width_bytes),
        cost=cost_text(access),
        percent=percent_number(cost / full) if cost is not None else None,
        mark=percent_number(needed / full) if needed is not None and has_mark else None,
        needed=needed_text(access),
        stride=_stride(access),
        loops=str(depths.get(access.loop, 0) if access.loop is not None else 0),
        note=numbers.get(access.unknown, 0),
        is_costly=is_costly(access),
    )


def _stride(access: CodeAccess) -> str:
    """Write the lane stride; of local memory, whose words are interleaved by the hardware, none is shown."""
    stride = access.lane_stride_bytes if access.space != "local" else None
    return bytes_text(stride) if stride is not None else ("–" if access_cost(access) is not None else NOT_KNOWN)
