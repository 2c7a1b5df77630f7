"""Findings on files as a whole."""

from __future__ import annotations

from collections.abc import Container, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.ranking import unique
from gpuprof.model.groups import by_key
from gpuprof.model.session import Finding
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.kernel import InputModule
from gpuprof.review.registry import FILE_RULES
from gpuprof.words.findings import with_sentences


def file_findings(
    modules: Sequence[InputModule], request: ReviewRequest, refused: Container[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings of each file, folder or archive with their sentences.

    For files that did not compile for some architecture (`refused`), only the compiled architectures are checked.
    """
    longest = sorted(request.files, key=len, reverse=True)
    named_modules = []
    for module in modules:
        name = next((file for file in longest if module.origin.startswith(file)), module.origin)
        named_modules.append((name, module))
    findings: list[Finding] = []
    for file, of_file in by_key(named_modules).items():
        targets = request.targets
        if file in refused:
            targets = tuple(module.target for module in of_file)
        for rule in FILE_RULES:
            findings += rule.check(file, of_file, targets)
    ids = unique(finding.rule for finding in findings)
    return tuple(with_sentences(replace(finding, id=name)) for finding, name in zip(findings, ids, strict=True))
