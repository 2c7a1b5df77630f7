"""The rule on additions and multiplications that the compiler could fuse."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.arithmetic import (
    FloatingPoint,
    fraction_of_peak,
    fused_and_alone,
    opcodes_of,
    share_of_opcodes,
)
from gpuprof.diagnose.case import Case
from gpuprof.diagnose.needs import ISSUE, Saving
from gpuprof.diagnose.rule import Rule, TreePlace, finding, percent
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.session import Evidence, Finding

NON_FUSED = percent("gain-of-fusing", 10.0)
NEVER_FUSED = percent("fused-by-compiler", 10.0)

_OPERATIONS = {
    "FP32": ("ffma", "fadd", "fmul", "fma"),
    "FP64": ("dfma", "dadd", "dmul", "fp64"),
}


_PIPE_OPCODES = {
    "fma": ("FFMA", "FADD", "FMUL", "IMAD", "IMUL", "HFMA2", "HADD2", "HMUL2"),
    "fp64": ("DFMA", "DADD", "DMUL"),
}
"""What the pipes of both types execute; packed FP16 shares the FMA pipe from GA10x on."""


def _non_fused(case: Case) -> Iterator[Finding]:
    for name, (fused_op, add_op, mul_op, pipe) in _OPERATIONS.items():
        counted = fused_and_alone(case, fused_op, (add_op, mul_op))
        if counted is None or counted.all <= 0:
            continue
        share = counted.alone / counted.all
        if 100 * share / 2 < NON_FUSED.value:
            continue
        has_fused = 100 * (counted.fused / counted.all) >= NEVER_FUSED.value
        fma, add, mul = fused_op.upper(), add_op.upper(), mul_op.upper()
        yield finding(
            case,
            Cases(why=("main", "some-fused") if has_fused else ("main",)),
            amounts=(Amount("unfused", share, "fraction"),),
            labels=(Label("add", (add,)), Label("mul", (mul,)), Label("fma", (fma,)), Label("type", (name,))),
            confidence="guess" if has_fused else "inferred",
            saving=_fusing_saving(case, counted, pipe, _pipe_use(case, pipe, name.lower()), (fused_op, add_op, mul_op)),
            evidence=tuple(_evidence(case, name, counted, pipe)),
            place=case.place_of_opcode(add, mul),
        )


def _evidence(case: Case, name: str, counted: FloatingPoint, pipe: str) -> Iterator[Evidence]:
    of = (name,)
    yield Evidence(counted.fused_metric, counted.fused, counted.unit, threshold=None, role="fused", of=of)
    yield Evidence(counted.alone_metric, counted.alone, counted.unit, threshold=None, role="unfused", of=of)
    half, fused = 50 * (counted.alone / counted.all), 100 * (counted.fused / counted.all)
    yield Evidence("", half, "%", threshold=NON_FUSED.value, role="saved-by-all", of=of)
    yield Evidence("", fused, "%", threshold=NEVER_FUSED.value, role=NEVER_FUSED.name)
    yield Evidence("", 100 * counted.pairs / counted.all, "%", threshold=None, role="saved-by-scarcer", of=of)
    if case.pipe(pipe) is not None:
        yield case.pipe_evidence(pipe)


def _fusing_saving(
    case: Case, counted: FloatingPoint, pipe: str, busy: float | None, operations: tuple[str, ...]
) -> Saving | None:
    """Bound it by what stays of the pipe, and by the pipe's time or the dependent chain that the pairs take now."""
    pairs = counted.pairs / counted.all
    if busy is None and pairs:
        return None
    stays = dict.fromkeys((pipe, "fmaheavy", "fmalite", ISSUE), 1.0 - pairs)
    waits = case.saving_of_wait(case.stall("wait")).fraction
    # The pipe and the waits are of other instructions, too, where the opcodes tell so.
    own = share_of_opcodes(case, tuple(operation.upper() for operation in operations))
    share = own / (share_of_opcodes(case, _PIPE_OPCODES[pipe]) or 1.0) if opcodes_of(case) else 1.0
    taken = max((busy or 0.0) * min(1.0, share), waits * (own if opcodes_of(case) else 1.0))
    return case.saving(stays).if_held(pairs * taken, "everything-else-unchanged")


def _pipe_use(case: Case, pipe: str, path: str) -> float | None:
    """Return how busy a pipe is at most: as recorded, else twice its FLOP of peak, as if nothing were fused."""
    busy = case.pipe(pipe)
    if busy is not None:
        return min(1.0, busy)
    work = fraction_of_peak(case, path)
    return min(1.0, 2 * work) if work is not None else None


RULES = (
    Rule(
        "non-fused-fp",
        kind="defect",
        thresholds=(NON_FUSED, NEVER_FUSED),
        check=_non_fused,
        place=TreePlace(("math_pipe_throttle", "wait", "dispatch_stall"), "unit"),
    ),
)
