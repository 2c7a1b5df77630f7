"""The rule on idle time of a GPU between kernels, which only a timeline has."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import context, percent
from gpuprof.diagnose.timeline_findings import gpu_case, gpu_labels
from gpuprof.model.findings import CaseName
from gpuprof.model.run_totals import running_s, start_up_s
from gpuprof.model.session import Evidence, Gaps, Wait
from gpuprof.timeline.trace import DIRECTIONS, KERNEL, MEMORY_SET, TRY
from gpuprof.timeline.worst_gpu import Pauses

IDLE_SHARE = percent("idle", 10.0)
MOSTLY = percent("mostly", 50.0)
UNSURE = percent("unsure", 20.0)
_AT_COPIES = {DIRECTIONS[0]: "to-device", DIRECTIONS[1]: "to-host"}
_BEFORE = {KERNEL: "before-kernel", MEMORY_SET: "before-memory-sets", TRY: "before-trials"}


def _launch_gaps(facts: KernelFacts) -> Findings:
    pauses = facts.pauses
    gaps = pauses.gpu.device.gaps if pauses is not None else None
    if pauses is None or gaps is None:
        return
    span_s = running_s(pauses.gpu.device)
    idle_s = gaps.total_s
    if span_s <= 0 or not IDLE_SHARE.is_reached((idle_s - gaps.unsure_s) / span_s):
        return
    wait = pauses.wait
    is_spread = not MOSTLY.is_reached(wait.idle_s / idle_s)
    is_guess = UNSURE.is_reached(gaps.unsure_s / idle_s)
    kind = _kind_of(gaps, wait)
    yield finding(
        facts,
        cases_of(kind, tuple(_headline(pauses, is_spread)), tuple(_why(kind, pauses, is_guess))),
        amounts=(
            amounts_of(idle=idle_s / span_s, idle_before=wait.idle_s / idle_s, idle_of_all=pauses.idle_share)
            + amounts_of("s", span=span_s, time_before=wait.idle_s, unsure=gaps.unsure_s)
            + amounts_of("", ends=pauses.ends, gpus=pauses.gpu.gpus)
            + amounts_of(waiting_in=sum(waited.time_s for waited in gaps.waits) / idle_s)
        ),
        labels=(
            gpu_labels(pauses.gpu)
            + labels_of(direction=(wait.before.replace(" ", "-"),))
            + labels_of(operators=tuple(waited.operator for waited in gaps.waits))
        ),
        confidence="guess" if is_guess else "inferred",
        gain_of_run=pauses.idle_share,
        everywhere=is_spread,
        evidence=_evidence(gaps, span_s, start_up_s(pauses.gpu.device)),
    )


def _headline(pauses: Pauses, is_spread: bool) -> Iterator[CaseName]:
    yield from ("name", gpu_case(pauses.gpu))
    yield "idle-after-start-up" if start_up_s(pauses.gpu.device) else "idle"
    before = pauses.wait.before
    if is_spread:
        yield "spread"
    elif before in DIRECTIONS:
        yield "before-directed-copies"
    else:
        yield _BEFORE.get(before, "before-copies")


def _why(kind: CaseName, pauses: Pauses, is_guess: bool) -> Iterator[CaseName]:
    yield kind
    if kind == "waiting" and pauses.gpu.device.gaps is not None and pauses.gpu.device.gaps.waits:
        yield "waiting-in"
    if pauses.gpu.gpus > 1:
        yield "all-gpus"
    if is_guess:
        yield "unsure"
    yield "profiling"


def _evidence(gaps: Gaps, span_s: float, left_out_s: float) -> Iterator[Evidence]:
    idle_s = gaps.total_s
    yield IDLE_SHARE.evidence(100 * idle_s / span_s)
    yield from context("pauses", gaps.count, "pause")
    yield from context("longest-pause", gaps.longest_s, "s")
    yield from context("start-up", left_out_s or None, "s")
    if gaps.in_graph_s:
        yield MOSTLY.evidence(100 * gaps.in_graph_s / idle_s, "between-nodes")
    if gaps.waited_s is not None:
        yield MOSTLY.evidence(100 * gaps.waited_s / idle_s, "while-waiting")
    if gaps.unsure_s:
        yield UNSURE.evidence(100 * gaps.unsure_s / idle_s)


def _kind_of(gaps: Gaps, wait: Wait) -> CaseName:
    """Return why a GPU pauses: by the place or the work that most idle time is at, or the CPU's activity."""
    copies = _AT_COPIES.get(wait.before, "")
    times_s = {
        "in-graphs": gaps.in_graph_s,
        copies: wait.idle_s if copies else None,
        "waiting": gaps.waited_s,
        "short": gaps.short_s,
        "long": gaps.long_s,
    }
    for kind, time_s in times_s.items():
        if time_s is not None and MOSTLY.is_reached(time_s / gaps.total_s):
            return kind
    return "launching" if gaps.waited_s is not None else "between"


RULE = Rule(
    "launch-gaps",
    thresholds=(IDLE_SHARE, MOSTLY, UNSURE),
    check=_launch_gaps,
    by_times=True,
    of_run=True,
    place=AT_KERNEL,
)
