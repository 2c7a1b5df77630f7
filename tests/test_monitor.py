"""What is made of the driver's answers while a program runs. NVML itself is stood in for: no machine here has a GPU."""

from __future__ import annotations

import time

from gpuprof.collect.monitor import DriverSample, Monitor, summaries
from gpuprof.collect.nvml import Nvml
from gpuprof.model.recorded import Throttling
from gpuprof.model.surveyed import was_throttled
from gpuprof.words.profile_values import samples_text
from tests.table import each_row

IDLE, POWER, APPLICATION, HEAT = 0x1, 0x4, 0x2, 0x40


def sample(clock_mhz: float | None, reasons: int | None = 0, gpu: int = 0, watts: float | None = 300.0) -> DriverSample:
    """One sample of an H200."""
    hz = clock_mhz * 1e6 if clock_mhz is not None else None
    return DriverSample(gpu, "NVIDIA H200", hz, watts, 60.0, reasons)


class Library:
    """Answers as pynvml does: one GPU whose power is not supported, and one that is lost."""

    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 2

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:  # noqa: N802
        if number:
            raise OSError("GPU is lost")
        return 40

    def nvmlDeviceGetName(self, handle: int) -> bytes:  # noqa: N802
        assert handle == 40
        return b"NVIDIA H200"

    def nvmlDeviceGetClockInfo(self, handle: int, which: int) -> int:  # noqa: N802
        assert (handle, which) == (40, self.NVML_CLOCK_SM)
        return 1980

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:  # noqa: N802
        raise RuntimeError("not supported")

    def nvmlDeviceGetTemperature(self, handle: int, which: int) -> int:  # noqa: N802
        assert (handle, which) == (40, self.NVML_TEMPERATURE_GPU)
        return 41

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:  # noqa: N802
        assert handle == 40
        return POWER


def test_samples_are_summed_up_by_gpu_without_idle_ones() -> None:
    taken = [sample(345, IDLE), sample(1980, APPLICATION), sample(1900, POWER, watts=700), sample(1700, POWER | HEAT),
             sample(1800), sample(210, IDLE, gpu=1)]  # fmt: skip
    (summary,) = summaries(taken)
    assert (summary.gpu, summary.samples, summary.power_max_w) == (0, 4, 700)
    assert (summary.sm_clock_min_hz, summary.sm_clock_median_hz, summary.sm_clock_max_hz) == (1.7e9, 1.85e9, 1.98e9)
    assert summary.throttling == (Throttling("power cap", 0.5), Throttling("hardware thermal limit", 0.25))


def test_what_the_driver_does_not_say_is_missing() -> None:
    (summary,) = summaries([sample(None, None, watts=None)])
    assert (summary.sm_clock_median_hz, summary.power_max_w, summary.throttling) == (None, None, None)
    assert was_throttled([summary]) is None
    assert samples_text(summary)


@each_row(("throttled", "samples", "told"), [(0, 100, False), (4, 100, False), (5, 100, True)])
def test_one_sample_is_no_throttling(throttled: int, samples: int, told: bool) -> None:
    ones = [sample(1980, POWER)] * throttled + [sample(1980)] * (samples - throttled)
    assert was_throttled(summaries(ones)) is told


def test_a_monitor_asks_while_the_block_runs_and_takes_no_answer_for_an_answer() -> None:
    monitor = Monitor(Nvml(Library()))
    with monitor.watching():
        time.sleep(0.05)
    (summary,) = monitor.summary()
    assert summary.samples >= 1
    assert (summary.gpu, summary.name, summary.power_max_w, summary.temperature_max_c) == (0, "NVIDIA H200", None, 41.0)
    assert (summary.sm_clock_min_hz, summary.sm_clock_median_hz, summary.sm_clock_max_hz) == (1.98e9, 1.98e9, 1.98e9)
    assert summary.throttling == (Throttling("power cap", 1.0),)
    assert all(fragment in samples_text(summary) for fragment in (f"{summary.samples} sample", "1.98 GHz", "100 %"))
    time.sleep(0.15)
    assert monitor.summary() == (summary,)
