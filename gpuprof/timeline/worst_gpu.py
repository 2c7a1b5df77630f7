"""The worst GPU of a timeline: the one with the longest pauses, or with the longest exposed activity of a kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.field_types import LateCause
from gpuprof.model.groups import by_key, summed
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, KernelProfile, Session, Timeline, Wait


class OneGpu(Struct, frozen=True):
    """A GPU of a timeline, among all GPUs and files of the run; its rank, if it is known.

    `exchanges`: the GPUs of the run exchange data, so that they wait for each other.
    """

    device: DeviceTimeline
    gpus: int
    files: int
    rank: int | None
    exchanges: bool


class Pauses(Struct, frozen=True):
    """The pauses of the GPU that is idle longest in a timeline.

    `wait` is for the activity that ends most of the idle time, one of `ends` kernels and kinds of copies.
    `idle_share` is the idle time of all GPUs of the run over their spans.
    """

    gpu: OneGpu
    wait: Wait
    idle_share: float
    ends: int


class Awaited(Struct, frozen=True):
    """The rank that other ranks waited for longest: its share of all waits, and the share that a cause explains.

    `late_for` is that cause: what it does longer than the others; None if nothing was measured. `all_late_for` is what
    explains most of the waits for any rank, and `all_explained` the share of all waits that it explains.
    """

    rank: int
    share: float
    late_for: LateCause | None
    explained: float
    all_late_for: LateCause | None
    all_explained: float


class Exposed(Struct, frozen=True):
    """Copies (of one kind) or communication not overlapped by any kernel, for the worst GPU.

    `time_s` is that time, and `share` that of all GPUs of the run over their spans. `awaited` is set if it waits for
    other ranks.
    """

    gpu: OneGpu
    done: Copies | Communication
    time_s: float
    share: float
    awaited: Awaited | None = None


def pauses_of(session: Session) -> dict[int, Pauses]:
    """Return the pauses of the GPU with most idle time, by the id of the kernel that reports them.

    Launches of that kernel end most of the idle time, or come next after the copies that do.
    """
    timeline = session.timeline
    if timeline is None or not session.kernels:
        return {}
    idle_s = {device: device.gaps.total_s for device in timeline.devices if device.gaps is not None}
    if not idle_s:
        return {}
    device = max(idle_s, key=idle_s.__getitem__)
    waits = _by_function(session, timeline, device)
    if not waits:
        return {}
    longest = max(waits, key=lambda wait: wait.idle_s)
    kernel = longest.kernel
    if kernel is None:
        kernel = _longest_on(session, device, session.kernels)
    idle_share = _share(timeline, sum(idle_s.values()))
    return {kernel: Pauses(_one_gpu(session, timeline, device), longest, idle_share, ends=len(waits))}


def _share(timeline: Timeline, time_s: float) -> float:
    """Return which part a time is of that of all GPUs of the run."""
    span_s = sum(map(running_s, timeline.devices))
    return min(1.0, time_s / span_s) if span_s > 0 else 0.0


def _by_function(session: Session, timeline: Timeline, device: DeviceTimeline) -> list[Wait]:
    """Return the waits of a GPU, those for kernels of one function as one, with the kernel of the longest."""
    names: dict[int | None, str] = {kernel.id: kernel.function_name for kernel in session.kernels}
    waits = by_key(
        ((wait.before, names.get(wait.kernel)), wait)
        for wait in timeline.waits
        if (wait.source, wait.ordinal) == (device.source, device.ordinal)
    )
    together = []
    for own in waits.values():
        longest = max(own, key=lambda wait: wait.idle_s)
        idle_s = sum(wait.idle_s for wait in own)
        together.append(replace(longest, idle_s=idle_s, pauses=sum(wait.pauses for wait in own)))
    return together


def exposed_of(session: Session, least: float) -> dict[int, tuple[Exposed, ...]]:
    """Return copies and communication that no kernel overlaps, for the worst GPU, by the id of the kernel that reports
    them.

    Leave out those that take less than `least` of the GPU's time. Waits for other ranks are separate from the rest of
    communication, if they are known.
    """
    timeline = session.timeline
    if timeline is None or not session.kernels:
        return {}
    by_kernel: dict[int, tuple[Exposed, ...]] = {}
    for (kind, _, awaited), of_gpus in by_key(_of_gpus(timeline)).items():
        device, done, time_s = max(of_gpus, key=lambda of_gpu: of_gpu[2])
        if not time_s >= least * running_s(device) > 0:
            continue
        share = _share(timeline, sum(own_s for _, _, own_s in of_gpus))
        exposed = Exposed(_one_gpu(session, timeline, device), done, time_s, share, awaited)
        kernels = [kernel for kernel in session.kernels if kind != COMMUNICATION or kernel.kind == COMMUNICATION]
        number = _longest_on(session, device, kernels)
        by_kernel[number] = (*by_kernel.get(number, ()), exposed)
    return by_kernel


_Kind = tuple[str, str | None, Awaited | None]
"""Copies of a direction and memory, communication, or waits for other ranks."""
_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""A GPU's copies or communication, and the time in which nothing else ran beside them."""


def _of_gpus(timeline: Timeline) -> Iterator[tuple[_Kind, _OfGpu]]:
    awaited = _awaited(timeline)
    for device in timeline.devices:
        for copies in device.copies:
            yield (copies.direction, copies.memory, None), (device, copies, copies.exposed_s or 0.0)
        talk = device.communication
        if talk is not None:
            waiting_s = talk.waiting_s or 0.0
            yield (COMMUNICATION, None, None), (device, talk, (talk.exposed_s or 0.0) - waiting_s)
            if awaited is not None:
                yield (COMMUNICATION, None, awaited), (device, talk, waiting_s)


def _awaited(timeline: Timeline) -> Awaited | None:
    """Return the rank that others waited for longest; None if that is not known."""
    ranks: dict[int, Communication] = {}
    for device in timeline.devices:
        rank = _rank_of(timeline, device)
        if device.communication is not None and rank is not None:
            ranks[rank] = device.communication
    total_s = sum(talk.awaited_s or 0.0 for talk in ranks.values())
    if total_s <= 0:
        return None
    rank, talk = max(ranks.items(), key=lambda of_rank: of_rank[1].awaited_s or 0.0)
    late_s = summed((talk.late_for, talk.late_s or 0.0) for talk in ranks.values())
    most = max(late_s, key=late_s.__getitem__)
    return Awaited(
        rank=rank,
        share=(talk.awaited_s or 0.0) / total_s,
        late_for=talk.late_for,
        explained=(talk.late_s or 0.0) / total_s,
        all_late_for=most,
        all_explained=late_s[most] / total_s,
    )


def _longest_on(session: Session, device: DeviceTimeline, kernels: Sequence[KernelProfile]) -> int:
    """Return the id of the longest of these kernels on a GPU; without any there, the longest of all."""
    here = [kernel for kernel in kernels if (kernel.source, kernel.device) == (device.source, device.device)]
    return max(here or kernels or session.kernels, key=lambda kernel: kernel.time_total_s or 0.0).id


def _one_gpu(session: Session, timeline: Timeline, device: DeviceTimeline) -> OneGpu:
    """Return a GPU of a timeline, among all of the run."""
    exchanges = any(gpu.communication is not None for gpu in timeline.devices)
    return OneGpu(device, len(timeline.devices), len(session.sources), _rank_of(timeline, device), exchanges)


def _rank_of(timeline: Timeline, device: DeviceTimeline) -> int | None:
    """Return the rank of the source file of a GPU; None if it is not known."""
    return dict(enumerate(timeline.source_ranks)).get(device.source)
