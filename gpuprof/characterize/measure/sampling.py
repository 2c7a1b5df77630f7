"""Takes samples of ready configurations: rounds in random order until the interval is small, again if throttled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.judge.regime import RETRIES, THROTTLE_MASK, Attempt, Settled, keep, settled
from gpuprof.characterize.maths.statistics import Statistic, StopRule, rounds, stop_reason
from gpuprof.characterize.measure.effort import LEAST_ROUNDS
from gpuprof.characterize.on_gpu.launcher import BrokenRun, Ready
from gpuprof.characterize.record.configurations import LARGE, buffer_bytes, iteration_work
from gpuprof.characterize.record.reduction import MULTIPLES, results
from gpuprof.characterize.record.series import Sample
from gpuprof.characterize.record.store import FINAL

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_BETWEEN_CHECKS = 4
"""Rounds from one look at the interval to the next: a bootstrap takes longer than a round."""
_COOL_DOWN_S = 0.5
_SETTLED_S = 2.0
_STEADY = 0.002
_STEADY_LAUNCHES = 3
_LONGEST_WARM_UP_S = 0.3
_TIMES_L2 = 4


class SamplesTaken(NamedTuple):
    """The samples that count, what held the clocks back in all attempts, and the seconds of all but the first."""

    samples: tuple[Sample, ...]
    throttling: tuple[str, ...]
    repeated_s: float


def iterations(ready: Ready, seconds: float) -> int:
    """Return N: enough for the window, and to go through more than the caches hold where the probe is of DRAM."""
    kernel, configuration, properties = ready.kernel, ready.configuration, ready.gpu.properties
    l2_bytes = properties.l2_bytes
    moved = iteration_work(kernel, "byte", configuration.names(), ready.shape.grid, ready.shape.block)
    held = sum((buffer_bytes(kernel, configuration, properties) or {}).values())
    least = int(_TIMES_L2 * l2_bytes / moved) + 1 if moved and held >= LARGE * l2_bytes else 0
    return ready.iterations_for(seconds, least)


def warm_up(ready: Ready, count: int) -> None:
    """Launch until the clock in the kernel stays the same: an idle GPU takes a while to reach it."""
    began, last, steady = ready.gpu.now(), 0.0, 0
    while steady < _STEADY_LAUNCHES and ready.gpu.now() - began < _LONGEST_WARM_UP_S:
        sample = ready.run(MULTIPLES[-1] * count)
        if not sample.cycles or not sample.time_s:
            return
        hz = sample.cycles / sample.time_s
        steady = steady + 1 if abs(hz - last) <= _STEADY * hz else 0
        last = hz


def sweep(candidates: Sequence[Ready], counts: Sequence[int], number: int, seed: int) -> list[list[Sample]]:
    """Return the samples of each candidate: `number` rounds, the candidates in another random order in each.

    NVML is not asked: that takes longer than a round, and only what is measured again is judged by its answers.
    """
    taken: list[list[Sample]] = [[] for _ in candidates]
    for order in rounds(range(len(candidates)), number, seed):
        for index in order:
            taken[index] += one_round(candidates[index], counts[index], seed + len(taken[index]), watched=False)
    return taken


def one_round(ready: Ready, count: int, seed: int, *, watched: bool = True) -> list[Sample]:
    """Launch at N, 2N and 4N iterations in random order; NVML is asked during the longest, if `watched`.

    Raises BrokenRun.
    """
    (order,) = rounds(MULTIPLES, 1, seed)
    samples = [ready.run(multiple * count, watched=watched and multiple == MULTIPLES[-1]) for multiple in order]
    if not all(sample.time_s > 0 for sample in samples):
        raise BrokenRun(f"{count} iterations took no time by the GPU's timer")
    return samples


def take_samples(
    probe: Probe,
    ready: Ready,
    count: int,
    rule: StopRule,
    regime: str,
    seed: int,
    repeat_s: float,
    retries: int = RETRIES,
) -> SamplesTaken:
    """Sample until the interval is small or time is up; a throttled attempt is repeated a bounded number of times.

    It is repeated as long as `repeat_s` has room for cooling down and another attempt. Under sustained load throttling
    is what is measured, so that nothing is repeated.
    """
    if regime == "sustained":
        retries = 0
    attempts: list[tuple[Attempt, tuple[Sample, ...]]] = []
    began = first_ended = ready.gpu.now()
    while True:
        samples = _attempt(probe, ready, count, rule, seed + len(attempts))
        reasons = [sample.reasons for sample in samples if sample.reasons is not None]
        seen = _any_bit(reasons) if reasons else None
        attempts.append((Attempt(tuple(sample.time_s for sample in samples), seen), samples))
        now, cool_down_s = ready.gpu.now(), _COOL_DOWN_S * 2 ** (len(attempts) - 1)
        first_ended = now if len(attempts) == 1 else first_ended
        if now - first_ended + cool_down_s + (first_ended - began) > repeat_s:
            retries = 0
        kept = keep([attempt for attempt, _ in attempts], "sustained" if regime == "sustained" else "short", retries)
        if kept is not None:
            chosen = next(samples for attempt, samples in attempts if attempt.samples is kept.samples)
            return SamplesTaken(chosen, kept.throttling, now - first_ended)
        ready.gpu.wait(cool_down_s)


def _any_bit(masks: Sequence[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask & THROTTLE_MASK
    return total


def _attempt(probe: Probe, ready: Ready, count: int, rule: StopRule, seed: int) -> tuple[Sample, ...]:
    samples: list[Sample] = []
    began, number = ready.gpu.now(), 0
    while True:
        samples += one_round(ready, count, seed * 1000 + number)
        number += 1
        elapsed = ready.gpu.now() - began
        if number < rule.least:
            if elapsed >= rule.longest_s and number >= LEAST_ROUNDS:
                return tuple(samples)
            continue
        if elapsed >= rule.longest_s or (number - rule.least) % _BETWEEN_CHECKS == 0:
            values = results(probe, probe.unit, ready.series(probe.id, FINAL, samples))
            # Times that do not grow are no reason to go on until time is up: they are rejected later.
            if not values or stop_reason(values, elapsed, rule, _statistic(probe)):
                return tuple(samples)


def _statistic(probe: Probe) -> Statistic:
    return "mode" if probe.statistic == "mode" else "median"


def settle(ready: Ready, count: int, longest_s: float) -> Settled:
    """Keep the GPU busy until its clock has settled, or for so long; return the clock.

    It has settled when it stays the same for two seconds, or for half of a time that is shorter.
    """
    last_s = min(_SETTLED_S, longest_s / 2)
    clocks: list[tuple[float, float]] = []
    began = ready.gpu.now()
    while True:
        sample = ready.run(MULTIPLES[-1] * count, watched=True)
        elapsed = ready.gpu.now() - began
        hz = sample.cycles / sample.time_s if sample.cycles and sample.time_s else sample.sm_clock_hz
        if hz:
            clocks.append((elapsed, hz))
        clock = settled(clocks, last_s) if clocks else Settled(0.0, 0.0, settled=False)
        if clock.settled or elapsed >= longest_s:
            return clock
