"""The rule on idle time of a GPU between kernels, which only a timeline has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.case import Case, Exposed, Pauses
from gpuprof.diagnose.rule import AT_KERNEL, Rule, finding, percent
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.run_totals import running_s, start_up_s
from gpuprof.model.session import DeviceTimeline, Evidence, Finding, Gaps, Session, Wait
from gpuprof.model.trace import DIRECTIONS, KERNEL, MEMORY_SET, TRY

IDLE_SHARE = percent("idle", 10.0)
MOSTLY = percent("mostly", 50.0)
SPREAD = percent("one-place", 20.0)
ALIKE = percent("alike", 80.0)
UNSURE = percent("unsure", 20.0)
_AT_COPIES = {DIRECTIONS[0]: "to-device", DIRECTIONS[1]: "to-host"}
_BEFORE = {KERNEL: "before-kernel", MEMORY_SET: "before-memory-sets", TRY: "before-trials"}


def pauses_of(session: Session) -> dict[int, Pauses]:
    """Return the pauses of the GPU that is idle longest, by the number of the kernel that they are told of.

    That is the one whose launches end most of the idle time, or come next after the copies that end most of it.
    """
    timeline = session.timeline
    resting = [(gpu.gaps.total_s, gpu) for gpu in timeline.devices if gpu.gaps is not None] if timeline else []
    if timeline is None or not resting:
        return {}
    device = max(resting, key=lambda pair: pair[0])[1]
    here = [wait for wait in timeline.waits if (wait.source, wait.ordinal) == (device.source, device.ordinal)]
    if not here:
        return {}
    wait = _longest(here)
    number = wait.kernel if wait.kernel is not None else _any_kernel(session, device, here)
    if number is None:
        return {}
    span_s = sum(map(running_s, timeline.devices))
    share = sum(idle_s for idle_s, _ in resting) / span_s if span_s > 0 else 0.0
    rank = dict(enumerate(timeline.source_ranks)).get(device.source)
    gpus, files = len(timeline.devices), len(session.sources)
    rivals = (other.idle_s for other in here if other is not wait and other.before == wait.before == KERNEL)
    pauses = Pauses(
        device,
        wait,
        share,
        gpus=gpus,
        files=files,
        rank=rank,
        ends=len(here),
        most_s=max(other.idle_s for other in here),
        rival_s=max(rivals, default=0.0),
    )
    return {number: pauses}


def _longest(waits: Sequence[Wait]) -> Wait:
    """Return where most idle time ends: at kernels, of which the one with most, or at copies of one direction."""
    idle_s: dict[str, float] = {}
    for wait in waits:
        idle_s[wait.before] = idle_s.get(wait.before, 0.0) + wait.idle_s
    before = max(idle_s, key=lambda ended_by: idle_s[ended_by])
    return max((wait for wait in waits if wait.before == before), key=lambda wait: wait.idle_s)


def _any_kernel(session: Session, device: DeviceTimeline, waits: Sequence[Wait]) -> int | None:
    """Return a kernel of a GPU for pauses that no kernel comes after."""
    waiting = (wait.kernel for wait in waits if wait.kernel is not None)
    place = (device.source, device.device)
    on_gpu = (kernel.id for kernel in session.kernels if (kernel.source, kernel.device) == place)
    return next(waiting, next(on_gpu, None))


def _launch_gaps(case: Case) -> Iterator[Finding]:
    if case.pauses is None:
        return
    device, wait = case.pauses.device, case.pauses.wait
    gaps, span_s = device.gaps, running_s(device)
    if gaps is None or span_s <= 0 or 100 * (gaps.total_s - gaps.unsure_s) / span_s < IDLE_SHARE.value:
        return
    idle_s, left_out_s = gaps.total_s, start_up_s(device)
    is_guess = 100 * gaps.unsure_s / idle_s >= UNSURE.value
    is_spread = _is_spread(case.pauses, idle_s)
    kind = _kind_of(gaps, wait)
    yield finding(
        case,
        Cases(
            headline=(
                "name",
                gpu_case(case.pauses),
                "idle-after-start-up" if left_out_s else "idle",
                "spread" if is_spread else _before(wait),
            ),
            why=tuple(_why(kind, case.pauses, is_guess=is_guess)),
            action=(kind,),
            advice=(kind,),
        ),
        amounts=(
            Amount("idle", idle_s / span_s, "fraction"),
            Amount("span", span_s, "s"),
            Amount("idle-before", wait.idle_s / idle_s, "fraction"),
            Amount("time-before", wait.idle_s, "s"),
            Amount("ends", case.pauses.ends),
            Amount("most", case.pauses.most_s / idle_s, "fraction"),
            Amount("gpus", case.pauses.gpus),
            Amount("idle-of-all", case.pauses.idle_share, "fraction"),
            Amount("start-up", left_out_s, "s"),
            Amount("unsure", gaps.unsure_s, "s"),
        ),
        labels=tuple(_labels(case.pauses)),
        confidence="guess" if is_guess else "inferred",
        gain_of_run=case.pauses.idle_share,
        everywhere=is_spread,
        evidence=tuple(_evidence(device, gaps, wait)),
    )


def _why(kind: str, pauses: Pauses, *, is_guess: bool) -> Iterator[str]:
    yield kind
    if pauses.wait.before != KERNEL and pauses.wait.kernel is not None:
        yield "next-kernel"
    if pauses.gpus > 1:
        yield "all-gpus"
    if start_up_s(pauses.device):
        yield "start-up"
    if is_guess:
        yield "unsure"
    yield "profiling"


def _labels(pauses: Pauses) -> Iterator[Label]:
    yield from gpu_labels(pauses)
    if pauses.wait.before in DIRECTIONS:
        yield Label("direction", _direction(pauses.wait))


def _evidence(device: DeviceTimeline, gaps: Gaps, wait: Wait) -> Iterator[Evidence]:
    idle_s, left_out_s = gaps.total_s, start_up_s(device)
    idle = 100 * (idle_s / running_s(device))
    yield Evidence("", idle, "%", threshold=IDLE_SHARE.value, role=IDLE_SHARE.name)
    yield Evidence("", float(gaps.count), "pause", threshold=None, role="pauses")
    yield Evidence("", gaps.median_s, "s", threshold=None, role="median-pause")
    yield Evidence("", gaps.longest_s, "s", threshold=None, role="longest-pause")
    if left_out_s:
        yield Evidence("", left_out_s, "s", threshold=None, role="start-up")
    if gaps.in_graph_s:
        yield Evidence("", 100 * gaps.in_graph_s / idle_s, "%", threshold=MOSTLY.value, role="between-nodes")
    if gaps.waited_s is not None:
        yield Evidence("", 100 * gaps.waited_s / idle_s, "%", threshold=MOSTLY.value, role="while-waiting")
    yield Evidence("", float(wait.pauses), "pause", threshold=None, role=_before(wait), of=_direction(wait))
    if gaps.unsure_s:
        yield Evidence("", 100 * gaps.unsure_s / idle_s, "%", threshold=UNSURE.value, role=UNSURE.name)


def gpu_case(found: Pauses | Exposed) -> str:
    """Return the case of the wording that names the GPU, by its number and its rank or file if there are several."""
    if found.gpus < 2:
        return "shared/gpu"
    if found.files < 2:
        return "shared/gpu-number"
    return "shared/gpu-of-rank" if found.rank is not None else "shared/gpu-of-file"


def gpu_labels(found: Pauses | Exposed) -> Iterator[Label]:
    """Yield the number of the GPU and its rank, if known, for the case that names it."""
    yield Label("gpu", (str(found.device.ordinal),))
    if found.rank is not None:
        yield Label("rank", (str(found.rank),))


def _is_spread(pauses: Pauses, idle_s: float) -> bool:
    """Return whether no kernel or kind of copy ends much of the idle time, or two kernels end about as much of it."""
    longest_s = pauses.wait.idle_s
    return 100 * longest_s / idle_s < SPREAD.value or 100 * pauses.rival_s >= ALIKE.value * longest_s


def _before(wait: Wait) -> str:
    if wait.before in DIRECTIONS:
        return "before-directed-copies"
    return _BEFORE.get(wait.before, "before-copies")


def _direction(wait: Wait) -> tuple[str, ...]:
    return (wait.before.replace(" ", "-"),) if wait.before in DIRECTIONS else ()


def _kind_of(gaps: Gaps, wait: Wait) -> str:
    """Return why a GPU pauses: for what ends most of the idle time, else for what the program does when it begins.

    Where less than most of that time is within CUDA graphs, the rest alone says why.
    """
    in_graph_s = gaps.in_graph_s or 0.0
    if 100 * in_graph_s / gaps.total_s >= MOSTLY.value:
        return "in-graphs"
    other_s = gaps.total_s - in_graph_s
    of_copies = _AT_COPIES.get(wait.before)
    if of_copies is not None and (gaps.waited_s is None or 100 * wait.idle_s / gaps.total_s >= SPREAD.value):
        return of_copies
    if gaps.waited_s is not None and 100 * gaps.waited_s / other_s >= MOSTLY.value:
        return "waiting"
    if 100 * gaps.short_s / other_s >= MOSTLY.value:
        return "short"
    if 100 * gaps.long_s / other_s >= MOSTLY.value:
        return "long"
    return "launching" if gaps.waited_s is not None else "between"


RULES = (
    Rule(
        "launch-gaps",
        kind="defect",
        thresholds=(IDLE_SHARE, MOSTLY, SPREAD, ALIKE, UNSURE),
        check=_launch_gaps,
        by_times=True,
        of_run=True,
        place=AT_KERNEL,
    ),
)
