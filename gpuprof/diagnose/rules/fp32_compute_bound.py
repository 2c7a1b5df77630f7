"""FP32 arithmetic limits the kernel."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.work import TENSOR_INPUTS
from gpuprof.diagnose.pipe_limits import bound_of_full_pipe, busy_sm, is_fp32_by_work, is_integer_work, pipe_limit
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule
from gpuprof.diagnose.thresholds import PIPE_BUSY, PIPE_NEAR_ROOF, SM_PIPE, THROTTLED, percent
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.findings import CaseName

ROOF_WORK = percent("work-at-ceiling", 60.0)


def _fp32(facts: KernelFacts) -> Findings:
    """Report FP32 arithmetic as the limit, with the types that have a higher rate on this GPU."""
    if is_integer_work(facts):
        return
    rates = facts.hardware.rates
    faster: list[CaseName] = []
    if not rates and not facts.arch.compute:
        faster.append("on-any-gpu")
    fp32, fp16 = rates.get(ComputeKey("fp32")), rates.get(ComputeKey("fp16"))
    if fp32 is not None and fp16 is not None and fp16.value > fp32.value:
        faster.append("packed")
    if any(key.path in TENSOR_INPUTS for key in rates):
        faster.append("tensor")
    found = [*busy_sm(facts, "sm", "main")] if is_fp32_by_work(facts) else []
    use = facts.pipe("fma")
    if use is not None and facts.is_pipe_limit(use):
        is_near = PIPE_NEAR_ROOF.is_reached(use) and ROOF_WORK.is_reached(facts.fraction_of_peak("fp32"))
        found.append(pipe_limit(facts, "fma", bound_of_full_pipe(facts, use, "fma"), is_near=is_near))
    for item in found:
        yield replace(item, cases=replace(item.cases, advice=(*item.cases.advice, *faster)))


RULE = Rule(
    "fp32-compute-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, ROOF_WORK, SM_PIPE, THROTTLED),
    check=_fp32,
    place=AT_MATH,
)
