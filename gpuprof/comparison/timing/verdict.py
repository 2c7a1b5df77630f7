"""The verdict on time: same, faster, slower or unclear, from the runs of each side; cycles first, then seconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, median
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import SIDES, TimeChange, TimeDoubt, TimeWord
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import RunTimes, SideKernel
from gpuprof.comparison.timing.noise import (
    MARGIN,
    RatioEstimate,
    Samples,
    estimate,
    interval_of,
    runs_needed,
)

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
    pair: Pair, *, comparable: bool = True, paired: bool = False, shift: float = 0.0, barred: TimeDoubt | None = None
) -> TimeChange:
    """Return how the time of a launch changed. If runs are not `comparable`, it has figures and no verdict.

    `barred`: why the times of this kernel alone do not compare.

    `paired`: the nth runs of both sides were made side by side, in the order ABBA. `shift`: what the sides can be apart
    by, as a logarithm, for what is not alike around the runs.
    """
    several = len(pair.base) > 1 or len(pair.new) > 1
    base, new = (_samples(kernels, several=several) for kernels in (pair.base, pair.new))
    if pair.match == "new" or pair.match == "gone":  # noqa: PLR1714 - mypy narrows no membership
        return replace(_figures(base, new), verdict=pair.match)
    lacking = tuple(name for name, samples in zip(SIDES, (base, new), strict=True) if not samples)
    if lacking:
        return replace(_figures(base, new), doubt=TimeDoubt(kind="no-durations", sides=lacking))
    both = {sample.run for sample in base} & {sample.run for sample in new}
    if paired and both:
        base, new = ([sample for sample in side if sample.run in both] for side in (base, new))
    paired = paired and bool(both)
    in_seconds, in_cycles = _estimates(base, new, paired=paired, shift=shift)
    change = _with_estimates(_figures(base, new), in_seconds, in_cycles, paired=paired)
    if not comparable or barred is not None:
        return replace(
            change,
            verdict="unclear",
            interval=None,
            cycles_interval=None,
            noise=None,
            noise_basis=None,
            doubt=barred if comparable else TimeDoubt(kind="conditions"),
        )
    if change.verdict == "unclear" and not shift:
        return replace(change, runs_needed=_needed(base, new, in_cycles, in_seconds, paired=paired))
    return change


def _figures(base: Sequence[_RunSample], new: Sequence[_RunSample]) -> TimeChange:
    """Return the times of both sides with nothing that compares them."""
    return TimeChange(
        verdict="unknown",
        base_s=_mean(sample.seconds for sample in base),
        new_s=_mean(sample.seconds for sample in new),
        base_cycles=_mean(sample.cycles for sample in base),
        new_cycles=_mean(sample.cycles for sample in new),
        base_runs=len(base),
        new_runs=len(new),
        base_launches=sum(sample.launches for sample in base),
        new_launches=sum(sample.launches for sample in new),
    )


def _with_estimates(
    change: TimeChange, seconds: RatioEstimate, cycles: RatioEstimate | None, *, paired: bool
) -> TimeChange:
    verdict, doubt = _joined(cycles, seconds)
    change = replace(
        change,
        verdict=verdict,
        ratio=math.exp(seconds.change),
        interval=interval_of(seconds.change, seconds.half),
        noise=seconds.spread,
        noise_basis="assumed" if seconds.few else "pairs" if paired else "runs",
        doubt=doubt,
    )
    if cycles is None:
        return replace(change, base_cycles=None, new_cycles=None)
    return replace(
        change, cycles_ratio=math.exp(cycles.change), cycles_interval=interval_of(cycles.change, cycles.half)
    )


def _samples(kernels: Sequence[SideKernel], *, several: bool) -> list[_RunSample]:
    """Return the runs of a side that have a time; of `several` kernels the sum, of the runs that have each."""
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
    """Return the ratio in seconds, and in cycles if every run of both sides has them."""
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


def _joined(cycles: RatioEstimate | None, seconds: RatioEstimate) -> tuple[TimeWord, TimeDoubt | None]:
    """Return the verdict of both: a change is one in cycles and in seconds; what is the same in one may not be another
    in the other.
    """
    if cycles is None or cycles.word == seconds.word:
        return seconds.word, seconds.doubt if cycles is None else cycles.doubt
    if "unclear" not in (cycles.word, seconds.word):
        return "unclear", TimeDoubt(kind="clocks-disagree")
    clear, other = (cycles, seconds) if seconds.word == "unclear" else (seconds, cycles)
    if clear.word == "same" and abs(other.change) <= MARGIN:
        return "same", None
    if clear.word == "same" or other.doubt is None:
        return "unclear", TimeDoubt(kind="clocks-disagree")
    measure: Literal["cycles", "seconds"] = "cycles" if clear is cycles else "seconds"
    return "unclear", replace(other.doubt, clear_in=measure, clear_verdict=clear.word)


def _needed(
    base: Sequence[_RunSample],
    new: Sequence[_RunSample],
    cycles: RatioEstimate | None,
    seconds: RatioEstimate,
    *,
    paired: bool,
) -> int | None:
    """Return the runs per side that would settle an unclear verdict; None if no number does: the clock differs."""
    undecided = [told for told in (cycles, seconds) if told is not None and told.word == "unclear"]
    if not undecided:
        return None
    step_s = _step_s((*base, *new))
    step = (_in_seconds(base, step_s).step + _in_seconds(new, step_s).step) / 2
    runs = min(len(base), len(new))
    needed = [runs_needed(told, runs, step if told is seconds else 0.0, paired=paired) for told in undecided]
    known = [number for number in needed if number is not None]
    return max(known) if len(known) == len(needed) else None


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean, which suits the ratio; None if a value is missing or there is none."""
    logs = [None if value is None else math.log(value) for value in values]
    known = [log for log in logs if log is not None]
    return math.exp(fmean(known)) if known and len(known) == len(logs) else None
