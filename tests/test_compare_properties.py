"""What holds of every comparison: swapped sides, kernels that have nothing to do with one another, scaled counters."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as some

from benchmarks.gate.launches import read_kernels
from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import Comparison, KernelChange
from gpuprof.comparison.timing.noise import Samples, estimate
from gpuprof.comparison.timing.verdict import CLOCK_STEP_S
from gpuprof.model.session import KernelProfile
from tests.compare_builders import kernel, run, source
from tests.table import each_row

MIRRORED = {"faster": "slower", "slower": "faster", "less": "more", "more": "less", "new": "gone", "gone": "new"}
FACTORS = some.sampled_from([0.3, 0.97, 0.999, 1.0, 1.0004, 1.02, 1.5, 4.0])


def a_kernel(name: str, duration_s: float, instructions: float, dram_bytes: float) -> KernelProfile:
    counts: dict[str, Any] = {"instructions": instructions, "global-load-requests": instructions / 10}
    return kernel(
        name, (duration_s,) * 2, counts=counts, traffic={"dram": dram_bytes}, flop={"fp32": instructions * 32}
    )


def compared(base: list[KernelProfile], new: list[KernelProfile], runs: int = 1) -> Comparison:
    files = [(source(sha256=number * 64),) for number in "12"]
    sides = [[run(*kernels, sources=file)] * runs for kernels, file in zip((base, new), files, strict=True)]
    return compare(sides[0], sides[1], "0").comparison


def verdicts(change: KernelChange) -> tuple[str, str, str]:
    return change.match, change.time.verdict, change.work.verdict


@settings(max_examples=20, deadline=None)
@given(time=FACTORS, executed=FACTORS, moved=FACTORS, runs=some.sampled_from([1, 6]))
def test_swapped_sides_have_mirrored_verdicts(time: float, executed: float, moved: float, runs: int) -> None:
    base, new = a_kernel("a", 1e-3, 1e8, 1e8), a_kernel("a", 1e-3 * time, 1e8 * executed, 1e8 * moved)
    (there,), (back,) = (compared([before], [after], runs).kernels for before, after in ((base, new), (new, base)))
    assert verdicts(back) == tuple(MIRRORED.get(word, word) for word in verdicts(there))
    verdict_counts = {count.name: MIRRORED.get(count.word, count.word) for count in there.work.counts}
    assert {count.name: count.word for count in back.work.counts} == verdict_counts


@settings(max_examples=20, deadline=None)
@given(time=FACTORS, executed=FACTORS, other=FACTORS)
def test_a_kernel_that_has_nothing_to_do_with_another_changes_nothing_of_it(
    time: float, executed: float, other: float
) -> None:
    base, new = a_kernel("a", 1e-3, 1e8, 1e8), a_kernel("a", 1e-3 * time, 1e8 * executed, 1e8)
    (alone,) = compared([base], [new]).kernels
    beside = compared([base, a_kernel("z", 2e-3, 1e7, 1e7)], [new, a_kernel("z", 2e-3 * other, 1e7 * other, 1e7)])
    (same,) = (change for change in beside.kernels if change.label == "a")
    assert (same.time, same.work, same.causes, same.sentence) == (alone.time, alone.work, alone.causes, alone.sentence)


def test_counters_that_a_side_did_not_collect_are_no_loss_of_work() -> None:
    """The full set against the basic one, either way round."""
    full, basic = a_kernel("a", 1e-3, 1e8, 1e9), kernel("a", (1e-3,) * 2)
    for base, new in ((full, basic), (basic, full)):
        (change,) = compared([base], [new]).kernels
        assert change.work.verdict == "unknown"
        assert {count.word for count in change.work.counts} <= {"same", "only-base", "only-new"}
        assert not [cause for cause in change.causes if cause.direction != "neutral"]


@each_row("runs", [1, 2, 3, 5, 10])
def test_equal_launches_of_a_recorded_kernel_are_no_change(runs: int) -> None:
    """Draws from the launches of real traces, as the benchmark of the gate has them, the first against the next."""
    verdict_counts: Counter[str] = Counter()
    levels, generator = np.linspace(0, 1, 21), np.random.default_rng(runs)
    for own in read_kernels():
        for _ in range(10):
            logs = np.interp(generator.random(2 * runs), levels, np.log(own.quantiles)) + math.log(own.median_s)
            base, new = (_samples(logs[place : place + runs].tolist()) for place in (0, runs))
            verdict_counts[estimate(base, new).word] += 1
    assert verdict_counts.total() > 100
    assert (verdict_counts["faster"] + verdict_counts["slower"]) / verdict_counts.total() < 0.02


def _samples(logs: list[float]) -> Samples:
    return Samples(tuple(logs), (0.0,) * len(logs), CLOCK_STEP_S / math.exp(min(logs)))
