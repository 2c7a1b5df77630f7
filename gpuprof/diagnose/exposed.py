"""The rules on what a GPU does while no kernel computes: copies and communication, which only a timeline tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.diagnose.case import Case, Exposed
from gpuprof.diagnose.gaps import which_gpu
from gpuprof.diagnose.rule import AT_KERNEL, Rule, RuleVerdict, percent
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
_TO_DEVICE, _TO_HOST, _, _BETWEEN_PEERS, _ = DIRECTIONS
_CopyKind = tuple[str, str | None]


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


def exposed_of(session: Session) -> dict[int, tuple[Exposed, ...]]:
    """Return what no kernel runs beside, each on the GPU with most of it, by the number of a kernel to tell it of."""
    devices = session.timeline.devices if session.timeline is not None else ()
    kinds = dict.fromkeys((copies.direction, copies.memory) for device in devices for copies in device.copies)
    of_kinds = [_most_exposed(session, [(device, _copies_of(device, kind)) for device in devices]) for kind in kinds]
    talk = _most_exposed(session, [(device, device.communication) for device in devices])
    told: dict[int, tuple[Exposed, ...]] = {}
    for exposed, exchanges in [*((copies, False) for copies in of_kinds), (talk, True)]:
        kernel = _spokesman(session, exposed.device, exchanges) if exposed is not None else None
        if exposed is not None and kernel is not None:
            told[kernel.id] = (*told.get(kernel.id, ()), exposed)
    return told


def _copies_of(device: DeviceTimeline, kind: _CopyKind) -> Copies | None:
    return next((copies for copies in device.copies if (copies.direction, copies.memory) == kind), None)


def _most_exposed(
    session: Session, of_devices: Sequence[tuple[DeviceTimeline, Copies | Communication | None]]
) -> Exposed | None:
    """Return what is exposed longest of what GPUs did of one kind; None where nothing is."""
    known = [(done.exposed_s, device, done) for device, done in of_devices if done is not None and done.exposed_s]
    span_s = sum(running_s(device) for device, _ in of_devices)
    if session.timeline is None or not known or span_s <= 0:
        return None
    _, device, done = max(known, key=lambda entry: entry[0])
    ranks = session.timeline.source_ranks
    return Exposed(
        device=device,
        done=done,
        share=sum(exposed_s for exposed_s, _, _ in known) / span_s,
        gpus=len(of_devices),
        files=len({of_file.source for of_file, _ in of_devices}),
        rank=ranks[device.source] if device.source < len(ranks) else None,
    )


def _spokesman(session: Session, device: DeviceTimeline, exchanges: bool) -> KernelProfile | None:
    """Return the kernel that takes most time of those on a GPU, or of those that communicate there."""
    kernels = [kernel for kernel in session.kernels if not exchanges or kernel.kind == COMMUNICATION]
    here = [kernel for kernel in kernels if (kernel.source, kernel.device) == (device.source, device.device)]
    return max(here or kernels or session.kernels, key=lambda kernel: kernel.time_total_s or 0.0, default=None)


def _exposed_copies(case: Case) -> Iterator[RuleVerdict]:
    for exposed in case.exposed:
        copies, span_s = exposed.done, running_s(exposed.device)
        if not isinstance(copies, Copies) or not copies.exposed_s or span_s <= 0:
            continue
        way = _WAYS.get((copies.direction, copies.memory), _WAYS.get((copies.direction, None)))
        if way is None or 100 * copies.exposed_s / span_s < EXPOSED_SHARE.value:
            continue
        rate = f", at {format_si(copies.bytes_per_s, 'B/s')}" if copies.bytes_per_s is not None else ""
        yield _verdict(
            exposed,
            copies.exposed_s,
            way,
            headline=f"Exposed copies: {which_gpu(exposed)} copies for {_part(exposed, copies.exposed_s)} with no "
            f"kernel beside; {format_si(copies.exposed_s, 's')} {_way_of(copies)}{rate}",
            why=(*_hidden(copies), *_beside(exposed.device, copies.exposed_s), *_link(case, copies)),
            evidence=tuple(_moved(copies)),
        )


def _exposed_communication(case: Case) -> Iterator[RuleVerdict]:
    for exposed in case.exposed:
        talk, span_s = exposed.done, running_s(exposed.device)
        if not isinstance(talk, Communication) or span_s <= 0 or 100 * talk.exposed_s / span_s < EXPOSED_SHARE.value:
            continue
        yield _verdict(
            exposed,
            talk.exposed_s,
            _OVERLAP,
            headline=f"Exposed communication: {which_gpu(exposed)} communicates for {_part(exposed, talk.exposed_s)} "
            f"with no other kernel beside; {format_si(talk.exposed_s, 's')}, {_of_its(talk)} of its communication",
            why=(
                "Nothing is computed meanwhile. It is time of moving data and of waiting for the rank that comes last.",
            ),
            evidence=(
                Evidence("", talk.time_s, "s", threshold=None, meaning="time of communication"),
                Evidence("", float(talk.launches), "kernel", threshold=None, meaning="launches that communicate"),
            ),
        )


def _verdict(
    exposed: Exposed,
    exposed_s: float,
    way: _Way,
    *,
    headline: str,
    why: Sequence[str],
    evidence: Sequence[Evidence],
) -> RuleVerdict:
    share = 100 * exposed_s / running_s(exposed.device)
    return RuleVerdict(
        headline=headline,
        why=" ".join((*why, *_of_all(exposed))),
        action=way.action,
        advice=way.advice,
        confidence="inferred",
        saving=None,
        gain_of_run=exposed.share,
        evidence=(
            Evidence("", share, "%", threshold=EXPOSED_SHARE.value, meaning=EXPOSED_SHARE.name),
            Evidence("", exposed_s, "s", threshold=None, meaning="time in which nothing else runs beside them"),
            *evidence,
        ),
    )


def _of_its(talk: Communication) -> str:
    return format_percent(min(1.0, talk.exposed_s / talk.time_s)) if talk.time_s > 0 else "none"


def _part(exposed: Exposed, exposed_s: float) -> str:
    """Say how much of a GPU's time it is: "83 % of 215 ms"."""
    span_s = running_s(exposed.device)
    return f"{format_percent(exposed_s / span_s)} of {format_si(span_s, 's')}"


