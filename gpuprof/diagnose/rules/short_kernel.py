"""The kernel takes about as long as its launch."""

from __future__ import annotations

from gpuprof.diagnose.bounds import in_another_launch
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import BUSIEST_SM
from gpuprof.diagnose.facts.needs import LAUNCH_S
from gpuprof.diagnose.rule import AT_KERNEL, SHORT_KERNEL, Findings, Rule, finding
from gpuprof.diagnose.thresholds import SHORT
from gpuprof.model.findings import Amount, Cases


def _short(facts: KernelFacts) -> Findings:
    duration = facts.kernel.duration_s
    if duration is None or duration >= SHORT.value:
        return
    yield finding(
        facts,
        Cases(headline=("main", "less-than-launch" if duration < LAUNCH_S else "as-long-as-launch")),
        amounts=(Amount("duration", duration, "s"),),
        confidence="measured",
        saving=in_another_launch(facts),
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
