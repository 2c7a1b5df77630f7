"""The rule on coalescing: requests that touch more sectors than their lanes need, and what fixes each shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec.structs import replace

from gpuprof.diagnose.access_shape import cases_of_shape
from gpuprof.diagnose.thresholds import Threshold
from gpuprof.model.session import Evidence
from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeAccess, CodeFinding
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.review.strides import argument_words, cost_words, costs_of_values
from gpuprof.review.strides import stride_arguments as arguments_of
from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress, stride_of
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.patterns.lane_shapes import LaneShape, ShapeName, shapes_of
from gpuprof.units import SECTOR_BYTES
from gpuprof.words.wording import filled, template

MORE = Threshold(
    "sectors more than needed",
    1.0,
    "sector/request",
    reason="less comes from warps at an edge, not from a pattern",
)
MISALIGNED_SECTORS = 1.5
"""What starts inside a sector touches one more than it needs; half of another is a margin for warps at an edge."""
_RULE = "uncoalesced-global"
_WORD_BYTES = 4
_NEIGHBOUR_BYTES = 4 * 32 * 16
"""As far from another access of the same base, rows that start inside a sector are the taps of a stencil."""


def uncoalesced(case: CodeCase) -> Iterator[CodeFinding]:
    """Yield a finding for each shape of access that moves sectors for nothing, and for each argument that may."""
    excess = [access for access in case.accesses if _is_excess(access)]
    unknown = [access for access in case.accesses if _is_open(access)]
    addresses = case.addresses if excess or unknown else None
    if addresses is None:
        yield from _by_shape(case, excess, {})
        return
    whole = [access for access in excess if not _lanes_off(access, addresses) and not _is_shared(access, addresses)]
    yield from _by_shape(case, whole, shapes_in(addresses, whole))
    yield from _by_argument(case, addresses, unknown)


def widened(case: CodeCase) -> frozenset[int]:
    """Return the accesses, by offset, that this rule reports with wider accesses as their fix."""
    excess = [access for access in case.accesses if _is_excess(access)]
    addresses = case.addresses if excess else None
    if addresses is None:
        return frozenset()
    shapes = shapes_in(addresses, excess)
    return frozenset(
        access.offset
        for access in excess
        if access.offset in shapes and shapes[access.offset].name in {"neighbours", "structure"}
    )


def _is_excess(access: CodeAccess) -> bool:
    passes, needed = access.sectors_per_request, access.needed_per_request
    if access.space != "global" or access.kind == "atomic" or passes is None or needed is None:
        return False
    return passes - needed >= MORE.value


def _is_open(access: CodeAccess) -> bool:
    return access.space == "global" and access.kind != "atomic" and access.sectors_per_request is None


def _lanes_off(access: CodeAccess, addresses: KernelAddresses) -> bool:
    """Tell whether lanes would lie side by side, but those between do not take part."""
    item = addresses.of.get((access.offset, "global"))
    side_by_side = item is not None and abs(item.stride or 0) == access.width_bytes
    return side_by_side and _more(access) > MISALIGNED_SECTORS


def _is_shared(access: CodeAccess, addresses: KernelAddresses) -> bool:
    item = addresses.of.get((access.offset, "global"))
    known = item.apart if item is not None and item.known else None
    return _is_broadcast(access, known, access.sectors_per_request or 0.0)


def shapes_in(addresses: KernelAddresses, excess: Sequence[CodeAccess]) -> Mapping[int, LaneShape]:
    """Return the shapes of accesses that move too much, by offset."""
    items = {offset: item for (offset, space), item in addresses.of.items() if space == "global"}
    lanes = {
        access.offset: tuple(access.lane_stride_bytes * lane for lane in range(LANES))
        for access in excess
        if access.lane_stride_bytes is not None
    }
    shapes = dict(shapes_of(addresses, lanes))
    for access in excess:
        shape, item = shapes.get(access.offset), items.get(access.offset)
        if shape is None or item is None:
            continue
        # Where lanes lie is not known by a formula, so little more may come from where their rows begin.
        little = shape.name == "stride" and item.varying and _more(access) <= MISALIGNED_SECTORS
        if little or (shape.name == "misaligned" and _is_tap(item, items)):
            del shapes[access.offset]
    structures = {items[at].base for at, shape in shapes.items() if shape.name == "structure" and at in items}
    for access in excess:
        shape = shapes.get(access.offset)
        if (
            shape is not None
            and shape.name == "stride"
            and access.offset in items
            and items[access.offset].base in structures
        ):
            shapes[access.offset] = replace(shape, name="structure")
    return shapes


def _is_tap(item: LaneAddress, items: Mapping[int, LaneAddress]) -> bool:
    """Tell whether another load has the same base, a little further."""
    return any(
        other.base == item.base and other.request.kind == "load" == item.request.kind
        and 0 < abs(other.offset - item.offset) <= _NEIGHBOUR_BYTES
        for other in items.values()
    )  # fmt: skip


def _by_shape(case: CodeCase, excess: Sequence[CodeAccess], shapes: Mapping[int, LaneShape]) -> Iterator[CodeFinding]:
    groups: defaultdict[ShapeName, list[CodeAccess]] = defaultdict(list)
    for access in excess:
        shape = shapes.get(access.offset)
        if shape is not None:
            groups[shape.name].append(access)
        elif access.lane_stride_bytes is not None and abs(access.lane_stride_bytes) > access.width_bytes:
            groups["stride"].append(access)
    for name, accesses in groups.items():
        yield _finding(case, name, accesses, shapes)


def _finding(
    case: CodeCase, name: ShapeName, accesses: Sequence[CodeAccess], shapes: Mapping[int, LaneShape]
) -> CodeFinding:
    worst = max(accesses, key=lambda access: (case.depth(access.offset), _more(access), -access.offset))
    passes, needed = worst.sectors_per_request or 0.0, worst.needed_per_request or 0.0
    return finding_at(
        case,
        _RULE,
        _instructions(case, accesses),
        headline=f"Uncoalesced global access: {passes:.3g} sectors per request, {needed:.3g} needed"
        + _how_many(accesses),
        why=_said("why", name) if passes >= LANES or name == "misaligned" else _moved(worst),
        action=_said("action", name),
        advice=_said("advice", name),
        evidence=(
            code_evidence(passes, "sector/request", "sectors per request, against those needed", threshold=needed),
            *_shape_evidence(worst, shapes.get(worst.offset)),
        ),
        certainty="guess" if name == "misaligned" else "from code",
    )


def _said(section: Literal["why", "action", "advice"], name: ShapeName) -> str:
    """Return what the rule of the same name on profiles says of accesses of a shape."""
    return filled(_RULE, section, getattr(cases_of_shape(name), section), {})


def _moved(access: CodeAccess) -> str:
    """Say what a request moves where several lanes share a sector."""
    sectors, needed = access.sectors_per_request or 0.0, access.needed_per_request or 0.0
    apart = access.lane_stride_bytes
    begin = f"Lanes are {abs(apart)} B apart: each" if apart is not None else "Each"
    return (
        f"{begin} request moves {sectors * SECTOR_BYTES:.4g} B in {sectors:.3g} sectors, where "
        f"{needed * SECTOR_BYTES:.4g} B in {needed:.3g} would do with the lanes side by side."
    )


def _more(access: CodeAccess) -> float:
    return (access.sectors_per_request or 0.0) - (access.needed_per_request or 0.0)


def _how_many(accesses: Sequence[CodeAccess]) -> str:
    kinds = [(kind, sum(access.kind == kind for access in accesses)) for kind in ("load", "store")]
    told = [f"{count} {kind}s" if count > 1 else f"a {kind}" for kind, count in kinds if count]
    return f" ({' and '.join(told)})"


def _shape_evidence(access: CodeAccess, shape: LaneShape | None) -> Iterator[Evidence]:
    apart = access.lane_stride_bytes
    if apart is None and shape is not None:
        apart = shape.apart
    items = (
        (access.width_bytes, "B", "access-bytes"),
        (apart, "B", "lane-stride"),
        (shape.beside if shape is not None and shape.beside > 1 else None, "word", "adjacent-words"),
        (shape.step if shape is not None else None, "B", "loop-step"),
    )
    for value, unit, role in items:
        if value is not None:
            yield code_evidence(value, unit, template(_RULE, "evidence", role))


def _by_argument(case: CodeCase, addresses: KernelAddresses, unknown: Sequence[CodeAccess]) -> Iterator[CodeFinding]:
    """Yield what accesses cost whose stride is an argument, if that is large: one finding an argument."""
    groups: defaultdict[tuple[int, ...], list[tuple[CodeAccess, LaneAddress]]] = defaultdict(list)
    for access in unknown:
        item = addresses.of.get((access.offset, "global"))
        ordinals = tuple(sorted(arguments_of(case.known, item))) if item is not None else ()
        if item is not None and ordinals and _costs_more(access, item):
            groups[ordinals].append((access, item))
    for ordinals, pairs in groups.items():
        yield _argument_finding(case, ordinals, pairs)


def _least(access: CodeAccess) -> float:
    return access.needed_per_request or float(-(-LANES * access.width_bytes // SECTOR_BYTES))


def _costs_more(access: CodeAccess, item: LaneAddress) -> bool:
    costs = costs_of_values(item)
    if not costs:
        return False
    last = max(costs, key=lambda value: costs[value])
    return costs[last] - _least(access) >= MORE.value and not _is_broadcast(access, item.lanes(last), costs[last])


def _is_broadcast(access: CodeAccess, lanes: Sequence[int] | None, passes: float) -> bool:
    """Tell whether lanes share words and so touch no more sectors than 32 words side by side.

    A warp of 16 × 2 threads that reads a word of each of its two rows touches two sectors, where 32 words are four.
    """
    shared = lanes is not None and len(set(lanes)) < LANES
    return shared and passes <= LANES * max(_WORD_BYTES, access.width_bytes) / SECTOR_BYTES


def _argument_finding(
    case: CodeCase, ordinals: Sequence[int], pairs: Sequence[tuple[CodeAccess, LaneAddress]]
) -> CodeFinding:
    access, item = max(pairs, key=lambda pair: (case.depth(pair[0].offset), -pair[0].offset))
    costs, needed, name = costs_of_values(item), _least(access), argument_words(case.known, ordinals)
    last, few = costs[max(costs)], costs[1]
    shape: ShapeName = "neighbours" if item.step is not None and abs(item.step) <= WALKED_BYTES else "stride"
    unless = f", unless {name} is 1" if few - needed < MORE.value else ""
    return finding_at(
        case,
        _RULE,
        _instructions(case, [access for access, _ in pairs]),
        headline=f"Uncoalesced global access if {name} is large: {last} sectors per request, {needed:.3g} needed"
        + _how_many([access for access, _ in pairs]),
        why=f"{_apart(item, name)}. What a request costs by its value: {cost_words(item)}. {_said('why', shape)}",
        action=f"{_said('action', shape)}{unless}",
        advice=f"{_said('advice', shape)} --arg {ordinals[0]}=VALUE tells what a request costs with a given value.",
        evidence=(
            code_evidence(last, "sector/request", f"sectors per request with a large {name}", threshold=needed),
            code_evidence(few, "sector/request", f"sectors per request where {name} is 1", threshold=needed),
        ),
        certainty="guess",
    )


WALKED_BYTES = 128
"""A thread that walks on by less than a cache line in each turn of a loop comes back for the words beside the first."""


def _apart(item: LaneAddress, name: str) -> str:
    """Say how far lanes lie apart."""
    by = stride_of(next(iter(item.times.values())))
    return f"Lanes are {name} × {by} B apart" if by else f"How far apart the lanes are depends on {name}"


def _instructions(case: CodeCase, accesses: Sequence[CodeAccess]) -> list[Instruction]:
    return [case.at[access.offset] for access in accesses if access.offset in case.at]