def _way_of(copies: Copies) -> str:
    """Say what is copied where: "host to device from pageable memory"."""
    if copies.memory is None:
        return copies.direction
    if copies.memory == UNIFIED:
        return f"{copies.direction} by pages of unified memory"
    return f"{copies.direction} {'into' if copies.direction == _TO_HOST else 'from'} {copies.memory} memory"


def _hidden(copies: Copies) -> tuple[str, ...]:
    if not copies.time_s or not copies.exposed_s:
        return ()
    return (f"{format_percent(min(1.0, copies.exposed_s / copies.time_s))} of the time of these copies is exposed.",)


def _beside(device: DeviceTimeline, exposed_s: float) -> tuple[str, ...]:
    """Say what overlap can hide at most, where that is not all: there must be kernels to run beside."""
    if device.kernel_s >= exposed_s:
        return ()
    return (
        f"Kernels run for {format_si(device.kernel_s, 's')}: overlap hides no more than that, the rest takes faster or "
        "fewer copies.",
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
    if copies.bytes is not None:
        yield Evidence("", float(copies.bytes), "B", threshold=None, meaning="bytes of the copies")
    if copies.bytes_per_s is not None:
        yield Evidence("", copies.bytes_per_s, "B/s", threshold=None, meaning="bandwidth while they ran")


def _of_all(exposed: Exposed) -> tuple[str, ...]:
    if exposed.gpus < 2:
        return ()
    return (f"Of the time of all {exposed.gpus} GPUs it is {format_percent(exposed.share)}.",)


def _rule(id_: str, title: str, looks_at: str, silent: str, check: Callable[[Case], Iterator[RuleVerdict]]) -> Rule:
    return Rule(
        id_,
        title,
        about="defect",
        looks_at=looks_at,
        thresholds=(EXPOSED_SHARE,),
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
        "runs.",
        "There is no timeline, or that is under 5 % of the span of every GPU. It is reported once per run, for the GPU "
        "with most of that time.",
        _exposed_communication,
    ),
)
