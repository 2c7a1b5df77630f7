"""Instructions of several kinds together limit the kernel, or a pipe for control flow."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.work import SCALAR_PIPES
from gpuprof.diagnose.pipe_limits import busy_sm, is_fp32_by_work, of_ceiling, same_instructions
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import MOST_INSTRUCTIONS, PIPE_BUSY, PIPE_NEAR_ROOF
from gpuprof.model.set_up import makes_data


def _issue(facts: KernelFacts) -> Findings:
    """Report the issue slots or a pipe that no other rule reports, else a busy SM of unknown parts."""
    kind, share = facts.most_instructions or (None, None)
    if facts.other_limit is None:
        if not is_fp32_by_work(facts):
            yield from busy_sm(facts, "main", "unknown")
        return
    part, used = facts.other_limit
    if part == ISSUE and kind == "integer":
        return
    headline = ["pipe"]
    change = part
    evidence = facts.pipe_evidence(part, PIPE_BUSY.value)
    if part == ISSUE:
        headline = ["slots"]
        change = kind or "main"
        evidence = facts.issue_evidence(PIPE_BUSY.value)
    is_sure = part != ISSUE or facts.has_all_pipes
    why = headline[0] if is_sure else "shared/pipes-missing"
    if part == ISSUE and kind:
        headline.append(kind)
    is_near = PIPE_NEAR_ROOF.is_reached(used)
    if is_near:
        headline.append("shared/near-ceiling")
    yield finding(
        facts,
        cases_of(change, tuple(headline), (why,)),
        subject=part,
        amounts=amounts_of(slots=facts.issue_active, busy=min(1.0, used), share=share) + of_ceiling(used),
        labels=labels_of(pipe=(part,)),
        confidence="measured" if is_sure else "guess",
        saving=same_instructions(facts, used, *SCALAR_PIPES, "lsu"),
        # Random numbers take many instructions by design.
        is_fact=is_near or makes_data(facts.kernel),
        evidence=evidence,
    )


RULE = Rule(
    "issue-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, MOST_INSTRUCTIONS),
    check=_issue,
    place=TreePlace((), "issue"),
)
