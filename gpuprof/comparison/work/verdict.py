"""The verdict on work: what a launch executes and moves, counter by counter, and the resources that it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpuprof.comparison.contract import CountChange, CountWord, WorkChange, WorkWord
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
from gpuprof.comparison.work.reasons import OTHER_CODE, basis, not_compared, reasons

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


def work_change(pair: Pair, *, comparable: bool = True, caches_alike: bool = True, rounded: bool = False) -> WorkChange:
    """Return how the work of a launch changed. If code is not `comparable` (other GPUs), only FLOP are judged.

    Of kernels that are not one to one, and of one with another launch configuration and another number of launches, it
    is the work of all launches of a run. Without `caches_alike` the bytes behind the caches are not judged; what was
    printed `rounded` may differ by more.
    """
    if pair.match == "new" or pair.match == "gone":  # noqa: PLR1714 - mypy narrows no membership
        return WorkChange(verdict=pair.match, counts=())
    per_run = _is_per_run(pair)
    base, new = _alike(*(amounts_of(kernels, per_run=per_run, exact=not rounded) for kernels in (pair.base, pair.new)))
    names = [name for name in dict.fromkeys((*base, *new)) if not _is_idle(name, base.get(name), new.get(name))]
    barred = _barred(names, comparable=comparable, caches_alike=caches_alike)
    varying = varies(base) or varies(new)
    counts = [
        count_change(name, base.get(name), new.get(name), judged=name not in barred, varying=varying) for name in names
    ]
    counts.sort(key=_place)
    judged = [count for count in counts if count.name not in barred]
    verdict = _verdict(judged) if comparable else "unknown"
    notes = list(basis(pair, per_run=per_run))
    notes += reasons(verdict, judged, base, new) if comparable else [OTHER_CODE]
    if comparable and not caches_alike:
        notes += not_compared(counts)
    return WorkChange(verdict=verdict, counts=tuple(counts), notes=tuple(notes))


def _is_per_run(pair: Pair) -> bool:
    return not pair.is_one_to_one or (pair.match != "exact" and pair.launches.base != pair.launches.new)


def _alike(
    base: dict[str, WorkAmount], new: dict[str, WorkAmount]
) -> tuple[dict[str, WorkAmount], dict[str, WorkAmount]]:
    """Give each side the opcodes of the other, with a zero: a histogram that lacks one has counted none of it."""
    return {**_zeros(new, base), **base}, {**_zeros(base, new), **new}


def _zeros(amounts: Mapping[str, WorkAmount], known: Mapping[str, WorkAmount]) -> dict[str, WorkAmount]:
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
    if unclear and not (vouched and all(_is_of_representative(count) for count in unclear)):
        return "unclear"
    if moved:
        return "unknown"
    opcodes = [count for count in counts if count.name.startswith(OPCODES)]
    if any(count.word in ("more", "less") for count in opcodes):
        return "changed"
    return "same" if any(is_exact(count) and count.word == "same" for count in weighed) else "unknown"


def _is_of_caches_alone(weighed: Sequence[CountChange]) -> bool:
    """Return whether nothing was compared but bytes behind the caches: kernels with the same instructions fetch more or
    less of these, so that they alone say nothing of the work.
    """
    return all(count.name in CACHED for count in weighed if _was_compared(count))


def _is_of_representative(count: CountChange) -> bool:
    """Return whether it is known only of the launch that represents a group."""
    return count.name.startswith(FLOP) or count.name.endswith("-bytes")


def _direction(weighed: Sequence[CountChange]) -> WorkWord:
    """Return the direction that outweighs the other."""
    primary = [count for count in weighed if _is_primary(count)]
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


def _is_primary(count: CountChange) -> bool:
    return count.name in _PRIMARY or count.name.startswith(FLOP)


def _largest(counts: Sequence[CountChange], word: CountWord) -> float:
    """Return the largest move in a direction, as a logarithm; 0: none."""
    return max((_move(count.base or 0.0, count.new or 0.0) for count in counts if count.word == word), default=0.0)


def _move(base: float, new: float) -> float:
    """Return how far a count moved, either way alike."""
    return abs(math.log(new) - math.log(base)) if base > 0 and new > 0 else math.inf
