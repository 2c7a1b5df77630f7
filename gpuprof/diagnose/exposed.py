"""The rules on what a GPU does while no kernel computes: copies, communication, and waits for other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.case import Case, Exposed
from gpuprof.diagnose.gaps import which_gpu
from gpuprof.diagnose.rule import AT_KERNEL, Rule, RuleVerdict, Threshold, percent
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Evidence, KernelProfile, Session
from gpuprof.model.trace import DIRECTIONS, PAGEABLE, UNIFIED
from gpuprof.units import format_percent, format_si

EXPOSED_SHARE = percent(
    "share of the span in which nothing else runs beside them",
    5.0,
    "hiding less gains hardly more than it costs: what runs side by side shares the DRAM and slows down",
)
STRAGGLER = percent(
    "share of the waits that is for one rank, between an even share and all of them",
    50.0,
    "from here on more of it is for that rank's sake than by chance: of two ranks an even share is a half already",
)
_TO_DEVICE, _TO_HOST, _, _BETWEEN_PEERS, _ = DIRECTIONS
_CopyKind = tuple[str, str | None]
_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""What a GPU did, and how long nothing else ran beside it."""


class _Way(NamedTuple):
    """What to change, and how."""

    action: str
    advice: str


_FEWER_BYTES = (
    "Send fewer bytes (narrower types, decode and augment on the GPU), many small tensors in one copy, and keep on the "
    "GPU what is used again."
)
_LESS_OFTEN = "Fetch results less often (.item(), .cpu(), print), many at once, and keep them on the GPU in between."
_PREFETCH = _Way(
    "Prefetch unified memory before kernels need it, or keep it where it is used",
    "Move pages ahead of their use with cudaMemPrefetchAsync on another stream, say with cudaMemAdvise where they "
    "belong, and keep on one side what only that side uses; copy from pinned memory what is needed whole each time.",
)
_WAYS: dict[_CopyKind, _Way] = {
    (_TO_DEVICE, PAGEABLE): _Way(
        "Copy from pinned memory, on a stream of its own, while the GPU computes the previous batch",
        "From pageable memory the driver first copies into a pinned buffer of its own, and the program waits. Copy "
        "from pinned memory: DataLoader(pin_memory=True) or .pin_memory() with .to(device, non_blocking=True); "
        "cudaMallocHost or cudaHostRegister with cudaMemcpyAsync. Do it on a stream of its own while the previous "
        f"batch is computed. {_FEWER_BYTES}",
    ),
    (_TO_DEVICE, None): _Way(
        "Copy the next batch on a stream of its own while the GPU computes this one",
        "Copy from pinned memory with non_blocking=True or cudaMemcpyAsync, on a stream of its own, while the previous "
        f"batch is computed. {_FEWER_BYTES}",
    ),
    (_TO_DEVICE, UNIFIED): _PREFETCH,
    (_TO_HOST, PAGEABLE): _Way(
        "Fetch results less often, into pinned memory and without waiting for them",
        f"{_LESS_OFTEN} Copy into pinned memory with non_blocking=True or cudaMemcpyAsync, on a stream of its own, "
        "while the GPU computes on: into pageable memory the program waits for the copy.",
    ),
    (_TO_HOST, None): _Way(
        "Fetch results less often, and while the GPU computes on",
        f"{_LESS_OFTEN} Copy into pinned memory with non_blocking=True or cudaMemcpyAsync, on a stream of its own, "
        "while the GPU computes on.",
    ),
    (_TO_HOST, UNIFIED): _PREFETCH,
    (_BETWEEN_PEERS, None): _Way(
        "Copy between GPUs on a stream of its own while both compute",
        "Copy in parts on a stream of its own while the GPUs compute on other parts, send fewer bytes, and keep on one "
        "GPU what works together.",
    ),
}
"""By direction and memory; None stands for all other memory."""
_OVERLAP = _Way(
    "Overlap communication with computation",
    "Start each exchange as soon as its data are ready, and compute on: DDP's bucket_cap_mb, FSDP's forward_prefetch "
    "and backward_prefetch, async_op=True, a stream of its own. Send fewer or narrower bytes: BF16 gradients, gradient "
    "accumulation with no_sync(), compression, first within a node and then between nodes. Where ranks wait for the "
    "slowest, balance their work: that time is in here, too.",
)
_BALANCE = _Way(
    "Balance the work of ranks: the others wait for the slowest",
    "Give each rank as much work: batches of equal length (bucketing by sequence length), equal layers per pipeline "
    "stage, experts of equal load. See what the slowest rank does more, or does more slowly: data loading, "
    "checkpoints, logging, garbage collection, a GPU of lower clocks. The network is not what to look at first.",
)
_EVEN_OUT = _Way(
    "Make the steps of the ranks equally long: now this rank, now that one comes last",
    "No rank is the slowest throughout: look at what varies from step to step, such as the length of batches "
    "(bucketing by sequence length), the load of experts, data loading and garbage collection. The network is not what "
    "to look at first.",
)


