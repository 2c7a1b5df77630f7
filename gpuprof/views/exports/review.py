"""A review as a report for CI: exceeded limits and the findings to act on; with a base, those that it does not have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import Gate
from gpuprof.comparison.finding_changes import source_line
from gpuprof.model.session import Finding
from gpuprof.review.contract import Review, ReviewedKernel
from gpuprof.views.exports.problems import (
    CODE_RULES,
    FINDING_LEVELS,
    UNREVIEWED,
    CaseResult,
    Problem,
    ProblemReport,
    TestCase,
    cases_of_gate,
    first_line,
    in_order,
    placed,
    problem_of,
    problem_of_check,
    sentence,
    short_name,
)
from gpuprof.views.options import WriteOptions
from gpuprof.views.review import headline
from gpuprof.views.review_groups import FILES, grouped_kernels, kernel_labels
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.file_names import file_name


def review_report(review: Review, options: WriteOptions) -> ProblemReport:
    """Return the problems of a review, and a test case for each kernel and limit if there are limits.

    A problem without a line is at the first file. What several launches or architectures of a kernel have, it has once.
    """
    gate = review.gate
    problems = {(problem.title, problem.message): problem for problem in _problems(review, options)}
    return ProblemReport(
        command="gpuprof check",
        version=review.gpuprof_version,
        verdict=sentence(headline(review, grouped_kernels(review))),
        fallback=first_line(review.files),
        reference=CODE_RULES,
        problems=in_order(problems.values()),
        cases=tuple(_cases(gate, review.kernels)) if gate is not None else (),
        gate=gate_text(gate) if gate is not None else "",
        exit_code=gate.exit_code if gate is not None else None,
        facts=(("gpuprof", review.gpuprof_version), ("files", ", ".join(map(file_name, review.files)))),
        notes=tuple(map(sentence, review.notes)),
    )


def _problems(review: Review, options: WriteOptions) -> Iterator[Problem]:
    """Yield limits that are not kept, and findings to act on; with a base, only those that it does not have."""
    names: dict[int | None, tuple[str, tuple[str, ...]]] = {None: (FILES, (FILES,))}
    found: dict[int | None, Sequence[Finding]] = {None: review.findings}
    in_code: set[tuple[int | None, str]] = set()
    for kernel in review.kernels:
        names[kernel.id] = (kernel.label, (kernel.name, kernel.target))
        found[kernel.id] = kernel.findings
        in_code |= {(kernel.id, finding.rule) for finding in kernel.findings if finding.place is not None}
        if kernel.accesses:
            in_code |= {(kernel.id, "sectors"), (kernel.id, "conflicts")}
        if kernel.unreviewed is not None:
            text = f"not reviewed: {kernel.unreviewed}"
            yield problem_of(kernel.label, UNREVIEWED, "warning", " was not reviewed", [text], (kernel.name,))
    for change in review.changes.kernels if review.changes is not None else ():
        if change.kernel is not None:
            found[change.kernel] = change.came
    judged = set()
    gate = review.gate
    if gate is not None:
        for check in gate.checks:
            name, identity = names[check.kernel]
            judged.add((check.kernel, check.quantity))
            problem = problem_of_check(check, gate, name, (), identity)
            is_of_code = (check.kernel, check.quantity) in in_code
            yield placed(problem, [check.location], options) if is_of_code else problem
    for number, findings in found.items():
        name, identity = names[number]
        for finding in findings:
            if finding.severity in FINDING_LEVELS and (number, finding.rule) not in judged:
                level = "note" if finding.confidence == "guess" else FINDING_LEVELS[finding.severity]
                texts = (finding.headline, finding.action)
                problem = problem_of(name, finding.rule, level, f": {finding.rule}", texts, identity)
                is_of_code = finding.place is not None
                yield placed(problem, [source_line(finding)], options) if is_of_code else problem


def _cases(gate: Gate, kernels: Sequence[ReviewedKernel]) -> Iterator[TestCase]:
    labels: dict[int | None, str] = {number: short_name(label) for number, label in kernel_labels(kernels).items()}

    def case(kernel: int | None, result: CaseResult, kind: str, message: str, limit: str) -> TestCase:
        return TestCase(f"{labels.get(kernel, FILES)}: {limit}", result, kind, message)

    return cases_of_gate(gate, [kernel.id for kernel in kernels], case)
