"""Facts of the arithmetic: work as a fraction of peak, and fused operations."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from gpuprof.diagnose.facts.traffic import TrafficFacts
from gpuprof.diagnose.facts.unit_names import ISSUE, SM
from gpuprof.diagnose.thresholds import MOST_INSTRUCTIONS, PIPE_BUSY
from gpuprof.hardware.specs import THREAD_OPCODES, ComputeKey
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.roofline import is_possible
from gpuprof.model.session import Evidence

INTEGER_PIPES = ("alu", "uniform", "adu", "cbu", "fmaheavy")
SCALAR_PIPES = (*INTEGER_PIPES, "fma", "fmalite", "fp16", "fp64", "xu")
"""The pipes that neither move data nor multiply matrices."""
FP64_IS_FAST = 0.25
"""A fraction of the FP32 rate. From here on, FP64 instructions take at most 8 cycles."""
LIMITING_PIPES = ("fma", "alu", "xu", "fp64", "tensor")
"""The pipes whose full use a rule of their own reports."""
_PARTS = ("fp16", "adu", "cbu", "uniform")
"""Other pipes of an SM that do no memory accesses."""
TENSOR_INPUTS = {"tensor.tf32": "TF32", "tensor.bf16": "BF16", "tensor.fp16": "FP16"}


KINDS = {
    "integer": (
        "IADD", "IMAD", "IMUL", "LOP", "SHF.", "SHL", "SHR", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "VIMNMX",
        "PLOP", "IDP", "UIADD", "UIMAD", "ULOP", "USHF", "UMOV", "R2UR",
    ),
    "floating": (
        "FADD", "FMUL", "FFMA", "FSETP", "FSEL", "FMNMX", "HADD", "HMUL", "HFMA2", "DADD", "DMUL", "DFMA",
        "DSETP", "MUFU",
    ),
    "conversions": ("I2F", "F2I", "F2F", "I2I.", "FRND"),
    "accesses": ("LD", "ST", "ULD", "ATOM", "RED", "TEX", "TLD", "SHFL", "UTMA", "UBLK"),
    "control": ("BRA", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "BAR", "VOTE"),
}  # fmt: skip
"""Opcode prefixes of the kinds of instructions, without rare ones."""


class FloatingPoint(Struct, frozen=True):
    """Fused and other instructions of a type, in one unit, and their metrics.

    `pairs` is how many multiply-adds could replace one addition and one multiplication each.
    """

    fused: float
    alone: float
    all: float
    pairs: float
    metrics: str


class WorkFacts(TrafficFacts):
    """Facts of the launch, units, waits and traffic, and of the arithmetic."""

    def flop_per_s_of(self, path: str) -> float | None:
        """Return the counted FLOP/s of a path; None if they were not counted."""
        return next((work.flop_per_s for work in self.kernel.work if work.path == path), None)

    def _counted_fraction(self, path: str) -> float | None:
        """Return the counted work of a path over its peak at the clock of the kernel; None without both."""
        limit, rate = self.recorded.at_clock.get(path), self.flop_per_s_of(path)
        if limit is None or rate is None or limit.value <= 0:
            return None
        return rate / limit.value

    def fraction_of_peak(self, path: str) -> float | None:
        """Return the counted work of a path over its peak at the clock of the kernel.

        Without both, return the operator's FLOP by its shapes over the rated peak, if they can only run
        on this path.
        """
        counted = self._counted_fraction(path)
        if counted is None and len(self.asked_work) == 1:
            return self.asked_work.get(path)
        return counted

    @cached_property
    def arithmetic_fraction(self) -> float:
        """The largest fraction of a peak at this clock that floating-point work reaches, or 0."""
        counted = (self._counted_fraction(work.path) or 0.0 for work in self.kernel.work if work.path != "int32")
        return min(1.0, max(filter(is_possible, counted), default=0.0))

    @cached_property
    def most_instructions(self) -> tuple[str, float] | None:
        """The kind of at least half of the instructions that warps executed, and its share; None if there is none."""
        for kind, starts in KINDS.items():
            share = self.share_of_opcodes(*starts)
            if MOST_INSTRUCTIONS.is_reached(share):
                return kind, share
        return None

    @cached_property
    def has_all_pipes(self) -> bool:
        """Whether all pipes were collected that can be the limit: no other one can be busier than they are."""
        return self.pipes.keys() >= {*LIMITING_PIPES}

    def is_known_limit(self, busy: float) -> bool:
        """Return whether a pipe that is the limit is well used, or no pipe that was not collected can be busier.

        None is busier than the SM, whose speed of light is that of its busiest part.
        """
        explains_sm = busy >= self.utilisation.get(SM, 1.0) - TWO_PASSES
        return PIPE_BUSY.is_reached(busy) or self.has_all_pipes or explains_sm

    @cached_property
    def other_limit(self) -> tuple[str, float] | None:
        """The issue slots or a pipe for control flow, uniform values or packed FP16 that limits, and its use, 0 to 1.

        It does if 60 % are used, no arithmetic pipe is a limit, and no memory unit is as busy. Source:
        the pipes; issue slots of the active cycles × active share of the elapsed cycles.
        """
        uses = {name: self.pipe(name) or 0.0 for name in _PARTS}
        uses[ISSUE] = self.need(ISSUE)
        name, use = max(uses.items(), key=lambda part: part[1])
        return (name, use) if self._may_limit(use) else None

    @cached_property
    def sm_without_parts(self) -> float | None:
        """The SM's utilization if it is busier than memory, and no part of it was collected that explains it."""
        sm = self.utilisation.get(SM, 0.0)
        parts = (self.needs.get(name, busy) for name, busy in self.pipes.items())
        is_explained = max((self.need(ISSUE), *parts)) >= sm - TWO_PASSES
        return sm if self._may_limit(sm) and not is_explained else None

    def _may_limit(self, use: float) -> bool:
        """Return whether the SM or a part of it is busy, and neither a pipe is a limit that a rule of its
        own reports, nor memory as busy, whose load/store unit is a part of the SM, too."""
        is_reported = any(name in LIMITING_PIPES and self.is_pipe_limit(busy) for name, busy in self.pipes.items())
        is_busier = use > (self.memory_utilisation or 0.0) + TWO_PASSES
        return PIPE_BUSY.is_reached(use) and is_busier and not is_reported

    @cached_property
    def fp64_over_fp32(self) -> float | None:
        """The FP64 rate over the FP32 rate of the GPU, or of its architecture if its product is not known."""
        rates = {**self.arch.compute, **self.hardware.rates}
        fp64, fp32 = rates.get(ComputeKey("fp64")), rates.get(ComputeKey("fp32"))
        return fp64.value / fp32.value if fp64 is not None and fp32 is not None else None

    @cached_property
    def has_slow_fp64_beside_fp32(self) -> bool:
        """Whether FP64 runs beside more FP32 arithmetic on a GPU with few FP64 units.

        Counted by opcodes, else by FLOP.
        """
        if (self.fp64_over_fp32 or 1.0) >= FP64_IS_FAST:
            return False
        if self.opcodes:
            return 0.0 < self.executed("DFMA", "DMUL", "DADD") < self.executed("FFMA", "FMUL", "FADD")
        return 0.0 < (self.flop_per_s_of("fp64") or 0.0) < (self.flop_per_s_of("fp32") or 0.0)

    def peak_evidence(self, name: str, operation: str, fraction: float, threshold: float) -> Evidence:
        """Return a fraction of peak as evidence, with the counter of its multiply-adds."""
        counter = f"__sass_thread_inst_executed_op_{operation.lower()}_pred_on.sum"
        per_cycle = f"{counter}.per_cycle_elapsed"
        metric = self.first_of((f"smsp{counter}", f"smsp{per_cycle}", f"sm{counter}", f"sm{per_cycle}"))
        role = "work-of-peak"
        if not metric and self.metrics.instances(THREAD_OPCODES):
            metric = THREAD_OPCODES
        elif not metric and self.asked_work:
            role = "work-of-peak-by-shapes"
        return Evidence(metric, 100 * fraction, "%", threshold, role=role, of=(name,))

    def fused_and_alone(self, *operations: str) -> FloatingPoint | None:
        """Return multiply-adds, additions and multiplications of a type from the counters; None if unknown."""
        for suffix in (".sum", ".sum.per_cycle_elapsed"):
            for unit in ("smsp", "sm"):
                names = [f"{unit}__sass_thread_inst_executed_op_{name.lower()}_pred_on{suffix}" for name in operations]
                fused, first, second = map(self.number, names)
                if fused is not None and first is not None and second is not None:
                    alone = first + second
                    return FloatingPoint(fused, alone, fused + alone, min(first, second), " + ".join(names))
        return None
