"""Copies and communication that no kernel overlaps, and the findings on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.facts.kernel import Exposed, KernelFacts
from gpuprof.diagnose.pauses import gpu_case, gpu_labels, longest_on, one_gpu, rank_of
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import Threshold, percent
from gpuprof.model.findings import Amount, CaseName, Label
from gpuprof.model.kernel_kinds import COMMUNICATION
from gpuprof.model.run_totals import running_s
from gpuprof.model.session import Communication, Copies, DeviceTimeline, Evidence, Finding, Session

EXPOSED_SHARE = percent("exposed", 5.0)
_WAITS = "waits"
_OfGpu = tuple[DeviceTimeline, Copies | Communication, float]
"""A GPU's copies or communication, and the time in which nothing else ran beside them."""


def exposed_of(session: Session) -> dict[int, tuple[Exposed, ...]]:
    """Return copies and communication that no kernel overlaps, for the worst GPU, by kernel id.

    Waits for other ranks are separate from the rest of communication, if they are known.
    """
    if session.timeline is None or not session.kernels:
        return {}
    devices = session.timeline.devices
    by_kind: dict[tuple[str, str | None], list[_OfGpu]] = {}
    for device in devices:
        for copies in device.copies:
            by_kind.setdefault((copies.direction, copies.memory), []).append((device, copies, copies.exposed_s or 0.0))
        talk = device.communication
        if talk is not None:
            waiting_s = talk.waiting_s or 0.0
            by_kind.setdefault((COMMUNICATION, None), []).append((device, talk, talk.exposed_s - waiting_s))
            by_kind.setdefault((COMMUNICATION, _WAITS), []).append((device, talk, waiting_s))
    by_kernel: dict[int, tuple[Exposed, ...]] = {}
    for (_, part), of_gpus in by_kind.items():
        exposed = _most_exposed(session, of_gpus)
        if exposed is not None and part == _WAITS:
            exposed = _with_awaited(session, exposed, of_gpus)
        if exposed is None:
            continue
        kernels = session.kernels
        if isinstance(exposed.done, Communication):
            kernels = tuple(kernel for kernel in kernels if kernel.kind == COMMUNICATION)
        number = longest_on(session, exposed.gpu.device, kernels).id
        by_kernel[number] = (*by_kernel.get(number, ()), exposed)
    return by_kernel


def _most_exposed(session: Session, of_gpus: Sequence[_OfGpu]) -> Exposed | None:
    """Return the longest exposed time of one kind on any GPU; None if it is too short to report."""
    device, done, time_s = max(of_gpus, key=lambda of_gpu: of_gpu[2])
    if not 100 * time_s >= EXPOSED_SHARE.value * running_s(device) > 0:
        return None
    devices = session.timeline.devices if session.timeline is not None else ()
    share = min(1.0, sum(part_s for _, _, part_s in of_gpus) / sum(map(running_s, devices)))
    return Exposed(one_gpu(session, device), done, time_s, share)


def _with_awaited(session: Session, exposed: Exposed, of_gpus: Sequence[_OfGpu]) -> Exposed | None:
    """Add the rank that others waited for longest, and its part of all waits; None if not known."""
    waits: dict[int, float] = {}
    for device, _, _ in of_gpus:
        rank = rank_of(session, device)
        if device.communication is not None and rank is not None:
            waits[rank] = device.communication.awaited_s or 0.0
    total_s = sum(waits.values())
    if total_s <= 0:
        return None
    rank = max(waits, key=lambda each: waits[each])
    return replace(exposed, awaited=(rank, waits[rank] / total_s))


def exposed_finding(
    facts: KernelFacts,
    exposed: Exposed,
    change: CaseName,
    headline: tuple[CaseName, ...],
    why: tuple[CaseName, ...],
    *,
    amounts: tuple[Amount, ...] = (),
    labels: tuple[Label, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> Finding:
    """Return a finding on time that no kernel overlaps.

    `headline` has the cases after the name of the GPU; `why` those before the share of all GPUs.
    """
    gpu = exposed.gpu
    span_s = running_s(gpu.device)
    if gpu.gpus > 1:
        why += ("shared/all-gpus",)
    return finding(
        facts,
        cases_of(change, ("name", gpu_case(gpu), *headline), why),
        amounts=(
            amounts_of(exposed=exposed.time_s / span_s, exposed_of_all=exposed.share)
            + amounts_of("s", span=span_s, time=exposed.time_s)
            + amounts_of("", gpus=gpu.gpus)
            + amounts
        ),
        labels=gpu_labels(gpu) + labels,
        confidence="inferred",
        gain_of_run=exposed.share,
        # Copies belong to no kernel; communication has kernels of its own.
        everywhere=isinstance(exposed.done, Copies),
        evidence=(EXPOSED_SHARE.evidence(100 * exposed.time_s / span_s), *evidence),
    )


def exposed_rule(id_: str, check: Callable[[KernelFacts], Findings], *more: Threshold) -> Rule:
    """Return a rule on time that no kernel overlaps."""
    return Rule(id_, thresholds=(EXPOSED_SHARE, *more), check=check, by_times=True, of_run=True, place=AT_KERNEL)
