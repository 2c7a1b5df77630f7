"""The rule on idle time of a GPU between kernels, which only a timeline has."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.facts.kernel import KernelFacts, Pauses
from gpuprof.diagnose.pauses import gpu_case, gpu_labels
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import context, percent
from gpuprof.model.run_totals import running_s, start_up_s
from gpuprof.model.session import DeviceTimeline, Evidence, Gaps, Wait
from gpuprof.model.trace import DIRECTIONS, KERNEL, MEMORY_SET, TRY

IDLE_SHARE = percent("idle", 10.0)

MOSTLY = percent("mostly", 50.0)

SPREAD = percent("one-place", 20.0)

ALIKE = percent("alike", 80.0)

UNSURE = percent("unsure", 20.0)

_AT_COPIES = {DIRECTIONS[0]: "to-device", DIRECTIONS[1]: "to-host"}

_OUTSIDE_GRAPHS = ("waiting", "short", "long")
"""Reasons that most of the idle time outside CUDA graphs shows."""

_BEFORE = {KERNEL: "before-kernel", MEMORY_SET: "before-memory-sets", TRY: "before-trials"}


def _launch_gaps(facts: KernelFacts) -> Findings:
    pauses = facts.pauses
    if pauses is None:
        return
    device = pauses.device
    wait = pauses.wait
    gaps = device.gaps
    span_s = running_s(device)
    if gaps is None or span_s <= 0:
        return
    idle_s = gaps.total_s
    if not IDLE_SHARE.is_reached((idle_s - gaps.unsure_s) / span_s):
        return
    left_out_s = start_up_s(device)
    is_guess = UNSURE.is_reached(gaps.unsure_s / idle_s)
    is_spread = _is_spread(pauses, idle_s)
    kind = _kind_of(gaps, wait)
    idle = "idle-after-start-up" if left_out_s else "idle"
    headline = ("name", gpu_case(pauses), idle, "spread" if is_spread else _before(wait))
    yield finding(
        facts,
        cases_of(kind, headline, tuple(_why(kind, pauses, gaps, is_guess=is_guess, is_spread=is_spread))),
        amounts=(
            amounts_of(
                idle=idle_s / span_s,
                idle_before=wait.idle_s / idle_s,
                most=pauses.most_s / idle_s,
                idle_of_all=pauses.idle_share,
            )
            + amounts_of(
                "s",
                span=span_s,
                time_before=wait.idle_s,
                start_up=left_out_s,
                unsure=gaps.unsure_s,
                in_graphs=gaps.in_graph_s,
            )
            + amounts_of("", ends=pauses.ends, gpus=pauses.gpus)
        ),
        labels=gpu_labels(pauses) + labels_of(direction=_direction(wait)),
        confidence="guess" if is_guess else "inferred",
        gain_of_run=pauses.idle_share,
        everywhere=is_spread,
        evidence=_evidence(device, gaps, wait),
    )


def _why(kind: str, pauses: Pauses, gaps: Gaps, *, is_guess: bool, is_spread: bool) -> Iterator[str]:
    yield kind
    if gaps.in_graph_s and kind in _OUTSIDE_GRAPHS:
        yield "outside-graphs"
    if pauses.wait.before in DIRECTIONS and pauses.wait.kernel is not None and not is_spread:
        yield "next-kernel"
    if pauses.gpus > 1:
        yield "all-gpus"
    if start_up_s(pauses.device):
        yield "start-up"
    if is_guess:
        yield "unsure"
    yield "profiling"


def _evidence(device: DeviceTimeline, gaps: Gaps, wait: Wait) -> Iterator[Evidence]:
    idle_s = gaps.total_s
    yield IDLE_SHARE.evidence(100 * (idle_s / running_s(device)))
    yield from context("pauses", gaps.count, "pause")
    yield from context("median-pause", gaps.median_s, "s")
    yield from context("longest-pause", gaps.longest_s, "s")
    yield from context("start-up", start_up_s(device) or None, "s")
    if gaps.in_graph_s:
        yield MOSTLY.evidence(100 * gaps.in_graph_s / idle_s, "between-nodes")
    if gaps.waited_s is not None:
        yield MOSTLY.evidence(100 * gaps.waited_s / idle_s, "while-waiting")
    yield from context(_before(wait), wait.pauses, "pause", *_direction(wait))
    if gaps.unsure_s:
        yield UNSURE.evidence(100 * gaps.unsure_s / idle_s)


def _is_spread(pauses: Pauses, idle_s: float) -> bool:
    """Return whether no work ends much of the idle time, or two kernels end about equal parts."""
    longest_s = pauses.wait.idle_s
    return not SPREAD.is_reached(longest_s / idle_s) or 100 * pauses.rival_s >= ALIKE.value * longest_s


def _before(wait: Wait) -> str:
    if wait.before in DIRECTIONS:
        return "before-directed-copies"
    return _BEFORE.get(wait.before, "before-copies")


def _direction(wait: Wait) -> tuple[str, ...]:
    return (wait.before.replace(" ", "-"),) if wait.before in DIRECTIONS else ()


def _kind_of(gaps: Gaps, wait: Wait) -> str:
    """Return why a GPU pauses: by the work that ends most idle time, or by the CPU's activity.

    If most idle time is within CUDA graphs, they are the reason; otherwise only the time outside
    them is judged.
    """
    in_graph_s = gaps.in_graph_s or 0.0
    if MOSTLY.is_reached(in_graph_s / gaps.total_s):
        return "in-graphs"
    other_s = gaps.total_s - in_graph_s
    copy_kind = _AT_COPIES.get(wait.before)
    if copy_kind is not None and (gaps.waited_s is None or SPREAD.is_reached(wait.idle_s / gaps.total_s)):
        return copy_kind
    if gaps.waited_s is not None and MOSTLY.is_reached(gaps.waited_s / other_s):
        return "waiting"
    if MOSTLY.is_reached(gaps.short_s / other_s):
        return "short"
    if MOSTLY.is_reached(gaps.long_s / other_s):
        return "long"
    return "launching" if gaps.waited_s is not None else "between"


RULE = Rule(
    "launch-gaps",
    thresholds=(IDLE_SHARE, MOSTLY, SPREAD, ALIKE, UNSURE),
    check=_launch_gaps,
    by_times=True,
    of_run=True,
    place=AT_KERNEL,
)
