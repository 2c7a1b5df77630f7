"""The kernel takes about as long as its launch."""

from __future__ import annotations

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import BUSIEST_SM, LAUNCH_S
from gpuprof.diagnose.facts.unit_names import LAUNCH
from gpuprof.diagnose.rule import AT_KERNEL, SHORT_KERNEL, Findings, Rule, amounts_of, finding, graded
from gpuprof.diagnose.thresholds import NOTHING, SHORT
from gpuprof.model.findings import Cases


def _short(facts: KernelFacts) -> Findings:
    duration = facts.kernel.duration_s
    if duration is None or duration >= SHORT.value:
        return
    # A kernel that is not much longer than an empty one is mostly launch. From there on to a kernel
    # that is not short, its launch is less and less of a reason to fuse it, whatever that saves.
    part = min(1.0, (SHORT.value - duration) / (SHORT.value - NOTHING.value))
    saving = speedup_bound(facts, {LAUNCH: 0.0}).no_more_than(1.0 - facts.working_share)
    yield finding(
        facts,
        Cases(headline=("main", "less-than-launch" if duration < LAUNCH_S else "as-long-as-launch")),
        amounts=amounts_of("s", duration=duration),
        confidence="inferred",
        severity=graded(part * saving.fraction, "inferred"),
        saving=saving.only_if("same-work-in-another-launch"),
        evidence=(
            SHORT.evidence(duration, metric="gpu__time_duration.sum"),
            *facts.metrics_as({BUSIEST_SM: "busiest-sm", "sm__cycles_elapsed.max": "elapsed-cycles"}, "cycle"),
        ),
    )


RULE = Rule(
    SHORT_KERNEL,
    kind="limit",
    thresholds=(SHORT,),
    check=_short,
    by_times=True,
    place=AT_KERNEL,
)
