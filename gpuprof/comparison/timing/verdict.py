"""The verdict on time from the runs of each side: same, faster, slower or unclear."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import SIDES, NoiseBasis, TimeChange, TimeDoubt, TimeWord
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
from gpuprof.comparison.values import all_known

CLOCK_STEP_S = 32e-9
"""Step of durations from ncu, Nsight Systems and CUPTI: 61 % to 70 % of those in the recorded
traces that have nanoseconds are a multiple of it, the others are one nanosecond off by rounding."""
_COARSE_STEP_S = 1e-6
"""Older traces of PyTorch have whole microseconds."""
_OF_MEDIAN = math.sqrt(math.pi / 2)
"""The standard error of a median over that of a mean, of many normal values."""
_LEAST, _MOST = 1e-30, 1e30
"""Values outside are no times: the rest of gpuprof takes none of them either."""


class _RunSample(Struct, frozen=True):
    """A run: its median launch in seconds and SM cycles, and the relative standard error of that.

    `whole`: all launches are whole microseconds. `rounded`: the number of roundings to a step of
    the clock in the time.
    """

    run: int
    seconds: float
    cycles: float | None
    launches: int
    error: float
    whole: bool
    rounded: float = 1.0


def time_change(
    pair: Pair,
    *,
    comparable: bool = True,
    paired: bool = False,
    shift: float = 0.0,
    barred: TimeDoubt | None = None,
) -> TimeChange:
    """Return how the time of a launch changed.

    If runs are not `comparable`, it has figures and no verdict.

    `barred`: why the times of this kernel alone do not compare. `paired`: the nth runs of both
    sides were made side by side, in the order ABBA. `shift`: how far the circumstances of the runs
    can set the sides apart, as a logarithm.
    """
    several = len(pair.base) > 1 or len(pair.new) > 1
    base = _samples(pair.base, several=several)
    new = _samples(pair.new, several=several)
    if pair.match == "new" or pair.match == "gone":  # noqa: PLR1714 - mypy narrows no membership
        return replace(_figures(base, new), verdict=pair.match)
    if pair.unseen is not None:
        return replace(_figures(base, new), doubt=TimeDoubt(kind=pair.unseen, sides=("new" if pair.base else "base",)))
    lacking = tuple(name for name, samples in zip(SIDES, (base, new), strict=True) if not samples)
    if lacking:
        return replace(_figures(base, new), doubt=TimeDoubt(kind="no-durations", sides=lacking))
    common = {sample.run for sample in base} & {sample.run for sample in new}
    paired = paired and bool(common)
    if paired:
        base = [sample for sample in base if sample.run in common]
        new = [sample for sample in new if sample.run in common]
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
    """Return the times of both sides, not compared."""
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
    basis: NoiseBasis = "pairs" if paired else "runs"
    change = replace(
        change,
        verdict=verdict,
        ratio=math.exp(seconds.change),
        interval=interval_of(seconds.change, seconds.half),
        noise=seconds.spread,
        noise_basis="assumed" if seconds.few else basis,
        doubt=doubt,
    )
    if cycles is None:
        return replace(change, base_cycles=None, new_cycles=None)
    interval = interval_of(cycles.change, cycles.half)
    return replace(change, cycles_ratio=math.exp(cycles.change), cycles_interval=interval)


def _samples(kernels: Sequence[SideKernel], *, several: bool) -> list[_RunSample]:
    """Return the timed runs of a side; of `several` kernels the sum, in runs that have them all."""
    ordered = sorted((times for kernel in kernels for times in kernel.times), key=lambda times: times.run)
    runs: dict[int, list[RunTimes]] = {}
    for times in ordered:
        runs.setdefault(times.run, []).append(times)
    if several:
        samples = [_of_totals(parts) for parts in runs.values() if len(parts) == len(kernels)]
    else:
        samples = list(map(_of_launches, ordered))
    return [sample for sample in samples if sample is not None]


def _of_launches(times: RunTimes) -> _RunSample | None:
    known = _usable(times.durations_s)
    if not known:
        return None
    cycles = None
    if times.cycles and all(map(_is_usable, times.cycles)):
        cycles = median(times.cycles)
    return _RunSample(
        run=times.run,
        seconds=median(known),
        cycles=cycles,
        launches=len(known),
        error=_OF_MEDIAN * _spread(list(map(math.log, known))) / math.sqrt(len(known)),
        whole=_is_whole(known),
    )


def _of_totals(parts: Sequence[RunTimes]) -> _RunSample | None:
    steps = parts[0].steps
    totals = [times.total_s for times in parts if times.total_s is not None and _is_usable(times.total_s)]
    if len(totals) < len(parts):
        return None
    durations: list[float] = []
    cycles: list[float] = []
    variance = 0.0
    for times in parts:
        known = _usable(times.durations_s)
        durations += known
        cycles += times.cycles
        if known:
            variance += times.launches * _spread(known) ** 2
    launches = sum(times.launches for times in parts)
    has_cycles = all(len(times.cycles) == times.launches for times in parts) and all(map(_is_usable, cycles))
    return _RunSample(
        run=parts[0].run,
        seconds=sum(totals) / steps,
        cycles=sum(cycles) / steps if has_cycles and cycles else None,
        launches=len(durations),
        error=math.sqrt(variance) / sum(totals),
        whole=_is_whole(durations),
        rounded=math.sqrt(launches) / steps,
    )


def _spread(values: Sequence[float]) -> float:
    """Return the standard deviation of these values; 0 for a single one."""
    middle = fmean(values)
    return math.sqrt(fmean((value - middle) ** 2 for value in values))


def _is_whole(durations: Sequence[float]) -> bool:
    return all(abs(duration * 1e6 - round(duration * 1e6)) < 1e-4 for duration in durations)


def _is_usable(value: float) -> bool:
    return _LEAST < value < _MOST  # also false for NaN


def _usable(values: Iterable[float]) -> list[float]:
    return [value for value in values if _is_usable(value)]


def _estimates(
    base: Sequence[_RunSample], new: Sequence[_RunSample], *, paired: bool, shift: float
) -> tuple[RatioEstimate, RatioEstimate | None]:
    """Return the ratio in seconds, and in cycles if every run of both sides has them."""
    clock_known = all(sample.cycles is not None for sample in (*base, *new))
    step_s = _step_s((*base, *new))
    compare = partial(estimate, paired=paired, clock_known=clock_known, shift=shift)
    seconds = compare(_in_seconds(base, step_s), _in_seconds(new, step_s))
    if not clock_known:
        return seconds, None
    return seconds, compare(_in_cycles(base), _in_cycles(new))


def _step_s(samples: Iterable[_RunSample]) -> float:
    return _COARSE_STEP_S if all(sample.whole for sample in samples) else CLOCK_STEP_S


def _in_seconds(side: Sequence[_RunSample], step_s: float) -> Samples:
    step = max(step_s * sample.rounded / sample.seconds for sample in side)
    return Samples(
        tuple(math.log(sample.seconds) for sample in side),
        tuple(sample.error for sample in side),
        step,
    )


def _in_cycles(side: Sequence[_RunSample]) -> Samples:
    return Samples(
        tuple(math.log(sample.cycles) for sample in side if sample.cycles is not None),
        tuple(sample.error for sample in side),
    )


def _joined(cycles: RatioEstimate | None, seconds: RatioEstimate) -> tuple[TimeWord, TimeDoubt | None]:
    """Return the verdict of both: cycles and seconds must agree on a change, and on none."""
    if cycles is None:
        return seconds.word, seconds.doubt
    if cycles.word == seconds.word:
        return seconds.word, cycles.doubt
    clear = seconds
    other = cycles
    measure: Literal["cycles", "seconds"] = "seconds"
    if seconds.word == "unclear":
        clear = cycles
        other = seconds
        measure = "cycles"
    if clear.word == "same" and other.word == "unclear" and abs(other.change) <= MARGIN:
        return "same", None
    if clear.word == "same" or other.doubt is None:
        return "unclear", TimeDoubt(kind="clocks-disagree")
    return "unclear", replace(other.doubt, clear_in=measure, clear_verdict=clear.word)


def _needed(
    base: Sequence[_RunSample],
    new: Sequence[_RunSample],
    cycles: RatioEstimate | None,
    seconds: RatioEstimate,
    *,
    paired: bool,
) -> int | None:
    """Return the runs per side that would settle an unclear verdict; None if no number does."""
    runs = min(len(base), len(new))
    needed = []
    if cycles is not None and cycles.word == "unclear":
        needed.append(runs_needed(cycles, runs, 0.0, paired=paired))
    if seconds.word == "unclear":
        step_s = _step_s((*base, *new))
        step = (_in_seconds(base, step_s).step + _in_seconds(new, step_s).step) / 2
        needed.append(runs_needed(seconds, runs, step, paired=paired))
    return max(all_known(needed) or (), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the geometric mean, which suits ratios; None if a value is missing or there is none."""
    known = all_known(values)
    return math.exp(fmean(map(math.log, known))) if known else None
