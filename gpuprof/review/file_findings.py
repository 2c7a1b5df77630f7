"""Findings on files as a whole."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.ranking import unique
from gpuprof.model.session import Finding
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.kernel import InputModule
from gpuprof.review.registry import FILE_RULES
from gpuprof.words.findings import with_sentences


def file_findings(
    modules: Sequence[InputModule], request: ReviewRequest, refused: Container[str] = ()
) -> tuple[Finding, ...]:
    """Return the findings of files with their sentences.

    A file is `refused` if it does not compile for an architecture, which is reported already.
    """
    findings: list[Finding] = []
    for file, of_file in _by_file(modules, request.files).items():
        targets = request.targets
        if file in refused:
            targets = tuple(module.target for module in of_file)
        for rule in FILE_RULES:
            findings += rule.check(file, of_file, targets)
    ids = unique(finding.rule for finding in findings)
    return tuple(with_sentences(replace(finding, id=name)) for finding, name in zip(findings, ids, strict=True))


def _by_file(modules: Iterable[InputModule], files: Sequence[str]) -> Mapping[str, list[InputModule]]:
    """Group modules by the file, folder or archive that they come from."""
    longest = sorted(files, key=len, reverse=True)
    by_file: dict[str, list[InputModule]] = {}
    for module in modules:
        name = next((file for file in longest if module.origin.startswith(file)), module.origin)
        by_file.setdefault(name, []).append(module)
    return by_file
