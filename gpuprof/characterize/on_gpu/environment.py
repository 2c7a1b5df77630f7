"""Under what a GPU is measured: what it is, how it is set, who else is on it, and which spec describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import NamedTuple

from gpuprof._version import __version__
from gpuprof.characterize.gates.check import Checked
from gpuprof.characterize.judge.limits import PcieLink
from gpuprof.characterize.on_gpu.processors import allowed
from gpuprof.characterize.probes.probe import all_targets, target_of
from gpuprof.characterize.record.gpu import Gpu, Others, Properties, Telemetry
from gpuprof.characterize.record.samples import SamplesHeader, plain
from gpuprof.characterize.record.series import Parameter
from gpuprof.characterize.sheet.measured import Conditions, MeasuredDevice
from gpuprof.errors import EnvironmentProblem
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.ceilings import Hardware
from gpuprof.units import format_percent

BUSY = 0.01
"""A GPU that others keep busier than this gives numbers of their work, too."""
_LOOKS = 6
_BETWEEN_S = 0.2


class GpuUnderTest(NamedTuple):
    """The GPU's target, the limits of its kind, and the product that it was recognised as."""

    target: str
    hardware: Hardware
    product: str | None


def place_of(properties: Properties, library: SpecLibrary) -> GpuUnderTest:
    """Find the spec of a GPU. Raises EnvironmentProblem for one that no probe is compiled for."""
    target = target_of(properties.compute_capability)
    if target is None:
        raise EnvironmentProblem(
            f"no probes for {properties.name}, compute capability {properties.compute_capability}",
            f"there are probes for {', '.join(all_targets())}",
        )
    device = recorded(properties)
    gpu = library.match(device)
    arch = library.arch_of(properties.compute_capability) or library.generic_arch()
    return GpuUnderTest(target, Hardware.of(arch, gpu, device), gpu.name if gpu is not None else None)


def recorded(properties: Properties) -> RecordedDevice:
    """Return the GPU as reports describe one."""
    return RecordedDevice(
        name=properties.name,
        compute_capability=properties.compute_capability,
        pci_id=properties.pci_id,
        sm_count=properties.sm_count,
        max_sm_clock_hz=properties.max_sm_clock_hz,
        max_memory_clock_hz=properties.max_memory_clock_hz,
        memory_bus_bits=properties.memory_bus_bits,
        memory_bytes=int(properties.memory_bytes),
        l2_bytes=int(properties.l2_bytes),
    )


def others(gpu: Gpu) -> Others:
    """Return who else uses the GPU: the middle of several looks. This process must do nothing on it meanwhile."""
    looks = []
    for _ in range(_LOOKS):
        looks.append(gpu.others())
        gpu.wait(_BETWEEN_S)
    busy = [look.busy for look in looks if look.busy is not None]
    return Others(looks[-1].processes, median(busy) if busy else None)


def refuse_busy(neighbours: Others) -> None:
    """Raise EnvironmentProblem where other processes keep the GPU busy."""
    if neighbours.busy is None or neighbours.busy <= BUSY:
        return
    who = f"{neighbours.processes} other processes" if neighbours.processes else "other processes"
    raise EnvironmentProblem(
        f"{who} keep the GPU {format_percent(neighbours.busy)} busy, so it cannot be measured",
        "end them (nvidia-smi lists them), choose another GPU with --device, or add --force",
    )


def notes(properties: Properties, neighbours: Others) -> list[str]:
    """Return what a reader should know of how this GPU is shared and set."""
    said = []
    if properties.mig:
        said.append("MIG is on: what is measured is a slice of the GPU")
    if properties.mps:
        said.append("MPS is on: other processes may share the SMs")
    if neighbours.processes:
        said.append(f"{neighbours.processes} other processes are on the GPU")
    if neighbours.busy is None:
        said.append("the driver does not report whether other processes keep the GPU busy")
    if properties.cpus and not allowed(properties.cpus):
        said.append(f"this process may not use the processors next to the GPU ({properties.cpus}): copies are slower")
    low, usual = properties.power_limit_w, properties.default_power_limit_w
    if low is not None and usual is not None and low < usual:
        said.append(f"the power limit is {low:.0f} W, {usual:.0f} W by default")
    return said