def exposed_of(session: Session) -> dict[int, tuple[Exposed, ...]]:
    """Return what no kernel runs beside, each on the GPU with most of it, by the number of a kernel to tell it of.

    Of communication, what waits for other ranks is told apart from the rest, where that is known.
    """
    devices = session.timeline.devices if session.timeline is not None else ()
    kinds = dict.fromkeys((copies.direction, copies.memory) for device in devices for copies in device.copies)
    longest = [_most_exposed(session, _of_copies(devices, kind)) for kind in kinds]
    talks = [(device, device.communication) for device in devices if device.communication is not None]
    moving = [(device, talk, talk.exposed_s - (talk.waiting_s or 0.0)) for device, talk in talks]
    waiting = _most_exposed(session, [(device, talk, talk.waiting_s or 0.0) for device, talk in talks])
    awaited = _awaited(session)
    longest.append(_most_exposed(session, moving))
    longest.append(replace(waiting, awaited=awaited) if waiting is not None and awaited is not None else None)
    told: dict[int, tuple[Exposed, ...]] = {}
    for exposed in longest:
        kernel = _spokesman(session, exposed) if exposed is not None else None
        if exposed is not None and kernel is not None:
            told[kernel.id] = (*told.get(kernel.id, ()), exposed)
    return told


def _of_copies(devices: Sequence[DeviceTimeline], kind: _CopyKind) -> list[_OfGpu]:
    return [
        (device, copies, copies.exposed_s or 0.0)
        for device in devices
        for copies in device.copies
        if (copies.direction, copies.memory) == kind
    ]


def _most_exposed(session: Session, of_gpus: Sequence[_OfGpu]) -> Exposed | None:
    """Return what is exposed longest of what GPUs did of one kind, where that is enough; None where it is not."""
    timeline = session.timeline
    if timeline is None or not of_gpus:
        return None
    device, done, time_s = max(of_gpus, key=lambda entry: (_is_enough(entry[0], entry[2]), entry[2]))
    span_s = sum(map(running_s, timeline.devices))
    if not _is_enough(device, time_s):
        return None
    return Exposed(
        device=device,
        done=done,
        time_s=time_s,
        share=sum(part_s for _, _, part_s in of_gpus) / span_s,
        gpus=len(timeline.devices),
        files=len(session.sources),
        rank=_rank(session, device),
    )


def _awaited(session: Session) -> tuple[int, float] | None:
    """Return the rank that others waited for longest, and the part of all waits that is."""
    devices = session.timeline.devices if session.timeline is not None else ()
    waits = [
        (device.communication.awaited_s or 0.0, rank)
        for device in devices
        if device.communication is not None and (rank := _rank(session, device)) is not None
    ]
    total_s = sum(awaited_s for awaited_s, _ in waits)
    if total_s <= 0:
        return None
    awaited_s, rank = max(waits)
    return rank, awaited_s / total_s


def _rank(session: Session, device: DeviceTimeline) -> int | None:
    ranks = session.timeline.source_ranks if session.timeline is not None else ()
    return ranks[device.source] if device.source < len(ranks) else None


def _spokesman(session: Session, exposed: Exposed) -> KernelProfile | None:
    """Return the kernel that takes most time of those on a GPU, or of those that communicate there."""
    exchanges, place = isinstance(exposed.done, Communication), (exposed.device.source, exposed.device.device)
    kernels = [kernel for kernel in session.kernels if not exchanges or kernel.kind == COMMUNICATION]
    here = [kernel for kernel in kernels if (kernel.source, kernel.device) == place]
    return max(here or kernels or session.kernels, key=lambda kernel: kernel.time_total_s or 0.0, default=None)


