"""The rules on GPU time without computation: copies, communication, and waits for other ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.case import Case, Exposed
from gpuprof.diagnose.gaps import gpu_case, gpu_labels, rank_of
from gpuprof.diagnose.rule import (
    AT_KERNEL,
    Findings,
    Rule,
    Threshold,
    amounts_of,
    cases_of,
    context,
    finding,
    labels_of,
    percent,
)
from gpuprof.model.findings import MAIN, Amount, Cases, Label
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Evidence, Finding, KernelProfile, Session
from gpuprof.model.trace import DIRECTIONS, PAGEABLE, UNIFIED
from gpuprof.units import format_si

EXPOSED_SHARE = percent("exposed", 5.0)
STRAGGLER = percent("straggler", 50.0)
_TO_DEVICE, _TO_HOST, _, _BETWEEN_PEERS, _ = DIRECTIONS
_WAITS = "waits"
_CopyKind = tuple[str, str | None]
_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""A GPU's copies or communication, and the time in which nothing else ran beside them."""


_PREFETCH = ("prefetch", ("prefetch",))
_CHANGES: dict[_CopyKind, tuple[str, tuple[str, ...]]] = {
    (_TO_DEVICE, PAGEABLE): ("pageable-to-device", ("pageable-to-device", "fewer-bytes")),
    (_TO_DEVICE, None): ("to-device", ("to-device", "fewer-bytes")),
    (_TO_DEVICE, UNIFIED): _PREFETCH,
    (_TO_HOST, PAGEABLE): ("pageable-to-host", ("less-often", "pageable-to-host")),
    (_TO_HOST, None): ("to-host", ("less-often", "to-host")),
    (_TO_HOST, UNIFIED): _PREFETCH,
    (_BETWEEN_PEERS, None): ("between-gpus", ("between-gpus",)),
}
"""The cases of the change and of the advice by direction and memory; None is all other memory."""


def exposed_of(session: Session) -> dict[int, tuple[Exposed, ...]]:
    """Return copies and communication that no kernel overlaps, for the worst GPU, by kernel id.

    Waits for other ranks are separate from the rest of communication, if they are known.
    """
    if session.timeline is None:
        return {}
    devices = session.timeline.devices
    done: dict[_CopyKind | str, list[_OfGpu]] = {}
    for device in devices:
        for copies in device.copies:
            of_gpu = device, copies, copies.exposed_s or 0.0
            done.setdefault((copies.direction, copies.memory), []).append(of_gpu)
        talk = device.communication
        if talk is not None:
            waiting_s = talk.waiting_s or 0.0
            done.setdefault("communication", []).append((device, talk, talk.exposed_s - waiting_s))
            done.setdefault(_WAITS, []).append((device, talk, waiting_s))
    by_kernel: dict[int, tuple[Exposed, ...]] = {}
    for kind, of_gpus in done.items():
        exposed = _most_exposed(session, devices, of_gpus)
        if exposed is None:
            continue
        if kind == _WAITS:
            awaited = _awaited(session, devices)
            if awaited is None:
                continue
            exposed = replace(exposed, awaited=awaited)
        kernel = _representative(session, exposed)
        if kernel is not None:
            by_kernel[kernel.id] = (*by_kernel.get(kernel.id, ()), exposed)
    return by_kernel


def _most_exposed(session: Session, devices: Sequence[DeviceTimeline], of_gpus: Sequence[_OfGpu]) -> Exposed | None:
    """Return the longest exposed time of one kind on any GPU; None if it is too short to report."""
    notable = []
    for of_gpu in of_gpus:
        device, _, time_s = of_gpu
        if 100 * time_s >= EXPOSED_SHARE.value * running_s(device) > 0:
            notable.append(of_gpu)
    if not notable:
        return None
    device, done, time_s = max(notable, key=lambda of_gpu: of_gpu[2])
    return Exposed(
        device=device,
        done=done,
        time_s=time_s,
        share=sum(part_s for _, _, part_s in of_gpus) / sum(map(running_s, devices)),
        gpus=len(devices),
        files=len(session.sources),
        rank=rank_of(session, device),
    )


def _awaited(session: Session, devices: Sequence[DeviceTimeline]) -> tuple[int, float] | None:
    """Return the rank that others waited for longest, and its part of all waits."""
    waits: list[tuple[float, int]] = []
    for device in devices:
        rank = rank_of(session, device)
        if device.communication is not None and rank is not None:
            waits.append((device.communication.awaited_s or 0.0, rank))
    total_s = sum(awaited_s for awaited_s, _ in waits)
    if total_s <= 0:
        return None
    awaited_s, rank = max(waits)
    return rank, awaited_s / total_s


def _representative(session: Session, exposed: Exposed) -> KernelProfile | None:
    """Return the longest kernel of a GPU, or of its kernels that communicate."""
    kernels = session.kernels
    if isinstance(exposed.done, Communication):
        kernels = tuple(kernel for kernel in kernels if kernel.kind == COMMUNICATION)
    device = exposed.device
    here = [kernel for kernel in kernels if kernel.source == device.source and kernel.device == device.device]
    return max(here or kernels or session.kernels, key=lambda kernel: kernel.time_total_s or 0.0, default=None)


