"""What a profiler adds to the pauses of a GPU: said, subtracted where it is known, and a guess otherwise."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Session
from gpuprof.timeline.intervals import TimeInterval
from gpuprof.words.timeline import timeline_facts
from tests.table import each_row
from tests.test_timeline import device, gaps_of, kernel, session, trace


def slowed(*recorded: str, pause_us: float = 70, overhead: tuple[TimeInterval, ...] = ()) -> Session:
    """Kernels of 30 µs, each behind a pause, of which a profiler recorded more than times."""
    launches = [kernel("a", (30 + pause_us) * number, 30) for number in range(20)]
    return session(replace(trace(*launches), recorded=frozenset(recorded), overhead=overhead))


@each_row(("recorded", "pause_us", "confidence", "said"), [
    ((), 70, "inferred", ()), (("shapes",), 70, "guess", ("shapes",)), (("memory",), 70, "guess", ("memory",)),
    (("shapes", "stacks", "memory"), 70, "guess", ("stacks", "shapes", "memory")),
    # Pauses of 5 ms are none of single launches, but stacks slow all Python code.
    (("shapes", "memory"), 5000, "inferred", ("shapes", "memory")), (("stacks",), 5000, "guess", ("stacks",)),
])  # fmt: skip
def test_pauses_of_a_trace_with_stacks_shapes_or_memory_are_a_guess(
    recorded: tuple[str, ...], pause_us: float, confidence: str, said: tuple[str, ...]
) -> None:
    _, finding = gaps_of(slowed(*recorded, pause_us=pause_us))
    _, plain = gaps_of(slowed(pause_us=pause_us))
    assert (finding.confidence, finding.gain_total, finding.severity) == (confidence, plain.gain_total, plain.severity)
    assert device(slowed(*recorded)).slowed_by == said
    assert finding.cases.action == (("profile-less",) if confidence == "guess" else plain.cases.action)


def test_a_survey_of_gpuprof_records_no_more_than_it_needs() -> None:
    surveyed = replace(trace(kernel("a", 0, 1)), recorded=frozenset(("shapes",)), hook_ranges=frozenset())
    assert device(session(surveyed)).slowed_by == ()


def test_pauses_in_which_the_profiler_works_are_its_own() -> None:
    # 20 kernels of 30 µs and 19 pauses of 70; it flushes from 50 to 150 µs, so in the first pause and in the second.
    flushes = ((50e-6, 120e-6), (110e-6, 150e-6))
    found = slowed(overhead=flushes)
    gpu = device(found)
    assert gpu.gaps is not None and gpu.gaps.profiler_s == pytest.approx(70e-6)
    assert gpu.gaps.total_s == pytest.approx((19 * 70 - 70) * 1e-6)
    assert running_s(gpu) == pytest.approx((1930 - 70) * 1e-6)
    assert gpu.busy_s + gpu.gaps.total_s == pytest.approx(running_s(gpu))
    assert found.timeline is not None
    assert sum(wait.idle_s for wait in found.timeline.waits) == pytest.approx(gpu.gaps.total_s)
    _, finding = gaps_of(found)
    assert finding.gain_total == pytest.approx(1260 / 1860)
    assert dict(timeline_facts(found))["profiler"].startswith("70.0 µs")
