"""The rules on what a GPU does while no kernel computes: copies, communication, and waits for other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.case import Case, Exposed
from gpuprof.diagnose.gaps import gpu_case, gpu_labels
from gpuprof.diagnose.rule import AT_KERNEL, Rule, Threshold, finding, percent
from gpuprof.hardware.specs import Fact
from gpuprof.model.findings import MAIN, Amount, Cases, Label
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Evidence, Finding, KernelProfile, Session
from gpuprof.model.trace import DIRECTIONS, PAGEABLE, UNIFIED
from gpuprof.units import format_si

EXPOSED_SHARE = percent("exposed", 5.0)
STRAGGLER = percent("straggler", 50.0)
_TO_DEVICE, _TO_HOST, _, _BETWEEN_PEERS, _ = DIRECTIONS
_CopyKind = tuple[str, str | None]
_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""What a GPU did, and how long nothing else ran beside it."""


class _Change(NamedTuple):
    """The cases of what to change, and how."""

    action: str
    advice: tuple[str, ...]


_PREFETCH = _Change("prefetch", ("prefetch",))
_CHANGES: dict[_CopyKind, _Change] = {
    (_TO_DEVICE, PAGEABLE): _Change("pageable-to-device", ("pageable-to-device", "fewer-bytes")),
    (_TO_DEVICE, None): _Change("to-device", ("to-device", "fewer-bytes")),
    (_TO_DEVICE, UNIFIED): _PREFETCH,
    (_TO_HOST, PAGEABLE): _Change("pageable-to-host", ("less-often", "pageable-to-host")),
    (_TO_HOST, None): _Change("to-host", ("less-often", "to-host")),
    (_TO_HOST, UNIFIED): _PREFETCH,
    (_BETWEEN_PEERS, None): _Change("between-gpus", ("between-gpus",)),
}
"""By direction and memory; None is all other memory."""


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


def _exposed_copies(case: Case) -> Iterator[Finding]:
    for exposed in case.exposed:
        copies = exposed.done
        if not isinstance(copies, Copies):
            continue
        change = _CHANGES.get((copies.direction, copies.memory), _CHANGES.get((copies.direction, None)))
        if change is None:
            continue
        link = _host_link(case)
        yield _finding(
            case,
            exposed,
            Cases(
                headline=tuple(_copied(exposed, copies)),
                why=tuple(_why_copies_cost(exposed, copies, link)),
                action=(change.action,),
                advice=change.advice,
            ),
            amounts=tuple(_copy_amounts(exposed, copies, link)),
            labels=tuple(_copy_labels(copies)),
            evidence=tuple(_moved(copies)),
        )


def _copied(exposed: Exposed, copies: Copies) -> Iterator[str]:
    yield from ("name", gpu_case(exposed), "exposed")
    if copies.memory is None:
        yield "direction"
    elif copies.memory == UNIFIED:
        yield "unified"
    else:
        yield "into-memory" if copies.direction == _TO_HOST else "from-memory"
    if copies.bytes_per_s is not None:
        yield "rate"


def _why_copies_cost(exposed: Exposed, copies: Copies, link: Fact | None) -> Iterator[str]:
    """Yield the cases of why: overlap hides no more than the time of kernels, and the rate may be that of the link."""
    yield "main"
    if exposed.device.kernel_s < exposed.time_s:
        yield "few-kernels"
    if copies.bytes_per_s is not None and copies.direction != _BETWEEN_PEERS:
        yield "link" if link is not None else "unknown-link"
    yield from _of_all(exposed)


def _host_link(case: Case) -> Fact | None:
    gpu = case.recorded.hardware.gpu
    return gpu.facts.get("host_link") if gpu is not None else None


def _copy_amounts(exposed: Exposed, copies: Copies, link: Fact | None) -> Iterator[Amount]:
    yield Amount("kernels", exposed.device.kernel_s, "s")
    if copies.bytes_per_s is None:
        return
    yield Amount("rate", copies.bytes_per_s, "B/s")
    if link is not None:
        yield Amount("of-link", copies.bytes_per_s / link.value, "fraction")
        yield Amount("link", link.value, "B/s")


def _copy_labels(copies: Copies) -> Iterator[Label]:
    yield Label("direction", (copies.direction,))
    if copies.memory is not None:
        yield Label("memory", (copies.memory,))


