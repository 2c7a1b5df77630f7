"""The findings of a session as a report for CI: those of high and medium severity that no other finding explains."""

from __future__ import annotations

from gpuprof.comparison.finding_changes import source_line
from gpuprof.model.session import Session
from gpuprof.views.exports.problems import (
    FINDING_LEVELS,
    WHOLE_RUN,
    ProblemReport,
    first_line,
    identity_of,
    in_order,
    placed,
    problem_of,
    sentence,
)
from gpuprof.views.exports.tables import ranked_findings
from gpuprof.views.options import WriteOptions
from gpuprof.words.finding_text import gain_text


def session_report(session: Session, options: WriteOptions) -> ProblemReport:
    """Return the findings to act on, in the order of the recommendations. One without a line is at the first report.

    There are no test cases: without a gate a kernel neither passes nor fails.
    """
    problems = []
    for _, kernel, finding in ranked_findings(session):
        if finding.severity in ("high", "medium") and finding.cause is None:
            name = WHOLE_RUN if finding.everywhere else kernel.label
            texts = (finding.headline, gain_text(finding), finding.action)
            level = FINDING_LEVELS[finding.severity]
            problem = problem_of(name, finding.rule, level, f": {finding.rule}", texts, identity_of(kernel))
            problems.append(placed(problem, [source_line(finding)], options))
    verdict = session.verdict.sentence if session.verdict is not None else ""
    return ProblemReport(
        command="gpuprof show",
        version=session.gpuprof_version,
        verdict=sentence(verdict),
        fallback=first_line([source.file for source in session.sources]),
        problems=in_order(problems),
    )