def _exposed_copies(case: Case) -> Iterator[RuleVerdict]:
    for exposed in case.exposed:
        copies = exposed.done
        if not isinstance(copies, Copies):
            continue
        way = _WAYS.get((copies.direction, copies.memory), _WAYS.get((copies.direction, None)))
        if way is None:
            continue
        rate = f", at {format_si(copies.bytes_per_s, 'B/s')}" if copies.bytes_per_s is not None else ""
        yield _verdict(
            exposed,
            way,
            headline=f"Exposed copies: {which_gpu(exposed)} copies for {_part(exposed)} with no kernel beside; "
            f"{format_si(exposed.time_s, 's')} {_way_of(copies)}{rate}",
            why=("The GPU computes nothing meanwhile.", *_beside(exposed), *_link(case, copies)),
            evidence=tuple(_moved(copies)),
        )


def _exposed_communication(case: Case) -> Iterator[RuleVerdict]:
    for exposed in case.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is not None:
            continue
        if talk.waiting_s is not None:
            why = "Nothing is computed meanwhile. Time of waiting for other ranks is not counted here."
        else:
            why = (
                "Nothing is computed meanwhile. It is time of moving data and of waiting for the rank that comes last; "
                "the traces of all ranks, read together, tell these apart."
            )
        yield _verdict(
            exposed,
            _OVERLAP,
            headline=f"Exposed communication: {which_gpu(exposed)} communicates for {_part(exposed)} with no other "
            f"kernel beside; {_of_its(exposed, talk)} of communication",
            why=(why,),
            evidence=_talked(talk),
        )


def _waits_for_ranks(case: Case) -> Iterator[RuleVerdict]:
    for exposed in case.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is None:
            continue
        rank, part = exposed.awaited
        one_is_last = 100 * part >= _of_a_straggler(exposed.gpus)
        whom = f"{format_percent(part)} of all waits are for rank {rank}"
        if not one_is_last:
            whom = f"{format_percent(part)} of all waits at most are for one rank"
        yield _verdict(
            exposed,
            _BALANCE if one_is_last else _EVEN_OUT,
            headline=f"Waiting for ranks: {which_gpu(exposed)} waits for {_part(exposed)} in its collectives; "
            f"{_of_its(exposed, talk)} of communication, {whom}",
            why=(
                "A collective begins when a rank arrives, and moves data when the last has: what it takes longer than "
                "on the rank where it was shortest is waiting. A faster network does not change that.",
            ),
            evidence=(
                *_talked(talk),
                Evidence("", 100 * part, "%", threshold=_of_a_straggler(exposed.gpus), meaning=_OF_ONE),
            ),
        )


def _of_a_straggler(ranks: int) -> float:
    """Return what share of the waits of so many ranks is for one that is slower than the others."""
    even = 100 / ranks
    return even + STRAGGLER.value / 100 * (100 - even)


_OF_ONE = "share of the waits that is for one rank"


def _of_its(exposed: Exposed, talk: Communication) -> str:
    """Say how much of its communication that is: "18.0 ms of 24.0 ms"."""
    part, whole = format_si(exposed.time_s, "s"), format_si(talk.time_s, "s")
    return f"{part} of {whole}" if part != whole else f"all {whole}"


def _is_enough(device: DeviceTimeline, time_s: float) -> bool:
    return 100 * time_s >= EXPOSED_SHARE.value * running_s(device) > 0


def _talked(talk: Communication) -> tuple[Evidence, ...]:
    return (
        Evidence("", talk.time_s, "s", threshold=None, meaning="time of communication"),
        Evidence("", float(talk.launches), "kernel", threshold=None, meaning="launches that communicate"),
    )


def _verdict(
    exposed: Exposed,
    way: _Way,
    *,
    headline: str,
    why: Sequence[str],
    evidence: Sequence[Evidence],
) -> RuleVerdict:
    share = 100 * exposed.time_s / running_s(exposed.device)
    return RuleVerdict(
        headline=headline,
        why=" ".join((*why, *_of_all(exposed))),
        action=way.action,
        advice=way.advice,
        confidence="inferred",
        saving=None,
        gain_of_run=exposed.share,
        # No kernel copies, and those that communicate are one of their own.
        everywhere=isinstance(exposed.done, Copies),
        evidence=(
            Evidence("", share, "%", threshold=EXPOSED_SHARE.value, meaning=EXPOSED_SHARE.name),
            Evidence("", exposed.time_s, "s", threshold=None, meaning="time in which nothing else runs beside them"),
            *evidence,
        ),
    )


def _part(exposed: Exposed) -> str:
    """Say how much of a GPU's time it is: "83 % of 215 ms"."""
    span_s = running_s(exposed.device)
    return f"{format_percent(exposed.time_s / span_s)} of {format_si(span_s, 's')}"


