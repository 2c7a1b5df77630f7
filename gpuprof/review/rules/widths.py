"""The rule on narrow accesses: words side by side that a thread moves one at a time, lanes that move a byte or two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gpuprof.diagnose.thresholds import percent
from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeFinding
from gpuprof.review.rules.coalescing import widened
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.sass.dataflow.addresses import LaneAddress

NARROW = percent("narrow accesses", 50.0, "most accesses must be narrow for width to matter")
_RULE = "narrow-access"
_WIDEST_BYTES = 16
_NARROW_BYTES = 2
_MANY = 4
"""Of so many words, some are an aligned pair wherever they begin; two may be the ends of a row (at[i], at[i + 1])."""
_WHY = (
    "An instruction takes one issue slot and one entry in the load/store unit's queue, for 1 byte per thread as for "
    "16. Narrow accesses take up to 16 times as many instructions for the same bytes, and address arithmetic for each."
)
_ACTION = "Load and store 16 bytes per thread at once (float4, uint4)"
_ADVICE = (
    "Load 16 bytes per thread at once (float4, uint4, __nv_bfloat162 pairs; reinterpret int8 as int4) and let each "
    "thread process neighbouring elements. In Triton, give each thread more elements and hint alignment with "
    "tl.multiple_of and tl.max_contiguous."
)


def narrow_accesses(case: CodeCase) -> Iterator[CodeFinding]:
    """Yield what could be moved in fewer accesses: one finding for words side by side, one for bytes."""
    if not any(access.space == "global" and access.width_bytes < _WIDEST_BYTES for access in case.accesses):
        return
    addresses = case.addresses
    if addresses is None:
        return
    items = [
        item
        for (_, space), item in addresses.of.items()
        if space == "global" and item.request.kind in {"load", "store"} and not item.instruction.idle
    ]
    yield from _beside(case, items)
    yield from _bytes(case, items)


def _beside(case: CodeCase, items: Sequence[LaneAddress]) -> Iterator[CodeFinding]:
    """Yield words side by side of one thread, of accesses that are made together."""
    told = widened(case)
    groups: defaultdict[tuple[object, ...], list[LaneAddress]] = defaultdict(list)
    for item in items:
        if item.request.width_bytes < _WIDEST_BYTES and item.instruction.address not in told:
            key = item.base, item.block, item.instruction.predicate, item.request.kind, item.request.width_bytes
            groups[key].append(item)
    runs = [run for group in groups.values() for run in _runs(group)]
    if not runs:
        return
    worst = max(runs, key=lambda run: (case.depth(run[0].instruction.address), len(run), -run[0].instruction.address))
    width, kind, wide = worst[0].request.width_bytes, worst[0].request.kind, _widest(worst)
    aligned = all(run[0].aligned >= _widest(run) for run in runs)
    fewer = _wide_accesses(width * len(worst))
    yield finding_at(
        case,
        _RULE,
        [item.instruction for run in runs for item in run],
        headline=f"Narrow accesses: {len(worst)} adjacent {kind}s of {width} B, where {fewer} of up to {wide} B would "
        + ("do" if aligned else "do if they are aligned"),
        why=_WHY,
        action=_action(wide),
        advice=f"{_ADVICE} An access of {wide} B needs an address that is a multiple of {wide}, which the compiler "
        "has to know: a vector type, or alignas on the structure.",
        evidence=(
            code_evidence(len(worst), "word", "adjacent words that a thread accesses one at a time"),
            code_evidence(width, "B", "bytes per thread in one access"),
            code_evidence(sum(map(len, runs)), "instruction", "accesses of adjacent words"),
        ),
        certainty="from code" if aligned else "guess",
    )


def _action(wide: int) -> str:
    """Say how many bytes to move at once: no more than lie side by side."""
    types = {8: " (float2, uint2)", 4: " (uint, __half2)"}
    return _ACTION if wide == _WIDEST_BYTES else f"Load and store {wide} bytes per thread at once{types.get(wide, '')}"


def _widest(run: Sequence[LaneAddress]) -> int:
    """Return the bytes of the widest access that words side by side can be moved in."""
    return min(_WIDEST_BYTES, _power(run[0].request.width_bytes * len(run)))


def _wide_accesses(size: int) -> int:
    """Return how many accesses move so many bytes."""
    return size // _WIDEST_BYTES + (size % _WIDEST_BYTES).bit_count()


def _runs(group: Sequence[LaneAddress]) -> Iterator[list[LaneAddress]]:
    """Yield accesses whose words lie side by side, those that no neighbouring lane touches."""
    distinct = {item.offset: item for item in sorted(group, key=lambda item: -item.instruction.address)}
    run: list[LaneAddress] = []
    for offset in sorted(distinct):
        item = distinct[offset]
        if run and offset != run[-1].offset + run[-1].request.width_bytes:
            yield from _own(run)
            run = []
        run.append(item)
    yield from _own(run)


def _own(run: list[LaneAddress]) -> Iterator[list[LaneAddress]]:
    """Yield a run of several words that belong to one thread: the other lanes have the same, or lie beyond."""
    width = run[0].request.width_bytes if run else 0
    size = width * len(run)
    if size < 2 * width or size < 2 * _NARROW_BYTES:
        return
    if run[0].same:
        return  # all lanes read the same words: a sector each, and no lane has words of its own
    lanes = run[0].apart
    near = [abs(lane - other) for lane, other in zip(lanes[1:], lanes, strict=False) if lane != other]
    if run[0].known and near and min(near) < size:
        return
    if not run[0].known and run[0].times and min(map(_unit, run[0].times.values())) <= width:
        return  # with a stride of one, they are the words of other lanes
    if len(run) < _MANY and run[0].aligned < _widest(run):
        return
    if _shared_alignment(run[0]) < 2 * width:
        return  # as rows of five words: of two threads, no more than one can have its words aligned
    yield run


def _shared_alignment(item: LaneAddress) -> int:
    """Return the largest power of two that all distances between the addresses of threads are multiples of."""
    factors = (int(term.partition("·")[0]) for term in item.base.split(" + ") if "·" in term)
    numbers = [factor for factor in factors if factor != 1]
    numbers += [lane for vector in (item.apart, *item.times.values()) for lane in vector]
    return min((abs(number & -number) for number in numbers if number), default=_WIDEST_BYTES)


def _unit(vector: Sequence[int]) -> int:
    return min((abs(lane - other) for lane, other in zip(vector[1:], vector, strict=False) if lane != other), default=0)


def _bytes(case: CodeCase, items: Sequence[LaneAddress]) -> Iterator[CodeFinding]:
    """Yield lanes side by side that move a byte or two each, where that is most of what a kernel accesses."""
    deepest = max((case.depth(item.instruction.address) for item in items), default=0)
    inner = [item for item in items if case.depth(item.instruction.address) == deepest]
    narrow = [item for item in inner if _is_narrow(item)]
    if not narrow or 100 * len(narrow) < NARROW.value * len(inner):
        return
    widest = max(item.request.width_bytes for item in narrow)
    where = "in the innermost loop " if deepest else ""
    yield finding_at(
        case,
        _RULE,
        [item.instruction for item in narrow],
        headline=f"Narrow accesses: {len(narrow)} of {len(inner)} global accesses {where}"
        f"{'moves' if len(inner) == 1 else 'move'} at most {widest} B per thread",
        why=_WHY,
        action=_ACTION,
        advice=_ADVICE,
        evidence=(
            code_evidence(
                100 * len(narrow) / len(inner), "%", "global accesses of at most 2 B per thread", threshold=NARROW.value
            ),
            code_evidence(widest, "B", "bytes per thread in one access"),
        ),
    )


def _is_narrow(item: LaneAddress) -> bool:
    return item.request.width_bytes <= _NARROW_BYTES and abs(item.stride or 0) == item.request.width_bytes


def _power(size: int) -> int:
    """Return the largest power of two that is no more."""
    return 1 << (size.bit_length() - 1)