def file_name(properties: Properties, product: str | None) -> str:
    """Return what the measured file is called: as the product's spec, else after the device's name."""
    plain = re.sub(r"[^a-z0-9]+", "-", properties.name.lower()).strip("-")
    return product or plain or "gpu"


def header(properties: Properties, started: str) -> SamplesHeader:
    """Return the first line of the sample file."""
    return SamplesHeader(
        gpuprof_version=__version__, device=properties.name, pci_id=properties.pci_id, driver=properties.driver,
        started=started,
    )  # fmt: skip


def device(properties: Properties) -> MeasuredDevice:
    """Return the GPU as the measured file describes it."""
    bus = properties.memory_bus_bits
    return MeasuredDevice(
        name=properties.name,
        compute_capability=properties.compute_capability,
        sm_count=properties.sm_count,
        pci_id=properties.pci_id,
        pci_subsystem=properties.pci_subsystem,
        memory_bytes=properties.memory_bytes,
        memory_bus_bits=float(bus) if bus is not None else None,
        l2_bytes=properties.l2_bytes,
    )


def conditions(properties: Properties, seen: Sequence[Telemetry], neighbours: Others, date: str) -> Conditions:
    """Return what the measured file says of the circumstances."""
    link, heat = link_of(seen), [look.temperature_c for look in seen if look.temperature_c is not None]
    return Conditions(
        date=date,
        gpuprof=__version__,
        driver=properties.driver,
        cuda=properties.cuda,
        ecc=properties.ecc,
        mig=properties.mig,
        power_limit_w=properties.power_limit_w,
        default_power_limit_w=properties.default_power_limit_w,
        max_sm_clock_hz=properties.max_sm_clock_hz,
        memory_clock_hz=memory_clock(seen),
        max_memory_clock_hz=properties.max_memory_clock_hz,
        pcie_generation=link.generation if link is not None else None,
        pcie_width=link.width if link is not None else None,
        max_pcie_generation=properties.max_pcie_generation,
        max_pcie_width=properties.max_pcie_width,
        highest_temperature_c=max(heat, default=None),
        other_processes=neighbours.processes,
    )


def memory_clock(seen: Sequence[Telemetry]) -> float | None:
    """Return the memory clock under load: the highest that was seen, since an idle GPU lowers it."""
    return max((look.memory_clock_hz for look in seen if look.memory_clock_hz is not None), default=None)


def link_of(seen: Sequence[Telemetry]) -> PcieLink | None:
    """Return the PCIe link as it ran at its best: an idle one may show generation 1."""
    links = [
        PcieLink(look.pcie_generation, look.pcie_width)
        for look in seen
        if look.pcie_generation is not None and look.pcie_width is not None
    ]
    return max(links, default=None)


def telemetry_facts(telemetry: Telemetry) -> dict[str, Parameter]:
    """Return a look at the GPU as the sample file keeps it."""
    return {name: value for name, value in asdict(telemetry).items() if value is not None}


def environment_facts(properties: Properties) -> dict[str, Parameter]:
    """Return what the GPU is and how it is set as the sample file keeps it: more than the measured file has."""
    facts: dict[str, Parameter] = {"gpuprof": __version__}
    for name, value in asdict(properties).items():
        if isinstance(value, str):
            facts[name] = plain(value)
        elif isinstance(value, bool | int | float):
            facts[name] = value
    return facts


def compiler_facts(checked: Mapping[str, Sequence[Checked]]) -> dict[str, Parameter]:
    """Return what the kernels were compiled with ("NVRTC 13.5") as the sample file keeps it; {} where nothing was."""
    every = (variant.compiled for variants in checked.values() for variant in variants)
    names = sorted({compiled.compiler for compiled in every if compiled is not None})
    return {"compiler": ", ".join(names)} if names else {}
