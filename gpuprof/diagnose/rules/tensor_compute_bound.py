"""Tensor cores limit the kernel."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.work import FP64_IS_FAST, TENSOR_INPUTS
from gpuprof.diagnose.pipe_limits import (
    SCALAR_CYCLES,
    cycles_per_instruction,
    full_pipe,
    of_ceiling,
    only_fp64_cycles,
    same_instructions,
    sm_evidence,
)
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import PIPE_BUSY, PIPE_NEAR_ROOF, SM_PIPE, THROTTLED
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.findings import Cases
from gpuprof.model.product_names import multiplies_on_tensor_cores
from gpuprof.model.sass_opcodes import matrix_opcode


def _tensor(facts: KernelFacts) -> Findings:
    changes = _changes(facts)
    if facts.pipe("tensor") is None:
        yield from _long_instructions(facts, changes)
    yield from full_pipe(facts, "tensor", cases=changes, roof=_tensor_roof(facts), nears_peak=True)


def _changes(facts: KernelFacts) -> Cases:
    """Return the cases of the action and the advice: changes that this architecture allows beyond the kernel's own."""
    action = "less"
    advice: list[str] = []
    possible = {name for key in facts.arch.compute for name in (key.path, key.instruction)}
    keys = [known.key for opcode in facts.opcodes if (known := matrix_opcode(opcode)) is not None]
    used = {name for key in keys for name in (key.path, key.instruction)}
    narrower = next((name for name in ("fp8", "int8") if f"tensor.{name}" in possible), None)
    if narrower is not None and f"tensor.{narrower}" not in used:
        advice.append(narrower)
        action = "narrower"
    newer = next((name for name in ("tcgen05", "wgmma") if name in possible), None)
    if newer is not None and newer not in used and (used or not facts.needs_few_warps):
        advice.append(newer)
        if used:
            action = "main"
    if "tensor.bf16" in possible:
        # Both came with Ampere.
        advice.append("sparsity")
    return Cases(why=(), action=(action,), advice=(*advice, "less"))


def _long_instructions(facts: KernelFacts, changes: Cases) -> Findings:
    """Yield a finding if a busy SM issues few instructions: matrix instructions take long.

    FP64 instructions do, too, on a GPU with few FP64 units. If instructions are not long, the
    kernel's name decides.
    """
    sm = facts.sm_without_parts
    has_tensor_cores = any(key.path.startswith("tensor") for key in facts.arch.compute)
    if sm is None or not has_tensor_cores or only_fp64_cycles(facts):
        return
    cycles = cycles_per_instruction(facts)
    by_name = multiplies_on_tensor_cores(facts.kernel.demangled)
    if cycles > SCALAR_CYCLES.value:
        is_sure = by_name or (facts.fp64_over_fp32 or 0.0) >= FP64_IS_FAST
        seen = "long-instructions" if is_sure else "long-or-fp64"
    elif by_name:
        seen = "by-name"
    else:
        return
    headline = [seen]
    is_near = PIPE_NEAR_ROOF.is_reached(sm)
    if is_near:
        headline.append("shared/near-ceiling")
    evidence = sm_evidence(facts, sm) + facts.issue_evidence()
    if cycles:
        evidence += (SCALAR_CYCLES.evidence(cycles),)
    yield finding(
        facts,
        replace(changes, headline=tuple(headline), why=(seen,)),
        amounts=amounts_of(sm=sm) + amounts_of("cycle/inst", cycles=cycles) + of_ceiling(sm),
        subject="tensor",
        confidence="inferred" if seen == "long-instructions" else "guess",
        saving=same_instructions(facts, sm, "tensor"),
        is_fact=is_near,
        evidence=evidence,
    )


def _tensor_roof(facts: KernelFacts) -> float:
    """Return the part of the tensor pipe's cycles that the kernel's matrix instructions can fill.

    If sums in FP32 have half the rate, the pipe is half busy at the roof. Without known
    instructions, return 1.
    """
    flop = slowed = 0.0
    for opcode, count in facts.opcodes.items():
        matrix = matrix_opcode(opcode)
        if matrix is not None and matrix.flop is not None:
            flop += matrix.flop * count
            slowed += matrix.flop * count / _part_of_full_rate(facts, matrix.key)
    return flop / slowed if slowed else 1.0


def _part_of_full_rate(facts: KernelFacts, key: ComputeKey) -> float:
    """Return the rate with sums in FP32 over that in FP16.

    BF16 and TF32, which have no sums in FP16, take FP16's ratio: GeForce cards with half of that rate also
    have half of the TF32 rate per SM of professional cards (NVIDIA's whitepapers on GA102 and AD102).
    """
    if key.accumulator != "fp32" or key.path not in TENSOR_INPUTS:
        return 1.0
    rates = facts.hardware.rates
    slow = rates.get(ComputeKey("tensor.fp16", "fp32", key.instruction))
    full = rates.get(ComputeKey("tensor.fp16", "fp16", key.instruction))
    if slow is None or full is None:
        return 1.0
    return min(1.0, slow.value / full.value)


RULE = Rule(
    "tensor-compute-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, SCALAR_CYCLES, SM_PIPE, THROTTLED),
    check=_tensor,
    place=AT_MATH,
)
