"""Copies run while no kernel runs."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, amounts_of, labels_of
from gpuprof.diagnose.thresholds import context
from gpuprof.diagnose.timeline_findings import exposed_finding, exposed_rule
from gpuprof.model.findings import CaseName
from gpuprof.model.session import Copies
from gpuprof.timeline.trace import DIRECTIONS, PAGEABLE, UNIFIED

_TO_DEVICE, _TO_HOST, _, _BETWEEN_PEERS, _ = DIRECTIONS
_CHANGES: dict[tuple[str, str | None], CaseName] = {
    (_TO_DEVICE, PAGEABLE): "pageable-to-device",
    (_TO_DEVICE, None): "to-device",
    (_TO_DEVICE, UNIFIED): "prefetch",
    (_TO_HOST, PAGEABLE): "pageable-to-host",
    (_TO_HOST, None): "to-host",
    (_TO_HOST, UNIFIED): "prefetch",
    (_BETWEEN_PEERS, None): "between-gpus",
}
"""The change by direction and memory; None is all other memory. Other copies are no transfers."""


def _exposed_copies(facts: KernelFacts) -> Findings:
    gpu = facts.hardware.gpu
    link = gpu.number("host_link") if gpu is not None else None
    for exposed in facts.exposed:
        copies = exposed.done
        if not isinstance(copies, Copies):
            continue
        change = _CHANGES.get((copies.direction, copies.memory)) or _CHANGES.get((copies.direction, None))
        if change is None:
            continue
        rate = copies.bytes_per_s
        device = exposed.gpu.device
        kernel_s = device.kernel_s
        amounts = amounts_of("s", kernels=kernel_s) + amounts_of("B/s", rate=rate, link=link)
        why: tuple[CaseName, ...] = ("main",)
        if kernel_s < exposed.time_s and device.graphs is None:
            why += ("few-kernels",)
        if link is not None and rate is not None and copies.direction != _BETWEEN_PEERS:
            why += ("link",)
            amounts += amounts_of(of_link=rate / link)
        yield exposed_finding(
            facts,
            exposed,
            change,
            tuple(_headline(copies)),
            why,
            amounts=amounts,
            labels=labels_of(direction=(copies.direction,), memory=(copies.memory,) if copies.memory else ()),
            evidence=(
                context("copies", copies.count, "time")
                + context("copy-time", copies.time_s, "s")
                + context("bytes", copies.bytes, "B")
            ),
        )


def _headline(copies: Copies) -> Iterator[CaseName]:
    yield "between-gpus" if copies.direction == _BETWEEN_PEERS else "direction"
    if copies.memory is not None:
        yield "memory"
    yield "time"
    if copies.bytes_per_s is not None:
        yield "rate"


RULE = exposed_rule("exposed-copies", _exposed_copies)
