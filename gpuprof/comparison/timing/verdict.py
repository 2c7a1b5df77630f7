"""The verdict on time: same, faster, slower or unclear, from the runs of each side; cycles first, then seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median

from msgspec import Struct

from gpuprof.comparison.contract import TimeChange, TimeWord
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import RunTimes, SideKernel
from gpuprof.comparison.timing.noise import (
    FEWEST_RUNS,
    MARGIN,
    RatioEstimate,
    Samples,
    estimate,
    interval_of,
    runs_needed,
)
from gpuprof.comparison.words import change_text

CLOCK_STEP_S = 32e-9
"""Durations come in such steps from ncu, Nsight Systems and CUPTI: 61 % to 70 % of those in the recorded traces that
have nanoseconds are a multiple of it, the others are a nanosecond of rounding away."""
_COARSE_STEP_S = 1e-6
"""Older traces of PyTorch have whole microseconds."""
_OF_MEDIAN = math.sqrt(math.pi / 2)
"""The standard error of a median over that of a mean, of many normal values."""
_LEAST, _MOST = 1e-30, 1e30
"""What lies outside is no time: the rest of gpuprof takes nothing there either."""


class _RunSample(Struct, frozen=True):
    """A run: its median launch in seconds and SM cycles, how many launches that is of, and its relative standard error.

    `whole`: all of these are whole microseconds. `rounded`: how many roundings to a step of the clock are in it.
    """

    run: int
    seconds: float
    cycles: float | None
    launches: int
    error: float
    whole: bool
    rounded: float = 1.0


def time_change(
    pair: Pair, *, comparable: bool = True, paired: bool = False, shift: float = 0.0, barred: str = ""
) -> TimeChange:
    """Return how the time of a launch changed. Where runs are not `comparable`, the figures and no verdict.

    `barred`: why the times of this kernel alone do not compare.

    `paired`: the nth runs of both sides were made side by side, in the order ABBA. `shift`: what the sides can be apart
    by, as a logarithm, for what is not alike around the runs.
    """
    several = len(pair.base) > 1 or len(pair.new) > 1
    base, new = (_samples(kernels, several=several) for kernels in (pair.base, pair.new))
    if pair.match in ("new", "gone") or not base or not new:
        return _without_ratio(pair, base, new)
    if paired:
        both = {sample.run for sample in base} & {sample.run for sample in new}
        paired = bool(both)
        base = [sample for sample in base if sample.run in both or not paired]
        new = [sample for sample in new if sample.run in both or not paired]
    in_seconds, in_cycles = _estimates(base, new, paired=paired, shift=shift)
    verdict, reason = _joined(in_cycles, in_seconds)
    needed = _needed(base, new, in_cycles, in_seconds, paired=paired) if verdict == "unclear" and not shift else None
    if not comparable or barred:
        reason = "what is around the runs differs too much to compare their times" if not comparable else barred
        comparable, verdict, needed = False, "unclear", None
    return TimeChange(
        verdict=verdict,
        base_s=_mean(sample.seconds for sample in base),
        new_s=_mean(sample.seconds for sample in new),
        ratio=math.exp(in_seconds.change),
        interval=interval_of(in_seconds.change, in_seconds.half) if comparable else None,
        base_cycles=_mean(sample.cycles for sample in base) if in_cycles else None,
        new_cycles=_mean(sample.cycles for sample in new) if in_cycles else None,
        cycles_ratio=math.exp(in_cycles.change) if in_cycles else None,
        cycles_interval=interval_of(in_cycles.change, in_cycles.half) if in_cycles and comparable else None,
        base_runs=len(base),
        new_runs=len(new),
        base_launches=_launches(base),
        new_launches=_launches(new),
        noise=in_seconds.spread if comparable else None,
        noise_source=_source(in_seconds, base, new, paired=paired) if comparable else "",
        reason=reason,
        runs_needed=needed,
    )


def _samples(kernels: Sequence[SideKernel], *, several: bool) -> list[_RunSample]:
    """Return the runs of a side that tell a time; of `several` kernels the sum, of the runs that tell each."""
    if not several:
        return [sample for times in _in_order(kernels) if (sample := _of_launches(times)) is not None]
    runs: dict[int, list[RunTimes]] = {}
    for times in _in_order(kernels):
        runs.setdefault(times.run, []).append(times)
    whole = (parts for parts in runs.values() if len(parts) == len(kernels))
    return [sample for parts in whole if (sample := _of_totals(parts)) is not None]


def _in_order(kernels: Sequence[SideKernel]) -> list[RunTimes]:
    return sorted((times for kernel in kernels for times in kernel.times), key=lambda times: times.run)


def _of_launches(times: RunTimes) -> _RunSample | None:
    known = [duration for duration in times.durations_s if _is_usable(duration)]
    if not known:
        return None
    middle = median(known)
    logs = [math.log(duration) for duration in known]
    return _RunSample(
        run=times.run,
        seconds=middle,
        cycles=median(times.cycles) if times.cycles and all(map(_is_usable, times.cycles)) else None,
        launches=len(known),
        error=_OF_MEDIAN * _spread(logs) / math.sqrt(len(logs)),
        whole=_is_whole(known),
    )


def _of_totals(parts: Sequence[RunTimes]) -> _RunSample | None:
    totals = [times.total_s for times in parts if times.total_s is not None and _is_usable(times.total_s)]
    if len(totals) < len(parts):
        return None
    known = [[duration for duration in times.durations_s if _is_usable(duration)] for times in parts]
    variance = sum(times.launches * _spread(own) ** 2 for times, own in zip(parts, known, strict=True) if own)
    every = [cycle for times in parts for cycle in times.cycles]
    whole = all(len(times.cycles) == times.launches for times in parts) and all(map(_is_usable, every))
    return _RunSample(
        run=parts[0].run,
        seconds=sum(totals),
        cycles=sum(every) if whole and every else None,
        launches=sum(map(len, known)),
        error=math.sqrt(variance) / sum(totals),
        whole=all(map(_is_whole, known)),
        rounded=math.sqrt(sum(times.launches for times in parts)),
    )


def _spread(values: Sequence[float]) -> float:
    """Return the standard deviation of these values; 0 for a single one."""
    middle = fmean(values)
    return math.sqrt(fmean((value - middle) ** 2 for value in values))


def _is_whole(durations: Sequence[float]) -> bool:
    return all(abs(duration * 1e6 - round(duration * 1e6)) < 1e-4 for duration in durations)


def _is_usable(value: float) -> bool:
    return _LEAST < value < _MOST  # also false for what is not a number


def _estimates(
    base: Sequence[_RunSample], new: Sequence[_RunSample], *, paired: bool, shift: float
) -> tuple[RatioEstimate, RatioEstimate | None]:
    """Return what the seconds tell, and what the cycles do where every run of both sides has them."""
    clock_known = all(sample.cycles is not None for sample in (*base, *new))
    before, after = (_in_seconds(side, _step_s((*base, *new))) for side in (base, new))
    seconds = estimate(before, after, paired=paired, clock_known=clock_known, shift=shift)
    if not clock_known:
        return seconds, None
    return seconds, estimate(_in_cycles(base), _in_cycles(new), paired=paired, clock_known=True, shift=shift)


def _step_s(samples: Iterable[_RunSample]) -> float:
    return _COARSE_STEP_S if all(sample.whole for sample in samples) else CLOCK_STEP_S


def _in_seconds(side: Sequence[_RunSample], step_s: float) -> Samples:
    return Samples(
        tuple(math.log(sample.seconds) for sample in side),
        tuple(sample.error for sample in side),
        max(step_s * sample.rounded / sample.seconds for sample in side),
    )


def _in_cycles(side: Sequence[_RunSample]) -> Samples:
    return Samples(
        tuple(math.log(sample.cycles) for sample in side if sample.cycles is not None),
        tuple(sample.error for sample in side),
    )


def _joined(cycles: RatioEstimate | None, seconds: RatioEstimate) -> tuple[TimeWord, str]:
    """Return the verdict of both: a change is one in cycles and in seconds; what is the same in one may not be another
    in the other.
    """
    if cycles is None or cycles.word == seconds.word:
        return seconds.word, seconds.reason if cycles is None else cycles.reason
    if "unclear" not in (cycles.word, seconds.word):
        return "unclear", _disagreement(cycles, seconds)
    told, other = (cycles, seconds) if seconds.word == "unclear" else (seconds, cycles)
    if told.word == "same" and abs(other.change) <= MARGIN:
        return "same", ""
    if told.word == "same":
        return "unclear", _disagreement(cycles, seconds)
    return "unclear", f"{told.word} in {'cycles' if told is cycles else 'seconds'}; in the other, {other.reason}"


def _disagreement(cycles: RatioEstimate, seconds: RatioEstimate) -> str:
    return (
        f"{_changed(cycles)} in cycles and {_changed(seconds)} in seconds: the SM clock was not the same; "
        "lock the clocks, or interleave the runs of both sides"
    )


def _changed(estimated: RatioEstimate) -> str:
    return change_text(interval_of(estimated.change, 0.0).low)


def _needed(
    base: Sequence[_RunSample],
    new: Sequence[_RunSample],
    cycles: RatioEstimate | None,
    seconds: RatioEstimate,
    *,
    paired: bool,
) -> int | None:
    """Return the runs a side that settle what is unclear; None where no number does: the clock differs."""
    undecided = [told for told in (cycles, seconds) if told is not None and told.word == "unclear"]
    if not undecided:
        return None
    step_s = _step_s((*base, *new))
    step = (_in_seconds(base, step_s).step + _in_seconds(new, step_s).step) / 2
    runs = min(len(base), len(new))
    needed = [runs_needed(told, runs, step if told is seconds else 0.0, paired=paired) for told in undecided]
    known = [number for number in needed if number is not None]
    return max(known) if len(known) == len(needed) else None


def _source(seconds: RatioEstimate, base: Sequence[_RunSample], new: Sequence[_RunSample], *, paired: bool) -> str:
    if seconds.few:
        return (
            f"assumed, because a side has fewer than {FEWEST_RUNS} runs: 1 % between runs, and that all runs of a side "
            "can be slower or faster together"
        )
    count = f"{len(base)} pairs of runs" if paired else f"{len(base)} and {len(new)} runs"
    return f"between {count}" + ("" if paired else "; 0.25 % more between sides that were not interleaved")


def _without_ratio(pair: Pair, base: Sequence[_RunSample], new: Sequence[_RunSample]) -> TimeChange:
    """Return what is known where there is only one side, or only one that has times."""
    verdict: TimeWord = pair.match if pair.match in ("new", "gone") else "unknown"
    lacking = [name for name, side in (("base", base), ("new", new)) if not side]
    return TimeChange(
        verdict=verdict,
        base_s=_mean(sample.seconds for sample in base),
        new_s=_mean(sample.seconds for sample in new),
        ratio=None,
        interval=None,
        base_cycles=_mean(sample.cycles for sample in base),
        new_cycles=_mean(sample.cycles for sample in new),
        cycles_ratio=None,
        cycles_interval=None,
        base_runs=len(base),
        new_runs=len(new),
        base_launches=_launches(base),
        new_launches=_launches(new),
        noise=None,
        noise_source="",
        reason=f"no durations on the {' and the '.join(lacking)} side" if verdict == "unknown" else "",
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean, of which the ratio is one, too; None where a value is missing or there is none."""
    logs = [None if value is None else math.log(value) for value in values]
    known = [log for log in logs if log is not None]
    return math.exp(fmean(known)) if known and len(known) == len(logs) else None


def _launches(side: Sequence[_RunSample]) -> int:
    return sum(sample.launches for sample in side)
