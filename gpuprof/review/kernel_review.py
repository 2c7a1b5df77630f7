"""Make the review of one kernel from its facts."""

from __future__ import annotations

from collections import Counter

from gpuprof.model.session import Finding
from gpuprof.review.contract import ArgumentPart, KernelArgument, OpcodeCount, ReviewedKernel
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.memory import assumptions_of
from gpuprof.review.kernel import CompiledKernel
from gpuprof.review.registry import CODE_RULES
from gpuprof.words.findings import with_sentences


def reviewed_kernel(facts: CodeFacts) -> ReviewedKernel:
    """Return the review of one kernel; its id is set later."""
    kernel = facts.kernel
    opcodes = Counter(instruction.name for instruction in facts.code).most_common()
    return ReviewedKernel(
        id=0,
        name=kernel.name,
        label=kernel.label,
        mangled=kernel.kernel.mangled,
        target=kernel.target,
        origin=kernel.origin,
        launch=kernel.launch,
        block=kernel.shape.block,
        grid=kernel.shape.grid,
        arguments=_arguments(kernel),
        resources=facts.resources,
        occupancy=facts.occupancy,
        loops=facts.loops,
        accesses=facts.accesses,
        opcodes=tuple(OpcodeCount(opcode, count) for opcode, count in opcodes),
        findings=_findings(facts) if kernel.has_code else (),
        has_lines=bool(facts.lines),
        unreviewed=facts.unread,
        notes=(*kernel.notes, *_assumptions(facts)),
    )


def _arguments(kernel: CompiledKernel) -> tuple[KernelArgument, ...]:
    arguments = []
    for parameter in kernel.kernel.parameters:
        parts = [
            ArgumentPart(offset=part.offset, size_bytes=part.size_bytes, name=str(part), value=value)
            for part, value in kernel.shape.parts.items()
            if part.ordinal == parameter.ordinal
        ]
        argument = KernelArgument(
            ordinal=parameter.ordinal,
            name=kernel.name_of(parameter),
            size_bytes=parameter.size_bytes,
            value=kernel.shape.arguments.get(parameter.ordinal),
            parts=tuple(parts),
        )
        arguments.append(argument)
    return tuple(arguments)


def _assumptions(facts: CodeFacts) -> tuple[str, ...]:
    """Return the assumptions behind the costs of accesses, if the cost of any is known."""
    for access in facts.accesses:
        if access.sectors_per_request is not None or access.wavefronts_per_request is not None:
            return assumptions_of(facts)
    return ()


def _findings(facts: CodeFacts) -> tuple[Finding, ...]:
    """Return the findings with their sentences, the deepest in loops first, then in the order of the rules."""
    findings = [finding for rule in CODE_RULES for finding in rule.check(facts)]
    findings.sort(key=lambda finding: -finding.loops)
    return tuple(map(with_sentences, findings))
