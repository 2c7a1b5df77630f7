"""The verdict on work: executed instructions, traffic and resources of a launch, by counter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.comparison.contract import (
    SIDES,
    CountChange,
    CountWord,
    WorkChange,
    WorkNote,
    WorkNoteKind,
    WorkWord,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.work.amounts import WorkAmount, amounts_of
from gpuprof.comparison.work.counts import (
    CACHED,
    EXACT,
    FLOP,
    LAUNCHES,
    OPCODES,
    RESOURCES,
    count_change,
    is_exact,
    is_work,
    varies,
)
from gpuprof.comparison.work.tolerances import can_distinguish

_PRIMARY = ("instructions", "thread-instructions", "dram-bytes", "l2-bytes", "l1-bytes")
"""The amount of work, with FLOP. Requests, sectors and wavefronts depend on how it is done."""
_ORDER = (
    *_PRIMARY, FLOP, "global-load-requests", "global-store-requests", "global-load-sectors", "global-store-sectors",
    "l2-sectors", "spills", "local-load-sectors", "local-store-sectors", "shared-wavefronts", "bank-conflicts",
    *RESOURCES, LAUNCHES, OPCODES,
)  # fmt: skip
_PLACES = {name: place for place, name in enumerate(_ORDER)}
_CHANGED_FIRST: Mapping[CountWord, int] = {
    "more": 0,
    "less": 0,
    "unclear": 1,
    "only-base": 1,
    "only-new": 1,
    "same": 2,
}
_OUTWEIGHS = 10
"""A change outweighs those of the other direction if its logarithm is this many times larger than
theirs: a kernel with 60 % fewer instructions and 2 % more DRAM bytes does less."""
_MOVED: tuple[CountWord, ...] = ("more", "less")


def work_change(
    pair: Pair,
    *,
    comparable: bool = True,
    caches_alike: bool = True,
    rounded: bool = False,
    same_launches: bool = True,
) -> WorkChange:
    """Return how the work of a launch changed.

    If code is not `comparable` (other GPUs), only FLOP are judged.

    For kernels that are not one to one, and for one with another launch configuration and another
    number of launches, it is the work of all launches of a run. Without `caches_alike` the bytes
    behind the caches are not judged. Counts that were printed `rounded` may differ by more. Without the
    `same_launches` on both sides, no sum over different numbers of them is judged.
    """
    if pair.match == "new" or pair.match == "gone":  # noqa: PLR1714 - mypy narrows no membership
        return WorkChange(verdict=pair.match, counts=())
    if pair.match == "unrecorded":
        return WorkChange(verdict="unknown", counts=())
    per_run = not pair.is_one_to_one or (pair.match != "exact" and pair.launches.base != pair.launches.new)
    base = amounts_of(pair.base, per_run=per_run, exact=not rounded)
    new = amounts_of(pair.new, per_run=per_run, exact=not rounded)
    zeros = _zeros(new, base)
    new = _zeros(base, new) | new
    base = zeros | base
    varying = varies(base) or varies(new)
    sums: list[str] = []
    if not same_launches and pair.launches.base != pair.launches.new:
        sums = [name for name in base if name == LAUNCHES or (per_run and name not in RESOURCES)]
    counts = []
    for name in dict.fromkeys((*base, *new)):
        if not _is_idle(name, base.get(name), new.get(name)):
            judged = name not in sums and _is_judged(name, comparable=comparable, caches_alike=caches_alike)
            counts.append(count_change(name, base.get(name), new.get(name), judged=judged, varying=varying))
    counts.sort(key=_rank)
    notes: list[WorkNote] = []
    if per_run:
        notes.append(WorkNote(kind="values-of-run"))
    elif pair.launches.base != pair.launches.new:
        notes.append(WorkNote(kind="values-of-launch"))
    if sums:
        notes.append(WorkNote(kind="other-launches", names=tuple(sums)))
    if not comparable:
        return WorkChange(verdict="unknown", counts=tuple(counts), notes=(*notes, WorkNote(kind="other-code")))
    if sums and any(is_work(count) and count.name in sums for count in counts):
        return WorkChange(verdict="unknown", counts=tuple(counts), notes=tuple(notes))
    cached = [count for count in counts if count.name in CACHED and not caches_alike]
    judged_counts = [count for count in counts if count not in cached]
    verdict = _verdict(judged_counts)
    notes += _reasons(verdict, judged_counts, base, new)
    if cached:
        notes.append(WorkNote(kind="caches", names=_names(cached)))
    return WorkChange(verdict=verdict, counts=tuple(counts), notes=tuple(notes))


def _zeros(amounts: Mapping[str, WorkAmount], known: Mapping[str, WorkAmount]) -> dict[str, WorkAmount]:
    """Return zeros for opcodes of the other side: a histogram without one has counted none of it."""
    zeros = {}
    counted = next((amount for name, amount in known.items() if name.startswith(OPCODES)), None)
    for name, amount in amounts.items():
        if counted is not None and name.startswith(OPCODES) and name not in known:
            zeros[name] = amount._replace(
                value=0.0, low=0.0, high=0.0, launches=counted.launches, summed=counted.summed
            )
    return zeros


def _is_idle(name: str, base: WorkAmount | None, new: WorkAmount | None) -> bool:
    """Return whether neither side has anything of a compute path or an opcode, which are many."""
    if not name.startswith((FLOP, OPCODES)):
        return False
    return all(amount is None or amount.high == 0 for amount in (base, new))


def _is_judged(name: str, *, comparable: bool, caches_alike: bool) -> bool:
    return (comparable or name.startswith(FLOP)) and (caches_alike or not comparable or name not in CACHED)


def _rank(count: CountChange) -> tuple[int, int, float, str]:
    """Rank a count: changed, unclear or one-sided, then the same; work before resources and opcodes."""
    family = next((prefix for prefix in (FLOP, OPCODES) if count.name.startswith(prefix)), count.name)
    base = count.base or 0.0
    new = count.new or 0.0
    return (
        _CHANGED_FIRST[count.word],
        _PLACES.get(family, len(_ORDER)),
        -(abs(new - base) or new),
        count.name,
    )


def _verdict(counts: Sequence[CountChange]) -> WorkWord:
    """Weigh the counts that moved: work, or opcodes if no work did; never resources or launches.

    A direction wins if it is the only one, or if a primary count moved ten times as much that way
    as any count moved the other way. A count that was zero moved without bound. Bytes and FLOP,
    which are often known of the launch that represents a group, make no work unclear whose counts
    are the same over all launches.
    """
    weighed = [count for count in counts if is_work(count)]
    compared = [count for count in weighed if _was_compared(count)]
    if not compared:
        return "unknown"
    moved = _with_word(weighed, *_MOVED)
    # Bytes behind the caches differ between kernels with the same instructions: alone they show no change of work.
    if moved and any(count.name not in CACHED for count in compared):
        return _direction(weighed)
    unclear = [count for count in _with_word(weighed, "unclear") if count.data_dependent]
    same = _with_word(weighed, "same")
    of_representative = all(count.name.startswith(FLOP) or count.name.endswith("-bytes") for count in unclear)
    if unclear and not (of_representative and any(count.name in EXACT for count in same)):
        return "unclear"
    if moved:
        return "unknown"
    if any(count.name.startswith(OPCODES) for count in _with_word(counts, *_MOVED)):
        return "changed"
    return "same" if any(is_exact(count.name) for count in same) else "unknown"


def _with_word(counts: Sequence[CountChange], *words: CountWord) -> list[CountChange]:
    return [count for count in counts if count.word in words]


def _direction(weighed: Sequence[CountChange]) -> WorkWord:
    """Return the direction that outweighs the other."""
    primary = [count for count in weighed if count.name in _PRIMARY or count.name.startswith(FLOP)]
    up = _largest(weighed, "more")
    down = _largest(weighed, "less")
    if not down or (up and _outweighs(_largest(primary, "more"), down)):
        return "more"
    if not up or _outweighs(_largest(primary, "less"), up):
        return "less"
    return "changed"


def _outweighs(move: float, other: float) -> bool:
    return math.isfinite(other) and move >= _OUTWEIGHS * other


def _was_compared(count: CountChange) -> bool:
    return count.word in ("same", "more", "less") or (count.word == "unclear" and count.data_dependent)


def _largest(counts: Sequence[CountChange], word: CountWord) -> float:
    """Return the largest move in a direction, as a logarithm; 0: none."""
    largest = 0.0
    for count in _with_word(counts, word):
        if not count.base or not count.new:
            return math.inf
        largest = max(largest, abs(math.log(count.base) - math.log(count.new)))
    return largest


def _reasons(
    verdict: WorkWord,
    counts: Sequence[CountChange],
    base: Mapping[str, WorkAmount],
    new: Mapping[str, WorkAmount],
) -> Iterator[WorkNote]:
    """Yield why there is no verdict, or notes beside it."""
    weighed = [count for count in counts if is_work(count)]
    moved = _with_word(weighed, *_MOVED)
    if verdict == "unknown":
        yield _unknown(weighed, base, new)
    elif verdict == "unclear":
        yield _unclear(_with_word(weighed, "unclear"), base, new)
    elif verdict == "same":
        yield from _beside(counts, weighed)
    elif not moved:
        yield WorkNote(kind="other-opcodes")
    else:
        counted_once = any(1 in (base[name].launches, new[name].launches) for name in _names(moved))
        if counted_once and not any(count.data_dependent for count in weighed):
            yield WorkNote(kind="counted-once")


def _beside(counts: Sequence[CountChange], weighed: Sequence[CountChange]) -> Iterator[WorkNote]:
    unclear = _with_word(weighed, "unclear")
    kinds: dict[WorkNoteKind, list[CountChange]] = {
        "resources": [count for count in _with_word(counts, *_MOVED) if count.name in RESOURCES],
        "too-varied": [count for count in unclear if count.data_dependent],
        "other-counters": [count for count in unclear if not count.data_dependent],
    }
    for kind, noted in kinds.items():
        if noted:
            yield WorkNote(kind=kind, names=_names(noted))


def _unknown(weighed: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> WorkNote:
    moved = _with_word(weighed, *_MOVED)
    if moved:
        return WorkNote(kind="only-others-moved", names=_names(moved))
    same = _with_word(weighed, "same")
    if same:
        return WorkNote(kind="nothing-exact", names=_names(same))
    both = zip(SIDES, (base, new), strict=True)
    lacking = tuple(side for side, amounts in both if not amounts.keys() - {*RESOURCES, LAUNCHES})
    return WorkNote(kind="no-counts" if lacking else "nothing-common", sides=lacking)


def _unclear(counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> WorkNote:
    """Return why work that depends on data cannot be distinguished from other work."""
    names = tuple(count.name for count in counts if count.data_dependent)
    launches = [(base[name].launches, new[name].launches) for name in names]
    if all(can_distinguish(*both) for both in launches):
        return WorkNote(kind="varies", names=names)
    return WorkNote(kind="varies-too-few", names=names, launches=min(map(min, launches)))


def _names(counts: Sequence[CountChange]) -> tuple[str, ...]:
    return tuple(count.name for count in counts)