def _way_of(copies: Copies) -> str:
    """Say what is copied where: "host to device from pageable memory"."""
    if copies.memory is None:
        return copies.direction
    if copies.memory == UNIFIED:
        return f"{copies.direction} by pages of unified memory"
    return f"{copies.direction} {'into' if copies.direction == _TO_HOST else 'from'} {copies.memory} memory"


def _beside(exposed: Exposed) -> tuple[str, ...]:
    """Say what overlap can hide at most, where that is not all: there must be kernels to run beside."""
    if exposed.device.kernel_s >= exposed.time_s:
        return ()
    return (
        f"Kernels run for {format_si(exposed.device.kernel_s, 's')}: overlap hides no more than that, the rest takes "
        "faster or fewer copies.",
    )


def _link(case: Case, copies: Copies) -> tuple[str, ...]:
    """Say what the rate of copies is of that of the link to the host, or that this is not known."""
    if copies.bytes_per_s is None or copies.direction == _BETWEEN_PEERS:
        return ()
    gpu = case.recorded.hardware.gpu
    link = gpu.facts.get("host_link") if gpu is not None else None
    if link is None:
        return ("The rate of the link to the host is not known here: it is that of the machine's PCIe.",)
    share = format_percent(copies.bytes_per_s / link.value)
    return (f"They reach {share} of the {format_si(link.value, 'B/s')} of the link to the host.",)


def _moved(copies: Copies) -> Iterator[Evidence]:
    yield Evidence("", float(copies.count), "time", threshold=None, meaning="copies")
    if copies.time_s is not None:
        yield Evidence("", copies.time_s, "s", threshold=None, meaning="time of the copies, added up")
    if copies.bytes is not None:
        yield Evidence("", float(copies.bytes), "B", threshold=None, meaning="bytes of the copies")
    if copies.bytes_per_s is not None:
        yield Evidence("", copies.bytes_per_s, "B/s", threshold=None, meaning="bandwidth while they ran")


def _of_all(exposed: Exposed) -> tuple[str, ...]:
    if exposed.gpus < 2:
        return ()
    return (f"Of the time of all {exposed.gpus} GPUs it is {format_percent(exposed.share)}.",)


def _rule(
    id_: str,
    title: str,
    looks_at: str,
    silent: str,
    check: Callable[[Case], Iterator[RuleVerdict]],
    *more: Threshold,
) -> Rule:
    return Rule(
        id_,
        title,
        about="defect",
        looks_at=looks_at,
        thresholds=(EXPOSED_SHARE, *more),
        gain="That time of all GPUs of the run over their spans, start-up left out: at most all of it is hidden or "
        "goes. It is a share of the run, not of a kernel.",
        silent=silent,
        check=check,
        by_times=True,
        of_run=True,
        place=AT_KERNEL,
    )


RULES = (
    _rule(
        "exposed-copies",
        "Copies that no kernel runs beside",
        "The copies of a timeline by direction and memory (pageable, pinned, unified), and the time of them in which "
        "no kernel runs. A kernel without a duration may have run until the next thing on its stream.",
        "There is no timeline, or that is under 5 % of the span of every GPU. Copies within a GPU are left out, which "
        "are work for its DRAM, and, of a program that gpuprof surveyed, those before its first kernel, which do not "
        "come again. It is reported once per run for a direction and memory, for the GPU with most of that time.",
        _exposed_copies,
    ),
    _rule(
        "exposed-communication",
        "Communication that no other kernel runs beside",
        "The kernels of a timeline that exchange data with other GPUs, and the time of them in which no other kernel "
        "runs, without that of waiting for other ranks where it is known.",
        "There is no timeline, or that is under 5 % of the span of every GPU. It is reported once per run, for the GPU "
        "with most of that time.",
        _exposed_communication,
    ),
    _rule(
        "waiting-for-ranks",
        "Ranks wait for another one in their collectives",
        "The collectives of several ranks' timelines, paired by process group, name, size and order: what one takes "
        "longer than on the rank where it was shortest, which came last, as far as no other kernel runs meanwhile.",
        "There are no traces of PyTorch of all ranks of a group with the fields of its collectives; the ranks ran "
        "other collectives, so that it is not sure which belong together; or the waits are under 5 % of the span of "
        "every GPU. It is reported once per run, for the GPU that waits longest.",
        _waits_for_ranks,
        STRAGGLER,
    ),
)
