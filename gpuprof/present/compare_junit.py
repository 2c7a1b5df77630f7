"""A comparison as JUnit XML: a test case per kernel and limit, or per kernel if there are no limits.

The elements and attributes are those of Jenkins' junit-10.xsd (jenkinsci/xunit-plugin), which GitLab reads, too: no
properties within a test case, no `skipped` on the outermost element. XML 1.0 has no control characters; what hides is
written as an escape before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Comparison, Gate, GateCheck, KernelChange
from gpuprof.present.compare_options import DEFAULTS, CompareOptions
from gpuprof.present.compare_problems import fails, kernel_name, sentence
from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.comparison_values import count_text as count_change_text
from gpuprof.words.comparison_values import gpu_texts
from gpuprof.words.comparison_verdicts import changed_counts, match_text, reason_text, time_text, time_values
from gpuprof.words.file_names import file_name

_COUNTS, _CAUSES = 12, 5
"""What is written of a kernel at most."""
_LIMIT_WIDTH, _FILE_WIDTH, _LONGEST_S = 120, 200, 1e6
_SUITE = "gpuprof compare"
CaseResult = Literal["passed", "failure", "skipped"]
_RESULTS: dict[str, CaseResult] = {"slower": "failure", "same": "passed", "faster": "passed"}


class TestCase(Struct, frozen=True):
    """A line of the report. `message` says why it failed or was skipped."""

    name: str
    kernel: KernelChange | None
    result: CaseResult
    kind: str
    message: str = ""


def lines(compared: Compared, _options: CompareOptions = DEFAULTS) -> Iterator[str]:
    """Yield the document; it is the same whatever the options are."""
    comparison = compared.comparison
    cases = list(_of_gate(comparison, comparison.gate) if comparison.gate is not None else _of_kernels(comparison))
    failures = sum(case.result == "failure" for case in cases)
    skipped = sum(case.result == "skipped" for case in cases)
    numbers = f'tests="{len(cases)}" failures="{failures}" errors="0"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites name={quoteattr(_SUITE)} {numbers}>"
    yield f'  <testsuite name={quoteattr(_SUITE)} {numbers} skipped="{skipped}">'
    yield "    <properties>"
    for name, value in _properties(comparison):
        yield f"      <property name={quoteattr(name)} value={_attribute(value)}/>"
    yield "    </properties>"
    for case in cases:
        yield from _case(case)
    yield f"    <system-out>{_text(list(map(sentence, (comparison.sentence, *comparison.notes))))}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _of_gate(comparison: Comparison, gate: Gate) -> Iterator[TestCase]:
    """Yield what does not hold or could not be judged, each with its limit, then the kernels whose limits all hold."""
    kernels: dict[int | None, KernelChange] = {kernel.id: kernel for kernel in comparison.kernels}
    for check in gate.checks:
        kernel = kernels.get(check.kernel)
        name = kernel_name(kernel) if kernel is not None else "the whole run"
        limit = cut_end(printable(check.limit), _LIMIT_WIDTH)
        yield TestCase(
            name=f"{name}: {limit}",
            kernel=kernel,
            result="failure" if fails(check, gate) else "skipped",
            kind=check.word,
            message=_why(check),
        )
    named = {check.kernel for check in gate.checks}
    for kernel in comparison.kernels:
        if kernel.id not in named and not kernel.is_one_sided:
            yield TestCase(f"{kernel_name(kernel)}: all limits", kernel, result="passed", kind="ok")


def _why(check: GateCheck) -> str:
    accepted = f"Accepted: {sentence(check.accepted)}" if check.accepted else ""
    return " ".join(filter(None, (accepted, sentence(check.sentence))))


def _of_kernels(comparison: Comparison) -> Iterator[TestCase]:
    """Yield a test case per kernel: slower fails, an inconclusive one is skipped."""
    for kernel in comparison.kernels:
        result, message = _RESULTS.get(kernel.time.verdict, "skipped"), sentence(kernel.sentence)
        if result == "skipped":
            message = sentence(reason_text(kernel.time)) or message
        yield TestCase(kernel_name(kernel), kernel, result, kernel.time.verdict, message)


def _properties(comparison: Comparison) -> Iterator[tuple[str, str]]:
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


def _case(case: TestCase) -> Iterator[str]:
    yield f"    <testcase classname={quoteattr(_SUITE)} name={_attribute(case.name)}{_time(case.kernel)}>"
    if case.result != "passed":
        yield f'      <{case.result} type="{case.kind}" message={_attribute(case.message or case.kind)}/>'
    if case.kernel is not None:
        yield f"      <system-out>{_text(_details(case.kernel))}</system-out>"
    yield "    </testcase>"


def _time(kernel: KernelChange | None) -> str:
    """Return the median launch on the new side as the time of a test, so that trends of CI show it."""
    time_s = kernel.time.new_s if kernel is not None else None
    if time_s is None or not math.isfinite(time_s) or time_s > _LONGEST_S:
        return ""
    return f' time="{time_s:.9f}"'


def _details(kernel: KernelChange) -> list[str]:
    """Return what became of a kernel, a line each: verdict, work, causes."""
    told = [f"time: {time_text(kernel.time)}, {time_values(kernel.time)} a launch", f"work: {kernel.work.verdict}"]
    told += [f"  {count_change_text(count)}" for count in changed_counts(kernel.work)[:_COUNTS]]
    told += [f"cause: {sentence(cause.sentence)}" for cause in kernel.causes[:_CAUSES]]
    match = kernel.match if kernel.is_one_sided else match_text(kernel)
    return [sentence(kernel.sentence), *([f"match: {match}"] if match else []), *told]


def _attribute(text: str) -> str:
    return quoteattr(cut_middle(printable(text), 2 * _FILE_WIDTH))


def _text(told: Sequence[str]) -> str:
    return escape("\n".join(printable(line) for line in told))
