"""A comparison as SARIF 2.1.0: each limit that does not hold, slower kernel and finding that came, at its line.

What code scanning of GitHub takes (docs.github.com: "SARIF support for code scanning", "SARIF results exceed one or
more limits"): at most 25,000 results a run, of which 5,000 are kept; rules with a short and a full description and a
help text. A result without a file and line has the whole upload refused ("expected at least one location",
github/codeql-action#1738), so such results are notifications of the run instead. So are accepted regressions and
unclear limits that fail no gate: each result is an open alert there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Comparison, SourceLine
from gpuprof.present.compare_options import DEFAULTS, CompareOptions
from gpuprof.present.compare_problems import REGRESSION, SLOWER, UNCLEAR, Problem, ProblemLevel, problems, sentence
from gpuprof.store.write import dumped
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.profile_values import count_text

MOST_RESULTS = 1000
"""Fewer than what GitHub keeps: nobody reads more, and each is compared with those of the last upload."""
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "%SRCROOT%"
"""The base that stands for the root of the repository, by SARIF 2.1.0, section 3.14.14."""
_LINK = re.compile(r"\](?=\()")
"""What makes a link of a message: `[text](address)`, by SARIF 2.1.0, section 3.11.6."""
_NAMED = 20
"""Results without a line that are listed."""
_OURS = {
    REGRESSION: ("A limit of the gate does not hold", "The new side exceeds a limit of --fail-on against the base."),
    UNCLEAR: ("A limit of the gate cannot be judged", "The noise or missing data allow no verdict on a limit."),
    SLOWER: ("A kernel is slower", "A launch takes longer than on the base side, beyond the noise of both."),
}


def lines(compared: Compared, options: CompareOptions = DEFAULTS) -> Iterator[str]:
    """Yield the document, one line per rule and per result."""
    listed = problems(compared, options)
    placed = [problem for problem in listed if problem.place is not None]
    shown = placed[:MOST_RESULTS]
    rules = list(dict.fromkeys(problem.rule for problem in shown))
    comparison = compared.comparison
    driver = {"name": "gpuprof", "version": comparison.gpuprof_version}
    invocation = _invocation(comparison, listed, left_out=len(placed) - len(shown))
    results = (_result(problem, rules.index(problem.rule)) for problem in shown)
    yield f'{{"$schema": {dumped(_SCHEMA)}, "version": "2.1.0", "runs": [{{'
    yield f'  "tool": {{"driver": {{{dumped(driver)[1:-1]}, "rules": ['
    yield from _listed(_rule(rule) for rule in rules)
    yield "  ]}},"
    yield f'  "invocations": [{dumped(invocation)}],'
    yield '  "results": ['
    yield from _listed(results)
    yield "  ]"
    yield "}]}"


def _listed(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield items of a list in JSON, each on its line."""
    before = None
    for item in items:
        if before is not None:
            yield f"    {before},"
        before = dumped(item)
    if before is not None:
        yield f"    {before}"


def _rule(rule_id: str) -> dict[str, Any]:
    """Return what a rule is: of the diagnosis as the reference of rules has it."""
    from gpuprof.diagnose.registry import rule_named
    from gpuprof.words.wording import wording

    known = rule_named(rule_id)
    if rule_id in _OURS:
        title, meaning = _OURS[rule_id]
        about = "See how comparisons are made, docs/how-to/compare.md."
    elif known is not None:
        texts = wording(rule_id)
        title = texts.title
        meaning = f"{title}. Looks at: {texts.inputs}"
        about = f"See the reference of rules, docs/reference/rules.md#{known.id}."
    else:
        title, meaning, about = rule_id, f"The finding {rule_id}.", "A rule that this gpuprof does not know."
    return {
        "id": rule_id,
        "shortDescription": {"text": _text(title)},
        "fullDescription": {"text": _text(meaning)},
        "help": {"text": f"{_text(meaning)} {about}"},
        "defaultConfiguration": {"level": "error" if rule_id == REGRESSION else "warning"},
        "properties": {"tags": ["performance", "gpu"]},
    }


def _result(problem: Problem, rule: int) -> dict[str, Any]:
    """Return a result. Its fingerprint names rule and kernel, so that it stays one alert while numbers change.

    GitHub's upload action adds a fingerprint of its own from the line, which it makes only if the code is at hand.
    """
    assert problem.place is not None, "a result needs a line"
    return {
        "ruleId": problem.rule,
        "ruleIndex": rule,
        "level": problem.level,
        "message": {"text": _text(problem.message)},
        "locations": [_location(problem.place)],
        "partialFingerprints": {"gpuprofKernel/v1": problem.key},
    }


def _location(place: SourceLine) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(place.file, safe="/", errors="replace"), "uriBaseId": _ROOT},
            "region": {"startLine": place.line},
        }
    }


def _invocation(comparison: Comparison, listed: Sequence[Problem], left_out: int) -> dict[str, Any]:
    """Return what the run says of itself: the verdict, what is not alike, and what has no line to be shown at."""
    invocation: dict[str, Any] = {"executionSuccessful": True}
    if comparison.gate is not None:
        invocation["exitCode"] = comparison.gate.exit_code
    invocation["toolExecutionNotifications"] = list(_notifications(comparison, listed, left_out))
    return invocation


def _notifications(comparison: Comparison, listed: Sequence[Problem], left_out: int) -> Iterator[dict[str, Any]]:
    yield _notification("note", "verdict", sentence(comparison.sentence))
    if comparison.gate is not None:
        yield _notification("note" if comparison.gate.passed else "error", "gate", gate_text(comparison.gate))
    for condition in comparison.forbidding:
        yield _notification("warning", "not-alike", sentence(condition.sentence))
    for problem in [problem for problem in listed if problem.place is None][:_NAMED]:
        yield _notification(problem.level, problem.rule, problem.message)
    for text in unplaced_texts(listed):
        yield _notification("warning", "without-line", text)
    if left_out:
        text = f"{count_text(left_out, 'result')} beyond the first {MOST_RESULTS:,} left out, errors first."
        yield _notification("warning", "left-out", text)


def unplaced_texts(listed: Iterable[Problem]) -> Iterator[str]:
    """Yield how many results have no line of the repository, and what gives them one."""
    unplaced = [problem for problem in listed if problem.place is None and not problem.told]
    outside = sum(problem.outside for problem in unplaced)
    if outside:
        yield (
            f"{count_text(outside, 'result')} in files outside of the repository: "
            "--path-map FROM=TO says where their folder lies in it."
        )
    if len(unplaced) > outside:
        yield (
            f"{count_text(len(unplaced) - outside, 'result')} without a source line: "
            "nvcc -lineinfo and ncu --set full tell the lines of kernels."
        )


def _notification(level: ProblemLevel, about: str, text: str) -> dict[str, Any]:
    return {"descriptor": {"id": about}, "level": level, "message": {"text": _text(text) or about}}


def _text(text: str) -> str:
    """Return a text in which nothing from a file is a link."""
    return _LINK.sub("] ", text)
