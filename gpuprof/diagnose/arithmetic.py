"""Counts of a kernel's arithmetic: opcodes, work as a fraction of peak, fused operations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from gpuprof.diagnose.case import Case, summed
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ComputeKey
from gpuprof.model.session import Evidence

INTEGER_PIPES = ("alu", "uniform", "adu", "cbu", "fmaheavy")
SCALAR_PIPES = (*INTEGER_PIPES, "fma", "fmalite", "fp16", "fp64", "xu")
"""The pipes that neither move data nor multiply matrices."""
TENSOR_INPUTS = {"tensor.tf32": "TF32", "tensor.bf16": "BF16", "tensor.fp16": "FP16"}


def opcode_counts(case: Case, histogram: str = WARP_OPCODES) -> Mapping[str, float]:
    """Return how often each opcode was executed, without modifiers: `IMAD.MOV` counts as `IMAD`."""
    return summed((opcode.partition(".")[0], count) for opcode, count in case.opcodes(histogram).items())


def executed(case: Case, *starts: str) -> float:
    """Return how many executed instructions have opcodes with these prefixes; 0 if not counted."""
    return sum(count for name, count in case.opcodes().items() if name.startswith(starts))


def share_of_opcodes(case: Case, *starts: str) -> float:
    """Return the share of executed instructions with these opcode prefixes; 0 if not counted."""
    total = sum(case.opcodes().values())
    if not total:
        return 0.0
    return executed(case, *starts) / total


def rate_of(case: Case, path: str) -> float | None:
    """Return the counted FLOP/s of a path; None if they were not counted."""
    return next((work.flop_per_s for work in case.kernel.work if work.path == path), None)


def fraction_of_peak(case: Case, path: str) -> float | None:
    """Return the counted work of a path over its peak at the clock of the kernel.

    Without both, return the operator's FLOP by its shapes over the rated peak, if they can only run
    on this path.
    """
    limit = case.recorded.at_clock.get(path)
    rate = rate_of(case, path)
    if limit is not None and rate is not None and limit.value > 0:
        return rate / limit.value
    if len(case.asked_work) == 1:
        return case.asked_work.get(path)
    return None


def sm_cycles(case: Case) -> float | None:
    """Return the cycles of all SMs in the time of a kernel, if they are known."""
    sms = case.sms
    clock_hz = case.kernel.sm_clock_hz
    duration_s = case.kernel.duration_s
    if not sms or not clock_hz or not duration_s:
        return None
    return sms * clock_hz * duration_s


def fp64_over_fp32(case: Case) -> float | None:
    """Return the GPU's FP64 rate over its FP32 rate."""
    rates = case.hardware.rates
    fp64, fp32 = rates.get(ComputeKey("fp64")), rates.get(ComputeKey("fp32"))
    if fp64 is None or fp32 is None or not fp32.value:
        return None
    return fp64.value / fp32.value


def peak_evidence(case: Case, name: str, operation: str, fraction: float, threshold: float) -> Evidence:
    """Return a fraction of peak as evidence, with the counter of its multiply-adds."""
    counter = f"__sass_thread_inst_executed_op_{operation.lower()}_pred_on.sum"
    suffixes = ("", ".per_cycle_elapsed")
    metric = case.first_of(f"{unit}{counter}{suffix}" for unit in ("smsp", "sm") for suffix in suffixes)
    role = "work-of-peak"
    if not metric and case.opcodes(THREAD_OPCODES):
        metric = THREAD_OPCODES
    elif not metric and case.asked_work:
        role = "work-of-peak-by-shapes"
    return Evidence(metric, 100 * fraction, "%", threshold, role=role, of=(name,))


class FloatingPoint(Struct, frozen=True):
    """Fused and other instructions of a type, in one unit, and their metrics.

    `pairs` is how many multiply-adds could replace one addition and one multiplication each.
    """

    fused: float
    alone: float
    pairs: float
    unit: str
    fused_metric: str
    alone_metric: str

    @property
    def all(self) -> float:
        """All instructions of the type."""
        return self.fused + self.alone


@lru_cache(maxsize=16)
def _counters_of(operations: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the counters of these operations with their unit, best first."""
    return tuple(
        (unit, tuple(f"{prefix}__sass_thread_inst_executed_op_{name.lower()}_pred_on{suffix}" for name in operations))
        for suffix, unit in ((".sum", "instruction"), (".sum.per_cycle_elapsed", "instruction/cycle"))
        for prefix in ("smsp", "sm")
    )


def fused_and_alone(case: Case, fused: str, *unfused: str) -> FloatingPoint | None:
    """Return the instructions of a type from the counters; None if unknown."""
    for unit, names in _counters_of((fused, *unfused)):
        together, first, second = map(case.number, names)
        if together is not None and first is not None and second is not None:
            alone_metric = f"{names[1]} + {names[2]}"
            return FloatingPoint(together, first + second, min(first, second), unit, names[0], alone_metric)
    return None
