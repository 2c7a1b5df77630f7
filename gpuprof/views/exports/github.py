"""Problems as workflow commands of GitHub Actions, which become annotations.

GitHub takes at most 10 errors, 10 warnings and 10 notices a step (actions/toolkit, docs/problem-matchers.md), with
titles of at most 255 characters (docs.github.com, "REST API endpoints for check runs"). In a command, `%`, carriage
return and line feed are escaped, in its properties `:` and `,` as well (actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.comparison.contract import SourceLine
from gpuprof.text import cut_middle
from gpuprof.views.exports.problems import ProblemReport
from gpuprof.words.profile_values import count_text
from gpuprof.words.sentences import joined_by

MOST_OF_A_LEVEL = 10
_TITLE_WIDTH = 255
# Notes are only counted.
_LEVELS = (("error", MOST_OF_A_LEVEL, "more error"), ("warning", MOST_OF_A_LEVEL, "more warning"), ("note", 0, "note"))


def lines(report: ProblemReport) -> Iterator[str]:
    """Yield a command per error and warning, the most important first, and one with the verdict and what is left out.

    A problem without a line of the repository is shown with the run.
    """
    left_out = []
    for level, most, noun in _LEVELS:
        problems = [problem for problem in report.alarms if problem.level == level]
        for problem in problems[:most]:
            yield _command(level, problem.title, problem.message, problem.place)
        if problems[most:]:
            left_out.append(count_text(len(problems[most:]), noun))
    not_shown = f"Not shown here: {', '.join(left_out)}." if left_out else ""
    yield _command("notice", report.command, joined_by(" ", report.verdict, report.gate, not_shown))


def _command(name: str, title: str, message: str, place: SourceLine | None = None) -> str:
    properties = f"title={_property(cut_middle(title, _TITLE_WIDTH))}"
    if place is not None:
        properties = f"file={_property(place.file)},line={place.line},{properties}"
    return f"::{name} {properties}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
