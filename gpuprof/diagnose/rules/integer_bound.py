"""Integer instructions limit the kernel."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.facts.work import INTEGER_PIPES, KINDS
from gpuprof.diagnose.pipe_limits import PIPE_OPCODES, is_integer_work, pipe_limit
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import MOST_INSTRUCTIONS, PIPE_BUSY, SM_PIPE, THROTTLED, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.set_up import makes_data

DATA_WORK = percent("data-instructions", 50.0)

_DATA = ("LOP", "SHF.", "SHL", "SHR", "PRMT", "IMNMX", "VIMNMX", "ISETP", "SEL", "PLOP", "IDP")
"""Opcode prefixes of integer instructions that change bits, compare or select values. Indices need few."""


def _integer(facts: KernelFacts) -> Findings:
    """Report integers that fill a pipe, or that are most of the instructions that fill the issue slots."""
    change, data = _change(facts), amounts_of(data=_data_share(facts))
    saving = _without_integers(facts)
    if change != "main":
        # Fewer values or passes also move fewer bytes.
        saving = saving.only_if("same-bytes")
    is_fact = makes_data(facts.kernel)
    pipes: dict[str, Confidence] = {"alu": "measured"}
    if is_integer_work(facts):
        pipes = {"fma" if facts.pipe("fmaheavy") is None else "fmaheavy": "inferred", **pipes}
    for pipe, confidence in pipes.items():
        use = facts.pipe(pipe)
        if use is not None and facts.is_pipe_limit(use):
            yield pipe_limit(
                facts,
                pipe,
                saving,
                headline="main" if pipe == "alu" else "multiply-adds",
                why=(change,),
                change=change,
                amounts=data,
                is_fact=is_fact,
                confidence=confidence,
            )
    limit, (kind, share) = facts.other_limit, facts.most_instructions or ("", 0.0)
    if limit is not None and limit[0] == ISSUE and kind == "integer":
        yield finding(
            facts,
            cases_of(change, ("slots",), (change,)),
            subject="issue",
            amounts=(*amounts_of(slots=facts.issue_active, share=share), *data),
            confidence="measured",
            saving=saving,
            is_fact=is_fact,
            evidence=(*facts.issue_evidence(PIPE_BUSY.value), MOST_INSTRUCTIONS.evidence(100 * share)),
            place=facts.place_of_opcode(*KINDS["integer"]),
        )


def _change(facts: KernelFacts) -> str:
    """Return the case for index arithmetic, or for work on data by the kernel's name or opcodes."""
    if makes_data(facts.kernel):
        return "makes-data"
    return "data" if DATA_WORK.is_reached(_data_share(facts)) else "main"


def _data_share(facts: KernelFacts) -> float | None:
    """Return the share of instructions on data in the executed integer instructions, by opcode."""
    integers = facts.executed(*KINDS["integer"])
    return facts.executed(*_DATA) / integers if integers else None


def _without_integers(facts: KernelFacts) -> Saving:
    """Bound the gain without integer instructions: memory and other arithmetic stay.

    A division by a variable also converts and takes a reciprocal on the XU, and wider accesses are
    fewer. The lesser saving leaves all of those unchanged.
    """
    relieved = dict.fromkeys(INTEGER_PIPES, 0.0)
    floating, integer = facts.executed(*PIPE_OPCODES["fma"]), facts.executed(*PIPE_OPCODES["fmaheavy"])
    relieved["fma"] = floating / ((floating + integer) or 1.0)
    relieved[ISSUE] = 1.0 - facts.share_of_opcodes(*KINDS["integer"], "MOV") if facts.opcodes else 0.0
    bound = speedup_bound(facts, {**relieved, ISSUE: 0.0, "xu": 0.0, "lsu": 0.0, "l1": 0.0})
    return bound.if_held(speedup_bound(facts, relieved).fraction, "same-loads-and-conversions")


RULE = Rule(
    "integer-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, DATA_WORK, SM_PIPE, THROTTLED, MOST_INSTRUCTIONS),
    check=_integer,
    place=AT_MATH,
)
