"""What of a GPU's idle time is the start of a program: told apart from pauses that come again, and left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuprof.model.run_totals import busy_share, running
from gpuprof.present.timeline_text import timeline_facts
from tests.readings import session_of
from tests.test_timeline import copy, device, kernel, session, trace

RECORDED = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"


def test_what_does_not_come_again_is_no_idle_time() -> None:
    # b is launched five times. It waits 900 µs for its first launch, and 5 µs for each later one, as a does.
    launches = [kernel("a", 0, 50), kernel("b", 950, 50)]
    for turn in range(1000, 1400, 100):
        launches += [kernel("a", turn + 5, 45), kernel("b", turn + 55, 45)]
    one = device(session(trace(*launches)))
    assert one.gaps is not None and one.gaps.total_s == pytest.approx(940e-6)
    assert running(one) == pytest.approx((40e-6, 500e-6, 900e-6))


def test_the_share_of_the_run_that_kernels_take_is_that_after_the_start() -> None:
    launches = (copy("host to device", 0, 10, 8), kernel("a", 4010, 30), kernel("b", 4060, 40))
    whole, started = (session(replace(trace(*launches), from_start=begins)) for begins in (False, True))
    assert busy_share(whole) == pytest.approx(70 / 4100)
    # Without the 4 ms before the first kernel: 10 µs of copying, 30 and 40 of kernels, 20 between them.
    assert busy_share(started) == pytest.approx(0.7)


def test_a_pause_that_comes_each_time_is_idle_time_the_first_time_too() -> None:
    launches = [one for turn in range(0, 4000, 1000) for one in (kernel("a", turn, 100), kernel("b", turn + 500, 100))]
    gaps = device(session(trace(*launches))).gaps
    assert gaps is not None and gaps.start_up_s == 0


@pytest.mark.parametrize(("from_start", "start_up_s"), [(True, 2e-3), (False, 0.0)])
def test_what_is_launched_once_was_loaded_only_where_the_program_began(from_start: bool, start_up_s: float) -> None:
    recorded = trace(kernel("a", 0, 100), kernel("a", 110, 100), kernel("b", 2210, 100))
    gaps = device(session(replace(recorded, from_start=from_start))).gaps
    assert gaps is not None and gaps.start_up_s == pytest.approx(start_up_s)


@pytest.mark.parametrize(("from_start", "start_up_s"), [(True, 3e-3), (False, 0.0)])
def test_before_its_first_kernel_a_program_only_starts(from_start: bool, start_up_s: float) -> None:
    # Its data comes as late the second time.
    launches = (copy("host to device", 0, 10, 8), kernel("a", 3010, 10), kernel("a", 6020, 10))
    gaps = device(session(replace(trace(*launches), from_start=from_start))).gaps
    assert gaps is not None and gaps.start_up_s == pytest.approx(start_up_s)


def test_a_program_that_only_starts_has_no_launch_gaps() -> None:
    launches = (copy("host to device", 0, 10, 8), kernel("a", 4_000_000, 100))
    found = session(replace(trace(*launches), from_start=True))
    assert [finding.rule for one in found.kernels for finding in one.findings if finding.rule == "launch-gaps"] == []
    assert "; start-up 4.00 s" in dict(timeline_facts(found))["pauses"]


def test_of_many_kernels_that_wait_alike_none_is_named() -> None:
    # Ten kernels, each waits 50 of 100 µs.
    found = session(trace(*[kernel("abcdefghij"[number % 10], 100 * number, 50) for number in range(40)]))
    (finding,) = (one for each in found.kernels for one in each.findings if one.rule == "launch-gaps")
    assert finding.headline.endswith("; 10 % of that at most before any of 10 kernels and kinds of copies")


def test_a_transformer_on_a_gpu_is_not_told_of_its_start() -> None:
    """PyTorch on an H100: 4.05 s go by before its first kernel, and 1 to 85 ms before the first launches of many."""
    told = session_of(RECORDED / "run-transformer" / "run" / "survey.pt.trace.json.gz").verdict
    assert told is not None
    assert told.sentence.startswith("The GPU is idle 83 % of 93.2 ms after start-up; 7.4 % of that at most before any")
