"""Problems as SARIF 2.1.0, for GitHub's code scanning.

Code scanning takes at most 25,000 results a run and keeps 5,000; rules need a short and a full description and a help
text (docs.github.com, "SARIF support for code scanning"). A result without a file and line has the whole upload refused
("expected at least one location", github/codeql-action#1738); the file need not be in the repository. A problem without
a line is therefore at line 1 of the report that was read. Problems that are no alarm are notifications of the run,
because each result is an open alert.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from gpuprof.store.write import document_lines
from gpuprof.views.exports.problems import (
    CODE_RULES,
    REGRESSION,
    RULES,
    ProblemLevel,
    ProblemReport,
    without_line_texts,
)
from gpuprof.words.profile_values import count_text

# Fewer than GitHub keeps: nobody reads more, and each is compared with those of the last upload.
MOST_RESULTS = 1000
_MOST_NOTIFICATIONS = 20
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# The base that means the root of the repository, by SARIF 2.1.0, section 3.14.14.
_ROOT = "%SRCROOT%"
# The middle of a link in a message, `[text](address)`, by SARIF 2.1.0, section 3.11.6.
_LINK = re.compile(r"\](?=\()")


def lines(report: ProblemReport) -> Iterator[str]:
    """Yield the document, one line per result."""
    shown = report.alarms[:MOST_RESULTS]
    rules = list(dict.fromkeys(problem.rule for problem in shown))
    driver = {"name": "gpuprof", "version": report.version, "rules": [_rule(rule, report.reference) for rule in rules]}
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if report.exit_code is not None:
        invocation["exitCode"] = report.exit_code
    invocation["toolExecutionNotifications"] = list(_notifications(report))
    results = []
    for problem in shown:
        place = problem.place or report.fallback
        location = {
            "artifactLocation": {"uri": quote(place.file, safe="/", errors="replace"), "uriBaseId": _ROOT},
            "region": {"startLine": place.line},
        }
        result = {
            "ruleId": problem.rule,
            "ruleIndex": rules.index(problem.rule),
            "level": problem.level,
            "message": {"text": _text(problem.message)},
            "locations": [{"physicalLocation": location}],
            # It names rule and kernel, so that a result stays one alert while numbers change. GitHub's upload action
            # adds a fingerprint of its own from the line, if the code is at hand.
            "partialFingerprints": {"gpuprofKernel/v1": problem.key},
        }
        results.append(result)
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": results,
    }
    yield f'{{"$schema": "{_SCHEMA}", "version": "2.1.0", "runs": ['
    yield from document_lines(run, ("results",))
    yield "]}"


def _rule(rule_id: str, reference: str) -> dict[str, Any]:
    from gpuprof.words.wording import wording

    about = wording(rule_id)
    described = about.code if reference == CODE_RULES and about.code is not None else about
    if rule_id in RULES:
        title, meaning = RULES[rule_id]
        more = "See how comparisons are made, docs/how-to/compare.md."
    elif not described.title:
        title = rule_id
        meaning = f"The finding {rule_id}."
        more = "A rule that this gpuprof does not know."
    else:
        title = described.title
        meaning = f"{title}. Looks at: {described.inputs}"
        more = f"See the reference of rules, docs/reference/{reference}.md#{rule_id}."
    return {
        "id": rule_id,
        "shortDescription": {"text": _text(title)},
        "fullDescription": {"text": _text(meaning)},
        "help": {"text": f"{_text(meaning)} {more}"},
        "defaultConfiguration": {"level": "error" if rule_id == REGRESSION else "warning"},
        "properties": {"tags": ["performance", "gpu"]},
    }


def _notifications(report: ProblemReport) -> Iterator[dict[str, Any]]:
    """Yield the verdict, the conditions that forbid one, problems that are no alarm, and what is left out."""
    yield _notification("note", "verdict", report.verdict)
    if report.gate:
        yield _notification("error" if report.exit_code else "note", "gate", report.gate)
    for text in report.conditions:
        yield _notification("warning", "not-alike", text)
    others = [problem for problem in report.problems if not problem.alarm]
    for problem in others[:_MOST_NOTIFICATIONS]:
        yield _notification(problem.level, problem.rule, problem.message)
    for text in without_line_texts(report):
        yield _notification("warning", "without-line", text)
    left_out = len(report.alarms[MOST_RESULTS:])
    if left_out:
        text = f"{count_text(left_out, 'result')} beyond the first {MOST_RESULTS:,} left out, errors first."
        yield _notification("warning", "left-out", text)


def _notification(level: ProblemLevel, about: str, text: str) -> dict[str, Any]:
    return {"descriptor": {"id": about}, "level": level, "message": {"text": _text(text) or about}}


def _text(text: str) -> str:
    """Return a text without links."""
    return _LINK.sub("] ", text)
