"""The worst GPU of a timeline: the one with the longest pauses, or with the longest exposed activity of a kind."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.field_types import LateCause
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, KernelProfile, Session, Wait
from gpuprof.timeline.trace import KERNEL

_WAITS = "waits"


class OneGpu(Struct, frozen=True):
    """A GPU of a timeline, among all GPUs and files of the run; its rank, if it is known."""

    device: DeviceTimeline
    gpus: int
    files: int
    rank: int | None


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

    `late_for` is that cause: what it does longer than the others; None if nothing was measured.
    """

    rank: int
    share: float
    late_for: LateCause | None
    explained: float


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
    if session.timeline is None or not session.kernels:
        return {}
    devices = session.timeline.devices
    idle_s = {device: device.gaps.total_s for device in devices if device.gaps is not None}
    if not idle_s:
        return {}
    device = max(idle_s, key=lambda each: idle_s[each])
    waits = _by_function(session, device)
    if not waits:
        return {}
    longest = max(waits, key=lambda wait: wait.idle_s)
    kernel = longest.kernel
    if kernel is None:
        kernel = _longest_on(session, device, session.kernels).id
    span_s = sum(map(running_s, devices))
    idle_share = min(1.0, sum(idle_s.values()) / span_s) if span_s > 0 else 0.0
    return {kernel: Pauses(_one_gpu(session, device), longest, idle_share, ends=len(waits))}


def _by_function(session: Session, device: DeviceTimeline) -> list[Wait]:
    """Return the waits of a GPU, those for kernels of one function as one, with the kernel of the longest."""
    names = {kernel.id: kernel.function_name for kernel in session.kernels}
    waits: dict[tuple[str, str | None], list[Wait]] = {}
    for wait in session.timeline.waits if session.timeline is not None else ():
        if (wait.source, wait.ordinal) == (device.source, device.ordinal):
            function = names.get(wait.kernel) if wait.kernel is not None and wait.before == KERNEL else None
            waits.setdefault((wait.before, function), []).append(wait)
    together = []
    for own in waits.values():
        longest = max(own, key=lambda wait: wait.idle_s)
        idle_s = sum(wait.idle_s for wait in own)
        together.append(replace(longest, idle_s=idle_s, pauses=sum(wait.pauses for wait in own)))
    return together


_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""A GPU's copies or communication, and the time in which nothing else ran beside them."""


def exposed_of(session: Session, least: float) -> dict[int, tuple[Exposed, ...]]:
    """Return copies and communication that no kernel overlaps, for the worst GPU, by the id of the kernel that reports
    them.

    Leave out those that take less than `least` of the GPU's time. Waits for other ranks are separate from the rest of
    communication, if they are known.
    """
    if session.timeline is None or not session.kernels:
        return {}
    by_kind: dict[tuple[str, str | None], list[_OfGpu]] = {}
    for device in session.timeline.devices:
        for copies in device.copies:
            by_kind.setdefault((copies.direction, copies.memory), []).append((device, copies, copies.exposed_s or 0.0))
        talk = device.communication
        if talk is not None:
            waiting_s = talk.waiting_s or 0.0
            by_kind.setdefault((COMMUNICATION, None), []).append((device, talk, talk.exposed_s - waiting_s))
            by_kind.setdefault((COMMUNICATION, _WAITS), []).append((device, talk, waiting_s))
    by_kernel: dict[int, tuple[Exposed, ...]] = {}
    for (kind, part), of_gpus in by_kind.items():
        exposed = _most_exposed(session, of_gpus, least)
        if exposed is not None and part == _WAITS:
            exposed = _with_awaited(session, exposed, of_gpus)
        if exposed is None:
            continue
        kernels = [kernel for kernel in session.kernels if kind != COMMUNICATION or kernel.kind == COMMUNICATION]
        number = _longest_on(session, exposed.gpu.device, kernels).id
        by_kernel[number] = (*by_kernel.get(number, ()), exposed)
    return by_kernel


def _most_exposed(session: Session, of_gpus: Sequence[_OfGpu], least: float) -> Exposed | None:
    """Return the longest exposed time of one kind on any GPU; None if it is too short to report."""
    device, done, time_s = max(of_gpus, key=lambda of_gpu: of_gpu[2])
    if not time_s >= least * running_s(device) > 0:
        return None
    devices = session.timeline.devices if session.timeline is not None else ()
    share = min(1.0, sum(part_s for _, _, part_s in of_gpus) / sum(map(running_s, devices)))
    return Exposed(_one_gpu(session, device), done, time_s, share)


def _with_awaited(session: Session, exposed: Exposed, of_gpus: Sequence[_OfGpu]) -> Exposed | None:
    """Add the rank that others waited for longest; None if that is not known."""
    ranks: dict[int, Communication] = {}
    for device, _, _ in of_gpus:
        rank = _rank_of(session, device)
        if device.communication is not None and rank is not None:
            ranks[rank] = device.communication
    total_s = sum(talk.awaited_s or 0.0 for talk in ranks.values())
    if total_s <= 0:
        return None
    rank = max(ranks, key=lambda each: ranks[each].awaited_s or 0.0)
    talk = ranks[rank]
    share, explained = ((seconds or 0.0) / total_s for seconds in (talk.awaited_s, talk.late_s))
    return replace(exposed, awaited=Awaited(rank, share, talk.late_for, explained))


def _longest_on(session: Session, device: DeviceTimeline, kernels: Sequence[KernelProfile]) -> KernelProfile:
    """Return the longest of these kernels on a GPU; without any there, the longest of all."""
    here = [kernel for kernel in kernels if (kernel.source, kernel.device) == (device.source, device.device)]
    return max(here or kernels or session.kernels, key=lambda kernel: kernel.time_total_s or 0.0)


def _one_gpu(session: Session, device: DeviceTimeline) -> OneGpu:
    """Return a GPU of a timeline, among all of the run."""
    gpus = len(session.timeline.devices) if session.timeline is not None else 0
    return OneGpu(device, gpus, len(session.sources), _rank_of(session, device))


def _rank_of(session: Session, device: DeviceTimeline) -> int | None:
    """Return the rank of the source file of a GPU; None if it is not known."""
    ranks = session.timeline.source_ranks if session.timeline is not None else ()
    return ranks[device.source] if device.source < len(ranks) else None
