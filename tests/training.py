"""A made training program of four steps: its timeline as PyTorch records it, and what ncu would count of its launches.

Two layers and an optimizer. One GEMM kernel does products of two sizes in turn, with one grid; its name is not mangled.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from gpuprof.model.recorded import Dim3
from gpuprof.model.torch_ranges import readable_range
from tests.made_launches import MadeLaunch
from tests.ncu_bytes import A100
from tests.test_traces import Event, event, gpu, launch

GEMM, OTHER_GEMM = "sm80_xmma_gemm_tile256x64", "sm80_xmma_gemm_tile64x128"
DEEP, WIDE = "aten::mm [2048, 2048]×[2048, 512]", "aten::mm [2048, 1536]×[1536, 512]"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
ADAM = "Optimizer.step#AdamW.step"
STEPS = 4
H100: Mapping[str, float | str] = {
    **A100,
    "device__attribute_display_name": "NVIDIA H100 80GB HBM3",
    "device__attribute_compute_capability_major": 9.0,
    "device__attribute_multiprocessor_count": 132.0,
    "device__attribute_gpu_pci_device_id": float(0x2330_10DE),
}
_US = 1e-6


class Work(NamedTuple):
    """A launch of a step: its kernel as NVIDIA demangles it, where it is launched, by what, and how long it takes."""

    name: str
    us: float
    unit: str
    operator: str
    shapes: tuple[tuple[int, ...], ...] = ()
    grid: Dim3 = (32, 1, 4)

    @property
    def is_mangled(self) -> bool:
        """Whether its name in the program is another one than that for people."""
        return self.name.startswith("void ")

    @property
    def ranges(self) -> tuple[str, ...]:
        """The ranges around it in the program but for its operator."""
        return () if not self.unit else (self.unit,) if self.unit == ADAM or "(" in self.unit else ("Net", self.unit)


def mm(us: float, unit: str, rows: int, depth: int, name: str = GEMM) -> Work:
    return Work(name, us, unit, "aten::mm", ((rows, depth), (depth, 512)))


def elementwise(us: float, unit: str, operator: str, functor: str) -> Work:
    return Work(f"void elementwise<{functor}>(float *, int)", us, unit, operator, ((2048, 512),), (864, 1, 1))


STEP = [
    work
    for layer in ("layers.0", "layers.1")
    for work in (
        mm(91, f"{layer}.up", 2048, 2048),
        elementwise(12, f"{layer}.up", "aten::relu", "Relu"),
        mm(73, f"{layer}.down", 2048, 1536),
        elementwise(11, layer, "aten::add", "Add"),
        mm(60, f"{layer}.up (backward)", 2048, 512, OTHER_GEMM),
        mm(33, f"{layer}.down (backward)", 512, 2048, OTHER_GEMM),
    )
] + [
    elementwise(10, "", "aten::mse_loss", "Loss"),
    *(elementwise(us, ADAM, f"aten::_foreach_{name}", name) for name, us in (("mul", 20), ("lerp", 30), ("sqrt", 25))),
]
"""Sixteen launches."""
BEFORE = [elementwise(2, "", "aten::fill_", "Fill")] * 3
"""What the program launches before its first step."""
INSTRUCTIONS = {(work.name, work.operator, work.shapes): 1000.0 * number for number, work in enumerate(STEP, 1)}
"""How many each work executes, wherever it is."""


def write_trace(
    place: Path,
    step: Sequence[Work] = STEP,
    *,
    before: Sequence[Work] = BEFORE,
    from_start: bool = True,
    calls: Sequence[str] = (),
) -> Path:
    """Write what PyTorch's profiler records of the program, as gpuprof's survey leaves it; `calls` are of CUDA."""
    made = _Recorded()
    made.events += [event("cuda_runtime", name, made.clock, 1) for name in calls]
    for work in before:
        made.add(work)
    for _ in range(STEPS):
        for work in step:
            made.add(work)
        made.end_step()
    device = {"id": 0, "name": H100["device__attribute_display_name"], "computeMajor": 9, "computeMinor": 0,
              "numSms": 132}  # fmt: skip
    head: dict[str, object] = {"schemaVersion": 1, "deviceProperties": [device]}
    head |= {"gpuprof": {"from_start": True}} if from_start else {}
    place.write_bytes(gzip.compress(json.dumps({**head, "traceEvents": made.events}).encode()))
    return place


class _Recorded:
    """The events so far, in microseconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.clock, self.number, self.optimizer = 1000.0, 0, 0.0

    def add(self, work: Work) -> None:
        at, self.number = self.clock, self.number + 1
        shapes = {"Input Dims": [list(shape) for shape in work.shapes]}
        optimizer = work.unit == ADAM
        if optimizer and not self.optimizer:
            self.optimizer = at - 1
        self.events += [
            *(event("user_annotation", name, at + depth, 90 - 2 * depth) for depth, name in enumerate(work.ranges)
              if not optimizer),
            event("cpu_op", work.operator, at + 10, 20, **shapes),
            launch(self.number, at + 12),
            gpu("kernel", _as_pytorch(work.name), at + 40, work.us, self.number, grid=list(work.grid),
                block=[128, 1, 1], **{"registers per thread": 40}),
        ]  # fmt: skip
        self.clock += 100

    def end_step(self) -> None:
        self.events.append(event("user_annotation", ADAM, self.optimizer, self.clock - self.optimizer - 1))
        self.optimizer = 0.0


