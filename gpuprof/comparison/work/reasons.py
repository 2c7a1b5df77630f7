"""Why a verdict on work is unclear or cannot be given, and what its values are of, in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuprof.comparison.contract import CountChange, WorkWord
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.words import names_text, value_text
from gpuprof.comparison.work.amounts import WorkAmount
from gpuprof.comparison.work.counts import CACHED, LAUNCHES, RESOURCES, is_work
from gpuprof.comparison.work.tolerances import can_tell
from gpuprof.units import counted

OTHER_CODE = (
    "The GPUs are of different compute capability and run different machine code: only FLOP are compared. Profile both "
    "sides on GPUs of one compute capability."
)


def basis(pair: Pair, *, per_run: bool) -> str:
    """Say what the values are of, where that is not one launch of each side, and when a run's launches differ."""
    before, after = pair.launches
    launches = f"{value_text(before)} on the base side, {value_text(after)} on the new side"
    if not pair.is_one_to_one:
        base, new = (counted(len(kernels), "kernel") for kernels in (pair.base, pair.new))
        return f"Values are of all launches of a run, of {base} against {new}: {launches}."
    if per_run:
        return f"Values are of all launches of a run: {launches}."
    return f"Values are of one launch; launches of a run: {launches}." if before != after else ""


def reason(
    verdict: WorkWord, counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]
) -> str:
    """Say why a verdict is not given, or what it rests on where that is little."""
    weighed = [count for count in counts if is_work(count)]
    moved = [count for count in counts if count.word in ("more", "less")]
    if verdict == "unknown":
        return _unknown(weighed, base, new)
    if verdict == "unclear":
        return _unclear([count for count in weighed if count.word == "unclear"], base, new)
    if verdict == "same":
        return _beside([count.name for count in moved if count.name in RESOURCES], weighed)
    if not any(is_work(count) for count in moved):
        return "As much work as before, by other instructions."
    if any(count.data_dependent for count in weighed) or not _once([*filter(is_work, moved)], base, new):
        return ""
    return "One launch was counted on a side: whether the work depends on data cannot be told."


def _beside(resources: Sequence[str], weighed: Sequence[CountChange]) -> str:
    """Say what else is to be known of work that is the same."""
    varying = [count.name for count in weighed if count.word == "unclear" and count.data_dependent]
    unlike = [count.name for count in weighed if count.word == "unclear" and not count.data_dependent]
    parts = (
        f"resources that changed: {names_text(resources)}" if resources else "",
        f"too different within a side to tell: {names_text(varying)}" if varying else "",
        f"from other counters on each side: {names_text(unlike)}" if unlike else "",
    )
    told = "; ".join(filter(None, parts))
    return f"The work is the same; {told}." if told else ""


def not_compared(counts: Sequence[CountChange]) -> str:
    """Say which counts are not judged where the caches were not treated alike."""
    known = [count.name for count in counts if count.name in CACHED]
    return f"Not compared, because the caches were not treated alike: {names_text(known)}." if known else ""


def _unknown(weighed: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> str:
    same = [count.name for count in weighed if count.word == "same"]
    moved = [count.name for count in weighed if count.word in ("more", "less")]
    if moved:
        return f"No count of what the code executes is known on both sides; others moved: {names_text(moved)}."
    if same:
        return f"No count that repeats exactly is known on both sides; these are the same: {names_text(same)}."
    lacking = [side for side, amounts in (("base", base), ("new", new)) if not any(map(_counts_work, amounts))]
    if not lacking:
        return "No count is known on both sides: collect both with the same counters."
    sides = "Both sides have" if len(lacking) > 1 else f"The {lacking[0]} side has"
    return (
        f"{sides} no counts of what a launch does: a timeline has none, and ncu's basic set hardly any. Profile both "
        "with gpuprof run, or with ncu --set full."
    )


def _counts_work(name: str) -> bool:
    return name not in (*RESOURCES, LAUNCHES)


def _unclear(counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> str:
    """Say of work that depends on data why it cannot be told from other work."""
    names = [count.name for count in counts if count.data_dependent]
    varied = f"Launches of one side differ in {names_text(names)}, so the work depends on data or on races"
    fewest = min(min(base[name].launches, new[name].launches) for name in names)
    if all(can_tell(base[name].launches, new[name].launches) for name in names):
        return f"{varied}, and the ranges of both sides overlap."
    return (
        f"{varied}; {counted(fewest, 'launch', 'es')} counted on a side cannot tell: count 9 a side, or fix the data."
    )


def _once(counts: Sequence[CountChange], base: Mapping[str, WorkAmount], new: Mapping[str, WorkAmount]) -> bool:
    return any(min(base[count.name].launches, new[count.name].launches) == 1 for count in counts)
