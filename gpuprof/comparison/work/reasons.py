"""Why a verdict on work is unclear or cannot be given, and what its values are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuprof.comparison.contract import SIDES, CountChange, WorkNote, WorkNoteKind, WorkWord
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.work.amounts import WorkAmount
from gpuprof.comparison.work.counts import CACHED, LAUNCHES, RESOURCES, is_work
from gpuprof.comparison.work.tolerances import can_tell

OTHER_CODE = WorkNote(kind="other-code")


def basis(pair: Pair, *, per_run: bool) -> Iterator[WorkNote]:
    """Yield what the values are of, unless that is one launch of each side and both runs have as many."""
    before, after = pair.launches
    if per_run:
        yield WorkNote(kind="values-of-run")
    elif before != after:
        yield WorkNote(kind="values-of-launch")


def reasons(
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
    elif not any(count.data_dependent for count in weighed) and _once(filter(is_work, moved), base, new):
        yield WorkNote(kind="counted-once")


def not_compared(counts: Sequence[CountChange]) -> Iterator[WorkNote]:
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
    lacking = tuple(side for side, amounts in both if not any(map(_counts_work, amounts)))
    return WorkNote(kind="no-counts" if lacking else "nothing-common", sides=lacking)


def _counts_work(name: str) -> bool:
    return name not in (*RESOURCES, LAUNCHES)


def _unclear(counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> WorkNote:
    """Return why work that depends on data cannot be distinguished from other work."""
    names = tuple(count.name for count in counts if count.data_dependent)
    if all(can_tell(base[name].launches, new[name].launches) for name in names):
        return WorkNote(kind="varies", names=names)
    fewest = min(min(base[name].launches, new[name].launches) for name in names)
    return WorkNote(kind="varies-too-few", names=names, launches=fewest)


def _names(counts: Sequence[CountChange]) -> tuple[str, ...]:
    return tuple(count.name for count in counts)


def _once(counts: Iterator[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> bool:
    return any(min(base[count.name].launches, new[count.name].launches) == 1 for count in counts)
