"""Copies and communication that no kernel overlaps, and the findings on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import Exposed, KernelFacts
from gpuprof.diagnose.pauses import gpu_labels, rank_of
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import Threshold, context, percent
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Evidence, Finding, KernelProfile, Session
from gpuprof.units import format_si

EXPOSED_SHARE = percent("exposed", 5.0)

_WAITS = "waits"

CopyKind = tuple[str, str | None]

_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""A GPU's copies or communication, and the time in which nothing else ran beside them."""


def exposed_of(session: Session) -> dict[int, tuple[Exposed, ...]]:
    """Return copies and communication that no kernel overlaps, for the worst GPU, by kernel id.

    Waits for other ranks are separate from the rest of communication, if they are known.
    """
    if session.timeline is None:
        return {}
    devices = session.timeline.devices
    done: dict[CopyKind | str, list[_OfGpu]] = {}
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


def part_case(exposed: Exposed, talk: Communication) -> str:
    """Return the case for the part of the communication: "all" if both times are printed alike."""
    return "all" if format_si(exposed.time_s, "s") == format_si(talk.time_s, "s") else "part"


def exposed_finding(
    facts: KernelFacts,
    exposed: Exposed,
    cases: Cases,
    *,
    amounts: tuple[Amount, ...] = (),
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """Return a finding on time that no kernel overlaps."""
    done = exposed.done
    if isinstance(done, Communication):
        amounts += amounts_of("s", communication=done.time_s)
        time = context("communication-time", done.time_s, "s")
        evidence = time + context("communication-launches", done.launches, "kernel") + evidence
    span_s = running_s(exposed.device)
    return finding(
        facts,
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


def of_all(exposed: Exposed) -> tuple[str, ...]:
    """Return the case on the share of all GPUs, if there are several."""
    return ("shared/all-gpus",) if exposed.gpus > 1 else ()


def exposed_rule(id_: str, check: Callable[[KernelFacts], Findings], *more: Threshold) -> Rule:
    """Return a rule on time that no kernel overlaps."""
    return Rule(
        id_,
        thresholds=(EXPOSED_SHARE, *more),
        check=check,
        by_times=True,
        of_run=True,
        place=AT_KERNEL,
    )
