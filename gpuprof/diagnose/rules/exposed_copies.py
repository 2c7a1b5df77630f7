"""Copies run while no kernel runs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.exposed import CopyKind, exposed_finding, exposed_rule, of_all
from gpuprof.diagnose.facts.kernel import Exposed, KernelFacts
from gpuprof.diagnose.pauses import gpu_case
from gpuprof.diagnose.rule import Findings, amounts_of, labels_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Cases
from gpuprof.model.session import Copies
from gpuprof.model.trace import DIRECTIONS, PAGEABLE, UNIFIED

_TO_DEVICE, _TO_HOST, _, _BETWEEN_PEERS, _ = DIRECTIONS

_PREFETCH = ("prefetch", ("prefetch",))

_CHANGES: dict[CopyKind, tuple[str, tuple[str, ...]]] = {
    (_TO_DEVICE, PAGEABLE): ("pageable-to-device", ("pageable-to-device", "fewer-bytes")),
    (_TO_DEVICE, None): ("to-device", ("to-device", "fewer-bytes")),
    (_TO_DEVICE, UNIFIED): _PREFETCH,
    (_TO_HOST, PAGEABLE): ("pageable-to-host", ("less-often", "pageable-to-host")),
    (_TO_HOST, None): ("to-host", ("less-often", "to-host")),
    (_TO_HOST, UNIFIED): _PREFETCH,
    (_BETWEEN_PEERS, None): ("between-gpus", ("between-gpus",)),
}
"""The cases of the change and of the advice by direction and memory; None is all other memory."""


def _exposed_copies(facts: KernelFacts) -> Findings:
    for exposed in facts.exposed:
        copies = exposed.done
        if not isinstance(copies, Copies):
            continue
        change = _CHANGES.get((copies.direction, copies.memory), _CHANGES.get((copies.direction, None)))
        if change is None:
            continue
        action, advice = change
        gpu = facts.hardware.gpu
        link = gpu.number("host_link") if gpu is not None else None
        rate = copies.bytes_per_s
        amounts = amounts_of("s", kernels=exposed.device.kernel_s) + amounts_of("B/s", rate=rate, link=link)
        if link is not None and rate is not None:
            amounts += amounts_of(of_link=rate / link)
        memory = (copies.memory,) if copies.memory is not None else ()
        yield exposed_finding(
            facts,
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
    yield from of_all(exposed)


RULE = exposed_rule("exposed-copies", _exposed_copies)
