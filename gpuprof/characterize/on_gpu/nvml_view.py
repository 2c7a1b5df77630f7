"""What NVML says of the GPU that is measured: settings, clocks, power and neighbours. What it does not say is None."""

from __future__ import annotations

import os
from dataclasses import replace

from gpuprof.characterize.on_gpu.processors import listed
from gpuprof.characterize.record.gpu import NvmlSettings, Others, Telemetry
from gpuprof.collect.nvml import MHZ, MILLI, Nvml

_SM, _MEMORY = "NVML_CLOCK_SM", "NVML_CLOCK_MEM"


class NvmlView:
    """NVML's view of the GPU at a PCI bus id; without NVML it knows nothing.

    Processes are counted once, before this process has a context: in a container its own number is not that which
    NVML shows.
    """

    def __init__(self, bus_id: str, nvml: Nvml | None = None) -> None:
        self._nvml = nvml if nvml is not None else Nvml()
        self._gpu = self._nvml.gpu_at(bus_id)
        self._processes = self._count_processes()

    def settings(self) -> NvmlSettings:
        """Return how the GPU is set."""
        gpu = self._gpu
        pci_id, pci_subsystem = gpu.pci_ids()
        served = gpu.processes("nvmlDeviceGetMPSComputeRunningProcesses")
        return NvmlSettings(
            pci_id=pci_id,
            pci_subsystem=pci_subsystem,
            driver=self._nvml.driver(),
            ecc=gpu.flag("nvmlDeviceGetEccMode"),
            mig=gpu.flag("nvmlDeviceGetMigMode"),
            mps=bool(served) if served is not None else None,
            persistence=gpu.flag("nvmlDeviceGetPersistenceMode"),
            power_limit_w=gpu.amount("nvmlDeviceGetEnforcedPowerLimit", per=MILLI),
            default_power_limit_w=gpu.amount("nvmlDeviceGetPowerManagementDefaultLimit", per=MILLI),
            max_sm_clock_hz=gpu.amount("nvmlDeviceGetMaxClockInfo", MHZ, _SM),
            max_memory_clock_hz=gpu.amount("nvmlDeviceGetMaxClockInfo", MHZ, _MEMORY),
            max_pcie_generation=gpu.whole("nvmlDeviceGetMaxPcieLinkGeneration"),
            max_pcie_width=gpu.whole("nvmlDeviceGetMaxPcieLinkWidth"),
            cpus=listed(gpu.processors(os.cpu_count() or 1)) or None,
        )

    def telemetry(self) -> Telemetry:
        """Return everything that changes, as it is now."""
        gpu = self._gpu
        return replace(
            self.clock_and_reasons(),
            memory_clock_hz=gpu.amount("nvmlDeviceGetClockInfo", MHZ, _MEMORY),
            power_w=gpu.amount("nvmlDeviceGetPowerUsage", per=MILLI),
            temperature_c=gpu.temperature(),
            energy_j=gpu.amount("nvmlDeviceGetTotalEnergyConsumption", per=MILLI),
            pcie_generation=gpu.whole("nvmlDeviceGetCurrPcieLinkGeneration"),
            pcie_width=gpu.whole("nvmlDeviceGetCurrPcieLinkWidth"),
        )

    def clock_and_reasons(self) -> Telemetry:
        """Return the SM clock and what holds it back: the two answers that every timed window needs."""
        return Telemetry(
            sm_clock_hz=self._gpu.amount("nvmlDeviceGetClockInfo", MHZ, _SM),
            reasons=self._gpu.whole("nvmlDeviceGetCurrentClocksThrottleReasons"),
        )

    def others(self) -> Others:
        """Return how many processes were there before this one, and how busy the GPU was in the last moment."""
        return Others(self._processes, self._gpu.busy())

    def _count_processes(self) -> int | None:
        kinds = ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses")
        known = [processes for processes in map(self._gpu.processes, kinds) if processes is not None]
        return len(set().union(*known) - {os.getpid()}) if known else None