def _moved(copies: Copies) -> Iterator[Evidence]:
    yield Evidence("", float(copies.count), "time", threshold=None, role="copies")
    if copies.time_s is not None:
        yield Evidence("", copies.time_s, "s", threshold=None, role="copy-time")
    if copies.bytes is not None:
        yield Evidence("", float(copies.bytes), "B", threshold=None, role="bytes")
    if copies.bytes_per_s is not None:
        yield Evidence("", copies.bytes_per_s, "B/s", threshold=None, role="bandwidth")


def _exposed_communication(case: Case) -> Iterator[Finding]:
    for exposed in case.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is not None:
            continue
        why = "without-waits" if talk.waiting_s is not None else "with-waits"
        yield _finding(
            case,
            exposed,
            Cases(
                headline=("name", gpu_case(exposed), "exposed", _of_its(exposed, talk)),
                why=(why, *_of_all(exposed)),
            ),
            amounts=(Amount("communication", talk.time_s, "s"),),
            evidence=_talked(talk),
        )


def _waits_for_ranks(case: Case) -> Iterator[Finding]:
    for exposed in case.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is None:
            continue
        rank, part = exposed.awaited
        least = _of_a_straggler(exposed.gpus)
        whose = "one-rank" if 100 * part >= least else "any-rank"
        yield _finding(
            case,
            exposed,
            Cases(
                headline=("name", gpu_case(exposed), "waits", _of_its(exposed, talk), whose),
                why=(*MAIN, *_of_all(exposed)),
                action=(whose,),
                advice=(whose,),
            ),
            amounts=(Amount("communication", talk.time_s, "s"), Amount("waits-for-one", part, "fraction")),
            labels=(Label("slowest", (str(rank),)),),
            evidence=(*_talked(talk), Evidence("", 100 * part, "%", threshold=least, role="waits-for-one")),
        )


def _of_a_straggler(ranks: int) -> float:
    """Return what share of the waits of so many ranks is for one that is slower than the others."""
    even = 100 / ranks
    return even + STRAGGLER.value / 100 * (100 - even)


def _of_its(exposed: Exposed, talk: Communication) -> str:
    """Return the case of how much of its communication that is: all, if both times read the same."""
    if format_si(exposed.time_s, "s") == format_si(talk.time_s, "s"):
        return "shared/all-communication"
    return "shared/of-communication"


def _is_enough(device: DeviceTimeline, time_s: float) -> bool:
    return 100 * time_s >= EXPOSED_SHARE.value * running_s(device) > 0


def _talked(talk: Communication) -> tuple[Evidence, ...]:
    return (
        Evidence("", talk.time_s, "s", threshold=None, role="communication-time"),
        Evidence("", float(talk.launches), "kernel", threshold=None, role="communication-launches"),
    )


def _finding(
    case: Case,
    exposed: Exposed,
    cases: Cases,
    *,
    amounts: tuple[Amount, ...],
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...],
) -> Finding:
    span_s = running_s(exposed.device)
    share = 100 * exposed.time_s / span_s
    return finding(
        case,
        cases,
        amounts=(
            Amount("exposed", exposed.time_s / span_s, "fraction"),
            Amount("span", span_s, "s"),
            Amount("time", exposed.time_s, "s"),
            Amount("gpus", exposed.gpus),
            Amount("exposed-of-all", exposed.share, "fraction"),
            *amounts,
        ),
        labels=(*gpu_labels(exposed), *labels),
        confidence="inferred",
        gain_of_run=exposed.share,
        # No kernel copies, and those that communicate are one of their own.
        everywhere=isinstance(exposed.done, Copies),
        evidence=(
            Evidence("", share, "%", threshold=EXPOSED_SHARE.value, role=EXPOSED_SHARE.name),
            Evidence("", exposed.time_s, "s", threshold=None, role="exposed-time"),
            *evidence,
        ),
    )


def _of_all(exposed: Exposed) -> tuple[str, ...]:
    return ("shared/all-gpus",) if exposed.gpus > 1 else ()


def _rule(id_: str, check: Callable[[Case], Iterator[Finding]], *more: Threshold) -> Rule:
    return Rule(
        id_,
        kind="defect",
        thresholds=(EXPOSED_SHARE, *more),
        check=check,
        by_times=True,
        of_run=True,
        place=AT_KERNEL,
    )


RULES = (
    _rule("exposed-copies", _exposed_copies),
    _rule("exposed-communication", _exposed_communication),
    _rule("waiting-for-ranks", _waits_for_ranks, STRAGGLER),
)