def _exposed_copies(case: Case) -> Findings:
    for exposed in case.exposed:
        copies = exposed.done
        if not isinstance(copies, Copies):
            continue
        change = _CHANGES.get((copies.direction, copies.memory), _CHANGES.get((copies.direction, None)))
        if change is None:
            continue
        action, advice = change
        gpu = case.hardware.gpu
        link = gpu.number("host_link") if gpu is not None else None
        rate = copies.bytes_per_s
        amounts = amounts_of("s", kernels=exposed.device.kernel_s) + amounts_of("B/s", rate=rate, link=link)
        if link is not None and rate is not None:
            amounts += amounts_of(of_link=rate / link)
        memory = (copies.memory,) if copies.memory is not None else ()
        yield _finding(
            case,
            exposed,
            Cases(
                headline=tuple(_copied(exposed, copies)),
                why=tuple(_why_copies_cost(exposed, copies, link)),
                action=(action,),
                advice=advice,
            ),
            amounts=amounts,
            labels=labels_of(direction=(copies.direction,), memory=memory),
            evidence=(
                context("copies", copies.count, "time")
                + context("copy-time", copies.time_s, "s")
                + context("bytes", copies.bytes, "B")
                + context("bandwidth", rate, "B/s")
            ),
        )


def _copied(exposed: Exposed, copies: Copies) -> Iterator[str]:
    yield from ("name", gpu_case(exposed))
    if copies.memory is None:
        yield "between-gpus" if copies.direction == _BETWEEN_PEERS else "direction"
    elif copies.memory == UNIFIED:
        yield "unified"
    else:
        yield "into-memory" if copies.direction == _TO_HOST else "from-memory"
    if copies.bytes_per_s is not None:
        yield "rate"


def _why_copies_cost(exposed: Exposed, copies: Copies, link: float | None) -> Iterator[str]:
    """Yield the reasons: kernels are too short to hide copies, and the link may be the limit."""
    yield "main"
    if exposed.device.kernel_s < exposed.time_s:
        yield "few-kernels"
    if copies.bytes_per_s is not None and copies.direction != _BETWEEN_PEERS:
        yield "link" if link is not None else "unknown-link"
    yield from _of_all(exposed)


def _exposed_communication(case: Case) -> Findings:
    for exposed in case.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is not None:
            continue
        headline = ("name", gpu_case(exposed), _part_case(exposed, talk))
        if talk.waiting_s is None:
            cases = Cases(headline=headline, why=("with-waits", *_of_all(exposed)), advice=(*MAIN, "with-waits"))
        else:
            cases = Cases(headline=(*headline, "without-waits"), why=("without-waits", *_of_all(exposed)))
        yield _finding(case, exposed, cases)


def _waits_for_ranks(case: Case) -> Findings:
    for exposed in case.exposed:
        talk = exposed.done
        if not isinstance(talk, Communication) or exposed.awaited is None:
            continue
        rank, part = exposed.awaited
        # A rank is a straggler if it has this part of all waits beyond an even share.
        even = 100 / exposed.gpus
        least = even + STRAGGLER.value / 100 * (100 - even)
        whose = "one-rank" if 100 * part >= least else "any-rank"
        headline = ("name", gpu_case(exposed), _part_case(exposed, talk), whose)
        yield _finding(
            case,
            exposed,
            cases_of(whose, headline, MAIN + _of_all(exposed)),
            amounts=amounts_of(waits_for_one=part),
            labels=labels_of(slowest=(str(rank),)),
            evidence=(Evidence("", 100 * part, "%", least, role="waits-for-one"),),
        )


def _part_case(exposed: Exposed, talk: Communication) -> str:
    """Return the case for the part of the communication: "all" if both times are printed alike."""
    return "all" if format_si(exposed.time_s, "s") == format_si(talk.time_s, "s") else "part"


def _finding(
    case: Case,
    exposed: Exposed,
    cases: Cases,
    *,
    amounts: tuple[Amount, ...] = (),
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    done = exposed.done
    if isinstance(done, Communication):
        amounts += amounts_of("s", communication=done.time_s)
        time = context("communication-time", done.time_s, "s")
        evidence = time + context("communication-launches", done.launches, "kernel") + evidence
    span_s = running_s(exposed.device)
    return finding(
        case,
        cases,
        amounts=(
            amounts_of(exposed=exposed.time_s / span_s, exposed_of_all=exposed.share)
            + amounts_of("s", span=span_s, time=exposed.time_s)
            + amounts_of("", gpus=exposed.gpus)
            + amounts
        ),
        labels=gpu_labels(exposed) + labels,
        confidence="inferred",
        gain_of_run=exposed.share,
        # Copies belong to no kernel; communication has kernels of its own.
        everywhere=isinstance(done, Copies),
        evidence=(
            EXPOSED_SHARE.evidence(100 * exposed.time_s / span_s),
            *context("exposed-time", exposed.time_s, "s"),
            *evidence,
        ),
    )


def _of_all(exposed: Exposed) -> tuple[str, ...]:
    return ("shared/all-gpus",) if exposed.gpus > 1 else ()


def _rule(id_: str, check: Callable[[Case], Findings], *more: Threshold) -> Rule:
    return Rule(
        id_,
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
