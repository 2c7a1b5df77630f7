"""Special functions and conversions limit the kernel."""

from __future__ import annotations

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.pipe_limits import NO_ARITHMETIC, full_pipe
from gpuprof.diagnose.rule import Findings, Rule, TreePlace
from gpuprof.diagnose.thresholds import PIPE_BUSY, SM_PIPE, THROTTLED


def _special(facts: KernelFacts) -> Findings:
    # The instructions around a function go with it.
    saving = speedup_bound(facts, NO_ARITHMETIC)
    alone = speedup_bound(facts, {"xu": 0.0}).fraction
    yield from full_pipe(facts, "xu", saving.if_held(alone, "other-instructions-unchanged"))


RULE = Rule(
    "special-function-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, SM_PIPE, THROTTLED),
    check=_special,
    place=TreePlace(("math_pipe_throttle", *SHARED_STALLS), "unit"),
)
