"""The border to NVML: settings, clocks, power and neighbours of one GPU. What the driver does not say is None."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuprof.characterize.record.gpu import Others, Telemetry
from gpuprof.model.report import plausible


class Settings(NamedTuple):
    """What NVML knows of the GPU that does not change while it is measured."""

    pci_id: str | None = None
    pci_subsystem: str | None = None
    driver: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    mps: bool | None = None
    persistence: bool | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    max_sm_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    max_pcie_generation: int | None = None
    max_pcie_width: int | None = None


class Nvml:
    """NVML's view of the GPU at a PCI bus id; without NVML it knows nothing.

    Processes are counted once, before this process has a context: in a container its own number is not that which
    NVML shows.
    """

    def __init__(self, bus_id: str, library: Any | None = None) -> None:
        self._library = library if library is not None else _load()
        self._handle = self._ask("nvmlDeviceGetHandleByPciBusId", bus_id.encode(), of_device=False)
        self._processes = self._count_processes()

    def settings(self) -> Settings:
        """Return how the GPU is set."""
        pci = self._ask("nvmlDeviceGetPciInfo")
        return Settings(
            pci_id=_pci_id(pci.pciDeviceId) if pci is not None else None,
            pci_subsystem=_pci_id(pci.pciSubSystemId) if pci is not None else None,
            driver=_text(self._ask("nvmlSystemGetDriverVersion", of_device=False)),
            ecc=_first_flag(self._ask("nvmlDeviceGetEccMode")),
            mig=_first_flag(self._ask("nvmlDeviceGetMigMode")),
            mps=_some(self._ask("nvmlDeviceGetMPSComputeRunningProcesses")),
            persistence=_flag(self._ask("nvmlDeviceGetPersistenceMode")),
            power_limit_w=_scaled(self._ask("nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
            default_power_limit_w=_scaled(self._ask("nvmlDeviceGetPowerManagementDefaultLimit"), 1e-3),
            max_sm_clock_hz=self._clock("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
            max_memory_clock_hz=self._clock("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_MEM"),
            max_pcie_generation=self._ask("nvmlDeviceGetMaxPcieLinkGeneration"),
            max_pcie_width=self._ask("nvmlDeviceGetMaxPcieLinkWidth"),
        )

    def telemetry(self) -> Telemetry:
        """Return everything that changes, as it is now."""
        quick = self.clock_and_reasons()
        return quick._replace(
            memory_clock_hz=self._clock("nvmlDeviceGetClockInfo", "NVML_CLOCK_MEM"),
            power_w=_scaled(self._ask("nvmlDeviceGetPowerUsage"), 1e-3),
            temperature_c=_scaled(self._ask("nvmlDeviceGetTemperature", self._constant("NVML_TEMPERATURE_GPU")), 1.0),
            energy_j=_scaled(self._ask("nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
            pcie_generation=self._ask("nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_width=self._ask("nvmlDeviceGetCurrPcieLinkWidth"),
        )

    def clock_and_reasons(self) -> Telemetry:
        """Return the SM clock and what holds it back: the two answers that every timed window needs."""
        return Telemetry(
            sm_clock_hz=self._clock("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
            reasons=self._ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        )

    def others(self) -> Others:
        """Return how many processes were there before this one, and how busy the GPU was in the last moment."""
        rates = self._ask("nvmlDeviceGetUtilizationRates")
        return Others(self._processes, rates.gpu / 100 if rates is not None else None)

    def _count_processes(self) -> int | None:
        lists = [
            self._ask(name)
            for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
        ]
        known = [one for one in lists if one is not None]
        if not known:
            return None
        return len({process.pid for one in known for process in one} - {os.getpid()})

    def _clock(self, question: str, which: str) -> float | None:
        return _scaled(self._ask(question, self._constant(which)), 1e6)

    def _constant(self, name: str) -> Any:
        return getattr(self._library, name, None)

    def _ask(self, name: str, *words: Any, of_device: bool = True) -> Any | None:
        """Return the driver's answer; None if it has none: not supported, not permitted, GPU lost."""
        question: Callable[..., Any] | None = getattr(self._library, name, None)
        if question is None or (of_device and self._handle is None):
            return None
        try:
            return question(self._handle, *words) if of_device else question(*words)
        except Exception:
            return None


def _load() -> Any | None:
    """Return NVML, ready to be asked; None where it or the driver is not there."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # whatever is wrong with it, kernels can be timed without
        return None
    return pynvml


def _pci_id(number: int) -> str:
    """Write NVML's PCI number, device and vendor in one: 0x233510de → "10de:2335"."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _text(answer: Any | None) -> str | None:
    return answer.decode(errors="replace") if isinstance(answer, bytes) else answer


def _flag(answer: Any | None) -> bool | None:
    return bool(answer) if answer is not None else None


def _first_flag(answer: Any | None) -> bool | None:
    """Return the current one of "current and pending"."""
    return bool(answer[0]) if answer is not None else None


def _some(answer: Any | None) -> bool | None:
    return bool(len(answer)) if answer is not None else None


def _scaled(answer: Any | None, factor: float) -> float | None:
    return plausible(answer * factor) if answer is not None else None
