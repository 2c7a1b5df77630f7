"""Which clock and which L2 our recordings of an H100 tell: NVML saw 1.98 GHz in every sample, and 80 slices count."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.clocks_apart import clocks_differ
from gpuprof.model.recorded import GpuSamples
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.sm_clocks import held_clock, sm_clock
from gpuprof.words.notes import clock_notes
from tests import hand_made
from tests.readings import report_of, session_of
from tests.table import each_row

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
FULL, DIAGNOSE = H100 / "run-launches" / "full.ncu-rep", H100 / "run-launches" / "run" / "profile.ncu-rep"
SETS = [FULL, DIAGNOSE, *(H100 / "passes" / name / "profile.ncu-rep" for name in ("roofline", "diagnose", "full"))]
TRUE_HZ = 1.98e9
NAME = "NVIDIA H100 80GB HBM3"


def sampled(low: float = TRUE_HZ, high: float = TRUE_HZ, count: int = 51, name: str = NAME) -> GpuSamples:
    return GpuSamples(
        gpu=0, name=name, samples=count, sm_clock_min_hz=low, sm_clock_median_hz=low, sm_clock_max_hz=high,
        power_max_w=None, temperature_max_c=None, throttling=(),
    )  # fmt: skip


def as_run(path: Path, *samples: GpuSamples) -> Session:
    """A report as a run of ours has it: with what the driver said meanwhile."""
    report = structs.replace(report_of(path), samples=samples)
    return analyse([report], HardwareFinder(), "0").session


# The slices of L2.


@each_row("path", SETS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_no_peak_of_the_spec_differs_from_what_the_recordings_imply(path: Path) -> None:
    checks = session_of(path).denominators
    assert {"l2_bandwidth", "boost_clock", "memory_rate", "fp64"} <= {check.fact for check in checks}
    assert [check for check in checks if check.disagreement is not None] == []
    (l2,) = (check for check in checks if check.fact == "l2_bandwidth")
    assert l2.implied == 80 * 2 * 32
    assert list(clock_notes(session_of(path))) == []


def test_the_l2_ceiling_is_that_of_the_slices_that_count() -> None:
    (port,) = (check for check in session_of(FULL).denominators if check.fact == "bandwidth l2")
    assert port.implied == pytest.approx(port.specified) == 128
    # lts__cycles_elapsed.sum ÷ .avg is 80, device__attribute_l2s_count 96. 80 × 64 B × 1.709052 GHz.
    transpose = session_of(FULL).kernels[3]
    metrics = report_of(FULL).launches[3].metrics
    assert metrics.number("device__attribute_l2s_count") == 96
    assert metrics.number("lts__cycles_elapsed.sum") == 80 * (metrics.number("lts__cycles_elapsed.avg") or 0)
    ceilings = {ceiling.id: ceiling for ceiling in session_of(FULL).ceilings}
    assert ceilings["at-clock/l2"].value == pytest.approx(8.7503e12, rel=1e-4)
    assert "× 80 slices" in ceilings["at-clock/l2"].source
    # 512 MiB written and 64 MiB read in 288.928 µs are 2.0904 TB/s, 23.89 % of it. But slices take one sector a cycle
    # where they give two: the 512 MiB alone are 42.47 % of that, which is what ncu says of them, too.
    (l2,) = (moved for moved in transpose.traffic if moved.level == "l2")
    assert l2.bytes == 576 * 2**20 and l2.bytes_per_s == pytest.approx(2.0904e12, rel=1e-4)
    (point,) = (point for point in transpose.roofline if (point.level, point.ceiling) == ("l2", "at-clock"))
    share = metrics.number("lts__t_sectors_srcunit_tex_op_write.avg.pct_of_peak_sustained_elapsed") or 0.0
    assert point.fraction_of_roof == pytest.approx(0.424703, rel=1e-4)
    assert point.fraction_of_roof == pytest.approx(share / 100, rel=1e-6)


# The clock of a launch.


def test_what_the_driver_saw_all_the_time_is_the_clock() -> None:
    without, driven = as_run(DIAGNOSE), as_run(DIAGNOSE, sampled())
    assert {kernel.sm_clock_hz for kernel in driven.kernels} == {TRUE_HZ}
    assert {kernel.sm_clock_source for kernel in driven.kernels} == {"driver"}
    raw = [kernel.sm_cycles_per_s for kernel in driven.kernels]
    assert raw[0] == pytest.approx(2.1049e9, rel=1e-4)
    # Work and traffic are what was counted, whatever the clock.
    for one, other in zip(without.kernels, driven.kernels, strict=True):
        assert (one.work, one.traffic) == (other.work, other.traffic)
    fp32 = {ceiling.id: ceiling for ceiling in driven.ceilings}["at-clock/fp32"]
    assert fp32.value == pytest.approx(132 * 256 * TRUE_HZ, rel=1e-3)


def test_no_ceiling_is_above_the_highest_clock_of_the_product() -> None:
    empty, _, _, transpose = as_run(DIAGNOSE).kernels
    assert (empty.sm_clock_hz, empty.sm_clock_source) == (TRUE_HZ, "highest")
    assert empty.sm_cycles_per_s == pytest.approx(2.1049e9, rel=1e-4)
    assert (transpose.sm_clock_source, transpose.sm_cycles_per_s) == ("sm-cycles", None)
    assert transpose.sm_clock_hz == pytest.approx(1.9766e9, rel=1e-4)


def test_only_a_clock_that_never_moved_is_held() -> None:
    assert held_clock([sampled()], NAME, "none") == TRUE_HZ
    assert held_clock([sampled(low=1.4e9)], NAME, "none") is None
    assert held_clock([sampled(count=9)], NAME, "none") is None
    assert held_clock([sampled()], "another", "none") is None
    assert held_clock([sampled()], NAME, "base") is None
    assert held_clock([sampled(), sampled(1.2e9, 1.2e9)], NAME, "none") is None
    assert held_clock([], NAME, "none") is None


def test_a_clock_is_the_drivers_else_that_of_gpcs_else_what_was_counted() -> None:
    assert sm_clock(2.1e9, 1.97e9, 1.98e9, 1.98e9) == (1.98e9, "driver", 2.1e9)
    assert sm_clock(2.1e9, 1.97e9, None, 1.98e9) == (1.97e9, "gpc-cycles", 2.1e9)
    # Samples between passes missed another clock: what was counted with the time tells, and long launches do.
    assert sm_clock(1.5e9, 1.5e9, 1.98e9, 1.98e9) == (1.5e9, "gpc-cycles", None)
    assert sm_clock(1.5e9, None, 1.98e9, 1.98e9, 289e-6) == (1.5e9, "sm-cycles", None)
    assert sm_clock(1.7e9, None, 1.98e9, 1.98e9, 10e-6) == (1.98e9, "driver", 1.7e9)
    assert sm_clock(1.3e9, 1.3001e9, None, None) == (1.3e9, "gpc-cycles", None)
    assert sm_clock(2.1e9, None, None, 1.98e9) == (1.98e9, "highest", 2.1e9)
    assert sm_clock(1.9e9, None, None, 1.98e9) == (1.9e9, "sm-cycles", None)
    # Locked or lowered meanwhile, in a way that no sample saw.
    assert sm_clock(1.2e9, None, 1.98e9, None) == (1.2e9, "sm-cycles", None)
    assert sm_clock(None, None, 1.98e9, 1.98e9) == (None, None, None)


# What is said of it.


def clocked(number: int, seconds: float, hz: float, source: str | None = "sm-cycles") -> KernelProfile:
    return hand_made.kernel(number, duration_s=seconds, sm_clock_hz=hz, sm_clock_source=source)


@each_row(
    ("seconds", "least_apart"),
    # 1.02 × 1.25 ÷ 0.75, 1.02 × 1.10 ÷ 0.90, 1.02.
    [(19e-6, 1.70), (20e-6, 1.2467), (99e-6, 1.2467), (100e-6, 1.02)],
)
def test_the_shorter_a_launch_the_less_its_cycles_tell_of_its_clock(seconds: float, least_apart: float) -> None:
    slow = clocked(0, seconds, 1e9)
    assert clocks_differ(slow, clocked(1, seconds, 1e9 * (least_apart + 0.001))) is True
    assert clocks_differ(slow, clocked(1, seconds, 1e9 * (least_apart - 0.001))) is (False if seconds > 99e-6 else None)
    assert clocks_differ(slow, clocked(1, seconds, 1.019e9)) is False


def test_clocks_that_were_counted_with_the_time_are_taken_at_their_word_and_long_launches_before_short_ones() -> None:
    slow, fast = clocked(0, 30e-6, 1.9e9, "gpc-cycles"), clocked(1, 30e-6, 1.98e9, "gpc-cycles")
    assert clocks_differ(slow, fast) is True
    assert clocks_differ(structs.replace(slow, sm_clock_source="sm-cycles"), fast) is None
    (note,) = clock_notes(
        hand_made.session(clocked(0, 90e-6, 1.78e9), clocked(1, 1e-3, 1.85e9), clocked(2, 1e-3, 1.95e9))
    )
    assert "1.85 GHz" in note and "1.95 GHz" in note
