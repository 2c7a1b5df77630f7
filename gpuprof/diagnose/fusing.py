"""The rule on additions and multiplications that the compiler could fuse."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.arithmetic import FloatingPoint, fraction_of_peak, fused_and_alone, share_of_opcodes
from gpuprof.diagnose.case import Case
from gpuprof.diagnose.needs import ISSUE, Saving
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of, context, finding, labels_of, percent
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.session import Evidence

NON_FUSED = percent("gain-of-fusing", 10.0)
NEVER_FUSED = percent("fused-by-compiler", 10.0)

_OPERATIONS = {"FP32": ("fma", "FFMA", "FADD", "FMUL"), "FP64": ("fp64", "DFMA", "DADD", "DMUL")}
"""The pipe of a type, its multiply-adds, additions and multiplications."""
_ALSO_ON_FMA = ("IMAD", "IMUL", "HFMA2", "HADD2", "HMUL2")
"""Opcodes that share the FMA pipe with FP32; packed FP16 does from GA10x on."""


def _non_fused(case: Case) -> Findings:
    for name, (pipe, fma, add, mul) in _OPERATIONS.items():
        counted = fused_and_alone(case, fma, add, mul)
        if counted is None or counted.all <= 0:
            continue
        share = counted.alone / counted.all
        if not NON_FUSED.is_reached(share / 2):
            continue
        has_fused = NEVER_FUSED.is_reached(counted.fused / counted.all)
        yield finding(
            case,
            Cases(why=("main", "some-fused") if has_fused else MAIN),
            amounts=amounts_of(unfused=share),
            labels=labels_of(add=(add,), mul=(mul,), fma=(fma,), type=(name,)),
            confidence="guess" if has_fused else "inferred",
            saving=_fusing_saving(case, counted, name),
            evidence=_evidence(case, name, counted, pipe),
            place=case.place_of_opcode(add, mul),
        )


def _evidence(case: Case, name: str, counted: FloatingPoint, pipe: str) -> Iterator[Evidence]:
    yield from context("fused", counted.fused, counted.unit, name, metric=counted.fused_metric)
    yield from context("unfused", counted.alone, counted.unit, name, metric=counted.alone_metric)
    yield NON_FUSED.evidence(50 * (counted.alone / counted.all), "saved-by-all", name)
    yield NEVER_FUSED.evidence(100 * (counted.fused / counted.all))
    yield from context("saved-by-scarcer", 100 * counted.pairs / counted.all, "%", name)
    yield from case.pipe_evidence(pipe)


def _fusing_saving(case: Case, counted: FloatingPoint, name: str) -> Saving | None:
    """Bound the gain by the rest of the pipe, and by the time of the pairs in it or in a chain."""
    pipe, *operations = _OPERATIONS[name]
    busy, work, pairs = case.pipe(pipe), fraction_of_peak(case, name.lower()), counted.pairs / counted.all
    if busy is None and work is not None:
        # The pipe is at most as busy as if nothing were fused.
        busy = 2 * work
    if busy is None and pairs:
        return None
    stays = dict.fromkeys((pipe, "fmaheavy", "fmalite", ISSUE), 1.0 - pairs)
    own = share = 1.0
    if case.opcodes():
        # Other instructions also use the pipe and wait.
        own = share_of_opcodes(case, *operations)
        others = _ALSO_ON_FMA if pipe == "fma" else ()
        share = min(1.0, own / (share_of_opcodes(case, *operations, *others) or 1.0))
    waits = case.saving_of_wait(case.stall("wait")).fraction
    taken = max(min(1.0, busy or 0.0) * share, waits * own)
    return case.saving(stays).if_held(pairs * taken, "everything-else-unchanged")


RULES = (
    Rule(
        "non-fused-fp",
        thresholds=(NON_FUSED, NEVER_FUSED),
        check=_non_fused,
        place=TreePlace(("math_pipe_throttle", "wait", "dispatch_stall"), "unit"),
    ),
)
