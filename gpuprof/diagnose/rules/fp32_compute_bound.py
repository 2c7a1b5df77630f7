"""FP32 arithmetic limits the kernel."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.work import TENSOR_INPUTS
from gpuprof.diagnose.pipe_limits import busy_sm, full_pipe, is_fp32_by_work, is_integer_work
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule
from gpuprof.diagnose.thresholds import PIPE_BUSY, PIPE_NEAR_ROOF, SM_PIPE, THROTTLED, percent
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.findings import Cases

ROOF_WORK = percent("work-at-ceiling", 60.0)


def _fp32(facts: KernelFacts) -> Findings:
    """Report FP32 arithmetic as the limit, with the types that have a higher rate on this GPU."""
    if is_integer_work(facts):
        return
    rates = facts.hardware.rates
    advice = ["main"]
    if not facts.arch.compute:
        advice.append("on-any-gpu")
    fp32, fp16 = rates.get(ComputeKey("fp32")), rates.get(ComputeKey("fp16"))
    if fp32 is not None and fp16 is not None and fp16.value > fp32.value:
        advice.append("packed")
    if any(key.path in TENSOR_INPUTS for key in rates):
        advice.append("tensor")
    if is_fp32_by_work(facts):
        yield from busy_sm(facts, "sm", *advice)
    nears_peak = ROOF_WORK.is_reached(facts.fraction_of_peak("fp32"))
    yield from full_pipe(facts, "fma", cases=Cases(why=(), advice=tuple(advice)), nears_peak=nears_peak)


RULE = Rule(
    "fp32-compute-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, ROOF_WORK, SM_PIPE, THROTTLED),
    check=_fp32,
    place=AT_MATH,
)
