"""The verdict on work: what a launch executes and moves, counter by counter, and the resources that it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.comparison.contract import SIDES, CountChange, CountWord, WorkChange, WorkNote, WorkNoteKind, WorkWord
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
from gpuprof.comparison.work.tolerances import can_tell

_PRIMARY = ("instructions", "thread-instructions", "dram-bytes", "l2-bytes", "l1-bytes")
"""What is done, with FLOP: requests, sectors and wavefronts are how."""
_ORDER = (
    *_PRIMARY, FLOP, "global-load-requests", "global-store-requests", "global-load-sectors", "global-store-sectors",
    "l2-sectors", "spills", "local-load-sectors", "local-store-sectors", "shared-wavefronts", "bank-conflicts",
    *RESOURCES, LAUNCHES, OPCODES,
)  # fmt: skip
_PLACES = {name: place for place, name in enumerate(_ORDER)}
_CHANGED_FIRST: Mapping[CountWord, int] = {"more": 0, "less": 0, "unclear": 1, "only-base": 1, "only-new": 1, "same": 2}
_OUTWEIGHS = 10
"""How many times larger a change is, as a logarithm, than all those of the other direction that it outweighs: a kernel
with 60 % fewer instructions and 2 % more DRAM bytes does less."""
_OTHER_CODE = WorkNote(kind="other-code")


def work_change(pair: Pair, *, comparable: bool = True, caches_alike: bool = True, rounded: bool = False) -> WorkChange:
    """Return how the work of a launch changed. If code is not `comparable` (other GPUs), only FLOP are judged.

    Of kernels that are not one to one, and of one with another launch configuration and another number of launches, it
    is the work of all launches of a run. Without `caches_alike` the bytes behind the caches are not judged; what was
    printed `rounded` may differ by more.
    """
    if pair.match == "new" or pair.match == "gone":  # noqa: PLR1714 - mypy narrows no membership
        return WorkChange(verdict=pair.match, counts=())
    per_run = not pair.is_one_to_one or (pair.match != "exact" and pair.launches.base != pair.launches.new)
    base, new = (amounts_of(kernels, per_run=per_run, exact=not rounded) for kernels in (pair.base, pair.new))
    base, new = {**_zeros(new, base), **base}, {**_zeros(base, new), **new}
    names = [name for name in dict.fromkeys((*base, *new)) if not _is_idle(name, base.get(name), new.get(name))]
    barred = _barred(names, comparable=comparable, caches_alike=caches_alike)
    varying = varies(base) or varies(new)
    counts = [
        count_change(name, base.get(name), new.get(name), judged=name not in barred, varying=varying) for name in names
    ]
    counts.sort(key=_place)
    judged = [count for count in counts if count.name not in barred]
    verdict = _verdict(judged) if comparable else "unknown"
    notes = list(_basis(pair, per_run=per_run))
    notes += _reasons(verdict, judged, base, new) if comparable else [_OTHER_CODE]
    if comparable and not caches_alike:
        notes += _not_compared(counts)
    return WorkChange(verdict=verdict, counts=tuple(counts), notes=tuple(notes))


def _zeros(amounts: Mapping[str, WorkAmount], known: Mapping[str, WorkAmount]) -> dict[str, WorkAmount]:
    """Return the opcodes of the other side with a zero: a histogram that lacks one has counted none of it."""
    counted = next((amount for name, amount in known.items() if name.startswith(OPCODES)), None)
    if counted is None:
        return {}
    return {
        name: amount._replace(value=0.0, low=0.0, high=0.0, launches=counted.launches, summed=counted.summed)
        for name, amount in amounts.items()
        if name.startswith(OPCODES) and name not in known
    }


def _is_idle(name: str, base: WorkAmount | None, new: WorkAmount | None) -> bool:
    """Return whether neither side has anything of a compute path or an opcode, which are many."""
    if not name.startswith((FLOP, OPCODES)):
        return False
    return all(amount is None or amount.high == 0 for amount in (base, new))


def _barred(names: Sequence[str], *, comparable: bool, caches_alike: bool) -> frozenset[str]:
    """Return the counts that cannot be compared for what is not alike around the runs."""
    if not comparable:
        return frozenset(name for name in names if not name.startswith(FLOP))
    return frozenset() if caches_alike else frozenset(CACHED)


def _place(count: CountChange) -> tuple[int, int, float, str]:
    """Return the place of a count: what changed, then what is unclear or on one side, then what is the same; work
    before resources, launches and opcodes, which go by the size of the change."""
    family = FLOP if count.name.startswith(FLOP) else OPCODES if count.name.startswith(OPCODES) else count.name
    base, new = count.base or 0.0, count.new or 0.0
    return _CHANGED_FIRST[count.word], _PLACES.get(family, len(_ORDER)), -(abs(new - base) or new), count.name


def _verdict(counts: Sequence[CountChange]) -> WorkWord:
    """Weigh what moved: work first; the opcodes if nothing else did; never a resource or the number of launches.

    A direction wins if it is the only one, or if a primary count moved ten times as much that way as anything
    moved the other way. A count that was zero moved without bound. Bytes and FLOP, which are often known of the launch
    that represents a group, make no work unclear whose counts are the same over all launches.
    """
    weighed = [count for count in counts if is_work(count)]
    if not any(_was_compared(count) for count in weighed):
        return "unknown"
    moved = [count for count in weighed if count.word in ("more", "less")]
    if moved and not _is_of_caches_alone(weighed):
        return _direction(weighed)
    unclear = [count for count in weighed if count.word == "unclear" and count.data_dependent]
    vouched = any(count.name in EXACT and count.word == "same" for count in weighed)
    of_representative = [count for count in unclear if count.name.startswith(FLOP) or count.name.endswith("-bytes")]
    if unclear and not (vouched and of_representative == unclear):
        return "unclear"
    if moved:
        return "unknown"
    opcodes = [count for count in counts if count.name.startswith(OPCODES)]
    if any(count.word in ("more", "less") for count in opcodes):
        return "changed"
    return "same" if any(is_exact(count.name) and count.word == "same" for count in weighed) else "unknown"


def _is_of_caches_alone(weighed: Sequence[CountChange]) -> bool:
    """Return whether nothing was compared but bytes behind the caches: kernels with the same instructions fetch more or
    less of these, so that they alone say nothing of the work.
    """
    return all(count.name in CACHED for count in weighed if _was_compared(count))


def _direction(weighed: Sequence[CountChange]) -> WorkWord:
    """Return the direction that outweighs the other."""
    primary = [count for count in weighed if count.name in _PRIMARY or count.name.startswith(FLOP)]
    up, down = _largest(weighed, "more"), _largest(weighed, "less")
    if not (up and down):
        return "more" if up else "less"
    if _outweighs(_largest(primary, "more"), down):
        return "more"
    return "less" if _outweighs(_largest(primary, "less"), up) else "changed"


def _outweighs(move: float, other: float) -> bool:
    return math.isfinite(other) and move >= _OUTWEIGHS * other


def _was_compared(count: CountChange) -> bool:
    return count.word in ("same", "more", "less") or (count.word == "unclear" and count.data_dependent)


def _largest(counts: Sequence[CountChange], word: CountWord) -> float:
    """Return the largest move in a direction, as a logarithm; 0: none."""
    values = [(count.base or 0.0, count.new or 0.0) for count in counts if count.word == word]
    return max(
        (abs(math.log(max(both)) - math.log(min(both))) if min(both) > 0 else math.inf for both in values), default=0.0
    )


def _basis(pair: Pair, *, per_run: bool) -> Iterator[WorkNote]:
    """Yield what the values are of, unless that is one launch of each side and both runs have as many."""
    before, after = pair.launches
    if per_run:
        yield WorkNote(kind="values-of-run")
    elif before != after:
        yield WorkNote(kind="values-of-launch")


def _reasons(
    verdict: WorkWord, counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]
) -> Iterator[WorkNote]:
    """Yield why there is no verdict, or what else is to be known beside it."""
    weighed = [count for count in counts if is_work(count)]
    moved = [count for count in counts if count.word in ("more", "less")]
    if verdict == "unknown":
        yield _unknown(weighed, base, new)
    elif verdict == "unclear":
        yield _unclear([count for count in weighed if count.word == "unclear"], base, new)
    elif verdict == "same":
        yield from _beside([count for count in moved if count.name in RESOURCES], weighed)
    elif not any(is_work(count) for count in moved):
        yield WorkNote(kind="other-opcodes")
    elif not any(count.data_dependent for count in weighed):
        launches = [side[count.name].launches for side in (base, new) for count in moved if is_work(count)]
        if 1 in launches:
            yield WorkNote(kind="counted-once")


def _not_compared(counts: Sequence[CountChange]) -> Iterator[WorkNote]:
    """Yield the counts that are not judged because the caches were not treated alike."""
    names = tuple(count.name for count in counts if count.name in CACHED)
    if names:
        yield WorkNote(kind="caches", names=names)


def _beside(resources: Sequence[CountChange], weighed: Sequence[CountChange]) -> Iterator[WorkNote]:
    unclear = [count for count in weighed if count.word == "unclear"]
    kinds: tuple[tuple[WorkNoteKind, Sequence[CountChange]], ...] = (
        ("resources", resources),
        ("too-varied", [count for count in unclear if count.data_dependent]),
        ("other-counters", [count for count in unclear if not count.data_dependent]),
    )
    for kind, counts in kinds:
        if counts:
            yield WorkNote(kind=kind, names=_names(counts))


def _unknown(weighed: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> WorkNote:
    moved = [count for count in weighed if count.word in ("more", "less")]
    if moved:
        return WorkNote(kind="only-others-moved", names=_names(moved))
    same = [count for count in weighed if count.word == "same"]
    if same:
        return WorkNote(kind="nothing-exact", names=_names(same))
    both = zip(SIDES, (base, new), strict=True)
    lacking = tuple(side for side, amounts in both if not amounts.keys() - {*RESOURCES, LAUNCHES})
    return WorkNote(kind="no-counts" if lacking else "nothing-common", sides=lacking)


def _unclear(counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> WorkNote:
    """Return why work that depends on data cannot be distinguished from other work."""
    names = tuple(count.name for count in counts if count.data_dependent)
    if all(can_tell(base[name].launches, new[name].launches) for name in names):
        return WorkNote(kind="varies", names=names)
    fewest = min(min(base[name].launches, new[name].launches) for name in names)
    return WorkNote(kind="varies-too-few", names=names, launches=fewest)


def _names(counts: Sequence[CountChange]) -> tuple[str, ...]:
    return tuple(count.name for count in counts)