def _as_pytorch(name: str) -> str:
    return name.replace("float *", "float*")


Counted = Callable[[Work, int], Mapping[str, float]]


def limits(work: Work, step: int) -> Mapping[str, float]:
    """What the first run counts: half of the memory and a third of the issue slots are busy."""
    percent = "avg.pct_of_peak_sustained_elapsed"
    busy = {f"gpu__dram_throughput.{percent}": 50.0, f"sm__issue_active.{percent}": 33.0}
    busy |= {f"lts__t_sectors.{percent}": 40.0, f"l1tex__data_pipe_lsu_wavefronts.{percent}": 20.0}
    busy |= {f"sm__pipe_tensor_cycles_active.{percent}": 20.0, f"sm__pipe_fma_cycles_active.{percent}": 1.0}
    return {"gpu__time_duration.sum": work.us * 1100, "launch__registers_per_thread": 40.0, **busy}


def answers(work: Work, step: int) -> Mapping[str, float]:
    """What the second run counts: among other things the instructions, by which works are told apart."""
    return {"gpu__time_duration.sum": work.us * 1200, "smsp__inst_executed.sum": instructions(work)}


def instructions(work: Work) -> float:
    """How many instructions a work executes."""
    return INSTRUCTIONS.get((work.name, work.operator, work.shapes), 1.0)


def everything(work: Work, step: int) -> Mapping[str, float]:
    """What one run counts that collects all."""
    return {**answers(work, step), **limits(work, step)}


def made_launches(
    counted: Counted, step: Sequence[Work] = STEP, before: Sequence[Work] = BEFORE, steps: int = STEPS
) -> list[MadeLaunch]:
    """The program's launches under ncu, with what is counted of them; our hook names operators."""
    launched = [(work, 0) for work in before] + [(work, number) for number in range(steps) for work in step]
    return [
        MadeLaunch(
            f"_Z{len(work.name)}k{crc32(work.name.encode())}v" if work.is_mangled else work.name,
            work.name,
            grid=work.grid,
            block=(128, 1, 1),
            ranges=(*work.ranges, operator_range(work, number)),
            step=step,
            values=counted(work, step),
        )
        for number, (work, step) in enumerate(launched)
    ]


def operator_range(work: Work, number: int) -> str:
    """What torch's observer writes of the operator."""
    sizes = ", ".join(str(list(shape)) for shape in work.shapes)
    return f"{work.operator}, op_id = {number}, sizes = [{sizes}]"


def operator(work: Work) -> str:
    """The operator of a work as it is shown."""
    return readable_range(operator_range(work, 0))
