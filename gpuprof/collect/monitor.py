"""Clocks, power, temperature and throttling while a program runs, asked of the driver several times a second (NVML)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

from gpuprof.collect.nvml import IDLE, MHZ, MILLI, REASONS, Nvml
from gpuprof.model.recorded import GpuSamples, Throttling

_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class DriverSample:
    """One answer of the driver about one GPU; None where it does not say."""

    gpu: int
    name: str
    sm_clock_hz: float | None
    power_w: float | None
    temperature_c: float | None
    reasons: int | None


class Monitor:
    """Samples all GPUs of the machine while `watching`; without NVML it has no samples."""

    def __init__(self, nvml: Nvml | None = None) -> None:
        self._nvml = nvml if nvml is not None else Nvml()
        self._samples: list[DriverSample] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sample in a thread of its own until the end of the block."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        self._samples = []
        if self._nvml.there:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if self._nvml.there:
                thread.join(timeout=5.0)

    def _watch(self, ended: threading.Event) -> None:
        while True:
            self._samples += _samples(self._nvml)
            if ended.wait(_EVERY_S):
                return

    def summary(self) -> tuple[GpuSamples, ...]:
        """Return what was sampled of each GPU that did anything meanwhile."""
        return summaries(self._samples)


def summaries(samples: Sequence[DriverSample]) -> tuple[GpuSamples, ...]:
    """Sum up samples by GPU. Only those in which it was not idle count; a GPU that was always idle is left out."""
    by_gpu: dict[int, list[DriverSample]] = {}
    for sample in samples:
        if sample.reasons is None or not sample.reasons & IDLE:
            by_gpu.setdefault(sample.gpu, []).append(sample)
    return tuple(_summary(number, active) for number, active in sorted(by_gpu.items()))


def _summary(number: int, samples: Sequence[DriverSample]) -> GpuSamples:
    clocks = [sample.sm_clock_hz for sample in samples if sample.sm_clock_hz is not None]
    masks = [sample.reasons for sample in samples if sample.reasons is not None]
    shares = {reason: sum(bool(mask & bit) for mask in masks) / len(masks) for bit, reason in REASONS.items() if masks}
    return GpuSamples(
        gpu=number,
        name=samples[0].name,
        samples=len(samples),
        sm_clock_min_hz=min(clocks, default=None),
        sm_clock_median_hz=median(clocks) if clocks else None,
        sm_clock_max_hz=max(clocks, default=None),
        power_max_w=max((sample.power_w for sample in samples if sample.power_w is not None), default=None),
        temperature_max_c=max(
            (sample.temperature_c for sample in samples if sample.temperature_c is not None), default=None
        ),
        throttling=tuple(Throttling(reason, share) for reason, share in shares.items() if share) if masks else None,
    )


def _samples(nvml: Nvml) -> Iterator[DriverSample]:
    for number, gpu in nvml.gpus():
        yield DriverSample(
            gpu=number,
            name=gpu.text("nvmlDeviceGetName") or "",
            sm_clock_hz=gpu.amount("nvmlDeviceGetClockInfo", MHZ, "NVML_CLOCK_SM"),
            power_w=gpu.amount("nvmlDeviceGetPowerUsage", per=MILLI),
            temperature_c=gpu.temperature(),
            reasons=gpu.whole("nvmlDeviceGetCurrentClocksThrottleReasons"),
        )
