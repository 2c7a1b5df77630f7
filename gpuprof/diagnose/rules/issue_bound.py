"""Instructions of several kinds together limit the kernel, or a pipe for control flow."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.work import SCALAR_PIPES
from gpuprof.diagnose.pipe_limits import busy_sm, is_fp32_by_work, of_ceiling, same_instructions
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import MOST_INSTRUCTIONS, PIPE_BUSY, PIPE_NEAR_ROOF
from gpuprof.model.session import Evidence
from gpuprof.model.set_up import makes_data


def _issue(facts: KernelFacts) -> Findings:
    """Report the issue slots, else a pipe that no other rule reports, else a busy SM of unknown parts."""
    kind = facts.most_instructions
    used, pipe = facts.issue_limit, facts.other_full_pipe
    if used is not None:
        if kind != "integer":
            yield from _limit(facts, "issue", used, kind or "main", facts.issue_evidence(PIPE_BUSY.value))
    elif pipe is not None:
        yield from _limit(facts, pipe.name, pipe.fraction, pipe.name, facts.pipe_evidence(pipe.name, PIPE_BUSY.value))
    elif not is_fp32_by_work(facts):
        yield from busy_sm(facts, "main", "unknown")


def _limit(facts: KernelFacts, part: str, used: float, change: str, evidence: tuple[Evidence, ...]) -> Findings:
    is_near = PIPE_NEAR_ROOF.is_reached(used)
    kind = facts.most_instructions
    headline = ["slots" if part == "issue" else "pipe"]
    if part == "issue" and kind is not None:
        headline.append(kind)
        evidence += (MOST_INSTRUCTIONS.evidence(100 * facts.instruction_mix[kind]),)
    if is_near:
        headline.append("shared/near-ceiling")
    yield finding(
        facts,
        cases_of(change, tuple(headline), (headline[0],)),
        subject=part,
        amounts=(
            *amounts_of(slots=facts.issue_active, busy=used, share=facts.instruction_mix.get(kind or "")),
            of_ceiling(used),
        ),
        labels=labels_of(pipe=(part,)),
        confidence="measured",
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
