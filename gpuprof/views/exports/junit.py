"""Test cases as JUnit XML.

The elements and attributes are those of Jenkins' junit-10.xsd (jenkinsci/xunit-plugin), which GitLab reads, too: no
properties within a test case, no `skipped` on the outermost element. XML 1.0 has no control characters: they are
written as visible escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from xml.sax.saxutils import escape, quoteattr

from gpuprof.text import cut_middle, printable
from gpuprof.views.exports.problems import ProblemReport

_ATTRIBUTE_WIDTH = 400
_LONGEST_S = 1e6


def lines(report: ProblemReport) -> Iterator[str]:
    """Yield the document."""
    suite = quoteattr(report.command)
    results = [case.result for case in report.cases]
    numbers = f'tests="{len(results)}" failures="{results.count("failure")}" errors="0"'
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f"<testsuites name={suite} {numbers}>"
    yield f'  <testsuite name={suite} {numbers} skipped="{results.count("skipped")}">'
    yield "    <properties>"
    for name, value in report.facts:
        yield f"      <property name={quoteattr(name)} value={_attribute(value)}/>"
    yield "    </properties>"
    for case in report.cases:
        time = ""
        if case.time_s is not None and abs(case.time_s) <= _LONGEST_S:
            time = f' time="{case.time_s:.9f}"'
        yield f"    <testcase classname={suite} name={_attribute(case.name)}{time}>"
        if case.result != "passed":
            message = _attribute(case.message or case.kind)
            yield f'      <{case.result} type="{case.kind}" message={message}/>'
        if case.details:
            yield f"      <system-out>{_text(case.details)}</system-out>"
        yield "    </testcase>"
    yield f"    <system-out>{_text((report.verdict, *report.notes))}</system-out>"
    yield "  </testsuite>"
    yield "</testsuites>"


def _attribute(text: str) -> str:
    return quoteattr(cut_middle(printable(text), _ATTRIBUTE_WIDTH))


def _text(paragraphs: Iterable[str]) -> str:
    return escape("\n".join(map(printable, paragraphs)))
