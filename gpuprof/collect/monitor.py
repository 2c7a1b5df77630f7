"""Clocks, power, temperature and throttling while a program runs, asked of the driver several times a second (NVML)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

from gpuprof.model.report import GpuSamples, Throttling

_EVERY_S = 0.1
_IDLE = 0x1
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "power brake",
}
"""What lowers clocks below what the program could have (nvml.h, nvmlClocksEventReasons). An idle GPU, clocks that a
user has set, and the display are no throttling."""


class Sample(NamedTuple):
    """One answer of the driver about one GPU; None where it does not say."""

    gpu: int
    name: str
    sm_clock_hz: float | None
    power_w: float | None
    temperature_c: float | None
    reasons: int | None


class Monitor:
    """Samples all GPUs of the machine while `watching`; without NVML it has no samples."""

    def __init__(self, nvml: Any | None = None) -> None:
        self._nvml = nvml if nvml is not None else _load()
        self._samples: list[Sample] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Sample in a thread of its own until the end of the block."""
        ended = threading.Event()
        thread = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        self._samples = []
        if self._nvml is not None:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if self._nvml is not None:
                thread.join(timeout=5.0)

    def _watch(self, ended: threading.Event) -> None:
        while True:
            self._samples += _samples(self._nvml)
            if ended.wait(_EVERY_S):
                return

    def summary(self) -> tuple[GpuSamples, ...]:
        """Return what was sampled of each GPU that did anything meanwhile."""
        return summaries(self._samples)


def summaries(samples: Sequence[Sample]) -> tuple[GpuSamples, ...]:
    """Sum up samples by GPU. Only those in which it was not idle count; a GPU that was always idle is left out."""
    found: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.reasons is None or not sample.reasons & _IDLE:
            found.setdefault(sample.gpu, []).append(sample)
    return tuple(_summary(number, ones) for number, ones in sorted(found.items()))


def _summary(number: int, ones: Sequence[Sample]) -> GpuSamples:
    clocks = [one.sm_clock_hz for one in ones if one.sm_clock_hz is not None]
    masks = [one.reasons for one in ones if one.reasons is not None]
    shares = {reason: sum(bool(mask & bit) for mask in masks) / len(masks) for bit, reason in _REASONS.items() if masks}
    return GpuSamples(
        gpu=number,
        name=ones[0].name,
        samples=len(ones),
        sm_clock_min_hz=min(clocks, default=None),
        sm_clock_median_hz=median(clocks) if clocks else None,
        sm_clock_max_hz=max(clocks, default=None),
        power_max_w=max((one.power_w for one in ones if one.power_w is not None), default=None),
        temperature_max_c=max((one.temperature_c for one in ones if one.temperature_c is not None), default=None),
        throttling=tuple(Throttling(reason, share) for reason, share in shares.items() if share) if masks else None,
    )


def _load() -> Any | None:
    """Return NVML, ready to be asked; None where it or the driver is not there."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # whatever is wrong with it, profiling goes on without
        return None
    return pynvml


def _samples(nvml: Any) -> Iterator[Sample]:
    for number in range(_asked(nvml.nvmlDeviceGetCount) or 0):
        handle = _asked(nvml.nvmlDeviceGetHandleByIndex, number)
        if handle is None:
            continue
        name = _asked(nvml.nvmlDeviceGetName, handle)
        clock = _asked(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM)
        power = _asked(nvml.nvmlDeviceGetPowerUsage, handle)
        heat = _asked(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU)
        yield Sample(
            gpu=number,
            name=name.decode(errors="replace") if isinstance(name, bytes) else str(name or ""),
            sm_clock_hz=clock * 1e6 if clock is not None else None,
            power_w=power / 1e3 if power is not None else None,
            temperature_c=float(heat) if heat is not None else None,
            reasons=_asked(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle),
        )


def _asked(question: Callable[..., Any], *words: Any) -> Any | None:
    """Return the driver's answer; None if it has none."""
    try:
        return question(*words)
    except Exception:  # not supported, not permitted, GPU lost: each is no answer
        return None
