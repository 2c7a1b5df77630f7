"""The rule on idle time of a GPU between kernels, which only a timeline has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.case import Case, Exposed, Pauses, summed
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, context, finding, labels_of, percent
from gpuprof.model.findings import Label
from gpuprof.model.run_totals import running_s, start_up_s
from gpuprof.model.session import DeviceTimeline, Evidence, Gaps, Session, Wait
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


def pauses_of(session: Session) -> dict[int, Pauses]:
    """Return the pauses of the GPU with most idle time, by the id of the kernel with the finding.

    Launches of that kernel end most of the idle time, or come next after the copies that end most
    of it.
    """
    timeline = session.timeline
    if timeline is None:
        return {}
    idle_devices = [(gpu.gaps.total_s, gpu) for gpu in timeline.devices if gpu.gaps is not None]
    if not idle_devices:
        return {}
    device = max(idle_devices, key=lambda pair: pair[0])[1]
    here = [wait for wait in timeline.waits if wait.source == device.source and wait.ordinal == device.ordinal]
    if not here:
        return {}
    wait = _longest(here)
    number = wait.kernel if wait.kernel is not None else _any_kernel(session, device, here)
    if number is None:
        return {}
    span_s = sum(map(running_s, timeline.devices))
    rivals = (other.idle_s for other in here if other is not wait and other.before == wait.before == KERNEL)
    pauses = Pauses(
        device,
        wait,
        idle_share=sum(idle_s for idle_s, _ in idle_devices) / span_s if span_s > 0 else 0.0,
        gpus=len(timeline.devices),
        files=len(session.sources),
        rank=rank_of(session, device),
        ends=len(here),
        most_s=max(other.idle_s for other in here),
        rival_s=max(rivals, default=0.0),
    )
    return {number: pauses}


def rank_of(session: Session, device: DeviceTimeline) -> int | None:
    """Return the rank of the source file of a GPU; None if it is not known."""
    ranks = session.timeline.source_ranks if session.timeline is not None else ()
    return ranks[device.source] if device.source < len(ranks) else None


def _longest(waits: Sequence[Wait]) -> Wait:
    """Return the longest wait of the kind of work (by `before`) that ends most of the idle time."""
    idle_s = summed((wait.before, wait.idle_s) for wait in waits)
    before = max(idle_s, key=lambda ended_by: idle_s[ended_by])
    return max((wait for wait in waits if wait.before == before), key=lambda wait: wait.idle_s)


def _any_kernel(session: Session, device: DeviceTimeline, waits: Sequence[Wait]) -> int | None:
    """Return some kernel of the GPU if no kernel comes after its longest pauses."""
    for wait in waits:
        if wait.kernel is not None:
            return wait.kernel
    for kernel in session.kernels:
        if kernel.source == device.source and kernel.device == device.device:
            return kernel.id
    return None


def _launch_gaps(case: Case) -> Findings:
    pauses = case.pauses
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
        case,
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


def gpu_case(found: Pauses | Exposed) -> str:
    """Return the case that names the GPU, by number and rank or file if there are several."""
    if found.gpus < 2:
        return "shared/gpu"
    if found.files < 2:
        return "shared/gpu-number"
    return "shared/gpu-of-rank" if found.rank is not None else "shared/gpu-of-file"


def gpu_labels(found: Pauses | Exposed) -> tuple[Label, ...]:
    """Return the number of the GPU and its rank, if known, for the case that names it."""
    rank = (str(found.rank),) if found.rank is not None else ()
    return labels_of(gpu=(str(found.device.ordinal),), rank=rank)


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


RULES = (
    Rule(
        "launch-gaps",
        thresholds=(IDLE_SHARE, MOSTLY, SPREAD, ALIKE, UNSURE),
        check=_launch_gaps,
        by_times=True,
        of_run=True,
        place=AT_KERNEL,
    ),
)
