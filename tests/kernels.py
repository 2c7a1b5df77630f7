"""Hand-made launches for the rules: metrics named by what they mean, in percent, and what the rules say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs

from gpuprof.annotated.counts import EXECUTED
from gpuprof.errors import DamagedInput
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.analyse import analyse
from gpuprof.model.ceilings import Hardware
from gpuprof.model.recorded import (
    CodeListing,
    Dim3,
    EmbeddedProgram,
    Launch,
    LaunchDetails,
    Missing,
    ProfiledInstruction,
)
from gpuprof.model.session import Finding, KernelProfile, Session
from gpuprof.words.session import worded
from tests import builders
from tests.worded import diagnose

Values = dict[str, float]
Histograms = dict[str, dict[str | int, float]]

DURATION = "gpu__time_duration.sum"
CLOCK = "sm__cycles_elapsed.avg.per_second"
WAVES = "launch__waves_per_multiprocessor"
REGISTERS = "launch__registers_per_thread"
_NO_SHARED = {"launch__shared_mem_per_block_static": 0.0, "launch__shared_mem_per_block_dynamic": 0.0}
"""ncu records registers and shared memory together: a launch that tells the one uses none of the other, unless told."""
FULL_GRID = (864, 1, 1)
"""Eight blocks for each of the 108 SMs of an A100."""

_THROUGHPUT = {
    "sm": "sm__throughput", "memory": "gpu__compute_memory_throughput", "dram": "gpu__dram_throughput",
    "l2": "lts__t_sectors", "l1": "l1tex__throughput",
}  # fmt: skip
_OTHER_PARTS_OF_L2 = (
    "lts__t_tag_requests", "lts__d_sectors", "lts__xbar2lts_cycles_active", "lts__lts2xbar_cycles_active",
    "lts__d_atomic_input_cycles_active",
)  # fmt: skip
_CYCLES = ("fma", "alu", "fp64", "tensor")


def busy(**percent: float) -> Values:
    """Speed of light of units (sm, memory, dram, l2, l1), in percent; of L2 only sectors are looked up."""
    parts = dict.fromkeys(_OTHER_PARTS_OF_L2, 0.0) if "l2" in percent else {}
    busy_parts = {**parts, **{_THROUGHPUT[unit]: value for unit, value in percent.items()}}
    return {f"{name}.avg.pct_of_peak_sustained_elapsed": value for name, value in busy_parts.items()}


def pipes(**percent: float) -> Values:
    """Busy percent of execution pipes."""
    return {pipe_metric(name): value for name, value in percent.items()}


def pipe_metric(name: str) -> str:
    kind = f"pipe_{name}_cycles_active" if name in _CYCLES else f"inst_executed_pipe_{name}"
    return f"sm__{kind}.avg.pct_of_peak_sustained_elapsed"


def stalls(**percent: float) -> Values:
    """Warp states in percent; the rest of the warps were selected."""
    shares = {"selected": 100.0 - sum(percent.values()), **percent}
    return {stall_metric(reason): value / 10 for reason, value in shares.items()}


def stall_metric(reason: str) -> str:
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


ISSUE = "smsp__issue_active.avg.per_cycle_active"


def issued(percent: float) -> Values:
    """Issue slots used."""
    return {ISSUE: percent / 100}


def operations(**count: float) -> Values:
    """Thread instructions by operation: `ffma=1e6`."""
    return {builders.ADD.format(name): value for name, value in count.items()}


def lasting(seconds: float = 1e-3, clock_hz: float = 1e9) -> Values:
    """1 ms at 1 GHz: 108 SMs of an A100 can do 13.824 TFLOP/s of FP32 then, and 6.912 TFLOP/s of FP64."""
    return {DURATION: seconds, CLOCK: clock_hz}


class Program(LaunchDetails, frozen=True):
    """The code of a hand-made launch; a part that is a sentence is damaged, and says so."""

    code: tuple[ProfiledInstruction, ...] | str = ()
    sources: Mapping[str, str] | str = {}
    machine: bytes = b""
    start: int | None = None
    gaps: tuple[Missing, ...] = ()

    def source_files(self) -> Mapping[str, str]:
        if isinstance(self.sources, str):
            raise DamagedInput(self.sources)
        return self.sources

    def instructions(self, counts: tuple[str, ...] | None = None) -> tuple[ProfiledInstruction, ...]:
        if isinstance(self.code, str):
            raise DamagedInput(self.code)
        return tuple(
            structs.replace(
                instruction,
                counts={name: n for name, n in instruction.counts.items() if counts is None or name in counts},
            )
            for instruction in self.code
        )

    def listing(self, counts: tuple[str, ...]) -> CodeListing:
        code = self.instructions(counts)
        return CodeListing(code[0].pc if code else None, {}, code)

    def machine_code(self) -> bytes:
        return self.machine

    def code_start(self) -> int | None:
        return self.start

    def program(self) -> EmbeddedProgram | None:
        return None

    def code_gaps(self) -> tuple[Missing, ...]:
        return self.gaps


def counted_code(*lines: tuple[str, float, float], executed: float = 1000.0) -> Made:
    """A launch of this code, with the sectors and the excess sectors of each instruction, and those of all."""
    code = tuple(
        ProfiledInstruction(
            pc=16 * index, sass=sass, file="k.cu", line=index + 1,
            counts={"inst_executed": executed, _ALL_SECTORS: sectors, _EXCESS_SECTORS: excess},
        )
        for index, (sass, sectors, excess) in enumerate(lines)
    )  # fmt: skip
    totals = {_ALL_SECTORS: sum(line[1] for line in lines), _EXCESS_SECTORS: sum(line[2] for line in lines)}
    counts: dict[str | int, float] = {instruction.pc: executed for instruction in code}
    return made(totals, histograms={"inst_executed": counts}, details=Program(code))


_ALL_SECTORS = "memory_l2_theoretical_sectors_global"
_EXCESS_SECTORS = "derived__memory_l2_theoretical_sectors_global_excessive"


@dataclass(frozen=True, slots=True)
class Made:
    """A launch to be diagnosed, on an A100 unless it says otherwise."""

    values: Mapping[str, float]
    histograms: Mapping[str, Mapping[str | int, float]] = field(default_factory=dict)
    grid: Dim3 | None = FULL_GRID
    block: Dim3 | None = (256, 1, 1)
    details: LaunchDetails = field(default_factory=LaunchDetails)
    name: str = "kernel"
    device: RecordedDevice = builders.A100

    def without(self, *names: str) -> Made:
        """The same launch, those metrics and histograms not collected."""
        return replace(
            self,
            values={name: value for name, value in self.values.items() if name not in names},
            histograms={name: value for name, value in self.histograms.items() if name not in names},
        )

    def plus(self, *more: Mapping[str, float]) -> Made:
        """The same launch with more metrics."""
        values = dict(self.values)
        for metrics in more:
            values.update(metrics)
        return replace(self, values=values)

    def launch(self) -> Launch:
        values = (_NO_SHARED if REGISTERS in self.values else {}) | dict(self.values)
        made = builders.launch(values, dict(self.histograms), name=self.name, block=self.block)
        return structs.replace(made, grid=self.grid, details=self.details)

    def profile(self) -> KernelProfile:
        (kernel,) = session(self).kernels
        return kernel

    def findings(self, rule: str) -> list[Finding]:
        """What that rule says of the launch."""
        return [finding for finding in self.profile().findings if finding.rule == rule]

    def finding(self, rule: str) -> Finding:
        (finding,) = self.findings(rule)
        return finding


def made(
    *parts: Mapping[str, float],
    histograms: Mapping[str, Mapping[str | int, float]] | None = None,
    grid: Dim3 | None = FULL_GRID,
    block: Dim3 | None = (256, 1, 1),
    details: LaunchDetails | None = None,
    name: str = "kernel",
) -> Made:
    """A launch with all these metrics."""
    return Made({}, histograms or {}, grid, block, details or LaunchDetails(), name).plus(*parts)


def coded(*runs: tuple[str, float]) -> Made:
    """A launch whose program is these instructions, each with how often warps executed it."""
    code = tuple(
        ProfiledInstruction(pc=16 * at, sass=sass, file=None, line=None, counts={EXECUTED: count})
        for at, (sass, count) in enumerate(runs)
    )
    return made(histograms={EXECUTED: {item.pc: item.counts[EXECUTED] for item in code}}, details=Program(code))


def session(*launches: Made) -> Session:
    """The diagnosed session of a report with these launches."""
    device = launches[0].device if launches else builders.A100
    report = builders.report(*(launch.launch() for launch in launches), device=device)
    return worded(diagnose(analyse([report], _hardware_of, "9.9")))


def _reaching_its_peak(hardware: Hardware) -> Hardware:
    """A GPU whose DRAM can reach all of its peak, so that gains are what a unit leaves: 1 − busy."""
    limits = {name: fact for name, fact in hardware.arch.limits.items() if name != "dram_reached"}
    return structs.replace(hardware, arch=structs.replace(hardware.arch, limits=limits))


_A100 = _reaching_its_peak(builders.a100())


def _hardware_of(device: RecordedDevice) -> Hardware:
    return _A100 if device == builders.A100 else _reaching_its_peak(builders.hardware_of(device))
