"""A review as a report for CI: exceeded limits and the findings to act on; with a base, those that it does not have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gpuprof.comparison.contract import Gate
from gpuprof.comparison.finding_changes import source_line
from gpuprof.model.session import Finding
from gpuprof.review.contract import Review, ReviewedKernel
from gpuprof.units import counted
from gpuprof.views.exports.problems import (
    FINDING_LEVELS,
    CaseResult,
    Problem,
    ProblemReport,
    TestCase,
    first_line,
    in_order,
    placed,
    problem_of,
    problem_of_check,
    sentence,
    short_name,
)
from gpuprof.views.options import WriteOptions
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.file_names import file_name

_FILES = "the files"


def review_report(review: Review, options: WriteOptions) -> ProblemReport:
    """Return the problems of a review, and a test case for each kernel and limit if there are limits.

    A problem without a line is at the first file. What several launches or architectures of a kernel have, it has once.
    """
    gate = review.gate
    problems = {(problem.title, problem.message): problem for problem in _problems(review, options)}
    found = sum(len(kernel.findings) for kernel in review.kernels)
    return ProblemReport(
        command="gpuprof check",
        version=review.gpuprof_version,
        verdict=f"{counted(len(review.kernels), 'kernel')}, {counted(found, 'finding')}.",
        fallback=first_line(review.files),
        problems=in_order(problems.values()),
        cases=tuple(_cases(gate, review.kernels)) if gate is not None else (),
        gate=gate_text(gate) if gate is not None else "",
        exit_code=gate.exit_code if gate is not None else None,
        facts=(("gpuprof", review.gpuprof_version), ("files", ", ".join(map(file_name, review.files)))),
        notes=tuple(map(sentence, review.notes)),
    )


def _problems(review: Review, options: WriteOptions) -> Iterator[Problem]:
    """Yield limits that are not kept, and findings to act on; with a base, only those that it does not have."""
    kernels: Mapping[int | None, ReviewedKernel] = {kernel.id: kernel for kernel in review.kernels}
    gate = review.gate
    judged = set()
    if gate is not None:
        for check in gate.checks:
            name, identity = _named(kernels.get(check.kernel))
            yield placed(problem_of_check(check, gate, name, (), identity), [check.location], options)
            judged.add((check.kernel, check.quantity))
    for number, finding in _found(review):
        if finding.severity in FINDING_LEVELS and (number, finding.rule) not in judged:
            name, identity = _named(kernels.get(number))
            level = "note" if finding.confidence == "guess" else FINDING_LEVELS[finding.severity]
            texts = (finding.headline, finding.action)
            problem = problem_of(name, finding.rule, level, f": {finding.rule}", texts, identity)
            yield placed(problem, [source_line(finding)], options)


def _found(review: Review) -> Iterator[tuple[int | None, Finding]]:
    """Yield the findings of the files, then those of kernels with the kernel's number."""
    for finding in review.findings:
        yield None, finding
    for kernel in review.kernels if review.changes is None else ():
        for finding in kernel.findings:
            yield kernel.id, finding
    for change in review.changes.kernels if review.changes is not None else ():
        for finding in change.came:
            yield change.kernel, finding


def _named(kernel: ReviewedKernel | None) -> tuple[str, tuple[str, ...]]:
    """Return the name of a kernel, or of the files, and its identity."""
    return (kernel.label, (kernel.name, kernel.target)) if kernel is not None else (_FILES, (_FILES,))


def _cases(gate: Gate, kernels: Iterable[ReviewedKernel]) -> Iterator[TestCase]:
    """Yield the checks that fail or are unclear, then the kernels that keep all limits."""
    left: dict[int | None, str] = {kernel.id: short_name(kernel.label) for kernel in kernels}
    labels = dict(left)
    for check in gate.checks:
        left.pop(check.kernel, None)
        result: CaseResult = "failure" if gate.fails(check) else "skipped"
        name = f"{labels.get(check.kernel, _FILES)}: {short_name(check.limit)}"
        yield TestCase(name, result, check.word, sentence(check.sentence))
    for label in left.values():
        yield TestCase(f"{label}: all limits", "passed", "ok")
