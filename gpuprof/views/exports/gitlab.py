"""Problems as a code quality report of GitLab.

An entry needs description, check_name, fingerprint, severity and location with path and lines.begin, the path relative
to the repository and without `./` (docs.gitlab.com: "Code Quality", code quality report format). A problem without a
line is at line 1 of the report that was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.store.write import dumped
from gpuprof.views.exports.problems import ProblemLevel, ProblemReport

# GitLab's severities are info, minor, major, critical and blocker.
_SEVERITIES: dict[ProblemLevel, str] = {"error": "critical", "warning": "major", "note": "info"}


def lines(report: ProblemReport) -> Iterator[str]:
    """Yield the document, an entry a line."""
    yield "["
    for number, problem in enumerate(report.alarms, 1):
        place = problem.place or report.fallback
        entry = {
            "description": problem.message,
            "check_name": problem.rule,
            "fingerprint": problem.key,
            "severity": _SEVERITIES[problem.level],
            "location": {"path": place.file, "lines": {"begin": place.line}},
        }
        yield f"  {dumped(entry)}{',' if number < len(report.alarms) else ''}"
    yield "]"
