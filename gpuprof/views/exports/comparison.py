"""A comparison as a report for CI: exceeded limits, slower kernels and findings that came, and test cases.

Without limits each kernel is a test case, with limits each that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Comparison, FindingChange, Gate, KernelChange, SourceLine
from gpuprof.comparison.pair import Pair
from gpuprof.views.exports.problems import (
    FINDING_LEVELS,
    SLOWER,
    WHOLE_RUN,
    CaseResult,
    Problem,
    ProblemReport,
    TestCase,
    cases_of_gate,
    first_line,
    identity_of,
    in_order,
    placed,
    problem_of,
    problem_of_check,
    sentence,
    short_name,
)
from gpuprof.views.options import WriteOptions
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.comparison_values import count_text, gpu_texts
from gpuprof.words.comparison_verdicts import changed_counts, match_text, reason_text, time_text, time_values
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import joined_by

_RESULTS: dict[str, CaseResult] = {"slower": "failure", "same": "passed", "faster": "passed"}
_MOST_COUNTS = 12
_MOST_CAUSES = 5


def comparison_report(compared: Compared, options: WriteOptions) -> ProblemReport:
    """Return the problems and test cases of a comparison; those without a line are at the new side's first report."""
    comparison = compared.comparison
    gate = comparison.gate
    cases = _cases_of_kernels(comparison) if gate is None else _cases_of_gate(comparison, gate)
    return ProblemReport(
        command="gpuprof compare",
        version=comparison.gpuprof_version,
        verdict=sentence(comparison.sentence),
        fallback=first_line(comparison.new.files),
        problems=in_order(_problems(compared, options)),
        cases=tuple(cases),
        gate=gate_text(gate) if gate is not None else "",
        exit_code=gate.exit_code if gate is not None else None,
        conditions=tuple(sentence(condition.sentence) for condition in comparison.forbidding),
        facts=tuple(_facts(comparison)),
        notes=tuple(map(sentence, comparison.notes)),
    )


def _problems(compared: Compared, options: WriteOptions) -> Iterator[Problem]:
    comparison = compared.comparison
    kernels = _kernels_by_id(comparison)
    pairs = dict(zip(kernels, compared.pairs, strict=True))
    judged = set()
    if comparison.gate is not None:
        for check in comparison.gate.checks:
            kernel = kernels.get(check.kernel)
            texts = [kernel.sentence] if kernel is not None else []
            label = kernel.label if kernel is not None else WHOLE_RUN
            problem = problem_of_check(check, comparison.gate, label, texts, _identity(kernel))
            if kernel is not None and problem.alarm:
                problem = placed(problem, _places(kernel, pairs[kernel.id]), options)
            if check.word in ("regression", "accepted"):
                judged.add(check.kernel)
            yield problem
    for kernel in comparison.kernels:
        if kernel.time.verdict == "slower" and kernel.id not in judged:
            problem = problem_of(kernel.label, SLOWER, "warning", " is slower", [kernel.sentence], _identity(kernel))
            yield placed(problem, _places(kernel, pairs[kernel.id]), options)
    for kernel in comparison.kernels:
        for change in kernel.findings:
            if change.word == "came" and change.severity in FINDING_LEVELS:
                yield placed(_of_finding(change, kernel, pairs[kernel.id]), [change.location], options)


def _kernels_by_id(comparison: Comparison) -> dict[int | None, KernelChange]:
    """Return the changes by their ids; a check of the whole run has None for one."""
    return {kernel.id: kernel for kernel in comparison.kernels}


def _of_finding(change: FindingChange, kernel: KernelChange, pair: Pair) -> Problem:
    texts = [change.new]
    for side in pair.new:
        for finding in side.representative.findings:
            if finding.id == change.id:
                texts += [finding.why, finding.action]
    level = FINDING_LEVELS[change.severity]
    return problem_of(kernel.label, change.rule, level, f": {change.rule} came", texts, _identity(kernel))


def _identity(kernel: KernelChange | None) -> tuple[str, ...]:
    return ("run",) if kernel is None else identity_of((*kernel.new, *kernel.base)[0])


def _places(kernel: KernelChange, pair: Pair) -> Iterator[SourceLine | None]:
    """Yield places of a kernel on the new side, the most likely cause first.

    First lines of causes that make it slower, then lines that do more work than before, lines of other causes and of
    new findings, and its hottest line.
    """
    for cause in kernel.causes:
        if cause.direction == "slower":
            yield cause.location
    for line in kernel.lines:
        if line.new_line is not None and (line.new or 0.0) > (line.base or 0.0):
            yield SourceLine(line.file, line.new_line)
    for cause in kernel.causes:
        yield cause.location
    for change in kernel.findings:
        if change.word == "came":
            yield change.location
    if pair.new and pair.new[0].representative.lines:
        # The hottest line has most samples or, without samples, most instructions.
        lines = pair.new[0].representative.lines
        hottest = max(lines, key=lambda line: (line.samples or 0.0, line.instructions or 0.0))
        yield SourceLine(hottest.file, hottest.number)


def _cases_of_gate(comparison: Comparison, gate: Gate) -> Iterator[TestCase]:
    kernels = _kernels_by_id(comparison)
    two_sided = [kernel.id for kernel in comparison.kernels if not kernel.is_one_sided]
    return cases_of_gate(gate, two_sided, lambda kernel, *values: _case(kernels.get(kernel), *values))


def _cases_of_kernels(comparison: Comparison) -> Iterator[TestCase]:
    """Yield a test case per kernel: a slower one fails, an inconclusive one is skipped."""
    for kernel in comparison.kernels:
        result = _RESULTS.get(kernel.time.verdict, "skipped")
        reason = reason_text(kernel.time) if result == "skipped" else ""
        yield _case(kernel, result, kernel.time.verdict, sentence(reason or kernel.sentence))


def _case(kernel: KernelChange | None, result: CaseResult, kind: str, message: str = "", limit: str = "") -> TestCase:
    """Return a test case; its time is the median launch on the new side, so that CI shows trends of it."""
    if kernel is None:
        return TestCase(joined_by(": ", WHOLE_RUN, limit), result, kind, message)
    name = joined_by(": ", short_name(kernel.label), limit)
    return TestCase(name, result, kind, message, kernel.time.new_s, tuple(_details(kernel)))


def _details(kernel: KernelChange) -> Iterator[str]:
    """Yield the verdicts on a kernel, its match, counts that changed and causes."""
    yield sentence(kernel.sentence)
    match = kernel.match if kernel.is_one_sided else match_text(kernel)
    if match:
        yield f"match: {match}"
    yield f"time: {time_text(kernel.time)}, {time_values(kernel.time)} a launch"
    yield f"work: {kernel.work.verdict}"
    for count in changed_counts(kernel.work)[:_MOST_COUNTS]:
        yield f"  {count_text(count)}"
    for cause in kernel.causes[:_MOST_CAUSES]:
        yield f"cause: {sentence(cause.sentence)}"


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    yield "gpuprof", comparison.gpuprof_version
    for name, side in (("base", comparison.base), ("new", comparison.new)):
        yield name, ", ".join(map(file_name, side.files))
        yield f"{name} GPU", ", ".join(gpu_texts(side.gpus)) or "not known"
    yield "verdict", comparison.sentence
    for condition in comparison.forbidding:
        yield f"not alike: {condition.name}", condition.sentence
    if comparison.gate is not None:
        yield "gate", gate_text(comparison.gate)
        yield "checks that hold", str(comparison.gate.ok)
