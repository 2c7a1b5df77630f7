"""The rule on additions and multiplications that the compiler could fuse."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, bound_of_wait, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import percent
from gpuprof.model.findings import MAIN, Cases

NON_FUSED = percent("gain-of-fusing", 10.0)

NEVER_FUSED = percent("fused-by-compiler", 10.0)

OPERATIONS = {"FP32": ("fma", "FFMA", "FADD", "FMUL"), "FP64": ("fp64", "DFMA", "DADD", "DMUL")}
"""The pipe of a type, its multiply-adds, additions and multiplications."""

_ALSO_ON_FMA = ("IMAD", "IMUL", "HFMA2", "HADD2", "HMUL2")
"""Opcodes that share the FMA pipe with FP32; packed FP16 does from GA10x on."""


def _non_fused(facts: KernelFacts) -> Findings:
    for name, (pipe, fma, add, mul) in OPERATIONS.items():
        counted = facts.fused_and_alone(fma, add, mul)
        if counted is None or not counted.all:
            continue
        share = counted.alone / counted.all
        if not NON_FUSED.is_reached(share / 2):
            continue
        has_fused = NEVER_FUSED.is_reached(1.0 - share)
        yield finding(
            facts,
            Cases(why=("main", "some-fused") if has_fused else MAIN),
            amounts=amounts_of(unfused=share),
            labels=labels_of(add=(add,), mul=(mul,), fma=(fma,), type=(name,)),
            confidence="guess" if has_fused else "inferred",
            saving=_fusing_saving(facts, name, counted.pairs / counted.all),
            evidence=(
                NON_FUSED.evidence(50 * share, "saved-by-all", name, metric=counted.metrics),
                NEVER_FUSED.evidence(100 * (1.0 - share)),
                *facts.pipe_evidence(pipe),
            ),
            place=facts.code.place_of_opcode(add, mul),
        )


def _fusing_saving(facts: KernelFacts, name: str, pairs: float) -> Saving | None:
    """Bound the gain of fusing this share of pairs by the rest of the pipe, and by their time in it or in a chain."""
    pipe, *operations = OPERATIONS[name]
    busy, work = facts.pipe(pipe), facts.fraction_of_peak(name.lower())
    if busy is None and work is not None:
        # The pipe is at most as busy as if nothing were fused.
        busy = 2 * work
    if busy is None and pairs:
        return None
    own = share = 1.0
    if facts.opcodes:
        # Other instructions also use the pipe and wait.
        own = facts.share_of_opcodes(*operations)
        others = _ALSO_ON_FMA if pipe == "fma" else ()
        share = own / (facts.share_of_opcodes(*operations, *others) or 1.0)
    waits = bound_of_wait(facts, facts.stall("wait")).fraction
    taken = max(min(1.0, busy or 0.0) * share, waits * own)
    stays = dict.fromkeys((pipe, "fmaheavy", "fmalite", ISSUE), 1.0 - pairs)
    return speedup_bound(facts, stays).if_held(pairs * taken, "everything-else-unchanged")


RULE = Rule(
    "non-fused-fp",
    thresholds=(NON_FUSED, NEVER_FUSED),
    check=_non_fused,
    place=TreePlace(("math_pipe_throttle", "wait", "dispatch_stall"), "unit"),
)
