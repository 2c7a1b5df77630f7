"""Integer instructions limit the kernel."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.work import INTEGER_PIPES, KINDS
from gpuprof.diagnose.pipe_limits import PIPE_OPCODES, full_pipe, is_integer_work
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import MOST_INSTRUCTIONS, PIPE_BUSY, SM_PIPE, THROTTLED, percent
from gpuprof.model.set_up import makes_data

DATA_WORK = percent("data-instructions", 50.0)

_DATA = ("LOP", "SHF.", "SHL", "SHR", "PRMT", "IMNMX", "VIMNMX", "ISETP", "SEL", "PLOP")
"""Opcode prefixes of integer instructions that change bits, compare or select values. Indices need few."""


def _integer(facts: KernelFacts) -> Findings:
    """Report integers that fill a pipe, or that are most of the instructions that fill the issue slots.

    The change is that of index arithmetic, or of work on data by the kernel's name or opcodes.
    """
    integers = facts.executed(*KINDS["integer"])
    data = facts.executed(*_DATA) / integers if integers else None
    saving = _without_integers(facts)
    is_fact = makes_data(facts.kernel)
    change = "main"
    if is_fact:
        change = "makes-data"
    elif DATA_WORK.is_reached(data):
        change = "data"
    if change != "main":
        # Fewer values or passes also move fewer bytes.
        saving = saving.only_if("same-bytes")
    pipes = ["alu"]
    if is_integer_work(facts):
        pipes.insert(0, "fma" if facts.pipe("fmaheavy") is None else "fmaheavy")
    for pipe in pipes:
        yield from full_pipe(
            facts,
            pipe,
            saving,
            cases_of(change, ("main" if pipe == "alu" else "multiply-adds",), (change,)),
            amounts=amounts_of(data=data),
            is_fact=is_fact,
            confidence="measured" if pipe == "alu" else "inferred",
        )
    kind, share = facts.most_instructions or ("", 0.0)
    if kind == "integer" and facts.other_limit is not None and facts.other_limit[0] == ISSUE:
        yield finding(
            facts,
            cases_of(change, ("slots",), (change,)),
            subject="issue",
            amounts=amounts_of(slots=facts.issue_active, share=share, data=data),
            confidence="measured",
            saving=saving,
            is_fact=is_fact,
            evidence=(*facts.issue_evidence(PIPE_BUSY.value), MOST_INSTRUCTIONS.evidence(100 * share)),
            place=facts.code.place_of_opcode(*KINDS["integer"]),
        )


def _without_integers(facts: KernelFacts) -> Saving:
    """Bound the gain without integer instructions: memory and other arithmetic stay.

    A division by a variable also converts and takes a reciprocal on the XU, and wider accesses are
    fewer. The lesser saving leaves all of those unchanged.
    """
    relieved = dict.fromkeys(INTEGER_PIPES, 0.0)
    floating, integer = facts.executed(*PIPE_OPCODES["fma"]), facts.executed(*PIPE_OPCODES["fmaheavy"])
    relieved["fma"] = floating / ((floating + integer) or 1.0)
    relieved[ISSUE] = 1.0 - facts.share_of_opcodes(*KINDS["integer"], "MOV") if facts.opcodes else 0.0
    bound = speedup_bound(facts, relieved | dict.fromkeys((ISSUE, "xu", "lsu", "l1"), 0.0))
    return bound.if_held(speedup_bound(facts, relieved).fraction, "same-loads-and-conversions")


RULE = Rule(
    "integer-bound",
    kind="limit",
    thresholds=(PIPE_BUSY, DATA_WORK, SM_PIPE, THROTTLED, MOST_INSTRUCTIONS),
    check=_integer,
    place=AT_MATH,
)
