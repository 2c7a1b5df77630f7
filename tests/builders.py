"""Hand-made launches, hardware and kernels with numbers that can be worked out on paper."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.ceilings import Hardware
from gpuprof.model.recorded import DictMetrics, Dim3, Launch, Metric, Report
from gpuprof.resources import data_dir

ADD = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"


def metrics(
    values: Mapping[str, float | str], instances: Mapping[str, Mapping[str | int, float]] | None = None
) -> DictMetrics:
    return DictMetrics({name: Metric(value, "") for name, value in values.items()}, instances)


def launch(
    values: Mapping[str, float | str],
    instances: Mapping[str, Mapping[str | int, float]] | None = None,
    name: str = "kernel",
    block: Dim3 | None = (256, 1, 1),
) -> Launch:
    return Launch(name=name, demangled=name, device=0, grid=(64, 1, 1), block=block, metrics=metrics(values, instances))


def report(*launches: Launch, device: RecordedDevice | None = None) -> Report:
    return Report(
        file="hand.ncu-rep", sha256="0" * 64, kind="ncu-rep", tool="ncu", tool_version="2024.1.1.0",
        launches=launches, devices=(device or A100,),
    )  # fmt: skip


A100 = RecordedDevice(
    name="NVIDIA A100 80GB PCIe", compute_capability="8.0", pci_id="10de:20b5", sm_count=108, max_sm_clock_hz=1.41e9
)


def a100() -> Hardware:
    library = SpecLibrary()
    arch, gpu = library.arch("sm_80"), library.gpu("a100-80gb-pcie")
    assert arch is not None
    return Hardware.of(arch, gpu, A100)


def product(name: str) -> Hardware:
    """The product of a packaged spec, with nothing recorded of it but its name."""
    library = SpecLibrary(folders=(data_dir("specs"),))
    gpu = library.gpu(name)
    arch = library.arch(gpu.arch)
    assert arch is not None
    return Hardware.of(arch, gpu, RecordedDevice(name=gpu.title))


def hardware_of(device: RecordedDevice) -> Hardware:
    library = SpecLibrary()
    arch = library.arch_of(device.compute_capability or "")
    return Hardware.of(arch or library.generic_arch(), library.match(device), device)


FLOP_1 = {
    # 1 µs at 1 GHz on 108 SMs: 1 + 2 + 2·5 = 13 million FP32 FLOP, no FP64.
    "gpu__time_duration.sum": 1e-6,
    "sm__cycles_elapsed.avg.per_second": 1e9,
    ADD.format("fadd"): 1e6,
    ADD.format("fmul"): 2e6,
    ADD.format("ffma"): 5e6,
    ADD.format("dadd"): 0.0,
    ADD.format("dmul"): 0.0,
    ADD.format("dfma"): 0.0,
    "dram__bytes.sum": 1.3e6,
    "dram__bytes.sum.peak_sustained": 1280.0,
    "dram__cycles_elapsed.avg.per_second": 1.5e9,
}
