"""The rule on idle time of a GPU between kernels, which only a timeline has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding, graded, labels_of
from gpuprof.diagnose.thresholds import context, percent
from gpuprof.diagnose.timeline_findings import gain_of_run, gpu_case, gpu_labels
from gpuprof.model.findings import CaseName, Cases
from gpuprof.model.run_totals import running_s, start_up_s
from gpuprof.model.session import Evidence, Gaps, Wait
from gpuprof.timeline.trace import DIRECTIONS, GRAPH, KERNEL, SET, STACKS, TRY
from gpuprof.timeline.worst_gpu import Pauses

IDLE_SHARE = percent("idle", 10.0)
MOSTLY = percent("mostly", 50.0)
UNSURE = percent("unsure", 20.0)
_AT_COPIES = {DIRECTIONS[0]: "to-device", DIRECTIONS[1]: "to-host"}
_BEFORE = {
    KERNEL: "before-kernel",
    GRAPH: "before-graphs",
    SET: "before-memory-sets",
    TRY: "before-trials",
}
_OF_LAUNCHING = ("short", "launching", "between")
"""Why the GPU pauses if launching itself takes the time, which CUDA graphs help against."""
_OF_WAITS = {"waiting": "to-run-ahead", "after-waits": "out-of-loop"}
"""Why pauses begin in a wait, and the end of what to do then."""


def _launch_gaps(facts: KernelFacts) -> Findings:
    pauses = facts.pauses
    gaps = pauses.gpu.device.gaps if pauses is not None else None
    if pauses is None or gaps is None:
        return
    device, wait = pauses.gpu.device, pauses.wait
    span_s = running_s(device)
    idle_s = gaps.total_s
    if span_s <= 0 or not IDLE_SHARE.is_reached((idle_s - gaps.unsure_s) / span_s):
        return
    is_one = MOSTLY.is_reached(gaps.longest_s / idle_s)
    # Of a trace with steps, all times are those of a step, unless one pause is longer than all others together.
    steps = 1 if is_one else device.steps or 1
    is_spread = not MOSTLY.is_reached(wait.idle_s / idle_s)
    is_unsure = UNSURE.is_reached(gaps.unsure_s / idle_s)
    gain = gain_of_run(pauses.gpu, idle_s / span_s, pauses.idle_share)
    kind = _kind_of(gaps, wait)
    if kind in _OF_LAUNCHING and (gaps.in_graph_s or device.graphs is not None):
        kind = "graphs"
    is_slowed = _is_slowed(device.slowed_by, gaps, kind)
    yield finding(
        facts,
        Cases(
            headline=tuple(_headline(pauses, is_one, is_spread, is_slowed)),
            why=tuple(_why(kind, pauses, is_unsure)),
            action=("profile-less",) if is_slowed else tuple(_action(kind, gaps)),
            advice=("profile-less", kind) if is_slowed else (kind,),
        ),
        amounts=(
            amounts_of(idle=idle_s / span_s, idle_before=wait.idle_s / idle_s, idle_of_all=pauses.idle_share)
            + amounts_of("s", span=span_s / steps, time=idle_s / steps, time_before=wait.idle_s / steps)
            + amounts_of("s", unsure=gaps.unsure_s)
            + amounts_of("", ends=pauses.ends, gpus=pauses.gpu.gpus)
            + amounts_of(waiting_in=sum(waited.time_s for waited in gaps.waits) / idle_s)
            + amounts_of("s", longest=gaps.longest_s)
            + amounts_of(longest_of_idle=gaps.longest_s / idle_s)
        ),
        labels=(
            gpu_labels(pauses.gpu)
            + labels_of(direction=(wait.before.replace(" ", "-"),), recorded=tuple(device.slowed_by))
            + labels_of(operators=tuple(waited.operator for waited in gaps.waits))
        ),
        confidence="guess" if is_unsure or is_slowed else "inferred",
        gain_of_run=gain,
        # The pauses of this trace are known: only how long they are without the profiler is a guess.
        severity=graded(gain, "guess" if is_unsure else "inferred"),
        everywhere=is_spread,
        evidence=_evidence(gaps, span_s, start_up_s(device)),
    )


def _is_slowed(slowed_by: Sequence[str], gaps: Gaps, kind: CaseName) -> bool:
    """Return whether the profiler may have made most of the idle time.

    Stacks slow all Python code; shapes and memory slow single launches, which leaves long pauses about as they are, and
    the waits that others come of.
    """
    stays = kind in _OF_WAITS or MOSTLY.is_reached(gaps.long_s / gaps.total_s)
    return STACKS in slowed_by or (bool(slowed_by) and not stays)


def _headline(pauses: Pauses, is_one: bool, is_spread: bool, is_slowed: bool) -> Iterator[CaseName]:
    yield from ("name", gpu_case(pauses.gpu))
    if pauses.gpu.device.steps and not is_one:
        yield "idle-in-steps"
    else:
        yield "idle-after-start-up" if start_up_s(pauses.gpu.device) else "idle"
    if is_slowed:
        yield "recorded"
    before = pauses.wait.before
    if is_one:
        yield "one-pause"
    if is_spread:
        yield "spread"
    elif before in DIRECTIONS:
        yield "before-directed-copies"
    else:
        yield _BEFORE.get(before, "before-copies")


def _why(kind: CaseName, pauses: Pauses, is_unsure: bool) -> Iterator[CaseName]:
    yield kind
    if kind in _OF_WAITS and pauses.gpu.device.gaps is not None and pauses.gpu.device.gaps.waits:
        yield "waiting-in"
    if pauses.gpu.gpus > 1:
        yield "all-gpus"
    if is_unsure:
        yield "unsure"
    yield "profiling-more" if pauses.gpu.device.slowed_by else "profiling"


def _action(kind: CaseName, gaps: Gaps) -> Iterator[CaseName]:
    yield kind
    if kind in _OF_WAITS:
        if gaps.waits:
            yield "waiting-in"
        yield _OF_WAITS[kind]


def _evidence(gaps: Gaps, span_s: float, left_out_s: float) -> Iterator[Evidence]:
    idle_s = gaps.total_s
    yield IDLE_SHARE.evidence(100 * idle_s / span_s)
    yield from context("pauses", gaps.count, "pause")
    yield from context("longest-pause", gaps.longest_s, "s")
    yield from context("start-up", left_out_s or None, "s")
    yield from context("profiler", gaps.profiler_s or None, "s")
    if gaps.in_graph_s:
        yield MOSTLY.evidence(100 * gaps.in_graph_s / idle_s, "between-nodes")
    if gaps.queued_s:
        yield MOSTLY.evidence(100 * gaps.queued_s / idle_s, "queued")
    if gaps.waited_s is not None:
        yield MOSTLY.evidence(100 * gaps.waited_s / idle_s, "while-waiting")
    if gaps.unsure_s:
        yield UNSURE.evidence(100 * gaps.unsure_s / idle_s)


def _kind_of(gaps: Gaps, wait: Wait) -> CaseName:
    """Return why a GPU pauses: by the place or the work that most idle time is at, or the CPU's activity."""
    copies = _AT_COPIES.get(wait.before, "")
    times_s = {
        "in-graphs": gaps.in_graph_s,
        "queued": gaps.queued_s,
        copies: wait.idle_s if copies else None,
        "waiting": gaps.waited_s,
        "short": gaps.short_s,
        "long": gaps.long_s,
        "after-waits": (gaps.waited_s or 0.0) + gaps.after_waits_s,
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
