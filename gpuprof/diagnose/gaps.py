"""The rule on what a GPU does between kernels, which only a timeline tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.diagnose.case import Case, Exposed, Pauses
from gpuprof.diagnose.rule import AT_KERNEL, Rule, RuleVerdict, percent
from gpuprof.model.run_totals import running_s, start_up_s
from gpuprof.model.session import DeviceTimeline, Evidence, Gaps, Session, Wait
from gpuprof.model.trace import DIRECTIONS, KERNEL, MEMORY_SET, TRY
from gpuprof.units import format_percent, format_si

IDLE_SHARE = percent("idle share of the span", 10.0, "less is the price of launching kernels one after the other")
MOSTLY = percent(
    "share of the idle time in short or long pauses, in graphs, or after waits",
    50.0,
    "most of it says which kind of pause it is",
)
SPREAD = percent(
    "share of the idle time before one kernel or kind of copy", 20.0, "less names nothing to look at: all wait alike"
)
ALIKE = percent(
    "idle time before another kernel, of that before the one with most",
    80.0,
    "to name the one would hide the other: neither stands out",
)
UNSURE = percent(
    "share of the idle time after activities without a duration",
    20.0,
    "they count as instants and may have filled it: from here on the finding is a guess",
)


class _Kind(NamedTuple):
    """Why the GPU pauses, what to change, and how."""

    why: str
    action: str
    advice: str


_SHORT = _Kind(
    "Most of the idle time is pauses under 20 µs: the CPU launches kernels no faster than the GPU ends them.",
    "Launch less often: CUDA graphs, fused kernels or larger batches",
    'Launch less often: CUDA graphs (torch.compile with mode="reduce-overhead"), fused kernels, foreach or fused '
    "optimisers, larger batches.",
)
_LONG = _Kind(
    "Most of the idle time is pauses of 1 ms or longer: the program waits for data, for a synchronisation or for its "
    "own CPU work.",
    "Find out what the CPU does in the long pauses and move it out of the loop",
    "Look at what the CPU does there: data loading (num_workers, pin_memory, prefetch), .item() and printing of "
    "tensors, copies without non_blocking, compilation or warm-up inside the measured time.",
)
_WAITING = _Kind(
    "Most of the idle time begins while the program waits for the GPU, so that nothing is launched meanwhile.",
    "Wait for the GPU less often, so that launches run ahead of it",
    "Take out what waits in the loop: cudaStreamSynchronize, cudaDeviceSynchronize, copies without Async, cudaFree; in "
    "PyTorch .item(), .cpu(), .nonzero(), masks as an index, and print; in OpenACC and OpenMP async and nowait on "
    "kernels and data.",
)
_LAUNCHING = _Kind(
    "The CPU launches kernels no faster than the GPU ends them, and hardly waits for it: launching itself, with Python "
    "and the framework around it, takes longer than the kernels.",
    _SHORT.action,
    _SHORT.advice,
)
_BETWEEN = _Kind(
    "The CPU launches the next kernel late: between launches it works or waits for the GPU.",
    "Move synchronisations and CPU work out of the loop that launches",
    "Move synchronisations (.item(), .cpu(), print) and Python work out of the loop, or launch it as a CUDA graph.",
)
_IN_GRAPHS = _Kind(
    "Most of the idle time is within launches of CUDA graphs, between nodes that start one after the other: the GPU "
    "itself takes it to end one and start the next; the CPU had launched both.",
    "Give the graph fewer nodes, or let them overlap",
    "Fuse the small kernels and copies of the graph, so that it has fewer nodes; capture what does not depend on each "
    "other on streams of its own, so that it becomes parallel branches; on Hopper and newer let a kernel start before "
    "the one ahead of it has ended (programmatic dependent launch, PDL).",
)
_BETWEEN_NODES = "idle time between nodes of one launch of a CUDA graph"
_LEFT_OUT = "start-up, not counted"
_WHILE_WAITING = "idle time that begins while the program waits for the GPU"
_TO_DEVICE, _TO_HOST = DIRECTIONS[:2]
_AT_COPIES = {
    _TO_DEVICE: _Kind(
        "Most of the idle time ends when data arrives from the host: the GPU waits until the CPU has prepared it.",
        "Prepare and copy the next batch while the GPU computes this one",
        "Prepare and copy the next batch while this one is computed: DataLoader with num_workers, pin_memory=True and "
        "prefetch_factor, .to(device, non_blocking=True); copy many small tensors at once, or create them on the GPU.",
    ),
    _TO_HOST: _Kind(
        "Most of the idle time ends when results are fetched to the host: the CPU asks late, and then waits for them.",
        "Fetch results less often and without waiting for them",
        "Fetch results less often (.item(), .cpu(), print), keep them on the GPU in between, and copy into pinned "
        "memory with non_blocking=True.",
    ),
}


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


def _launch_gaps(case: Case) -> Iterator[RuleVerdict]:
    if case.pauses is None:
        return
    device, wait = case.pauses.device, case.pauses.wait
    gaps, span_s = device.gaps, running_s(device)
    if gaps is None or span_s <= 0 or 100 * (gaps.total_s - gaps.unsure_s) / span_s < IDLE_SHARE.value:
        return
    idle_s, left_out_s, share = gaps.total_s, start_up_s(device), gaps.total_s / span_s
    kind = _kind_of(gaps, wait)
    unsure = 100 * gaps.unsure_s / idle_s
    yield RuleVerdict(
        headline=(
            f"Launch gaps: {which_gpu(case.pauses)} is idle {format_percent(share)} of {format_si(span_s, 's')}"
            f"{' after start-up' if left_out_s else ''}; {_where(case.pauses, idle_s)}"
        ),
        why=" ".join(
            (
                kind.why,
                *_follows(wait),
                *_of_all(case.pauses),
                *_of_start_up(left_out_s),
                *_doubt(gaps, idle_s),
                "Profiling itself makes pauses longer.",
            )
        ),
        action=kind.action,
        advice=kind.advice,
        confidence="guess" if unsure >= UNSURE.value else "inferred",
        saving=None,
        gain_of_run=case.pauses.idle_share,
        everywhere=_is_spread(case.pauses, idle_s),
        evidence=(
            Evidence("", 100 * share, "%", threshold=IDLE_SHARE.value, meaning="idle share of the span"),
            Evidence("", float(gaps.count), "pause", threshold=None, meaning="pauses"),
            Evidence("", gaps.median_s, "s", threshold=None, meaning="median pause"),
            Evidence("", gaps.longest_s, "s", threshold=None, meaning="longest pause"),
            *((Evidence("", left_out_s, "s", threshold=None, meaning=_LEFT_OUT),) if left_out_s else ()),
            *_in_graphs(gaps, idle_s),
            *_waited(gaps, idle_s),
            Evidence("", float(wait.pauses), "pause", threshold=None, meaning=f"pauses before {_end(wait)}"),
            *([Evidence("", unsure, "%", threshold=UNSURE.value, meaning=UNSURE.name)] if gaps.unsure_s else ()),
        ),
    )


def _in_graphs(gaps: Gaps, idle_s: float) -> tuple[Evidence, ...]:
    """Return how much of the idle time is within CUDA graphs, if any is."""
    if not gaps.in_graph_s:
        return ()
    share = 100 * gaps.in_graph_s / idle_s
    return (Evidence("", share, "%", threshold=MOSTLY.value, meaning=_BETWEEN_NODES),)


def _waited(gaps: Gaps, idle_s: float) -> tuple[Evidence, ...]:
    """Return how much of the idle time begins while the program waits for the GPU, where calls were recorded."""
    if gaps.waited_s is None:
        return ()
    share = 100 * gaps.waited_s / idle_s
    return (Evidence("", share, "%", threshold=MOSTLY.value, meaning=_WHILE_WAITING),)


def which_gpu(told: Pauses | Exposed) -> str:
    """Name the GPU that something is told of, where there are several."""
    if told.gpus < 2:
        return "the GPU"
    of_file = f" of rank {told.rank}" if told.rank is not None else " of this kernel's file"
    return f"GPU {told.device.ordinal}{of_file if told.files > 1 else ''}"


def _is_spread(pauses: Pauses, idle_s: float) -> bool:
    """Tell whether the idle time has no place: no kernel or kind of copy ends much of it, or kernels end alike."""
    longest_s = pauses.wait.idle_s
    return 100 * longest_s / idle_s < SPREAD.value or 100 * pauses.rival_s >= ALIKE.value * longest_s


def _where(pauses: Pauses, idle_s: float) -> str:
    """Say how much of the idle time is where: "73 % of that (286 ms) before host-to-device copies"."""
    wait = pauses.wait
    share = wait.idle_s / idle_s
    if _is_spread(pauses, idle_s):
        return (
            f"the pauses come before {pauses.ends} kernels and kinds of copies, at most "
            f"{format_percent(pauses.most_s / idle_s)} of the idle time before any one of them"
        )
    return f"{format_percent(share)} of that ({format_si(wait.idle_s, 's')}) before {_end(wait)}"


def _end(wait: Wait) -> str:
    if wait.before == KERNEL:
        return "launches of this kernel"
    if wait.before == MEMORY_SET:
        return "memory sets"
    if wait.before == TRY:
        return "autotuner trials"
    return "copies" if wait.before not in DIRECTIONS else f"{wait.before.replace(' ', '-')} copies"


def _follows(wait: Wait) -> tuple[str, ...]:
    """Say why copies are told of this kernel."""
    if wait.before == KERNEL or wait.kernel is None:
        return ()
    return ("More of that time comes before this kernel than before any other.",)


def _of_all(pauses: Pauses) -> tuple[str, ...]:
    if pauses.gpus < 2:
        return ()
    return (f"All {pauses.gpus} GPUs together are idle {format_percent(pauses.idle_share)} of their time.",)


def _of_start_up(left_out_s: float) -> tuple[str, ...]:
    """Say what is left out."""
    if not left_out_s:
        return ()
    return (f"{format_si(left_out_s, 's')} of start-up are not counted: they do not come again.",)


def _doubt(gaps: Gaps, idle_s: float) -> tuple[str, ...]:
    """Say how much of the idle time may be none, if that is worth a word."""
    if 100 * gaps.unsure_s / idle_s < UNSURE.value:
        return ()
    return (
        f"{format_si(gaps.unsure_s, 's')} of the idle time follow activities without a duration in the trace, which "
        "may have filled them.",
    )


def _kind_of(gaps: Gaps, wait: Wait) -> _Kind:
    """Return why a GPU pauses: for what ends most of the idle time, else for what the program does when it begins.

    Where less than most of that time is within CUDA graphs, the rest alone says why.
    """
    in_graph_s = gaps.in_graph_s or 0.0
    if 100 * in_graph_s / gaps.total_s >= MOSTLY.value:
        return _IN_GRAPHS
    other_s = gaps.total_s - in_graph_s
    of_copies = _AT_COPIES.get(wait.before)
    if of_copies is not None and (gaps.waited_s is None or 100 * wait.idle_s / gaps.total_s >= SPREAD.value):
        return of_copies
    if gaps.waited_s is not None and 100 * gaps.waited_s / other_s >= MOSTLY.value:
        return _WAITING
    if 100 * gaps.short_s / other_s >= MOSTLY.value:
        return _SHORT
    if 100 * gaps.long_s / other_s >= MOSTLY.value:
        return _LONG
    return _LAUNCHING if gaps.waited_s is not None else _BETWEEN


RULES = (
    Rule(
        "launch-gaps",
        "The GPU is idle between kernels",
        about="defect",
        looks_at="The pauses of a GPU in the part of a timeline that is judged, and what most of their time comes "
        "before: launches of a kernel, or copies of a direction; whether it is between two nodes of one launch of a "
        "CUDA graph; and, where calls of CUDA were recorded, whether the program waited for the GPU when it began.",
        thresholds=(IDLE_SHARE, MOSTLY, SPREAD, ALIKE, UNSURE),
        gain="The idle time of all GPUs of the run over their spans, start-up left out: at most all pauses go. It is a "
        "share of the run, not of a kernel.",
        silent="There is no timeline, or the GPU that is idle longest is so for under 10 % of its span, not counting "
        "pauses after activities without a duration. The span is that of the steps, or of all; where kernels "
        "repeat after a start-up, that of what comes after it. Of a program that gpuprof surveyed the pauses of the "
        "start-up are left out of it: before its first kernel; before first launches where no later one of that "
        "kernel waits a third as long; and of 1 ms or more before kernels that are launched once, until one comes "
        "again. It is reported once per run: "
        "for the kernel with most idle time before it or, where copies end the idle time, for the kernel that most "
        "often comes next.",
        check=_launch_gaps,
        by_times=True,
        of_run=True,
        place=AT_KERNEL,
    ),
)
