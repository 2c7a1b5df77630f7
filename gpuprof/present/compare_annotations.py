"""A comparison as annotations: workflow commands of GitHub Actions, and a code quality report of GitLab.

GitHub takes at most 10 errors, 10 warnings and 10 notices a step (actions/toolkit, docs/problem-matchers.md). In a
command, `%`, carriage return and line feed are escaped, in its properties `:` and `,` as well (actions/toolkit,
packages/core/src/command.ts). GitLab needs of each entry description, check_name, fingerprint, severity and location
with path and lines.begin, the path relative to the repository and without `./` (docs.gitlab.com: "Code Quality", code
quality report format).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.comparison.compare import Compared
from gpuprof.present.compare_options import DEFAULTS, CompareOptions
from gpuprof.present.compare_problems import Problem, ProblemLevel, problems, sentence
from gpuprof.present.compare_sarif import unplaced_texts
from gpuprof.store.write import dumped
from gpuprof.words.comparison_gate import gate_text
from gpuprof.words.profile_values import count_text

MOST_OF_A_LEVEL = 10
_SHOWN: tuple[ProblemLevel, ...] = ("error", "warning")
"""Levels that have a command; of notes only their number is told."""
_SEVERITIES: dict[ProblemLevel, str] = {"error": "critical", "warning": "major", "note": "info"}
"""GitLab's severities: info, minor, major, critical and blocker."""


def github_lines(compared: Compared, options: CompareOptions = DEFAULTS) -> Iterator[str]:
    """Yield a command per error and warning, the most important first, and one with the verdict and what is left out.

    A problem without a line of the repository is shown with the run.
    """
    listed = [problem for problem in problems(compared, options) if not problem.told]
    left_out = []
    for level in _SHOWN:
        of_level = [problem for problem in listed if problem.level == level]
        for problem in of_level[:MOST_OF_A_LEVEL]:
            yield _command(problem.level, problem.title, problem.message, problem)
        if len(of_level) > MOST_OF_A_LEVEL:
            left_out.append(count_text(len(of_level) - MOST_OF_A_LEVEL, f"more {level}"))
    notes = sum(problem.level not in _SHOWN for problem in listed)
    if notes:
        left_out.append(count_text(notes, "note"))
    comparison = compared.comparison
    told = [sentence(comparison.sentence), gate_text(comparison.gate) if comparison.gate is not None else ""]
    if left_out:
        told.append(f"Not shown here: {', '.join(left_out)}.")
    yield _command("notice", "gpuprof compare", " ".join(part for part in told if part))


def _command(name: str, title: str, message: str, problem: Problem | None = None) -> str:
    place = problem.place if problem is not None else None
    properties = [f"file={_property(place.file)}", f"line={place.line}"] if place is not None else []
    properties.append(f"title={_property(title)}")
    return f"::{name} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def gitlab_lines(compared: Compared, options: CompareOptions = DEFAULTS) -> Iterator[str]:
    """Yield the code quality report: what has a line of the repository; accepted regressions are none."""
    listed = problems(compared, options)
    shown = [problem for problem in listed if problem.place is not None and not problem.told]
    yield "["
    for index, problem in enumerate(shown):
        yield f"  {dumped(_entry(problem))}{',' if index + 1 < len(shown) else ''}"
    yield "]"


def _entry(problem: Problem) -> dict[str, object]:
    assert problem.place is not None, "an entry needs a line"
    return {
        "description": problem.message,
        "check_name": problem.rule,
        "fingerprint": problem.key,
        "severity": _SEVERITIES[problem.level],
        "location": {"path": problem.place.file, "lines": {"begin": problem.place.line}},
    }


def left_out_texts(compared: Compared, options: CompareOptions = DEFAULTS) -> tuple[str, ...]:
    """Return what a report by line cannot show, in sentences: what lies outside of the repository or has no line."""
    return tuple(unplaced_texts(problems(compared, options)))
