"""Facts of the launch on numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.occupancy import allocated_shared
from tests import builders
from tests.kernels import REGISTERS, WAVES, Made, Values, lasting, made

BUSIEST_SM, AVERAGE_SM, ELAPSED = "sm__cycles_active.max", "sm__cycles_active.avg", "sm__cycles_elapsed.max"
ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
REPORTED_LIMITS = {
    f"launch__occupancy_limit_{name}": value
    for name, value in (("registers", 4.0), ("shared_mem", 32.0), ("warps", 8.0), ("blocks", 32.0))
}
UNKNOWN = RecordedDevice(compute_capability="8.0")


def facts_of(launch: Made) -> KernelFacts:
    analysis = analyse([builders.report(launch.launch(), device=launch.device)], builders.hardware_of, "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def of_grid(blocks: int, *parts: Values, device: RecordedDevice = builders.A100) -> KernelFacts:
    return facts_of(replace(made(*parts, grid=(blocks, 1, 1)), device=device))


def test_sms_with_a_block_and_their_time() -> None:
    # 27 of 108 SMs have a block. An average SM works for 2000 of 10 000 cycles, so one with a block for 8000.
    few = of_grid(27, {WAVES: 0.125, AVERAGE_SM: 2000.0, ELAPSED: 10000.0}, lasting(1e-4))
    assert few.with_block == 0.25 and few.active_with_block == pytest.approx(0.8)
    # No more than 3 of 100 µs are the launch.
    assert few.working_share == pytest.approx(0.97) and few.late_share == pytest.approx(0.17)
    assert of_grid(900, {WAVES: 1.2}).with_block == 1.0
    assert of_grid(27).active_with_block is None


def test_more_blocks_than_any_gpu_has_sms_give_each_a_block() -> None:
    # An A100 has the most SMs of 8.0: 108.
    hardware = HardwareFinder()(UNKNOWN)

    def with_block(blocks: int) -> float | None:
        launch = replace(made(), grid=(blocks, 1, 1)).launch()
        analysis = analyse([builders.report(launch)], lambda _: hardware, "9.9")
        return KernelFacts(analysis.session.kernels[0], analysis.recorded[0]).with_block

    assert with_block(108) == 1.0
    assert with_block(107) is None


def test_cycles_of_all_sms_are_those_of_each() -> None:
    # 108 SMs with 20 000 cycles each.
    assert of_grid(900, {AVERAGE_SM: 15e3, "sm__cycles_elapsed.sum": 108 * 2e4}).active_share == pytest.approx(0.75)


def test_an_average_sm_that_exceeds_the_busiest_of_another_pass_is_not_idle() -> None:
    assert of_grid(900, {BUSIEST_SM: 1000.0, AVERAGE_SM: 1010.0}).idle_sms == 0.0
    assert of_grid(900, {BUSIEST_SM: 1000.0, AVERAGE_SM: 900.0}).idle_sms == pytest.approx(0.1)
    assert of_grid(900, {AVERAGE_SM: 900.0}).idle_sms is None


def test_sms_of_an_unknown_gpu_follow_from_the_blocks_of_a_wave() -> None:
    # 4 blocks of 64 registers × 256 threads fit: 100 blocks are a quarter of a wave on 100 SMs.
    assert of_grid(100, {WAVES: 0.25}, REPORTED_LIMITS, device=UNKNOWN).sms_or_implied == 100
    # 0.05 waves can be 0.045 to 0.055.
    assert of_grid(20, {WAVES: 0.05}, REPORTED_LIMITS, device=UNKNOWN).sms_or_implied is None
    assert of_grid(100, {WAVES: 0.25}, REPORTED_LIMITS).sms_or_implied == 108


def test_lifetime_of_a_block() -> None:
    # 8 rounds in 10 000 cycles, half of the slots taken: 625 cycles. At most 1 250 if that is not known.
    of_64 = {REGISTERS: 32.0, WAVES: 8.0, AVERAGE_SM: 1e4}
    assert of_grid(6912, of_64, {ACTIVE: 50.0}).block_cycles == pytest.approx(625)
    assert of_grid(6912, of_64).block_cycles == pytest.approx(1250)
    assert of_grid(6912, {AVERAGE_SM: 1e4}).block_cycles is None


def test_sms_idle_between_short_blocks_or_for_a_long_one() -> None:
    # Blocks of about 600 cycles. 3 000 cycles are less than two blocks of the longest that counts as short.
    short = {REGISTERS: 32.0, WAVES: 8.0, AVERAGE_SM: 1e4, ACTIVE: 50.0}
    assert of_grid(6912, short, {BUSIEST_SM: 1.3e4}).idles_between_blocks
    # 6 000 cycles are not, if SMs are half full; if they are emptier, blocks end as fast as they start.
    assert not of_grid(6912, short, {BUSIEST_SM: 1.6e4}).idles_between_blocks
    assert of_grid(6912, short, {BUSIEST_SM: 1.6e4, ACTIVE: 40.0}).idles_between_blocks
    # One SM works for three times as long as the average: a long block.
    assert not of_grid(6912, short, {BUSIEST_SM: 3e4, ACTIVE: 40.0}).idles_between_blocks
    assert not of_grid(6912, short, {AVERAGE_SM: 1e5, BUSIEST_SM: 1e5}).idles_between_blocks


def test_empty_slots_beyond_a_partial_last_wave() -> None:
    # 1 − 30 ÷ 50; of 2.5 waves, 2.5 ÷ 3 of the slots can be filled: 1 − 30 ÷ 41.7.
    half = {REGISTERS: 64.0, ACTIVE: 30.0}
    assert of_grid(6912, half, {WAVES: 8.0}).occupancy_gap == pytest.approx(0.4)
    assert of_grid(1080, half, {WAVES: 2.5}).occupancy_gap == pytest.approx(1 - 0.3 / (0.5 * 2.5 / 3))
    assert of_grid(6912, half, {WAVES: 8.0, ACTIVE: 45.0}).occupancy_gap is None


def test_shared_memory_of_a_block_counts_what_the_driver_reserves() -> None:
    # 48 000 bytes and 1 KiB of the driver are 49 024, in units of 128 bytes.
    own = {"launch__shared_mem_per_block_static": 48000.0, "launch__shared_mem_per_block_dynamic": 0.0}
    facts = of_grid(864, own)
    assert allocated_shared(facts.metrics, facts.arch) == 49024
    recorded = of_grid(864, own, {"launch__shared_mem_per_block_allocated": 50176.0})
    assert allocated_shared(recorded.metrics, recorded.arch) == 50176
    unknown = of_grid(864)
    assert allocated_shared(unknown.metrics, unknown.arch) is None
