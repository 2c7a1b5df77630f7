"""All that is told of one kernel, from its code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuprof.diagnose.ranking import numbered
from gpuprof.model.session import Finding
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import ArgumentPart, KernelArgument, OpcodeCount, ReviewedKernel
from gpuprof.review.facts import CodeFacts
from gpuprof.review.memory import assumptions_of
from gpuprof.review.registry import CODE_RULES
from gpuprof.words.findings import with_sentences


def reviewed_kernel(code: KernelCode, number: int) -> ReviewedKernel:
    """Return all that is told of one kernel; `number` is its place in the review."""
    kernel, case = code.kernel, CodeFacts(code)
    return ReviewedKernel(
        id=number,
        name=kernel.name,
        label=kernel.label,
        mangled=kernel.kernel.mangled,
        target=kernel.target,
        origin=kernel.origin,
        launch=kernel.launch,
        block=kernel.shape.block,
        grid=kernel.shape.grid,
        arguments=_arguments(code),
        resources=case.resources,
        occupancy=case.occupancy,
        loops=case.loops,
        accesses=case.accesses,
        opcodes=tuple(_opcodes(code)),
        findings=_findings(case, number) if kernel.has_code else (),
        has_lines=bool(code.lines),
        unreviewed=code.unread,
        notes=(*kernel.notes, *_assumptions(case)),
    )


def _opcodes(code: KernelCode) -> Iterator[OpcodeCount]:
    for opcode, count in Counter(instruction.name for instruction in code.code).most_common():
        yield OpcodeCount(opcode, count)


def _arguments(code: KernelCode) -> tuple[KernelArgument, ...]:
    kernel = code.kernel
    return tuple(
        KernelArgument(
            ordinal=parameter.ordinal,
            name=kernel.name_of(parameter),
            size_bytes=parameter.size_bytes,
            value=kernel.shape.arguments.get(parameter.ordinal),
            parts=tuple(
                ArgumentPart(offset=part.offset, size_bytes=part.size_bytes, name=str(part), value=value)
                for part, value in kernel.shape.parts.items()
                if part.ordinal == parameter.ordinal
            ),
        )
        for parameter in kernel.kernel.parameters
    )


def _assumptions(case: CodeFacts) -> tuple[str, ...]:
    """Return what the costs of accesses rest on, where some are known."""
    known = any(
        access.sectors_per_request is not None or access.wavefronts_per_request is not None for access in case.accesses
    )
    return assumptions_of(case.known) if known else ()


def _findings(facts: CodeFacts, number: int) -> tuple[Finding, ...]:
    """Return the findings with their sentences, those in the deepest loops first, else in the order of the rules."""
    findings = [finding for rule in CODE_RULES for finding in rule.check(facts)]
    findings.sort(key=lambda finding: -finding.loops)
    return tuple(map(with_sentences, numbered(findings, number)))
