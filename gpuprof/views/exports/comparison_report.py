"""A comparison as a report for CI: its problems, and a test case per kernel and limit, or per kernel without limits."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Comparison, Gate, GateCheck, KernelChange, SourceLine
from gpuprof.text import cut_middle, printable
from gpuprof.views.exports.comparison_problems import WHOLE_RUN, comparison_problems
from gpuprof.views.exports.problems import CaseResult, ProblemReport, TestCase, sentence, short_limit, short_name
from gpuprof.views.options import DEFAULTS, WriteOptions
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.comparison_values import count_text, gpu_texts
from gpuprof.words.comparison_verdicts import changed_counts, match_text, reason_text, time_text, time_values
from gpuprof.words.file_names import file_name
from gpuprof.words.sentences import joined_by

_MOST_COUNTS = 12
_MOST_CAUSES = 5
_FILE_WIDTH = 200
_RESULTS: dict[str, CaseResult] = {"slower": "failure", "same": "passed", "faster": "passed"}


def comparison_report(compared: Compared, options: WriteOptions = DEFAULTS) -> ProblemReport:
    """Return what a comparison reports.

    A problem without a line is at line 1 of the first file of the new side. It is named without its folder, so that
    the place is the same in each run.
    """
    comparison = compared.comparison
    gate = comparison.gate
    file = "".join(map(file_name, comparison.new.files[:1])) or "report"
    return ProblemReport(
        command="gpuprof compare",
        version=comparison.gpuprof_version,
        verdict=sentence(comparison.sentence),
        fallback=SourceLine(cut_middle(printable(file), _FILE_WIDTH), 1),
        problems=comparison_problems(compared, options),
        cases=tuple(_of_kernels(comparison) if gate is None else _of_gate(comparison, gate)),
        gate=gate_text(gate) if gate is not None else "",
        exit_code=gate.exit_code if gate is not None else None,
        conditions=tuple(sentence(condition.sentence) for condition in comparison.forbidding),
        facts=tuple(_facts(comparison)),
        notes=tuple(map(sentence, comparison.notes)),
    )


def _of_gate(comparison: Comparison, gate: Gate) -> Iterator[TestCase]:
    """Yield checks that fail or are unclear, each with its limit, then the kernels whose limits are all kept."""
    kernels: dict[int | None, KernelChange] = {kernel.id: kernel for kernel in comparison.kernels}
    for check in gate.checks:
        result: CaseResult = "failure" if gate.fails(check) else "skipped"
        yield _case(kernels.get(check.kernel), result, check.word, short_limit(check.limit), _why(check))
    named = {check.kernel for check in gate.checks}
    for kernel in comparison.kernels:
        if kernel.id not in named and not kernel.is_one_sided:
            yield _case(kernel, "passed", "ok", "all limits")


def _why(check: GateCheck) -> str:
    accepted = f"Accepted: {sentence(check.accepted)}" if check.accepted else ""
    return joined_by(" ", accepted, sentence(check.sentence))


def _of_kernels(comparison: Comparison) -> Iterator[TestCase]:
    """Yield a test case per kernel: a slower one fails, an inconclusive one is skipped."""
    for kernel in comparison.kernels:
        result = _RESULTS.get(kernel.time.verdict, "skipped")
        message = sentence(kernel.sentence)
        if result == "skipped":
            message = sentence(reason_text(kernel.time)) or message
        yield _case(kernel, result, kernel.time.verdict, message=message)


def _case(kernel: KernelChange | None, result: CaseResult, kind: str, limit: str = "", message: str = "") -> TestCase:
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
